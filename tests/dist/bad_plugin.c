// SPDX-License-Identifier: Apache-2.0
// A plug-in with one fault, chosen by a macro when it is compiled (check_plugins.py).
#include <errno.h>
#include <serried.h>
#include <stdio.h>
#include <string.h>

#ifndef ABI
#define ABI SR_PLUGIN_ABI
#endif
#ifndef SIZE
#define SIZE sizeof(sr_plugin)
#endif
#ifndef MODEL_ABI
#define MODEL_ABI SR_MODEL_ABI
#endif
#ifndef MODEL_SIZE
#define MODEL_SIZE sizeof(sr_model_desc)
#endif
#ifndef NAME
#define NAME "bad"
#endif

// Not static, so that the compiler cannot assume that they are NULL.
int *bad_nowhere;
const char *bad_text = NULL;

#ifdef CRASH_LOADING
__attribute__((constructor)) static void constructor(void) {
    *bad_nowhere = 1;
}
#endif

#ifdef MISSING
void sr_this_is_in_no_version(void);
#endif

static int recurse(int depth) {
    char frame[4096];
    memset(frame, depth, sizeof frame);
    return recurse(depth + 1) + frame[depth % 4096];
}

static void build(sr_builder *b, const void *options, void *state) {
    (void)options;
#ifdef MISSING
    sr_this_is_in_no_version();
#endif
#ifdef CRASH_BUILD
    *bad_nowhere = (int)strlen(NAME);
#endif
#ifdef CRASH_DEEP
    *bad_nowhere = recurse(0);
#endif
#ifdef CRASH_BELOW
    sr_build_fail(b, "%zu", strlen(bad_text));
#endif
    sr_build_linear(b, state, "fc", 3, sr_build_classes(b), false);
    (void)recurse;
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    sr_forward_output(f, "logits", sr_layer_linear(state, sr_global_avgpool(inputs[0])));
}

static sr_status apply(sr_canvas *canvas, const sr_transform_call *call) {
    (void)canvas, (void)call;
#ifdef CRASH_TRANSFORM
    *bad_nowhere = 1;
#endif
#ifdef OPEN_LATE
    FILE *file = fopen("/etc/hostname", "re");
    if (!file)
        return SR_FAIL(SR_E_IO, "/etc/hostname: %s", strerror(errno));
    (void)fclose(file);
#endif
    return SR_OK;
}

static const sr_model_desc model = {.struct_size = MODEL_SIZE,
                                    .abi = MODEL_ABI,
                                    .name = NAME,
                                    .state_size = sizeof(sr_linear_layer),
                                    .build = build,
                                    .forward = forward};
static const sr_model_desc *const models[] = {&model, NULL};
static const sr_transform transform = {
    .struct_size = sizeof(sr_transform), .abi = SR_TRANSFORM_ABI, .name = NAME, .apply = apply};
static const sr_transform *const transforms[] = {&transform, NULL};
static const sr_plugin plugin = {
    .struct_size = SIZE, .abi = ABI, .name = NAME, .models = models, .transforms = transforms};

#ifndef NO_ENTRY
const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
#else
const sr_plugin *sr_plugin_other(void);
const sr_plugin *sr_plugin_other(void) {
    return &plugin;
}
#endif
