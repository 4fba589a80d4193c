// SPDX-License-Identifier: Apache-2.0
// Modules: files of serried beside libserried that are opened at run time, so that the libraries
// they need (of a GPU, for drawing) are loaded only when used.
//
// A module is a part of serried, not a plug-in: it uses internal headers and has the version of the
// library. Its function sr_module_entry returns a constant struct that begins with the head below.
// A module with another version or ABI is refused. A module stays open until the process ends.
//
// A user who can write to the folder of libserried can replace libserried itself. So a module's
// file needs no further check of trust, unlike a plug-in's (kernels/base/plugin_file.c).
#ifndef SR_KERNELS_BASE_MODULE_FILE_H
#define SR_KERNELS_BASE_MODULE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// The first field of the struct of every module.
typedef struct sr_module_head {
    uint32_t struct_size, abi; // of the whole struct
    const char *name;          // as in the file's name
    const char *version;       // SR_VERSION of the build
} sr_module_head;

// The properties that a module must have to be used.
typedef struct sr_module_expected {
    const char *name;
    uint32_t struct_size, abi;
} sr_module_expected;

#if defined(__GNUC__) || defined(__clang__)
#define SR_MODULE_EXPORT __attribute__((visibility("default")))
#else
#define SR_MODULE_EXPORT
#endif

// Written by the module: the one symbol that is looked up, called once right after loading.
SR_MODULE_EXPORT const sr_module_head *sr_module_entry(void);

// The folder that libserried was loaded from, with a slash at its end; "" if it is unknown.
void sr_module_folder(char out[PATH_MAX]);
// The path of a file in that folder; false if there is no such file.
bool sr_module_file_find(const char *file, char out[PATH_MAX]);
// Loads a module; *out is NULL if that fails: SR_E_UNSUPPORTED if it cannot be loaded, is another
// module, or has another version or ABI. Messages name the file and the cure, without a full stop,
// so that callers can add to them.
SR_NODISCARD sr_status sr_module_file_open(const char *path, const sr_module_expected *expected,
                                           const sr_module_head **out);
// Fails with SR_E_NOT_FOUND and a message that names the file and where it should be.
SR_NODISCARD sr_status sr_module_file_fail_missing(const char *file);

#ifdef __cplusplus
}
#endif
#endif
