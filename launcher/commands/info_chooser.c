// SPDX-License-Identifier: Apache-2.0
// serried info chooser: the entries of the chooser's cache for this machine.
#include <stdio.h>
#include <string.h>

#include "kernels/base/dtype.h"
#include "kernels/chooser.h"
#include "kernels/kernel_params.h"
#include "launcher/commands/info_internal.h"
#include "trainer/engine/fingerprint.h"

enum { SHAPE_BYTES = 64 };

static void describe(const sr_chooser_choice *choice, char out[SHAPE_BYTES]) {
    const sr_conv_params *c = (const void *)choice->params;
    const sr_linear_params *l = (const void *)choice->params;
    if (strncmp(choice->kernel, "conv2d", strlen("conv2d")) == 0)
        (void)snprintf(out, SHAPE_BYTES, "%lld x %lldx%lld %lld->%lld %lldx%lld /%d",
                       (long long)c->n, (long long)c->h, (long long)c->w, (long long)c->c,
                       (long long)c->k, (long long)c->r, (long long)c->s, c->stride_h);
    else
        (void)snprintf(out, SHAPE_BYTES, "%lld x %lld->%lld", (long long)l->n, (long long)l->c,
                       (long long)l->k);
}

static void print_choice(void *user, const sr_chooser_choice *choice) {
    int *count = user;
    char shape[SHAPE_BYTES];
    const sr_dtype dtype = (sr_dtype)choice->dtype[0];
    if ((*count)++ == 0)
        printf("%-10s %-5s %-28s %9s %9s  %s\n", "# kernel", "T", "shape", "ms", "default",
               "taken");
    describe(choice, shape);
    printf("%-10s %-5s %-28s %9.3f %9.3f  %s%s%s\n", choice->kernel,
           dtype < SR_DTYPE_COUNT ? sr_dtype_name(dtype) : "?", shape, choice->seconds * 1e3,
           choice->default_seconds * 1e3, choice->entry, *choice->variant ? " " : "",
           choice->variant);
}

sr_status sr_info_chooser(void) {
    char fingerprint[SR_FINGERPRINT_BYTES];
    sr_device_properties device;
    SR_TRY(sr_device_describe(NULL, &device));
    const sr_chooser_options options = {
        .on = true, .numerics = sr_fingerprint(&device, fingerprint), .device = device.name};
    int count = 0;
    sr_chooser_use(&options);
    if (sr_chooser_file() == NULL) {
        puts("# no cache: neither SERRIED_CACHE, XDG_CACHE_HOME nor HOME names a folder");
        return SR_OK;
    }
    printf("# %s, measured on one thread; delete the file to time the kernels again\n",
           sr_chooser_file());
    sr_chooser_visit(print_choice, &count);
    if (count == 0)
        puts("# nothing has been timed yet");
    return SR_OK;
}
