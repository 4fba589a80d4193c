// SPDX-License-Identifier: Apache-2.0
// Writes a canonical program as text (program_text.h).
#include <string.h>

#include "graph/program_text_internal.h"
#include "kernels/device/device.h"

// ---- The program ----

// The targets of the last request that was built.
static sr_status last_targets(sr_context *context, sr_target **out, int *count) {
    const sr_program *p = context->recording.program;
    if (!p || p->request_count < SR_REQUEST_WORDS)
        return SR_FAIL(SR_E_ARGUMENT, "no program was compiled in this step");
    *count = (int)p->target_count;
    *out = sr_alloc_array((size_t)*count + 1, sizeof **out, "targets");
    if (!*out)
        return SR_E_MEMORY;
    for (int i = 0; i < *count; i++) {
        const uint32_t *request = p->request + (size_t)i * SR_REQUEST_WORDS, after = request[1];
        (*out)[i] =
            (sr_target){.tensor = sr_context_tensor(context, request[0]), .group = request[2]};
        if (after != SR_REF_NONE)
            (*out)[i].after = sr_context_tensor(context, after);
    }
    return SR_OK;
}

sr_status sr_written_program_make(sr_context *context, const sr_target *targets, int count,
                                  sr_written_program *out) {
    sr_target *last = NULL;
    *out = (sr_written_program){.context = context};
    SR_TRY(sr_context_status(context));
    sr_status status = targets ? SR_OK : last_targets(context, &last, &count);
    const sr_wanted wanted = {
        .targets = targets ? targets : last, .target_count = count, .updates = true};
    // Compiling may have changed what is kept (pass_recompute.c).
    if (context->recording.program)
        context->recording.program->repeats = false;
    if (status == SR_OK)
        status = sr_program_build(context, &wanted);
    sr_free(last);
    SR_TRY(status);
    out->p = context->recording.program;
    out->layers = sr_alloc_array((size_t)sr_call_count(context) + 1, sizeof *out->layers, "layers");
    return out->layers ? sr_call_layers(context, out->layers) : SR_E_MEMORY;
}

void sr_written_program_release(sr_written_program *w) {
    sr_free(w->layers);
    w->layers = NULL;
}

sr_layer sr_written_layer(const sr_written_program *w, size_t node) {
    return w->layers[w->p->nodes[node].recorded];
}

bool sr_written_backward(const sr_written_program *w, size_t node) {
    return w->context->recording.nodes[w->p->nodes[node].recorded].source != 0;
}

// ---- Parts ----

void sr_program_add_info(const sr_info *info, sr_text *out) {
    sr_text_add(out, "%s[", sr_dtype_name(info->dtype));
    for (int i = 0; i < info->rank; i++)
        sr_text_add(out, "%s%lld", i ? ", " : "", (long long)info->dim[i]);
    sr_text_add(out, "]");
}

static void add_quoted(const char *text, size_t length, sr_text *out) {
    sr_text_add(out, "\"");
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            sr_text_add(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            sr_text_add(out, "\\x%02x", c);
        else
            sr_text_add_bytes(out, &text[i], 1);
    }
    sr_text_add(out, "\"");
}

static bool is_zero(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

static const sr_dtype dtypes[] = {[SR_ATTR_I32] = SR_I32,
                                  [SR_ATTR_U32] = SR_I64, // wider, which shows all of it
                                  [SR_ATTR_I64] = SR_I64,
                                  [SR_ATTR_F64] = SR_F64,
                                  [SR_ATTR_DTYPE] = SR_I32};

static size_t size_of(const sr_attr_field *f) {
    return f->type == SR_ATTR_I64 || f->type == SR_ATTR_F64 ? 8 : 4;
}

static size_t count_of(const sr_attr_field *f, const sr_op *op) {
    return f->count ? f->count : (op->attr_size - f->offset) / size_of(f);
}

static void add_element(const sr_attr_field *f, const unsigned char *at, sr_text *out) {
    int64_t wide = 0;
    int32_t dtype;
    memcpy(&wide, at, size_of(f));
    memcpy(&dtype, at, sizeof dtype);
    if (f->type == SR_ATTR_DTYPE)
        sr_text_add(out, "%s", sr_dtype_name((sr_dtype)dtype));
    else
        sr_program_add_number(dtypes[f->type], &wide, out);
}

static void add_field(const sr_attr_field *f, size_t count, const unsigned char *at, sr_text *out) {
    sr_text_add(out, f->count == 1 ? "%s=" : "%s=[", f->name);
    for (size_t i = 0; i < count; i++) {
        sr_text_add(out, "%s", i ? ", " : "");
        add_element(f, at + i * size_of(f), out);
    }
    if (f->count != 1)
        sr_text_add(out, "]");
}

sr_status sr_program_add_attributes(const sr_op *op, const void *attr, sr_text *out) {
    unsigned char left[SR_OP_ATTR_BYTES];
    const char *between = "";
    memcpy(left, attr, op->attr_size);
    for (const sr_attr_field *f = op->fields; f && f->name && op->attr_size; f++) {
        const size_t count = count_of(f, op);
        unsigned char *at = left + f->offset;
        // A dtype is always written, since the first one is 0.
        if (is_zero(at, count * size_of(f)) && f->type != SR_ATTR_DTYPE)
            continue;
        sr_text_add(out, "%s", between);
        add_field(f, count, at, out);
        memset(at, 0, count * size_of(f));
        between = ", ";
    }
    if (op->fields)
        return is_zero(left, op->attr_size)
                   ? SR_OK
                   : SR_FAIL(SR_E_INTERNAL, "%s: attributes without a name", op->name);
    if (op->attr_size)
        sr_text_add(out, "bytes=0x");
    for (size_t i = 0; i < op->attr_size; i++)
        sr_text_add(out, "%02x", left[i]);
    return SR_OK;
}

// ---- Lines ----

static sr_status add_elements(sr_context *context, sr_address memory, const sr_info *info,
                              sr_text *out) {
    const size_t bytes = sr_info_bytes(info), size = sr_dtype_size(info->dtype);
    unsigned char *data = sr_alloc(bytes, "a constant");
    sr_status status =
        data ? sr_device_download(context->device, data, memory, bytes) : SR_E_MEMORY;
    sr_text_add(out, " {");
    for (int64_t i = 0; status == SR_OK && i < sr_info_count(info); i++) {
        sr_text_add(out, "%s", i ? ", " : "");
        sr_program_add_number(info->dtype, data + (size_t)i * size, out);
    }
    sr_text_add(out, "}");
    sr_free(data);
    return status;
}

static sr_status add_leaf(const sr_written_program *w, uint32_t value, sr_text *out) {
    const sr_program_value *v = &w->p->values[value];
    sr_status status = SR_OK;
    sr_text_add(out, "%%%u = ", value);
    if (v->leaf_kind == SR_LEAF_VARIABLE) {
        const char *name = w->context->variables[v->leaf].name;
        sr_text_add(out, "variable ");
        add_quoted(name, strlen(name), out);
    } else if (v->leaf_kind == SR_LEAF_INPUT) {
        sr_text_add(out, "input %u", v->leaf);
    } else {
        sr_text_add(out, "constant");
    }
    sr_text_add(out, " : ");
    sr_program_add_info(&v->info, out);
    if (v->leaf_kind == SR_LEAF_MEMORY)
        status = add_elements(w->context, w->p->memory[v->leaf], &v->info, out);
    sr_text_add(out, "\n");
    return status;
}

// Leaves have their number from their first reader, so they are in the lines before it.
static sr_status add_leaves(const sr_written_program *w, uint32_t *next, uint32_t end,
                            sr_text *out) {
    for (; *next < end && w->p->values[*next].node == SR_REF_NONE; (*next)++)
        SR_TRY(add_leaf(w, *next, out));
    return SR_OK;
}

static void add_inputs(const sr_program_node *node, sr_text *out) {
    int count = node->op->inputs;
    while (count > node->op->required && node->input[count - 1] == SR_REF_NONE)
        count--;
    sr_text_add(out, "%s(", node->op->name);
    for (int i = 0; i < count; i++) {
        sr_text_add(out, "%s", i ? ", " : "");
        if (node->input[i] == SR_REF_NONE)
            sr_text_add(out, "none");
        else
            sr_text_add(out, "%%%u", node->input[i]);
    }
    sr_text_add(out, ")");
}

static sr_status add_node(const sr_written_program *w, size_t index, sr_text *out) {
    const sr_program_node *node = &w->p->nodes[index];
    const sr_layer layer = sr_written_layer(w, index);
    const int outputs = node->op->outputs;
    for (int i = 0; i < outputs; i++)
        sr_text_add(out, "%s%%%u%s", i ? ", " : "", node->output[i], i + 1 == outputs ? " = " : "");
    add_inputs(node, out);
    const size_t before = out->length;
    sr_text_add(out, " {");
    SR_TRY(sr_program_add_attributes(node->op, w->p->attrs + node->attr, out));
    if (out->length == before + 2)
        out->data[out->length = before] = '\0';
    else
        sr_text_add(out, "}");
    for (int i = 0; i < outputs; i++) {
        sr_text_add(out, i ? ", " : " : ");
        sr_program_add_info(&w->p->values[node->output[i]].info, out);
    }
    if (layer.name) {
        sr_text_add(out, " @");
        add_quoted(layer.name, (size_t)layer.length, out);
    }
    sr_text_add(out, sr_written_backward(w, index) ? " backward\n" : "\n");
    return SR_OK;
}

// The value of a variable that a target waits for.
static uint32_t value_of_variable(const sr_program *p, uint32_t variable) {
    for (uint32_t i = 0; i < p->value_count; i++)
        if (p->values[i].node == SR_REF_NONE && p->values[i].leaf_kind == SR_LEAF_VARIABLE &&
            p->values[i].leaf == variable)
            return i;
    return SR_REF_NONE;
}

static void add_targets(const sr_program *p, sr_text *out) {
    sr_text_add(out, "return");
    for (size_t i = 0; i < p->target_count; i++) {
        sr_text_add(out, "%s%%%u", i ? ", " : " ", p->targets[i].value);
        // A variable that nothing reads is read by nobody after the target.
        const uint32_t after = p->targets[i].after == SR_REF_NONE
                                   ? SR_REF_NONE
                                   : value_of_variable(p, p->targets[i].after);
        if (after != SR_REF_NONE)
            sr_text_add(out, " after %%%u", after);
    }
    sr_text_add(out, "\n");
}

static sr_status write(const sr_written_program *w, sr_text *out) {
    uint32_t next = 0;
    sr_text_add(out, "program %d\n", SR_PROGRAM_VERSION);
    for (size_t i = 0; i < w->p->node_count; i++) {
        const sr_program_node *node = &w->p->nodes[i];
        SR_TRY(add_leaves(w, &next, (uint32_t)w->p->value_count, out));
        SR_TRY(add_node(w, i, out));
        next += (uint32_t)node->op->outputs;
    }
    SR_TRY(add_leaves(w, &next, (uint32_t)w->p->value_count, out));
    add_targets(w->p, out);
    return sr_text_check(out);
}

sr_status sr_program_write(sr_context *context, const sr_target *targets, int count, sr_text *out) {
    sr_written_program w;
    sr_status status = sr_written_program_make(context, targets, count, &w);
    if (status == SR_OK)
        status = write(&w, out);
    sr_written_program_release(&w);
    return status;
}
