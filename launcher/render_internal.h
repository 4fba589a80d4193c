// SPDX-License-Identifier: Apache-2.0
// The picture set that needs no download.
#ifndef SR_LAUNCHER_RENDER_INTERNAL_H
#define SR_LAUNCHER_RENDER_INTERNAL_H

// `serried render DST [--count N]`: DST/CLASS/NNNN.jpg, N pictures (220) of each of ten classes of
// shapes. For the quickstart and the test suite; not listed in the help.
int sr_cmd_render(int argc, char **argv);

#endif
