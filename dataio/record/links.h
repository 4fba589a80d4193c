// SPDX-License-Identifier: Apache-2.0
// Where symbolic links of a data set or a run folder may lead.
//
// A data set may come from an untrusted source, and a link in it to "/" would give its readers,
// also the sandboxed one, access to the whole file system. So may a folder that serried writes to:
// a run that is resumed, a data set that is packed again; a link in it would have any file of the
// user overwritten. So links may only lead to files inside the folder, or below a folder that the
// user names: SERRIED_DATA_LINKS=FOLDER[:FOLDER...].
#ifndef SR_DATAIO_LINKS_H
#define SR_DATAIO_LINKS_H

#include <stdbool.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_LINKS_VARIABLE "SERRIED_DATA_LINKS"
#define SR_LINKS_DEPTH 2 // the folder of a data set, and those of its splits

// The folder of the data set 'path' with links resolved, into root[PATH_MAX]; false where it is a
// file or does not exist.
bool sr_links_root(const char *path, char *root);
// Whether a link of the data set in 'root' may lead to 'target', a path without links.
bool sr_link_allowed(const char *root, const char *target);
// SR_E_USAGE names the first link that leads elsewhere. Dangling links are reported when they are
// opened.
SR_NODISCARD sr_status sr_links_check(const char *path);
// The same for a folder into which files are written, named 'noun' ("run folder"); dangling links
// count, too, because writing through them makes a file. A folder that does not exist is SR_OK.
SR_NODISCARD sr_status sr_links_check_output(const char *path, const char *noun);

#ifdef __cplusplus
}
#endif
#endif
