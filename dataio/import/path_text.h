// SPDX-License-Identifier: Apache-2.0
// Paths as lists and annotations write them, with "./", "//", ".." and '\\', become the paths of a
// source.
#ifndef SR_DATAIO_PATH_TEXT_H
#define SR_DATAIO_PATH_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR_PATH_TEXT_MAX 4096

// Separators between the folders of a path. '\\' may be part of a name on Linux, so that it is one
// only where there is no file of the name as it is written.
typedef enum sr_path_separator {
    SR_PATH_SLASH = 0,
    SR_PATH_ANY, // '/' and '\\'
} sr_path_separator;

// Writes the path without empty and "." parts; ".." removes the folder before it and stays where
// there is none. False, with an empty path, where SR_PATH_TEXT_MAX bytes are too few.
bool sr_path_normalise(const char *path, sr_path_separator separator, char out[SR_PATH_TEXT_MAX]);
// Normalises "folder/path"; a folder "" is the source itself.
bool sr_path_below(const char *folder, const char *path, char out[SR_PATH_TEXT_MAX]);
// A normalised path without what leads out of the source: '/', a drive and leading "..".
const char *sr_path_inside(const char *path);

#ifdef __cplusplus
}
#endif
#endif
