// SPDX-License-Identifier: Apache-2.0
// Plug-ins: user-defined models, losses, transforms, operators, optimisers, schedules and tasks
// with their metrics, in one C file outside the tree.
//
//   #include <serried.h>
//   ...
//   static const sr_model_desc my_model = {.struct_size = sizeof(sr_model_desc),
//                                          .abi = SR_MODEL_ABI, .name = "my-model", ...};
//   static const sr_model_desc *const models[] = {&my_model, NULL};
//   static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "mine", .models = models};
//   const sr_plugin *sr_plugin_entry(void) {
//       return &plugin;
//   }
//
//   cc -shared -fPIC mine.c -o mine.so $(pkg-config --cflags --libs serried)
//
// A recipe names it, relative to the recipe or by an absolute path, as `plugins: [mine.so]`, and
// then uses its content by name, as `model: my-model`. A program with its own training loop passes
// the same struct to sr_plugin_add (trainer/engine/plugins.h).
//
// A plug-in runs with the user's rights, so it is loaded only from a file that the user or root
// owns, and only if neither the file nor its folder is writable by a group or by others. A plug-in
// that was built for another SR_PLUGIN_ABI, or with structs of other sizes, is refused and must be
// rebuilt. The SHA-256 of the file is part of a run's identity. If its code crashes a process, the
// last message names the plug-in.
#ifndef SR_KERNELS_BASE_PLUGIN_H
#define SR_KERNELS_BASE_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Incremented with every incompatible change of a public struct or function.
#define SR_PLUGIN_ABI 3

// The content of a plug-in: lists that end with NULL; a NULL list is empty. All of it is constant
// and stays valid until the process ends.
typedef struct sr_plugin {
    uint32_t struct_size, abi;
    const char *name; // for messages
    const char *help; // one line, may be NULL
    const struct sr_model_desc *const *models;
    const struct sr_loss_desc *const *losses;
    const struct sr_transform *const *transforms;
    const struct sr_op *const *ops;
    const struct sr_optimizer_desc *const *optimizers;
    const struct sr_schedule_desc *const *schedules;
    const struct sr_task_desc *const *tasks; // with their metrics
} sr_plugin;

// The first fields of every sr_plugin.
#define SR_PLUGIN_HEAD .struct_size = sizeof(sr_plugin), .abi = SR_PLUGIN_ABI

#if defined(__GNUC__) || defined(__clang__)
// Visible to the loader even with -fvisibility=hidden.
#define SR_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define SR_PLUGIN_EXPORT
#endif

// Written by the plug-in: the one symbol that is looked up, called once right after loading.
SR_PLUGIN_EXPORT const sr_plugin *sr_plugin_entry(void);

#ifdef __cplusplus
}
#endif
#endif
