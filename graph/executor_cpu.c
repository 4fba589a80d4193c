// SPDX-License-Identifier: Apache-2.0
// The launcher of CPUs: a replay is one call on the stream's thread, which walks the steps of the
// plan. The units of each step are divided over the team, and a unit is blocks of one stage or of
// several in turn. Sinks are called on that thread with a direct stream, so that what they do to a
// target is done while it is in the cache.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "graph/executor_internal.h"
#include "kernels/base/clock.h"
#include "kernels/device/cpu_stream.h"

// An item of the plan, ready to run.
typedef struct call {
    sr_kernel_fn run;
    sr_kernel_args args;
    int64_t blocks, per_unit;
} call;

typedef struct cpu_launcher {
    sr_executor *executor;
    sr_stream *sink_stream; // direct
    void **pointers;        // those of the arguments of every launch
    size_t pointer_capacity;
    call *calls; // of every item
    size_t call_capacity;

    // The first failing block of a step, carried from its thread to the stream's.
    pthread_mutex_t lock;
    atomic_int failed;
    uint32_t failed_launch;
    sr_kept_error failure; // under lock

    int64_t (*shares)[SR_CHAIN_ITEMS]; // per worker: time in each item of a step
} cpu_launcher;

static cpu_launcher *own(const sr_executor *e) {
    return e->state;
}

static sr_status create(sr_executor *e, int threads) {
    cpu_launcher *l = sr_alloc(sizeof *l, "executor");
    if (!l)
        return SR_E_MEMORY;
    (void)pthread_mutex_init(&l->lock, NULL);
    l->executor = e;
    e->state = l;
    const sr_stream_options team = {.threads = threads}, sinks = {.direct = true};
    SR_TRY(sr_stream_create(e->device, &team, &e->stream));
    SR_TRY(sr_stream_create(e->device, &sinks, &l->sink_stream));
    l->shares =
        sr_alloc_array((size_t)sr_cpu_stream_threads(e->stream), sizeof *l->shares, "profile");
    return l->shares ? SR_OK : SR_E_MEMORY;
}

static void release(sr_executor *e) {
    cpu_launcher *l = own(e);
    sr_stream_free(e->stream);
    if (!l)
        return;
    sr_stream_free(l->sink_stream);
    sr_free(l->pointers);
    sr_free(l->calls);
    sr_free(l->shares);
    (void)pthread_mutex_destroy(&l->lock);
    sr_free(l);
}

static int workers(const sr_executor *e) {
    return sr_cpu_stream_threads(e->stream);
}

// ---- Preparing a replay (on the caller's thread) ----

static sr_status pointer_of(const sr_executor *e, sr_address address, void **out) {
    *out = NULL;
    return sr_address_is_none(address) ? SR_OK : sr_cpu_pointer(e->device, address, out);
}

static sr_status fill_call(const sr_executor *e, const sr_plan *plan, uint32_t i) {
    const sr_item *item = &plan->items[i];
    const sr_launch *launch = &plan->launches[item->launch];
    const sr_shared_prepared *shared = &plan->prepared[launch->prepared];
    call *c = &own(e)->calls[i];
    *c = (call){.run = shared->prepared.stage[item->stage].run,
                .args = {.p = own(e)->pointers + launch->first_pointer,
                         .params = shared->request.params,
                         .state = shared->prepared.state,
                         .block_rows = item->block_rows},
                .blocks = item->blocks,
                .per_unit = item->per_unit};
    return pointer_of(e, sr_executor_workspace(e, launch, 0), &c->args.workspace);
}

static sr_status prepare(sr_executor *e, const sr_plan *plan) {
    cpu_launcher *l = own(e);
    void *pointers = l->pointers, *calls = l->calls;
    SR_TRY(sr_grow(&pointers, &l->pointer_capacity, plan->arg_count, sizeof *l->pointers,
                   "executor table"));
    l->pointers = pointers;
    SR_TRY(
        sr_grow(&calls, &l->call_capacity, plan->item_count, sizeof *l->calls, "executor table"));
    l->calls = calls;
    SR_TRY(sr_cpu_stream_reserve_scratch(e->stream, plan->scratch_bytes));
    for (uint32_t i = 0; i < plan->arg_count; i++)
        SR_TRY(pointer_of(e, e->arguments[i], &l->pointers[i]));
    for (uint32_t i = 0; i < plan->item_count; i++)
        SR_TRY(fill_call(e, plan, i));
    return SR_OK;
}

static sr_status moved(sr_executor *e, uint32_t index) {
    return pointer_of(e, e->arguments[index], &own(e)->pointers[index]);
}

// ---- Replay (on the stream's thread) ----

typedef struct step_run {
    sr_executor *e;
    cpu_launcher *l;
    const sr_step *step;
} step_run;

static void keep_failure(cpu_launcher *l, sr_status status, uint32_t launch) {
    (void)pthread_mutex_lock(&l->lock);
    if (atomic_load_explicit(&l->failed, memory_order_relaxed) == SR_OK) {
        l->failure.status = SR_OK; // of an earlier run
        sr_error_keep(&l->failure, status);
        l->failed_launch = launch;
        atomic_store_explicit(&l->failed, (int)status, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

static inline void run_item(const step_run *r, uint32_t number, int64_t unit, sr_worker *worker) {
    const call *c = &r->l->calls[number];
    int64_t end = (unit + 1) * c->per_unit;
    if (end > c->blocks)
        end = c->blocks;
    for (int64_t block = unit * c->per_unit; block < end; block++) {
        sr_status status = c->run(&c->args, block, worker);
        if (status != SR_OK)
            keep_failure(r->l, status, r->e->plan->items[number].launch);
    }
}

static void run_unit(void *user, int64_t unit, int worker) {
    const step_run *r = user;
    sr_worker w = {.index = worker, .scratch = sr_cpu_stream_scratch(r->e->stream, worker)};
    for (uint32_t i = 0; i < r->step->count; i++)
        run_item(r, r->step->first + i, unit, &w);
}

static void run_unit_timed(void *user, int64_t unit, int worker) {
    const step_run *r = user;
    const sr_executor *e = r->e;
    sr_worker w = {.index = worker, .scratch = sr_cpu_stream_scratch(e->stream, worker)};
    int64_t start = sr_clock_ns();
    for (uint32_t i = 0; i < r->step->count; i++) {
        run_item(r, r->step->first + i, unit, &w);
        const int64_t end = sr_clock_ns();
        if (e->tracing)
            sr_executor_tracing_add(e->tracing, worker, e->plan->items[r->step->first + i].launch,
                                    start, end);
        if (e->profiling)
            r->l->shares[worker][i] += end - start;
        start = end;
    }
}

// The time of a step is attributed to its launches in proportion to what its threads spent in them.
static void add_profile(const step_run *r, int64_t ns) {
    int64_t spent[SR_CHAIN_ITEMS] = {0}, all = 0;
    for (int w = 0; w < workers(r->e); w++) {
        for (uint32_t i = 0; i < r->step->count; i++) {
            spent[i] += r->l->shares[w][i];
            all += r->l->shares[w][i];
            r->l->shares[w][i] = 0;
        }
    }
    for (uint32_t i = 0; i < r->step->count; i++) {
        const sr_item *item = &r->e->plan->items[r->step->first + i];
        sr_node_profile *row = &r->e->profile[r->e->profile_first + item->launch];
        const double share = all ? (double)spent[i] / (double)all : 1.0 / r->step->count;
        row->ns += (int64_t)(share * (double)ns);
        row->runs += item->stage == 0;
    }
}

static sr_status run_step(sr_executor *e, const sr_step *step) {
    step_run r = {e, own(e), step};
    if (e->profiling || e->tracing) {
        const int64_t start = sr_clock_ns();
        sr_cpu_team_run(e->stream, step->units, run_unit_timed, &r);
        if (e->profiling)
            add_profile(&r, sr_clock_ns() - start);
    } else {
        sr_cpu_team_run(e->stream, step->units, run_unit, &r);
    }
    sr_status status = (sr_status)atomic_load_explicit(&r.l->failed, memory_order_relaxed);
    if (status == SR_OK)
        return SR_OK;
    const sr_launch *launch = &e->plan->launches[r.l->failed_launch];
    status = sr_error_restore(&r.l->failure);
    sr_error_prefix("%s:%d: %s", launch->file, launch->line, launch->op->name);
    return status;
}

static sr_status fetch(sr_executor *e, sr_address value, size_t bytes, const void **out) {
    void *pointer = NULL;
    (void)bytes;
    SR_TRY(pointer_of(e, value, &pointer));
    *out = pointer;
    return SR_OK;
}

static sr_status run_steps(sr_executor *e) {
    const sr_plan *plan = e->plan;
    if (e->checking && e->step_begin == 0)
        SR_TRY(sr_executor_check_leaves(e, fetch));
    SR_TRY(sr_executor_deliver_first(e, own(e)->sink_stream));
    for (uint32_t i = e->step_begin; i < e->step_end; i++) {
        SR_TRY(run_step(e, &plan->steps[i]));
        if (e->checking)
            SR_TRY(sr_executor_check_step(e, i, fetch));
        SR_TRY(sr_executor_deliver_step(e, i, own(e)->sink_stream));
    }
    return SR_OK;
}

static sr_status run_plan(void *user) {
    sr_executor *e = user;
    sr_kept_error first = {.status = SR_OK};
    sr_error_keep(&first, run_steps(e));
    sr_error_keep(&first, sr_stream_wait(own(e)->sink_stream));
    return sr_error_restore(&first);
}

static sr_status replay(sr_executor *e) {
    atomic_store_explicit(&own(e)->failed, SR_OK, memory_order_relaxed);
    return sr_cpu_stream_call(e->stream, run_plan, e);
}

static sr_status wait(sr_executor *e) {
    return sr_stream_wait(e->stream);
}

const sr_launcher sr_launcher_cpu = {
    .create = create,
    .free = release,
    .prepare = prepare,
    .moved = moved,
    .replay = replay,
    .wait = wait,
    .workers = workers,
};
