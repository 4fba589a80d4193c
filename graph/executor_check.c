// SPDX-License-Identifier: Apache-2.0
// Checked replays: read each value when it is complete and stop at the first one that is not
// finite.
#include <stdio.h>

#include "graph/executor_check_internal.h"
#include "graph/executor_internal.h"

sr_status sr_executor_set_checking(sr_executor *e, const sr_context *context) {
    sr_executor_checking_free(e->checking);
    e->checking = NULL;
    if (!context)
        return SR_OK;
    sr_executor_checking *c = sr_alloc(sizeof *c, "executor");
    if (!c)
        return SR_E_MEMORY;
    c->context = context;
    e->checking = c;
    return SR_OK;
}

void sr_executor_checking_free(sr_executor_checking *c) {
    if (c)
        sr_free(c->copy);
    sr_free(c);
}

sr_status sr_executor_check_reserve(sr_executor_checking *c, size_t bytes) {
    if (bytes <= c->capacity)
        return SR_OK;
    sr_free(c->copy);
    c->capacity = 0;
    c->copy = sr_alloc(bytes, "a copy of a value");
    if (!c->copy)
        return SR_E_MEMORY;
    c->capacity = bytes;
    return SR_OK;
}

// ---- Elements ----

// Bits of a float type: an exponent of all ones is an infinity or NaN.
typedef struct float_bits {
    int bytes;
    uint64_t exponent, fraction, sign;
} float_bits;

static const float_bits bits_of[SR_DTYPE_COUNT] = {
    [SR_F32] = {4, 0x7f800000, 0x7fffff, 0x80000000},
    [SR_BF16] = {2, 0x7f80, 0x7f, 0x8000},
    [SR_F16] = {2, 0x7c00, 0x3ff, 0x8000},
    [SR_F64] = {8, 0x7ff0000000000000, 0xfffffffffffff, 0x8000000000000000},
};

static uint64_t element(const void *values, int bytes, int64_t i) {
    if (bytes == 2)
        return ((const uint16_t *)values)[i];
    return bytes == 4 ? ((const uint32_t *)values)[i] : ((const uint64_t *)values)[i];
}

// What was found in a value.
typedef struct findings {
    int64_t first, count; // element; number of elements that are not finite
    const char *what;
} findings;

static findings search(const void *values, const sr_info *info) {
    const float_bits *f = &bits_of[info->dtype];
    findings found = {.first = -1};
    for (int64_t i = 0; f->bytes && i < sr_info_count(info); i++) {
        const uint64_t x = element(values, f->bytes, i);
        if ((x & f->exponent) != f->exponent)
            continue;
        if (found.count++ > 0)
            continue;
        found.first = i;
        found.what = x & f->fraction ? "NaN" : x & f->sign ? "-infinity" : "infinity";
    }
    return found;
}

static sr_status examine(sr_executor *e, uint32_t value, sr_check_fetch fetch, findings *out) {
    const sr_plan_value *v = &e->plan->values[value];
    const void *values = NULL;
    *out = (findings){.first = -1};
    for (uint32_t lane = 0; lane < v->lanes && bits_of[v->info.dtype].bytes > 0 && out->count == 0;
         lane++) {
        const sr_address at = sr_address_add(e->table[v->root], lane * sr_plan_stride(v));
        SR_TRY(fetch(e, at, v->lane_bytes, &values));
        *out = search(values, &v->info);
    }
    return SR_OK;
}

static sr_status refuse(const char *what, const sr_info *info, const findings *found) {
    char text[96];
    return SR_FAIL(SR_E_NON_FINITE,
                   "%s is not finite: element %lld of %s is %s, and %lld of %lld are not finite",
                   what, (long long)found->first, sr_info_text(info, text), found->what,
                   (long long)found->count, (long long)sr_info_count(info));
}

// ---- Names ----

// The variable that a value is, or NULL.
static const char *variable_name(const sr_executor *e, uint32_t value) {
    if (value == SR_REF_NONE || e->plan->values[value].storage != SR_STORAGE_VARIABLE ||
        e->plan->values[value].root != value)
        return NULL;
    return e->checking->context->variables[e->plan->values[value].index].name;
}

// The first variable among the inputs of a launch.
static const char *own_variable(const sr_executor *e, const sr_launch *l) {
    const char *name = NULL;
    for (int i = 0; i < l->args - l->op->outputs && !name; i++)
        name = variable_name(e, l->arg[i]);
    return name;
}

// ---- Replays ----

static void name_leaf(const sr_executor *e, uint32_t value, char *out, size_t bytes) {
    const char *variable = variable_name(e, value);
    const sr_plan_value *v = &e->plan->values[value];
    if (variable)
        (void)snprintf(out, bytes, "%s, before the first operator,", variable);
    else
        (void)snprintf(out, bytes, "%s %u, before the first operator,",
                       v->storage == SR_STORAGE_INPUT ? "input" : "constant", v->index);
}

sr_status sr_executor_check_leaves(sr_executor *e, sr_check_fetch fetch) {
    char what[256];
    e->checking->last = NULL;
    for (uint32_t i = 0; i < e->plan->outside_count; i++) {
        const uint32_t value = e->plan->outside[i].value;
        findings found;
        SR_TRY(examine(e, value, fetch, &found));
        if (found.count == 0)
            continue;
        name_leaf(e, value, what, sizeof what);
        return refuse(what, &e->plan->values[value].info, &found);
    }
    return SR_OK;
}

static sr_status check_launch(sr_executor *e, const sr_launch *l, sr_check_fetch fetch) {
    const char *own = own_variable(e, l), *before = e->checking->last;
    char what[512];
    if (own)
        e->checking->last = own;
    for (int i = l->args - l->op->outputs; i < l->args; i++) {
        findings found;
        if (l->arg[i] == SR_REF_NONE)
            continue;
        SR_TRY(examine(e, l->arg[i], fetch, &found));
        if (found.count == 0)
            continue;
        (void)snprintf(what, sizeof what, "the result of %s at %s:%d%s%.*s (%s %s)", l->op->name,
                       l->file, l->line, l->layer.length > 0 ? " in " : "", l->layer.length,
                       l->layer.length > 0 ? l->layer.name : "",
                       own      ? "which reads"
                       : before ? "after"
                                : "before any layer",
                       own      ? own
                       : before ? before
                                : "");
        return refuse(what, &e->plan->values[l->arg[i]].info, &found);
    }
    return SR_OK;
}

// Whether an item is the last of its launch.
static bool completes(const sr_plan *plan, uint32_t item) {
    for (uint32_t i = item + 1; i < plan->item_count; i++)
        if (plan->items[i].launch == plan->items[item].launch)
            return false;
    return true;
}

sr_status sr_executor_check_step(sr_executor *e, uint32_t number, sr_check_fetch fetch) {
    const sr_step *step = &e->plan->steps[number];
    for (uint32_t i = step->first; i < step->first + step->count; i++)
        if (completes(e->plan, i))
            SR_TRY(check_launch(e, &e->plan->launches[e->plan->items[i].launch], fetch));
    return SR_OK;
}
