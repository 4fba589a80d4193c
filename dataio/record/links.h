// SPDX-License-Identifier: Apache-2.0
// Symbolic links of a data set: where they may lead.
//
// A data set may come from somebody else, and a link in it to "/" would open the whole file system
// to whoever reads it, and to the sandboxed reader. So links lead to files inside of the data set,
// or beneath a folder that the user names: SERRIED_DATA_LINKS=FOLDER[:FOLDER...].
#ifndef SR_DATAIO_LINKS_H
#define SR_DATAIO_LINKS_H

#include <stdbool.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_LINKS_VARIABLE "SERRIED_DATA_LINKS"
#define SR_LINKS_DEPTH 2 // the folder of a data set, and those of its splits

// The folder of the data set 'path' without links, into root[PATH_MAX]; false where it is one file,
// or nothing.
bool sr_links_root(const char *path, char *root);
// Whether a link of the data set below 'root' may lead to 'target', a path without links.
bool sr_link_allowed(const char *root, const char *target);
// SR_E_USAGE names the first link that leads where none may. What links to nothing is met by
// whoever opens it.
SR_NODISCARD sr_status sr_links_check(const char *path);

#ifdef __cplusplus
}
#endif
#endif
