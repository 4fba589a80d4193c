// SPDX-License-Identifier: Apache-2.0
// serried info kernels: the entries of the kernel table for one kind of device.
#include <stdio.h>
#include <string.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/text.h"
#include "kernels/device/device.h"
#include "kernels/device/module.h"
#include "kernels/kernel.h"
#include "launcher/commands/command.h"
#include "launcher/commands/info_internal.h"

// Whose kernels are listed.
typedef struct kind {
    const char *name;
    bool usable;       // here
    uint32_t features; // that it has here
} kind;

// A kind that cannot be used here still has kernels, if its module can be opened.
static sr_status find_kind(const char *device, kind *out) {
    sr_device_properties properties;
    const sr_status status = sr_device_describe(device, &properties);
    *out = (kind){.name = device};
    if (status != SR_OK)
        return sr_module_is_installed(device) ? sr_module_open(device) : status;
    *out = (kind){.name = sr_device_kind_name(properties.kind),
                  .usable = true,
                  .features = sr_device_features(&properties)};
    return SR_OK;
}

static bool runs_here(const kind *of, const sr_kernel_entry *entry) {
    return of->usable && (entry->needs & ~of->features) == 0;
}

static bool is_of(const kind *of, const sr_provider *provider) {
    return strcmp(provider->device ? provider->device : "cpu", of->name) == 0;
}

static void print_provider(const kind *of, const sr_provider *provider) {
    char text[SR_PROVIDER_TEXT];
    printf("# %s\n", sr_provider_numerics(provider, text));
    for (size_t k = 0; k < provider->count; k++) {
        const sr_kernel_entry *e = &provider->entries[k];
        printf("%-30s %-18s %-19s %-4s %s\n", e->name, e->dtypes ? e->dtypes : "?",
               e->numerics_class, runs_here(of, e) ? "yes" : "no", sr_kernel_doc(e->kernel));
    }
}

sr_status sr_info_kernels(const char *device) {
    kind of;
    size_t count;
    SR_TRY(find_kind(device, &of));
    const sr_provider *const *providers = sr_providers(&count);
    puts("# Of the kernels that support a request, the one listed last runs.");
    printf("%-30s %-18s %-19s %s\n", "# kernel/provider", "activations", "numerics", "runs here");
    for (size_t i = 0; i < count; i++)
        if (is_of(&of, providers[i]))
            print_provider(&of, providers[i]);
    return SR_OK;
}

// ---- JSON ----

static void add_kernel(sr_text *out, const kind *of, const sr_provider *provider,
                       const sr_kernel_entry *e) {
    char needs[80], text[SR_PROVIDER_TEXT];
    sr_text_add(out, "{\"name\": ");
    sr_text_add_json_string(out, e->name);
    sr_text_add_json_string_member(out, "kernel", sr_kernel_name(e->kernel));
    sr_text_add_json_string_member(out, "computes", sr_kernel_doc(e->kernel));
    sr_text_add_json_string_member(out, "provider", sr_provider_numerics(provider, text));
    sr_text_add_json_string_member(out, "dtypes", e->dtypes ? e->dtypes : "");
    sr_text_add_json_string_member(out, "numerics", e->numerics_class);
    sr_text_add_json_string_member(out, "needs",
                                   e->needs ? sr_cpu_features_text(e->needs, needs) : "");
    sr_text_add(out, ", \"runs_here\": %s}", runs_here(of, e) ? "true" : "false");
}

sr_status sr_info_kernels_json(const char *device) {
    size_t count;
    const char *comma = "";
    kind of;
    sr_text out;
    SR_TRY(find_kind(device, &of));
    const sr_provider *const *providers = sr_providers(&count);
    sr_text_init(&out);
    sr_text_add(&out, "[");
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; is_of(&of, providers[i]) && k < providers[i]->count;
             k++, comma = ",\n ") {
            sr_text_add(&out, "%s", comma);
            add_kernel(&out, &of, providers[i], &providers[i]->entries[k]);
        }
    }
    sr_text_add(&out, "]\n");
    return sr_command_print(SR_OK, &out);
}
