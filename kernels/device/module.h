// SPDX-License-Identifier: Apache-2.0
// Modules of devices: kinds of devices, with their kernels, in files that are opened at run time
// (kernels/base/module_file.h), so that one build runs with and without them.
//
//   static const sr_device_ops *const devices[] = {&sr_device_cuda, NULL};
//   static const sr_provider *const providers[] = {&sr_provider_cuda_reference, NULL};
//   static const sr_module module = {
//       .head = SR_MODULE_HEAD("cuda"), .devices = devices, .providers = providers};
//   const sr_module_head *sr_module_entry(void) {
//       return &module.head;
//   }
//
// A module is the file libserried-NAME.so in the folder of libserried. It is opened when a device
// of its name is requested or is the default (module_list.def).
//
// Threads: any thread may call.
#ifndef SR_KERNELS_DEVICE_MODULE_H
#define SR_KERNELS_DEVICE_MODULE_H

#include "kernels/base/module_file.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_MODULE_ABI 2
#define SR_MODULE_PREFIX "libserried-"
#define SR_MODULE_SUFFIX ".so"

// The content of a module: lists that end with NULL; a NULL list is empty. All of it is constant.
typedef struct sr_module {
    sr_module_head head;
    const struct sr_device_ops *const *devices; // kernels/device/device_internal.h
    const struct sr_provider *const *providers; // kernels/kernel.h, of these devices
} sr_module;

// The head of every sr_module. SR_VERSION is the version of the build.
#define SR_MODULE_HEAD(module)                                                                     \
    {                                                                                              \
        .struct_size = sizeof(sr_module), .abi = SR_MODULE_ABI, .name = (module),                  \
        .version = SR_VERSION                                                                      \
    }

// Opens a module, unless it is open, and adds its devices and kernels to their tables.
// SR_E_NOT_FOUND if there is no such file; SR_E_UNSUPPORTED if it cannot be loaded, or has another
// version or ABI. Messages name the file and the cure, without a full stop, so that callers can add
// to them.
SR_NODISCARD sr_status sr_module_open(const char *name);
// Whether the module is in module_list.def.
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
