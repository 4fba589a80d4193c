// SPDX-License-Identifier: Apache-2.0
// The launcher of devices that run beside the host: every launch of the plan is enqueued on the
// executor's stream, one after the other, and so are the copies and kernels of sinks.
//
// To measure, it records an event behind every launch and reads the times after the wait.
#include "graph/executor_internal.h"
#include "kernels/base/clock.h"
#include "kernels/device/stream.h"

typedef struct stream_launcher {
    sr_event **events; // of each step, before it and so behind the one before
    size_t event_capacity, event_count;
    int64_t begin_ns; // when the first event of the part was recorded
    bool measured;
} stream_launcher;

static stream_launcher *own(const sr_executor *e) {
    return e->state;
}

static sr_status create(sr_executor *e, int threads) {
    const sr_stream_options team = {.threads = threads};
    e->state = sr_alloc(sizeof(stream_launcher), "executor");
    if (!e->state)
        return SR_E_MEMORY;
    return sr_stream_create(e->device, &team, &e->stream);
}

static void release(sr_executor *e) {
    stream_launcher *l = own(e);
    sr_stream_free(e->stream);
    if (!l)
        return;
    for (size_t i = 0; i < l->event_count; i++)
        sr_event_free(l->events[i]);
    sr_free(l->events);
    sr_free(l);
}

static int workers(const sr_executor *e) {
    (void)e;
    return 1;
}

static sr_status prepare(sr_executor *e, const sr_plan *plan) {
    (void)e;
    (void)plan;
    return SR_OK;
}

static sr_status moved(sr_executor *e, uint32_t index) {
    (void)e;
    (void)index;
    return SR_OK;
}

// ---- Measuring ----

static sr_status make_events(sr_executor *e, size_t count) {
    stream_launcher *l = own(e);
    void *events = l->events;
    SR_TRY(sr_grow(&events, &l->event_capacity, count, sizeof *l->events, "events of a replay"));
    l->events = events;
    for (; l->event_count < count; l->event_count++)
        SR_TRY(sr_event_create(e->device, &l->events[l->event_count]));
    return SR_OK;
}

static sr_status record(const sr_executor *e, uint32_t index) {
    return own(e)->measured ? sr_event_record(own(e)->events[index], e->stream) : SR_OK;
}

static void read_times(sr_executor *e) {
    const stream_launcher *l = own(e);
    const sr_event *first = l->events[e->step_begin];
    for (uint32_t i = e->step_begin; i < e->step_end; i++) {
        const uint32_t launch = e->plan->items[e->plan->steps[i].first].launch;
        const int64_t begin = sr_event_elapsed_ns(first, l->events[i]);
        const int64_t end = sr_event_elapsed_ns(first, l->events[i + 1]);
        if (e->profiling) {
            sr_node_profile *row = &e->profile[e->profile_first + launch];
            row->ns += end - begin;
            row->runs++;
        }
        if (e->tracing)
            sr_executor_tracing_add(e->tracing, 0, launch, l->begin_ns + begin, l->begin_ns + end);
    }
}

// ---- Replay ----

// The arguments of one lane of a kernel that runs for each.
static const sr_address *arguments_of(const sr_executor *e, const sr_launch *l, uint32_t lane,
                                      sr_address moved[SR_KERNEL_MAX_ARGS]) {
    const sr_address *first = e->arguments + l->first_pointer;
    for (int i = 0; i < l->args && lane > 0; i++) {
        const uint32_t value = l->arg[i];
        const size_t stride = value == SR_REF_NONE ? 0 : sr_plan_stride(&e->plan->values[value]);
        moved[i] = stride > 0 ? sr_address_add(first[i], lane * stride) : first[i];
    }
    return lane > 0 ? moved : first;
}

static sr_status launch(sr_executor *e, uint32_t number) {
    const sr_launch *l = &e->plan->launches[number];
    const sr_shared_prepared *shared = &e->plan->prepared[l->prepared];
    const sr_address packed = l->packed == SR_REF_NONE ? sr_address_none() : e->table[l->packed];
    sr_address moved[SR_KERNEL_MAX_ARGS];
    for (uint32_t lane = 0; lane < l->runs; lane++) {
        const sr_kernel_call call = {.prepared = &shared->prepared,
                                     .request = &shared->request,
                                     .p = arguments_of(e, l, lane, moved),
                                     .workspace = sr_executor_workspace(e, l, lane),
                                     .packed = packed,
                                     .is_packed = l->packed != SR_REF_NONE && !l->packs,
                                     .site = {l->op->name, l->file, l->line}};
        SR_TRY(sr_stream_launch(e->stream, &call));
    }
    return SR_OK;
}

// Waits for all work on the stream.
static sr_status fetch(sr_executor *e, sr_address value, size_t bytes, const void **out) {
    SR_TRY(sr_executor_check_reserve(e->checking, bytes));
    SR_TRY(sr_stream_download(e->stream, e->checking->copy, value, bytes));
    *out = e->checking->copy;
    return sr_stream_wait(e->stream);
}

static sr_status replay(sr_executor *e) {
    const sr_plan *plan = e->plan;
    own(e)->measured = e->profiling || e->tracing;
    if (own(e)->measured)
        SR_TRY(make_events(e, plan->step_count + 1));
    own(e)->begin_ns = sr_clock_ns();
    SR_TRY(record(e, e->step_begin));
    if (e->checking && e->step_begin == 0)
        SR_TRY(sr_executor_check_leaves(e, fetch));
    SR_TRY(sr_executor_deliver_first(e, e->stream));
    for (uint32_t i = e->step_begin; i < e->step_end; i++) {
        SR_TRY(launch(e, plan->items[plan->steps[i].first].launch));
        SR_TRY(record(e, i + 1));
        if (e->checking)
            SR_TRY(sr_executor_check_step(e, i, fetch));
        SR_TRY(sr_executor_deliver_step(e, i, e->stream));
    }
    return sr_stream_flush(e->stream);
}

static sr_status wait(sr_executor *e) {
    SR_TRY(sr_stream_wait(e->stream));
    if (own(e)->measured)
        read_times(e);
    return SR_OK;
}

const sr_launcher sr_launcher_stream = {
    .create = create,
    .free = release,
    .prepare = prepare,
    .moved = moved,
    .replay = replay,
    .wait = wait,
    .workers = workers,
};
