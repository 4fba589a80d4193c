// SPDX-License-Identifier: Apache-2.0
// The plan of a step for a GPU as one JSON object, with the kernels of every level. Equal kernels
// are one row.
#include <string.h>

#include "launcher/bench/bench_gpu_internal.h"
#include "launcher/commands/command.h"

static void add_cost(sr_text *out, const sr_gpu_cost *c) {
    sr_text_add_json_number_member(out, "kernels", c->kernels);
    sr_text_add_json_number_member(out, "launches", c->functions);
    sr_text_add_json_number_member(out, "flops", c->flops);
    sr_text_add_json_number_member(out, "executed_flops", c->executed);
    sr_text_add_json_number_member(out, "bytes", c->bytes);
    sr_text_add_json_number_member(out, "cached_bytes", c->cached);
    sr_text_add_json_number_member(out, "least_bytes", c->least);
    sr_text_add_json_number_member(out, "workspace_bytes", c->workspace);
    for (int i = 0; i < SR_GPU_BOUNDS; i++) {
        sr_text_add(out, ", \"%s_s\": ", sr_gpu_bounds[i]);
        sr_text_add_json_number(out, c->by[i]);
    }
    sr_text_add_json_number_member(out, "predicted_s", c->seconds);
    sr_text_add_json_string_member(out, "bound_by", sr_gpu_bounds[sr_gpu_bound_of(c)]);
}

// ---- Kernels ----

static bool is_same_info(const sr_info *a, const sr_info *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->rank) == 0;
}

static bool is_same(const sr_gpu_kernel *a, const sr_gpu_kernel *b, const sr_gpu_cost *x,
                    const sr_gpu_cost *y) {
    return strcmp(a->op, b->op) == 0 && a->family == b->family && a->numerics == b->numerics &&
           is_same_info(&a->in, &b->in) && is_same_info(&a->out, &b->out) &&
           is_same_info(&a->filter, &b->filter) && !(x->bytes < y->bytes) &&
           !(x->bytes > y->bytes) && !(x->flops < y->flops) && !(x->flops > y->flops) &&
           !(x->seconds < y->seconds) && !(x->seconds > y->seconds);
}

static void add_shape(sr_text *out, const char *name, const sr_info *info) {
    char text[96];
    if (info->dtype != SR_DTYPE_COUNT)
        sr_text_add_json_string_member(out, name, sr_info_text(info, text));
}

static void add_kernel(sr_text *out, const sr_gpu_kernel *k, const sr_gpu_cost *c) {
    sr_text_add(out, "{\"operator\": ");
    sr_text_add_json_string(out, k->op);
    sr_text_add_json_string_member(out, "class", sr_gpu_class_name(k->numerics));
    sr_text_add_json_string_member(out, "family", sr_gpu_family_name(k->family));
    sr_text_add_json_string_member(out, "dtype", sr_dtype_name(k->dtype));
    add_shape(out, "in", &k->in);
    add_shape(out, "out", &k->out);
    if (k->filter.rank > 0)
        add_shape(out, "filter", &k->filter);
    add_cost(out, c);
    sr_text_add_json_number_member(out, "ratio", c->least > 0 ? c->bytes / c->least : 1);
    if (k->why)
        sr_text_add_json_string_member(out, "why", k->why);
    sr_text_add(out, "}");
}

// Adds the row of kernel 'first', unless an earlier kernel is equal; returns whether it did.
static bool add_kernel_row(const sr_gpu_plan *p, int level, int first, bool follows, sr_text *out) {
    const sr_gpu_program *program = &p->level[level].program;
    const sr_gpu_kernel *k = &program->kernels[first];
    const sr_gpu_cost one = sr_gpu_cost_of(program, k, p->gpu);
    sr_gpu_cost sum = {0};
    if (k->gone)
        return false;
    for (int i = 0; i < program->kernel_count; i++) {
        const sr_gpu_cost c = sr_gpu_cost_of(program, &program->kernels[i], p->gpu);
        if (program->kernels[i].gone || !is_same(k, &program->kernels[i], &one, &c))
            continue;
        if (i < first)
            return false;
        sr_gpu_cost_add(&sum, &c);
    }
    sr_text_add(out, "%s", follows ? ", " : "");
    add_kernel(out, k, &sum);
    return true;
}

static void add_kernels(const sr_gpu_plan *p, int level, sr_text *out) {
    bool follows = false;
    sr_text_add(out, ", \"rows\": [");
    for (int i = 0; i < p->level[level].program.kernel_count; i++)
        follows |= add_kernel_row(p, level, i, follows, out);
    sr_text_add(out, "]");
}

// ---- Levels ----

static void add_families(const sr_gpu_plan *p, int level, sr_text *out) {
    sr_text_add(out, ", \"families\": [");
    for (int i = 0; i < SR_GPU_FAMILIES; i++) {
        sr_text_add(out, "%s{\"name\": ", i ? ", " : "");
        sr_text_add_json_string(out, sr_gpu_family_name((sr_gpu_family)i));
        add_cost(out, &p->level[level].family[i]);
        sr_text_add(out, "}");
    }
    sr_text_add(out, "]");
}

static void add_level(const sr_gpu_plan *p, int level, sr_text *out) {
    const sr_gpu_cost *c = &p->level[level].step;
    sr_text_add(out, "%s{\"name\": ", level ? ", " : "");
    sr_text_add_json_string(out, sr_gpu_steps[level].name);
    sr_text_add_json_string_member(out, "what", sr_gpu_steps[level].what);
    add_cost(out, c);
    sr_text_add_json_number_member(out, "images_per_s", (double)p->result->batch / c->seconds);
    sr_text_add_json_number_member(out, "enqueue_s", c->functions * p->gpu->enqueue);
    sr_text_add_json_number_member(out, "memory_bytes", p->level[level].memory);
    for (int i = 0; i < SR_GPU_BOUNDS; i++) {
        sr_text_add(out, ", \"share_by_%s\": ", sr_gpu_bounds[i]);
        sr_text_add_json_number(out, c->bound[i] / c->seconds);
    }
    add_families(p, level, out);
    add_kernels(p, level, out);
    sr_text_add(out, "}");
}

static void add_gpu(const sr_gpu *g, sr_text *out) {
    sr_text_add(out, ", \"gpu\": {\"name\": ");
    sr_text_add_json_string(out, g->name);
    sr_text_add_json_string_member(out, "model", g->model);
    sr_text_add_json_string_member(out, "source", g->source);
    sr_text_add(out, ", \"derived\": %s", g->measured ? "false" : "true");
    sr_text_add_json_number_member(out, "tensor_16_flops_per_s", g->tensor_16);
    sr_text_add_json_number_member(out, "tensor_tf32_flops_per_s", g->tensor_tf32);
    sr_text_add_json_number_member(out, "warp_16_flops_per_s", g->warp_16);
    sr_text_add_json_number_member(out, "fp32_flops_per_s", g->plain);
    sr_text_add_json_number_member(out, "bytes_per_s", g->bytes);
    sr_text_add_json_number_member(out, "own_share_of_bytes", g->own);
    sr_text_add_json_number_member(out, "launch_s", g->launch);
    sr_text_add_json_number_member(out, "memory_bytes", g->memory);
    sr_text_add(out, "}");
}

sr_status sr_gpu_report_json(const sr_gpu_plan *p) {
    const sr_step_result *r = p->result;
    sr_text out;
    sr_text_init(&out);
    sr_text_add(&out, "{\"benchmark\": \"step plan\", \"version\": \"" SR_VERSION "\"");
    sr_text_add_json_string_member(&out, "recipe", r->recipe->name);
    sr_text_add_json_string_member(&out, "model", r->model);
    sr_text_add_json_string_member(&out, "precision", r->precision);
    sr_text_add_json_number_member(&out, "image", (double)r->image);
    sr_text_add_json_number_member(&out, "batch", (double)r->batch);
    sr_text_add_json_number_member(&out, "lanes", (double)r->lanes);
    sr_text_add_json_number_member(&out, "lanes_at_once", (double)p->at_once);
    add_gpu(p->gpu, &out);
    sr_text_add(&out, ", \"levels\": [");
    for (int i = 0; i < SR_GPU_LEVELS; i++)
        add_level(p, i, &out);
    sr_text_add(&out, "]}\n");
    return sr_command_print(SR_OK, &out);
}
