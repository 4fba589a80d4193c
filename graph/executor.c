// SPDX-License-Identifier: Apache-2.0
// Executors: replay of plans.
//
// All memory of an executor is one range that grows in place, so that every plan shares it and a
// replay allocates nothing. The addresses of a plan are kept for its next replay, which only checks
// which values outside the range have moved. Several executors replay plans of one context at the
// same time, one lane each.
#include "graph/executor_internal.h"

#define RANGE "values of plans" // in messages

sr_status sr_executor_create(sr_device *device, int threads, sr_executor **out) {
    sr_executor *e = sr_alloc(sizeof *e, "executor");
    if (!e)
        return SR_E_MEMORY;
    e->device = device;
    e->launcher =
        sr_device_get_properties(device)->asynchronous ? &sr_launcher_stream : &sr_launcher_cpu;
    const sr_status status = e->launcher->create(e, threads);
    if (status != SR_OK) {
        sr_executor_free(e);
        return status;
    }
    *out = e;
    return SR_OK;
}

void sr_executor_free(sr_executor *e) {
    if (!e)
        return;
    e->launcher->free(e);
    sr_device_free(e->device, e->range);
    sr_free(e->table);
    sr_free(e->arguments);
    sr_free(e->profiled);
    sr_free(e->profile);
    sr_executor_tracing_free(e->tracing);
    sr_executor_checking_free(e->checking);
    sr_free(e);
}

static sr_status grow_array(void **array, size_t *capacity, size_t need, size_t size) {
    return need <= *capacity ? SR_OK : sr_grow(array, capacity, need, size, "executor table");
}

#define GROW(e, array, capacity, need)                                                             \
    SR_TRY(grow_array((void **)&(e)->array, &(e)->capacity, (need), sizeof *(e)->array))

// Reserves addresses for all memory of the device, so that larger plans grow the range in place;
// where addresses are limited, only for this plan. No replay is running, so the content of the
// range is not needed.
static sr_status reserve_range(sr_executor *e, size_t bytes) {
    const sr_device_properties *device = sr_device_get_properties(e->device);
    const uint64_t total = device->memory;
    const bool exact = device->addresses_limited || total == UINT64_MAX;
    const size_t limit = exact || bytes > total ? bytes + 1 : (size_t)total;
    sr_device_free(e->device, e->range);
    e->range = sr_address_none();
    e->range_bytes = e->range_limit = 0;
    SR_TRY(sr_device_reserve(e->device, limit, RANGE, &e->range));
    e->range_limit = limit;
    return SR_OK;
}

static sr_status grow(sr_executor *e, const sr_plan *plan) {
    GROW(e, table, table_capacity, plan->value_count);
    GROW(e, arguments, argument_capacity, plan->arg_count);
    if (plan->range_bytes > e->range_limit || sr_address_is_none(e->range))
        SR_TRY(reserve_range(e, plan->range_bytes));
    if (plan->range_bytes > e->range_bytes) {
        const sr_status status = sr_device_commit(e->device, e->range, plan->range_bytes);
        if (status != SR_OK) {
            sr_error_prefix(RANGE);
            return status;
        }
        e->range_bytes = plan->range_bytes;
    }
    return SR_OK;
}

// The address of a value outside the range in this replay.
static sr_status address_of(const sr_executor *e, const sr_plan *plan, const sr_plan_value *v,
                            sr_address *out) {
    sr_address memory = sr_address_none();
    if (v->storage == SR_STORAGE_VARIABLE)
        memory = plan->variables[v->index];
    else if (v->storage == SR_STORAGE_MEMORY)
        memory = plan->memory[v->index];
    else if (e->run.inputs)
        memory = e->run.inputs[v->index];
    if (sr_address_is_none(memory))
        return SR_FAIL(SR_E_ARGUMENT, "input slot %u is not bound to memory", v->index);
    *out = memory;
    return SR_OK;
}

static sr_status fill_table(sr_executor *e, const sr_plan *plan) {
    for (uint32_t i = 0; i < plan->value_count; i++)
        if (plan->values[i].root == i && plan->values[i].storage == SR_STORAGE_RANGE)
            e->table[i] = sr_address_add(e->range, plan->values[i].offset);
    for (uint32_t i = 0; i < plan->outside_count; i++) {
        const uint32_t value = plan->outside[i].value;
        SR_TRY(address_of(e, plan, &plan->values[value], &e->table[value]));
    }
    return SR_OK;
}

static void fill_arguments(sr_executor *e, const sr_plan *plan) {
    for (uint32_t t = 0; t < plan->launch_count; t++) {
        const sr_launch *l = &plan->launches[t];
        for (int i = 0; i < l->args; i++)
            e->arguments[l->first_pointer + (uint32_t)i] =
                l->arg[i] == SR_REF_NONE ? sr_address_none()
                                         : e->table[plan->values[l->arg[i]].root];
    }
}

// Updates the filled tables of a plan: the values that have moved since the replay before.
static sr_status fill_moved(sr_executor *e, const sr_plan *plan) {
    for (uint32_t i = 0; i < plan->outside_count; i++) {
        const sr_outside *o = &plan->outside[i];
        sr_address now = sr_address_none();
        SR_TRY(address_of(e, plan, &plan->values[o->value], &now));
        if (sr_address_equal(now, e->table[o->value]))
            continue;
        e->table[o->value] = now;
        for (uint32_t k = 0; k < o->use_count; k++) {
            const uint32_t argument = plan->uses[o->first_use + k];
            e->arguments[argument] = now;
            SR_TRY(e->launcher->moved(e, argument));
        }
    }
    return SR_OK;
}

static sr_status fill(sr_executor *e, const sr_plan *plan) {
    const bool same = e->filled == plan->number;
    e->filled = 0;
    if (same) {
        SR_TRY(fill_moved(e, plan));
    } else {
        SR_TRY(grow(e, plan));
        SR_TRY(fill_table(e, plan));
        fill_arguments(e, plan);
        SR_TRY(e->launcher->prepare(e, plan));
    }
    e->filled = plan->number;
    return SR_OK;
}

static sr_status add_profile_rows(sr_executor *e, const sr_plan *plan) {
    GROW(e, profiled, profiled_capacity, e->profiled_count + 1);
    GROW(e, profile, profile_capacity, e->profile_count + plan->launch_count);
    for (uint32_t i = 0; i < plan->launch_count; i++) {
        const sr_launch *l = &plan->launches[i];
        e->profile[e->profile_count + i] =
            (sr_node_profile){.op = l->op->name,
                              .kernel = plan->prepared[l->prepared].prepared.entry->name,
                              .layer = l->layer.name,
                              .layer_length = l->layer.length,
                              .backward = l->backward,
                              .flops = l->flops,
                              .bytes = l->bytes};
    }
    e->profiled[e->profiled_count++] =
        (sr_profiled_plan){.number = plan->number, .first = e->profile_count};
    e->profile_count += plan->launch_count;
    return SR_OK;
}

static sr_status prepare_profile(sr_executor *e, const sr_plan *plan) {
    uint32_t i = 0;
    if (!e->profiling)
        return SR_OK;
    while (i < e->profiled_count && e->profiled[i].number != plan->number)
        i++;
    if (i == e->profiled_count)
        SR_TRY(add_profile_rows(e, plan));
    e->profile_first = e->profiled[i].first;
    return SR_OK;
}

static sr_status fail_begin(sr_executor *e, sr_status status) {
    sr_kept_error first = {.status = SR_OK};
    sr_error_keep(&first, status);
    sr_error_keep(&first, e->launcher->wait(e));
    return sr_error_restore(&first);
}

// Runs from step 'begin' to the present stop, or to the end.
static sr_status run_part(sr_executor *e, uint32_t begin) {
    const sr_plan *plan = e->plan;
    e->step_begin = begin;
    e->step_end = e->stop < plan->stop_count ? plan->stops[e->stop].end : plan->step_count;
    const sr_status status = e->launcher->replay(e);
    if (status != SR_OK) // part of the replay may be on the stream; the stream's own failure came
                         // after this one
        return fail_begin(e, status);
    e->running = true;
    return SR_OK;
}

sr_status sr_executor_begin(sr_executor *e, sr_plan *plan, const sr_run *run) {
    if (e->running)
        return SR_FAIL(SR_E_ARGUMENT, "sr_executor_begin: a replay is under way on this executor; "
                                      "sr_executor_wait for it first");
    if (plan->stop_count > 0 && !run->stops)
        return SR_FAIL(SR_E_UNSUPPORTED, "the program joins %lld lanes, so it cannot run alone",
                       (long long)plan->joins[0].lanes);
    e->plan = plan;
    e->run = *run;
    SR_TRY(fill(e, plan));
    SR_TRY(prepare_profile(e, plan));
    if (e->tracing)
        SR_TRY(sr_executor_tracing_begin(e->tracing, plan));
    e->stop = 0;
    return run_part(e, 0);
}

int sr_plan_stop_count(const sr_plan *plan) {
    return (int)plan->stop_count;
}

static sr_stop_value stop_value(const sr_executor *e, const sr_plan_join *join) {
    const sr_launch *l = &e->plan->launches[join->launch];
    sr_stop_value value = {.moments = l->op->join == SR_JOIN_MOMENTS, .lanes = join->lanes};
    for (int i = 0; i < l->op->outputs; i++) {
        const sr_plan_value *output = &e->plan->values[l->arg[l->op->inputs + i]];
        value.count = sr_info_count(&output->info);
        value.data[i] = e->table[output->root];
    }
    return value;
}

int sr_executor_stop(const sr_executor *e, sr_stop_value values[SR_STOP_VALUES]) {
    if (e->stop >= e->plan->stop_count)
        return 0;
    const sr_plan_stop *stop = &e->plan->stops[e->stop];
    for (uint32_t i = 0; i < stop->count; i++)
        values[i] = stop_value(e, &e->plan->joins[stop->first + i]);
    return (int)stop->count;
}

sr_status sr_executor_continue(sr_executor *e) {
    if (e->running || e->stop >= e->plan->stop_count)
        return SR_FAIL(SR_E_ARGUMENT, "sr_executor_continue: the replay is not waiting at a stop");
    return run_part(e, e->plan->stops[e->stop++].end);
}

sr_status sr_executor_wait(sr_executor *e) {
    e->running = false;
    return e->launcher->wait(e);
}

void sr_executor_set_profiling(sr_executor *e, bool on) {
    e->profiling = on;
    e->profiled_count = e->profile_count = 0;
}

int sr_executor_get_profile(const sr_executor *e, sr_node_profile *rows, int capacity) {
    for (uint32_t i = 0; i < e->profile_count && (int)i < capacity; i++)
        rows[i] = e->profile[i];
    return (int)e->profile_count;
}

sr_status sr_executor_set_trace(sr_executor *e, sr_trace *trace, const char *name) {
    sr_executor_tracing_free(e->tracing);
    e->tracing = NULL;
    return trace ? sr_executor_tracing_create(trace, name, e->launcher->workers(e), &e->tracing)
                 : SR_OK;
}
