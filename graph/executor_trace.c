// SPDX-License-Identifier: Apache-2.0
// Records replays into a trace (executor_trace.h): rows and labels; the executor adds the spans.
#include <stdio.h>
#include <string.h>

#include "graph/executor_trace_internal.h"
#include "graph/plan_view.h"
#include "kernels/base/text.h"

sr_status sr_executor_tracing_create(sr_trace *trace, const char *name, int workers,
                                     sr_executor_tracing **out) {
    char row[96];
    sr_status status = SR_E_MEMORY;
    sr_executor_tracing *t = sr_alloc(sizeof *t, "trace");
    if (!t)
        return SR_E_MEMORY;
    t->trace = trace;
    t->workers = workers;
    t->rows = sr_alloc_array((size_t)workers, sizeof *t->rows, "trace");
    if (!t->rows)
        goto fail;
    for (int i = 0; i < workers; i++) {
        (void)snprintf(row, sizeof row, "%s, thread %d", name, i);
        SR_TRY_GOTO(sr_trace_add_row(trace, row, 0, &t->rows[i]), fail);
    }
    *out = t;
    return SR_OK;
fail:
    sr_executor_tracing_free(t);
    return status;
}

void sr_executor_tracing_free(sr_executor_tracing *t) {
    if (!t)
        return;
    sr_free(t->rows);
    sr_free(t->labels);
    sr_free(t);
}

static void add_shapes(const sr_plan_launch_view *l, sr_text *out) {
    char shape[96];
    sr_text shapes;
    sr_text_init(&shapes);
    for (int i = 0; i < l->args; i++) {
        if (i == l->inputs)
            sr_text_add(&shapes, " -> ");
        else if (i > 0)
            sr_text_add(&shapes, ", ");
        sr_text_add(&shapes, "%s",
                    l->info[i].dtype == SR_DTYPE_COUNT ? "none" : sr_info_text(&l->info[i], shape));
    }
    sr_text_add(out, "\"shapes\": ");
    sr_text_add_json_string(out, shapes.data);
    out->failed |= shapes.failed;
    sr_text_release(&shapes);
}

static void add_args(const sr_plan_launch_view *l, int launch, sr_text *out) {
    sr_text_add(out, "\"launch\": %d, ", launch);
    add_shapes(l, out);
    sr_text_add(out, ", \"flops\": ");
    sr_text_add_json_number(out, l->flops);
    sr_text_add(out, ", \"bytes\": ");
    sr_text_add_json_number(out, l->bytes);
    sr_text_add(out, ", \"from\": ");
    sr_text place;
    sr_text_init(&place);
    sr_text_add(&place, "%s:%d", l->file, l->line);
    sr_text_add_json_string(out, place.data);
    out->failed |= place.failed;
    sr_text_clear(&place);
    sr_text_add(&place, "%.*s", l->layer.length, l->layer.name ? l->layer.name : "");
    sr_text_add_json_string_member(out, "layer", place.data);
    sr_text_add(out, ", \"backward\": %s", l->backward ? "true" : "false");
    out->failed |= place.failed;
    sr_text_release(&place);
}

static sr_status add_label(sr_executor_tracing *t, const sr_plan *plan, int launch) {
    sr_plan_launch_view l;
    sr_text name, args;
    sr_plan_get_launch(plan, launch, &l);
    sr_text_init(&name);
    sr_text_init(&args);
    sr_text_add(&name, "%s (%s)", l.op, l.kernel);
    add_args(&l, launch, &args);
    sr_status status = sr_text_check(&name);
    if (status == SR_OK)
        status = sr_text_check(&args);
    if (status == SR_OK)
        status = sr_trace_add_label(t->trace, name.data, args.data, &t->labels[launch]);
    sr_text_release(&name);
    sr_text_release(&args);
    return status;
}

static sr_status name_launches(sr_executor_tracing *t, const sr_plan *plan) {
    void *labels = t->labels;
    SR_TRY(
        sr_grow(&labels, &t->label_capacity, plan->launch_count + 1, sizeof *t->labels, "trace"));
    t->labels = labels;
    for (uint32_t i = 0; i < plan->launch_count; i++)
        SR_TRY(add_label(t, plan, (int)i));
    t->plan = plan->number;
    return SR_OK;
}

// Units of a step with one kernel are one span, those of others follow each other in turns.
static size_t most_spans(const sr_plan *plan) {
    size_t most = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const sr_step *s = &plan->steps[i];
        most += s->count == 1 ? 1 : s->count * (size_t)s->units;
    }
    return most;
}

sr_status sr_executor_tracing_begin(sr_executor_tracing *t, const sr_plan *plan) {
    if (t->plan != plan->number)
        SR_TRY(name_launches(t, plan));
    const size_t spans = most_spans(plan);
    for (int i = 0; i < t->workers; i++) {
        SR_TRY(sr_trace_reserve(t->rows[i], spans));
        sr_trace_close(t->rows[i]); // the last kernel of the previous replay is not the first one
                                    // of this replay
    }
    return SR_OK;
}
