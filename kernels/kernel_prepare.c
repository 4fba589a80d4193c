// SPDX-License-Identifier: Apache-2.0
// Preparing a kernel for a request: finds the entry in the table; the chooser may replace it by a
// faster one with the same bits.
#include <stdio.h>

#include "kernels/base/float_control.h"
#include "kernels/chooser_internal.h"
#include "kernels/kernel.h"

static sr_status nothing_serves(const sr_kernel_request *request) {
    char dtypes[SR_KERNEL_MAX_ARGS * 8] = "", served[128] = "";
    size_t count, used = 0;
    for (int i = 0; i < request->args && i < SR_KERNEL_MAX_ARGS; i++)
        used += (size_t)snprintf(
            dtypes + used, sizeof dtypes - used, "%s%s", i ? ", " : "",
            request->dtype[i] == SR_DTYPE_COUNT ? "none" : sr_dtype_name(request->dtype[i]));
    if (request->kernel == SR_KERNEL_OWN && request->device != SR_DEVICE_CPU) {
        return SR_FAIL(SR_E_UNSUPPORTED,
                       "kernels of plug-ins (%s) are for CPUs, and cannot run on device %s; give "
                       "device=cpu",
                       request->own_count ? request->own[0].name : "none",
                       sr_device_kind_name(request->device));
    }
    if (request->kernel == SR_KERNEL_OWN) {
        return SR_FAIL(SR_E_UNSUPPORTED, "none of the operator's kernels (%s, ...) takes (%s)%s",
                       request->own_count ? request->own[0].name : "none", dtypes,
                       sr_kernels_portable() ? " in numerics class 'reference', which "
                                               "numerics.portable asks for"
                                             : "");
    }
    const sr_provider *const *providers = sr_providers(&count);
    used = 0;
    for (size_t i = 0; i < count && used < sizeof served; i++)
        if (sr_provider_is_for(providers[i], request->device))
            used += (size_t)snprintf(served + used, sizeof served - used, "%s%s", used ? ", " : "",
                                     providers[i]->name);
    return SR_FAIL(SR_E_UNSUPPORTED,
                   "device %s has no kernel for %s (%s), which computes %s; its providers: %s",
                   sr_device_kind_name(request->device), sr_kernel_name(request->kernel), dtypes,
                   sr_kernel_doc(request->kernel), used ? served : "none");
}

sr_status sr_kernel_prepare(const sr_kernel_request *request, sr_prepared *out) {
    bool own = request->kernel == SR_KERNEL_OWN;
    int args;
    const bool known = sr_kernel_arguments(request->kernel, &args) != NULL;
    if (!own && (!known || request->args != args))
        return SR_FAIL(SR_E_INTERNAL, "kernel %s was asked for with %d arguments",
                       sr_kernel_name(request->kernel), request->args);
    const sr_kernel_entry *entry = sr_kernel_find(request);
    if (!entry)
        return nothing_serves(request);
    sr_float_control();
    int variant = 0;
    sr_chooser_choose(request, &entry, &variant);
    return sr_kernel_prepare_as(request, entry, variant, out);
}
