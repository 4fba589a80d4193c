// SPDX-License-Identifier: Apache-2.0
// Executors: replay of plans on a stream.
//
// One command on the stream's thread walks the steps; the units of each go over the team, and a
// unit is blocks of one stage or of several in turn. All memory is one range that grows in place,
// so that every plan shares it and a replay allocates nothing. Calls of a plan stay as they were
// for its next replay, which only looks for values outside the range that have moved. Several
// executors replay plans of one context at the same time, one lane each.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "graph/executor_trace_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/machine.h"
#include "kernels/device/device.h"

// An item of the plan, ready to run.
typedef struct call {
    sr_kernel_fn run;
    sr_kernel_args args;
    int64_t blocks, per_unit;
} call;

struct sr_executor {
    sr_device *device;
    sr_stream *stream;
    void *range;
    size_t range_bytes, range_limit; // in use; reserved
    unsigned char **scratch;         // per worker
    size_t scratch_bytes;
    uint64_t filled; // number of the plan that table, pointers and calls are of; 0: none
    void **table;    // kernel address of every root of the plan that runs
    size_t table_capacity;
    void **pointers; // those of the arguments of every launch
    size_t pointer_capacity;
    call *calls; // of every item
    size_t call_capacity;

    sr_plan *plan;
    sr_run run;

    // The first failing block of a step, carried from its thread to the stream's.
    pthread_mutex_t lock;
    atomic_int failed;
    uint32_t failed_launch;
    sr_kept_error failure; // under lock

    bool running; // between begin and wait
    bool profiling;
    uint64_t profiled; // number of the plan whose rows these are; it may be gone from the cache
    sr_node_profile *profile;
    size_t profile_capacity;
    uint32_t profile_count;
    int64_t (*shares)[SR_CHAIN_ITEMS]; // per worker: time in each item of a step
    sr_executor_tracing *tracing;      // NULL: none
};

sr_status sr_executor_create(sr_device *device, int threads, sr_executor **out) {
    sr_status status = SR_OK;
    sr_executor *e = sr_alloc(sizeof *e, "executor");
    if (!e)
        return SR_E_MEMORY;
    e->device = device;
    (void)pthread_mutex_init(&e->lock, NULL);
    SR_TRY_GOTO(sr_stream_create(device, threads, &e->stream), fail);
    e->scratch = sr_alloc_array((size_t)sr_stream_threads(e->stream), sizeof *e->scratch,
                                "executor scratch");
    e->shares = sr_alloc_array((size_t)sr_stream_threads(e->stream), sizeof *e->shares, "profile");
    if (!e->scratch || !e->shares) {
        status = SR_E_MEMORY;
        goto fail;
    }
    *out = e;
    return SR_OK;
fail:
    sr_executor_free(e);
    return status;
}

void sr_executor_free(sr_executor *e) {
    if (!e)
        return;
    int threads = e->stream ? sr_stream_threads(e->stream) : 0;
    sr_stream_free(e->stream);
    for (int i = 0; e->scratch && i < threads; i++)
        sr_free(e->scratch[i]);
    sr_free(e->scratch);
    sr_device_free(e->device, e->range);
    sr_free(e->table);
    sr_free(e->pointers);
    sr_free(e->calls);
    sr_free(e->shares);
    sr_free(e->profile);
    sr_executor_tracing_free(e->tracing);
    (void)pthread_mutex_destroy(&e->lock);
    sr_free(e);
}

// ---- Preparing a replay (on the caller's thread) ----

static sr_status grow_scratch(sr_executor *e, size_t bytes) {
    if (bytes <= e->scratch_bytes)
        return SR_OK;
    for (int i = 0; i < sr_stream_threads(e->stream); i++) {
        sr_free(e->scratch[i]);
        e->scratch[i] = sr_alloc(bytes, "kernel scratch");
        if (!e->scratch[i]) {
            e->scratch_bytes = 0;
            return SR_E_MEMORY;
        }
    }
    e->scratch_bytes = bytes;
    return SR_OK;
}

static sr_status grow_array(void **array, size_t *capacity, size_t need, size_t size) {
    return need <= *capacity ? SR_OK : sr_grow(array, capacity, need, size, "executor table");
}

#define GROW(e, array, capacity, need)                                                             \
    SR_TRY(grow_array((void **)&(e)->array, &(e)->capacity, (need), sizeof *(e)->array))

// Addresses for all that the machine has, so that larger plans grow the range in place; where
// addresses are limited, for this plan. No replay runs, so that nothing in the range is needed.
static sr_status reserve_range(sr_executor *e, size_t bytes) {
    const sr_machine_memory memory = sr_machine_get_memory();
    const bool exact = memory.addresses_limited || memory.total == UINT64_MAX;
    const size_t limit = exact ? bytes + 1 : (size_t)memory.total;
    sr_device_free(e->device, e->range);
    e->range = NULL;
    e->range_bytes = e->range_limit = 0;
    SR_TRY(sr_device_reserve(e->device, limit, "values of plans", &e->range));
    e->range_limit = limit;
    return SR_OK;
}

static sr_status grow(sr_executor *e, const sr_plan *plan) {
    GROW(e, table, table_capacity, plan->value_count);
    GROW(e, pointers, pointer_capacity, plan->arg_count);
    GROW(e, calls, call_capacity, plan->item_count);
    if (plan->range_bytes > e->range_limit || !e->range)
        SR_TRY(reserve_range(e, plan->range_bytes));
    if (plan->range_bytes > e->range_bytes) {
        SR_TRY(sr_device_commit(e->device, e->range, plan->range_bytes));
        e->range_bytes = plan->range_bytes;
    }
    return grow_scratch(e, plan->scratch_bytes);
}

// Where a value outside the range lies in this replay.
static sr_status address_of(const sr_executor *e, const sr_plan *plan, const sr_plan_value *v,
                            void **out) {
    void *memory = NULL;
    if (v->storage == SR_STORAGE_VARIABLE)
        memory = plan->variables[v->index];
    else if (v->storage == SR_STORAGE_MEMORY)
        memory = plan->memory[v->index];
    else if (e->run.inputs)
        memory = e->run.inputs[v->index];
    if (!memory)
        return SR_FAIL(SR_E_ARGUMENT, "input slot %u is not bound to memory", v->index);
    *out = sr_device_kernel_address(e->device, memory);
    return SR_OK;
}

static sr_status fill_table(sr_executor *e, const sr_plan *plan) {
    unsigned char *range = sr_device_kernel_address(e->device, e->range);
    for (uint32_t i = 0; i < plan->value_count; i++)
        if (plan->values[i].root == i && plan->values[i].storage == SR_STORAGE_RANGE)
            e->table[i] = range + plan->values[i].offset;
    for (uint32_t i = 0; i < plan->outside_count; i++) {
        const uint32_t value = plan->outside[i].value;
        SR_TRY(address_of(e, plan, &plan->values[value], &e->table[value]));
    }
    return SR_OK;
}

static void fill_calls(sr_executor *e, const sr_plan *plan) {
    for (uint32_t t = 0; t < plan->launch_count; t++) {
        const sr_launch *l = &plan->launches[t];
        void **p = e->pointers + l->first_pointer;
        for (int i = 0; i < l->args; i++)
            p[i] = l->arg[i] == SR_REF_NONE ? NULL : e->table[plan->values[l->arg[i]].root];
    }
    for (uint32_t i = 0; i < plan->item_count; i++) {
        const sr_item *item = &plan->items[i];
        const sr_launch *l = &plan->launches[item->launch];
        const sr_shared_prepared *shared = &plan->prepared[l->prepared];
        e->calls[i] = (call){
            .run = shared->prepared.stage[item->stage].run,
            .args = {.p = e->pointers + l->first_pointer,
                     .params = shared->request.params,
                     .state = shared->prepared.state,
                     .workspace = l->workspace == SR_REF_NONE ? NULL : e->table[l->workspace],
                     .block_rows = item->block_rows},
            .blocks = item->blocks,
            .per_unit = item->per_unit};
    }
}

// Of a plan whose calls are filled, what lies elsewhere than in the replay before.
static sr_status fill_moved(sr_executor *e, const sr_plan *plan) {
    for (uint32_t i = 0; i < plan->outside_count; i++) {
        const sr_outside *o = &plan->outside[i];
        void *now = NULL;
        SR_TRY(address_of(e, plan, &plan->values[o->value], &now));
        if (now == e->table[o->value])
            continue;
        e->table[o->value] = now;
        for (uint32_t k = 0; k < o->use_count; k++)
            e->pointers[plan->uses[o->first_use + k]] = now;
    }
    return SR_OK;
}

static sr_status fill(sr_executor *e, const sr_plan *plan) {
    if (e->filled == plan->number)
        return fill_moved(e, plan);
    e->filled = 0;
    SR_TRY(grow(e, plan));
    SR_TRY(fill_table(e, plan));
    fill_calls(e, plan);
    e->filled = plan->number;
    return SR_OK;
}

static sr_status prepare_profile(sr_executor *e, const sr_plan *plan) {
    if (!e->profiling || e->profiled == plan->number)
        return SR_OK;
    void *rows = e->profile;
    SR_TRY(sr_grow(&rows, &e->profile_capacity, plan->launch_count, sizeof *e->profile, "profile"));
    e->profile = rows;
    for (uint32_t i = 0; i < plan->launch_count; i++) {
        const sr_launch *l = &plan->launches[i];
        e->profile[i] =
            (sr_node_profile){.op = l->op->name,
                              .kernel = plan->prepared[l->prepared].prepared.entry->name,
                              .flops = l->flops,
                              .bytes = l->bytes};
    }
    e->profiled = plan->number;
    e->profile_count = plan->launch_count;
    return SR_OK;
}

// ---- Replay (on the stream's thread) ----

typedef struct step_run {
    sr_executor *e;
    const sr_step *step;
} step_run;

static void keep_failure(sr_executor *e, sr_status status, uint32_t launch) {
    (void)pthread_mutex_lock(&e->lock);
    if (atomic_load_explicit(&e->failed, memory_order_relaxed) == SR_OK) {
        e->failure.status = SR_OK; // of an earlier run
        sr_error_keep(&e->failure, status);
        e->failed_launch = launch;
        atomic_store_explicit(&e->failed, (int)status, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

static inline void run_item(sr_executor *e, uint32_t number, int64_t unit, sr_worker *worker) {
    const call *c = &e->calls[number];
    int64_t end = (unit + 1) * c->per_unit;
    if (end > c->blocks)
        end = c->blocks;
    for (int64_t block = unit * c->per_unit; block < end; block++) {
        sr_status status = c->run(&c->args, block, worker);
        if (status != SR_OK)
            keep_failure(e, status, e->plan->items[number].launch);
    }
}

static void run_unit(void *user, int64_t unit, int worker) {
    const step_run *r = user;
    sr_worker w = {.index = worker, .scratch = r->e->scratch[worker]};
    for (uint32_t i = 0; i < r->step->count; i++)
        run_item(r->e, r->step->first + i, unit, &w);
}

static void run_unit_timed(void *user, int64_t unit, int worker) {
    const step_run *r = user;
    sr_worker w = {.index = worker, .scratch = r->e->scratch[worker]};
    int64_t start = sr_clock_ns();
    for (uint32_t i = 0; i < r->step->count; i++) {
        run_item(r->e, r->step->first + i, unit, &w);
        const int64_t end = sr_clock_ns();
        if (r->e->tracing)
            sr_executor_tracing_add(r->e->tracing, worker,
                                    r->e->plan->items[r->step->first + i].launch, start, end);
        if (r->e->profiling)
            r->e->shares[worker][i] += end - start;
        start = end;
    }
}

// Time of a step goes to its launches as the threads spent it.
static void add_profile(sr_executor *e, const sr_step *step, int64_t ns) {
    int64_t spent[SR_CHAIN_ITEMS] = {0}, all = 0;
    for (int w = 0; w < sr_stream_threads(e->stream); w++) {
        for (uint32_t i = 0; i < step->count; i++) {
            spent[i] += e->shares[w][i];
            all += e->shares[w][i];
            e->shares[w][i] = 0;
        }
    }
    for (uint32_t i = 0; i < step->count; i++) {
        const sr_item *item = &e->plan->items[step->first + i];
        sr_node_profile *row = &e->profile[item->launch];
        const double share = all ? (double)spent[i] / (double)all : 1.0 / step->count;
        row->ns += (int64_t)(share * (double)ns);
        row->runs += item->stage == 0;
    }
}

static sr_status run_step(sr_executor *e, const sr_step *step) {
    step_run r = {e, step};
    if (e->profiling || e->tracing) {
        const int64_t start = sr_clock_ns();
        sr_stream_team_run(e->stream, step->units, run_unit_timed, &r);
        if (e->profiling)
            add_profile(e, step, sr_clock_ns() - start);
    } else {
        sr_stream_team_run(e->stream, step->units, run_unit, &r);
    }
    sr_status status = (sr_status)atomic_load_explicit(&e->failed, memory_order_relaxed);
    if (status == SR_OK)
        return SR_OK;
    const sr_launch *l = &e->plan->launches[e->failed_launch];
    status = sr_error_restore(&e->failure);
    sr_error_prefix("%s:%d: %s", l->file, l->line, l->op->name);
    return status;
}

static sr_status deliver(sr_executor *e, const sr_sink_entry *sinks, uint32_t count) {
    for (uint32_t i = 0; e->run.sink && i < count; i++)
        SR_TRY(e->run.sink(e->run.user, (int)sinks[i].target,
                           e->table[e->plan->values[sinks[i].value].root],
                           e->plan->values[sinks[i].value].bytes));
    return SR_OK;
}

static sr_status replay(void *user) {
    sr_executor *e = user;
    const sr_plan *plan = e->plan;
    SR_TRY(deliver(e, plan->sinks, plan->leading_sinks));
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const sr_step *step = &plan->steps[i];
        SR_TRY(run_step(e, step));
        SR_TRY(deliver(e, plan->sinks + step->first_sink, step->sink_count));
    }
    return SR_OK;
}

sr_status sr_executor_begin(sr_executor *e, sr_plan *plan, const sr_run *run) {
    if (e->running)
        return SR_FAIL(SR_E_ARGUMENT, "sr_executor_begin: a replay is under way on this executor; "
                                      "sr_executor_wait for it first");
    e->plan = plan;
    e->run = *run;
    atomic_store_explicit(&e->failed, SR_OK, memory_order_relaxed);
    SR_TRY(fill(e, plan));
    SR_TRY(prepare_profile(e, plan));
    if (e->tracing)
        SR_TRY(sr_executor_tracing_begin(e->tracing, plan));
    SR_TRY(sr_stream_call(e->stream, replay, e));
    e->running = true;
    return SR_OK;
}

sr_status sr_executor_wait(sr_executor *e) {
    e->running = false;
    return sr_stream_wait(e->stream);
}

void sr_executor_set_profiling(sr_executor *e, bool on) {
    e->profiling = on;
    e->profiled = 0;
    e->profile_count = 0;
}

int sr_executor_get_profile(const sr_executor *e, sr_node_profile *rows, int capacity) {
    for (uint32_t i = 0; i < e->profile_count && (int)i < capacity; i++)
        rows[i] = e->profile[i];
    return (int)e->profile_count;
}

sr_status sr_executor_set_trace(sr_executor *e, sr_trace *trace, const char *name) {
    sr_executor_tracing_free(e->tracing);
    e->tracing = NULL;
    return trace
               ? sr_executor_tracing_create(trace, name, sr_stream_threads(e->stream), &e->tracing)
               : SR_OK;
}
