// SPDX-License-Identifier: Apache-2.0
// Modules: kinds of devices, with their kernels, that are opened at run time, so that one build
// runs with and without them.
//
//   static const sr_device_ops *const devices[] = {&sr_device_cuda, NULL};
//   static const sr_provider *const providers[] = {&sr_provider_cuda_reference, NULL};
//   static const sr_module module = {
//       SR_MODULE_HEAD, .name = "cuda", .devices = devices, .providers = providers};
//   const sr_module *sr_module_entry(void) {
//       return &module;
//   }
//
// A module is a part of serried, not a plug-in: it uses internal headers, has the version of the
// library, and is the file libserried-NAME.so in the folder of libserried. It is opened when a
// device of its name is asked for, or is the default (module_list.def), and stays open until the
// process ends. One of another version or interface is refused.
//
// Threads: any thread may call.
#ifndef SR_KERNELS_DEVICE_MODULE_H
#define SR_KERNELS_DEVICE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_MODULE_ABI 1
#define SR_MODULE_PREFIX "libserried-"
#define SR_MODULE_SUFFIX ".so"

// The content of a module: lists that end with NULL; a NULL list is empty. All of it is constant.
typedef struct sr_module {
    uint32_t struct_size, abi;
    const char *name; // as in the file's name
    const char *version;
    const struct sr_device_ops *const *devices; // kernels/device/device_internal.h
    const struct sr_provider *const *providers; // kernels/kernel.h, of these devices
} sr_module;

// The first fields of every sr_module. SR_VERSION is the version of the build.
#define SR_MODULE_HEAD .struct_size = sizeof(sr_module), .abi = SR_MODULE_ABI, .version = SR_VERSION

#if defined(__GNUC__) || defined(__clang__)
#define SR_MODULE_EXPORT __attribute__((visibility("default")))
#else
#define SR_MODULE_EXPORT
#endif

// Written by the module: the one symbol that is looked up, called once right after loading.
SR_MODULE_EXPORT const sr_module *sr_module_entry(void);

// Opens a module, unless it is open, and adds its devices and kernels to their tables.
// SR_E_NOT_FOUND if there is no such file; SR_E_UNSUPPORTED if it cannot be loaded, or is of
// another version or interface. Messages name the file and the cure, without a full stop, so that
// callers can add to them.
SR_NODISCARD sr_status sr_module_open(const char *name);
// Whether module_list.def has the module.
bool sr_module_is_listed(const char *name);
// Whether the module's file exists. It may still be unusable.
bool sr_module_is_installed(const char *name);
// Calls 'visit' for every module of module_list.def and for every other one that is installed.
void sr_module_visit(void (*visit)(void *user, const char *name), void *user);
// The name of row i of module_list.def; NULL after the last.
const char *sr_module_listed(size_t i);

#ifdef __cplusplus
}
#endif
#endif
