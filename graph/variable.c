// SPDX-License-Identifier: Apache-2.0
// Variables of a context: values that outlive steps.
#include <string.h>

#include "graph/ops/op_internal.h"
#include "graph/recording_internal.h"
#include "kernels/device/device.h"

static sr_tensor add_variable(sr_context *context, const char *name, const sr_info *info,
                              sr_address memory, bool owned) {
    void *variables = context->variables;
    char *copy = NULL;
    sr_status status = sr_grow(&variables, &context->variable_capacity, context->variable_count + 1,
                               sizeof *context->variables, "variables of a context");
    if (status == SR_OK) {
        context->variables = variables;
        copy = sr_strdup(name ? name : "");
    }
    if (!copy) {
        sr_context_stick(context, SR_E_MEMORY);
        return sr_context_none(context);
    }
    uint32_t index = (uint32_t)context->variable_count++;
    context->variables[index] = (sr_variable_entry){
        .name = copy, .info = *info, .memory = memory, .owned = owned, .assigned = SR_REF_NONE};
    return sr_context_tensor(context, SR_REF_VARIABLE | index);
}

sr_tensor sr_variable(sr_context *context, const char *name, const sr_info *info,
                      const void *data) {
    sr_address memory = sr_address_none();
    sr_info own;
    sr_context_use(context);
    if (!sr_context_take_info(context, name ? name : "sr_variable", info, &own))
        return sr_context_none(context);
    size_t bytes = sr_info_bytes(&own);
    sr_status status = sr_device_alloc(context->device, bytes, "variables", &memory);
    if (status == SR_OK && data)
        status = sr_device_upload(context->device, memory, data, bytes);
    if (status != SR_OK) {
        sr_device_free(context->device, memory);
        sr_error_prefix("%s", name ? name : "sr_variable");
        sr_context_stick(context, status);
        return sr_context_none(context);
    }
    sr_tensor variable = add_variable(context, name, &own, memory, true);
    if (sr_is_none(variable))
        sr_device_free(context->device, memory);
    return variable;
}

sr_tensor sr_variable_on(sr_context *context, const char *name, const sr_info *info,
                         sr_address memory) {
    sr_info own;
    sr_context_use(context);
    if (!sr_context_take_info(context, name ? name : "sr_variable", info, &own))
        return sr_context_none(context);
    return add_variable(context, name, &own, memory, false);
}

// The entry of a variable, or NULL with the error sticking.
static sr_variable_entry *variable_entry(sr_tensor tensor, const char *what, sr_context **out) {
    uint32_t ref = sr_context_ref_of(tensor, what, out);
    if (ref == SR_REF_NONE)
        return NULL;
    if (ref & SR_REF_VARIABLE)
        return &(*out)->variables[ref & ~SR_REF_VARIABLE];
    sr_context_refuse(*out, SR_E_ARGUMENT, "%s: the tensor is not a variable", what);
    return NULL;
}

void sr_variable_move(sr_tensor variable, sr_address memory) {
    sr_context *context;
    sr_variable_entry *entry = variable_entry(variable, "sr_variable_move", &context);
    if (!entry)
        return;
    if (entry->owned)
        sr_device_free(context->device, entry->memory);
    entry->owned = false;
    entry->memory = memory;
    context->variable_moves++;
}

sr_address sr_variable_memory(sr_tensor variable) {
    sr_context *context;
    sr_variable_entry *entry = variable_entry(variable, "sr_variable_memory", &context);
    return entry ? entry->memory : sr_address_none();
}

const char *sr_variable_name(sr_tensor variable) {
    sr_context *context;
    sr_variable_entry *entry = variable_entry(variable, "sr_variable_name", &context);
    return entry ? entry->name : "";
}

sr_status sr_variable_write(sr_tensor variable, const void *data) {
    sr_context *context;
    sr_variable_entry *entry = variable_entry(variable, "sr_variable_write", &context);
    if (!entry)
        return context ? sr_context_status(context) : SR_E_ARGUMENT;
    return sr_device_upload(context->device, entry->memory, data, sr_info_bytes(&entry->info));
}

void sr_variable_assign(sr_tensor variable, sr_tensor value) {
    sr_context *context;
    sr_variable_entry *entry = variable_entry(variable, "sr_variable_assign: variable", &context);
    if (!entry)
        return;
    uint32_t ref = sr_context_ref(context, value, "sr_variable_assign: value");
    if (ref == SR_REF_NONE)
        return;
    const sr_info *info = sr_context_info(context, ref);
    if (memcmp(&entry->info, info, sizeof *info) != 0) {
        char have[96], want[96];
        sr_context_refuse(context, SR_E_SHAPE, "sr_variable_assign: %s takes %s, not %s",
                          entry->name, sr_info_text(&entry->info, want), sr_info_text(info, have));
        return;
    }
    entry->assigned = ref;
    context->has_updates = true;
}
