// SPDX-License-Identifier: Apache-2.0
// The table of operators: those of graph/ops/op_list.def, and those of plug-ins.
#include <stdio.h>

#include "graph/ops/op_internal.h"
#include "kernels/base/table.h"

static const sr_op *const built_in[] = {
#define SR_OP(symbol) &(symbol),
#include "graph/ops/op_list.def"
#undef SR_OP
};

static sr_status check_kernels(const sr_op *op) {
    for (size_t i = 0; i < op->kernel_count; i++) {
        const sr_kernel_entry *entry = &op->kernels[i];
        if (entry->abi != SR_KERNEL_ABI || entry->struct_size != sizeof *entry) {
            return SR_FAIL(SR_E_UNSUPPORTED,
                           "kernel %zu has interface version %u and %u bytes, but this serried has "
                           "version %d and %zu bytes; rebuild it against the installed headers",
                           i, entry->abi, entry->struct_size, SR_KERNEL_ABI, sizeof *entry);
        }
        if (entry->kernel != SR_KERNEL_OWN || !entry->name || !entry->supports || !entry->prepare)
            return SR_FAIL(SR_E_USAGE,
                           "kernel %zu lacks a name, supports or prepare, or is not SR_KERNEL_OWN",
                           i);
    }
    return SR_OK;
}

static sr_status check(const void *descriptor) {
    const sr_op *op = descriptor;
    if (op->inputs < 1 || op->inputs > SR_OP_MAX_INPUTS || op->outputs < 1 ||
        op->outputs > SR_OP_MAX_OUTPUTS || op->required < 1 || op->required > op->inputs ||
        op->attr_size > SR_OP_ATTR_BYTES) {
        return SR_FAIL(
            SR_E_USAGE,
            "%d inputs, %d required, %d outputs and %zu bytes of attributes; there must be "
            "at least 1 of each of the first three, and at most %d inputs, %d outputs and %d "
            "bytes",
            op->inputs, op->required, op->outputs, op->attr_size, SR_OP_MAX_INPUTS,
            SR_OP_MAX_OUTPUTS, SR_OP_ATTR_BYTES);
    }
    for (int i = 0; i < op->inputs; i++)
        if (!op->input_name[i] || !*op->input_name[i])
            return SR_FAIL(SR_E_USAGE, "input %d has no name, which messages need", i);
    if (!op->infer || (!op->lower && !op->kernel_count && !op->alias))
        return SR_FAIL(SR_E_USAGE, "it needs the rule 'infer', and the rule 'lower' or kernels");
    return check_kernels(op);
}

static sr_table table = {.what = "operator",
                         .struct_size = sizeof(sr_op),
                         .abi = SR_OP_ABI,
                         .built_in = built_in,
                         .built_in_count = sizeof built_in / sizeof built_in[0],
                         .check = check};

const sr_op *const *sr_ops(size_t *count) {
    return sr_table_all(&table, count);
}

const sr_op *sr_op_find(const char *name) {
    return sr_table_find(&table, name);
}

sr_status sr_ops_add(const sr_op *const *list, const char *origin) {
    return sr_table_add(&table, list, origin);
}

// Appends the names of the inputs in 'mask'.
static size_t list_inputs(const sr_op *op, uint32_t mask, char *out, size_t used) {
    const char *between = "";
    for (int i = 0; i < op->inputs && used < SR_OP_GRADIENT_TEXT; i++) {
        if (!(mask >> i & 1))
            continue;
        used += (size_t)snprintf(out + used, SR_OP_GRADIENT_TEXT - used, "%s%s", between,
                                 op->input_name[i]);
        between = ", ";
    }
    return used;
}

char *sr_op_gradient_text(const sr_op *op, char out[SR_OP_GRADIENT_TEXT]) {
    const uint32_t all = (1u << op->inputs) - 1;
    if (!op->derivative) {
        (void)snprintf(out, SR_OP_GRADIENT_TEXT, "%s",
                       op->updates       ? "none: an update"
                       : sr_op_stops(op) ? "stops here: zero"
                                         : "an error");
        return out;
    }
    size_t used = list_inputs(op, all & ~op->stops, out, 0);
    if (op->once && used < SR_OP_GRADIENT_TEXT)
        used += (size_t)snprintf(out + used, SR_OP_GRADIENT_TEXT - used, ", once");
    if (op->stops && used < SR_OP_GRADIENT_TEXT) {
        used += (size_t)snprintf(out + used, SR_OP_GRADIENT_TEXT - used, "; none to ");
        (void)list_inputs(op, op->stops, out, used);
    }
    return out;
}
