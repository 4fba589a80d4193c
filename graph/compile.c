// SPDX-License-Identifier: Apache-2.0
// Compiles a canonical program to a plan: chooses and prepares kernels, finds the lifetimes of
// values, runs the passes. This happens once per distinct program.
//
// The order is that of the recording, except for launches that pass_chain.c moves before a chain. A
// target is passed to the sink after the step that completes it and, if it has an 'after' variable,
// after the last step that reads that variable; on devices that run beside the host it waits for
// the others of its group.
#include <stdatomic.h>
#include <string.h>

#include "graph/plan_internal.h"
#include "kernels/base/clock.h"
#include "kernels/kernel_lanes.h"

void sr_plan_free(sr_plan *plan) {
    if (!plan)
        return;
    for (uint32_t i = 0; i < plan->prepared_count; i++)
        sr_prepared_release(&plan->prepared[i].prepared);
    sr_arena_release(&plan->arena);
    sr_free(plan);
}

static sr_status take(sr_plan *plan, void **out, size_t count, size_t size) {
    *out = sr_arena_alloc(&plan->arena, (count ? count : 1) * size);
    return *out ? SR_OK : SR_E_MEMORY;
}

#define TAKE(plan, field, count)                                                                   \
    SR_TRY(take((plan), (void **)&(plan)->field, (count), sizeof *(plan)->field))

// How many lanes join the outputs of a node; 1: none but its own.
static int64_t join_lanes(const sr_program *p, const sr_program_node *node) {
    int64_t lanes = 1;
    if (node->op->join != SR_JOIN_NONE)
        memcpy(&lanes, p->attrs + node->attr + node->op->join_lanes, sizeof lanes);
    return lanes;
}

static size_t count_joins(const sr_program *p) {
    size_t count = 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        count += join_lanes(p, &p->nodes[i]) > 1;
    return count;
}

static sr_status allocate(const sr_context *context, sr_plan *plan) {
    const sr_program *p = context->recording.program;
    TAKE(plan, program, p->byte_count);
    // And at most a workspace for each node, and something packed for two.
    TAKE(plan, values, p->value_count + p->node_count + p->node_count / 2);
    TAKE(plan, launches, p->node_count);
    TAKE(plan, items, p->node_count * SR_KERNEL_STAGES);
    TAKE(plan, steps, p->node_count * SR_KERNEL_STAGES);
    TAKE(plan, prepared, p->node_count);
    TAKE(plan, joins, count_joins(p));
    TAKE(plan, stops, count_joins(p));
    TAKE(plan, sinks, p->target_count);
    TAKE(plan, target_strides, p->target_count);
    TAKE(plan, memory, p->memory_count);
    TAKE(plan, variables, context->variable_count);
    memcpy(plan->program, p->bytes, p->byte_count);
    plan->program_bytes = p->byte_count;
    plan->hash = p->hash;
    plan->lanes = p->lanes;
    plan->memory_count = (uint32_t)p->memory_count;
    plan->variable_count = (uint32_t)context->variable_count;
    plan->variable_moves = UINT64_MAX; // not filled yet
    return SR_OK;
}

static void store_leaf(sr_plan_value *value, const sr_program_value *leaf) {
    static const sr_storage storages[] = {[SR_LEAF_VARIABLE] = SR_STORAGE_VARIABLE,
                                          [SR_LEAF_INPUT] = SR_STORAGE_INPUT,
                                          [SR_LEAF_MEMORY] = SR_STORAGE_MEMORY};
    value->storage = storages[leaf->leaf_kind];
    value->index = leaf->leaf;
    value->pinned = true;
}

// Leaves that a node of the program updates in place.
static void mark_updated(const sr_program *p, sr_plan *plan) {
    for (uint32_t i = 0; i < p->node_count; i++)
        for (int k = 0; k < p->nodes[i].op->inputs; k++)
            if ((p->nodes[i].op->updates >> k & 1) && p->nodes[i].input[k] != SR_REF_NONE)
                plan->values[p->nodes[i].input[k]].updated = true;
}

// Values and their roots: an alias shares the memory of its input. A kept alias is its own root and
// gets a copy; so is an alias of a variable that the program updates, as it has the value before
// the update.
static void make_values(const sr_program *p, sr_plan *plan) {
    plan->value_count = (uint32_t)p->value_count;
    for (uint32_t i = 0; i < plan->value_count; i++) {
        sr_plan_value *v = &plan->values[i];
        const sr_program_value *from = &p->values[i];
        const size_t bytes = sr_info_bytes(&from->info);
        *v = (sr_plan_value){.info = from->info,
                             .bytes = bytes,
                             .lane_bytes = bytes,
                             .lanes = 1,
                             .root = i,
                             .first = SR_NO_STEP};
        if (from->node == SR_REF_NONE)
            store_leaf(v, from);
    }
    mark_updated(p, plan);
    for (uint32_t i = 0; i < plan->value_count; i++) {
        sr_plan_value *v = &plan->values[i];
        const sr_program_value *from = &p->values[i];
        if (from->kept) {
            v->storage = SR_STORAGE_MEMORY;
            v->index = from->kept - 1;
            v->pinned = true;
        } else if (from->node != SR_REF_NONE && p->nodes[from->node].op->alias) {
            const uint32_t root = plan->values[p->nodes[from->node].input[0]].root;
            v->root = plan->values[root].updated ? i : root;
        }
    }
}

// ---- Lanes ----

static bool node_varies(const sr_plan *plan, const sr_program_node *node) {
    bool varies = false;
    for (int i = 0; i < node->op->inputs; i++)
        varies |= node->input[i] != SR_REF_NONE && plan->values[node->input[i]].lanes > 1;
    return varies;
}

static void give_each_lane(const sr_plan *plan, sr_plan_value *v) {
    v->lanes = plan->lanes;
    v->bytes = plan->lanes * sr_lane_stride(v->lane_bytes);
}

// What depends on an input has a value for each lane.
static sr_status mark_lanes(const sr_program *p, sr_plan *plan) {
    for (uint32_t i = 0; i < plan->value_count && plan->lanes > 1; i++)
        if (plan->values[i].storage == SR_STORAGE_INPUT)
            give_each_lane(plan, &plan->values[i]);
    for (uint32_t i = 0; i < p->node_count && plan->lanes > 1; i++) {
        const sr_program_node *node = &p->nodes[i];
        if (!node_varies(plan, node))
            continue;
        for (int k = 0; k < node->op->outputs; k++)
            if (node->output[k] != SR_REF_NONE)
                give_each_lane(plan, &plan->values[node->output[k]]);
        if (join_lanes(p, node) > 1 || node->op->updates)
            return SR_FAIL(SR_E_UNSUPPORTED, "%s cannot run for lanes side by side",
                           node->op->name);
    }
    for (uint32_t i = 0; i < plan->value_count; i++)
        if (plan->values[i].lanes > 1 && plan->values[i].storage == SR_STORAGE_MEMORY)
            return SR_FAIL(SR_E_UNSUPPORTED, "a value of lanes side by side cannot be kept");
    return SR_OK;
}

// The arguments of which each lane has its own; apart: those that do not lie behind each other.
static uint32_t find_varying(const sr_plan *plan, const sr_launch *l, uint16_t *apart) {
    uint32_t varies = 0;
    for (int i = 0; i < l->args; i++) {
        if (l->arg[i] == SR_REF_NONE || plan->values[l->arg[i]].lanes == 1)
            continue;
        varies |= 1U << i;
        if (plan->values[l->arg[i]].lane_bytes % SR_LANE_ALIGN != 0)
            *apart |= (uint16_t)(1U << i);
    }
    return varies;
}

// Makes the request that of all lanes, or lets the kernel run for each of them.
static void join_request(const sr_plan *plan, sr_launch *launch, sr_kernel_request *request) {
    sr_kernel_request lane = *request, joined;
    const uint32_t varies = find_varying(plan, launch, &lane.apart);
    launch->runs = 1;
    if (varies == 0)
        return;
    if (sr_kernel_join_lanes(&lane, (int)plan->lanes, varies, &joined))
        *request = joined;
    else
        launch->runs = plan->lanes;
}

// Equal requests share one prepared kernel, whose state is immutable.
static sr_status prepare(sr_plan *plan, const sr_kernel_request *request, uint32_t *out) {
    for (uint32_t i = 0; i < plan->prepared_count; i++) {
        if (memcmp(&plan->prepared[i].request, request, sizeof *request) == 0) {
            *out = i;
            return SR_OK;
        }
    }
    sr_shared_prepared *shared = &plan->prepared[plan->prepared_count];
    shared->request = *request;
    const int64_t start = sr_clock_ns();
    SR_TRY(sr_kernel_prepare(request, &shared->prepared));
    plan->prepare_ns += sr_clock_ns() - start;
    if (shared->prepared.scratch > plan->scratch_bytes)
        plan->scratch_bytes = shared->prepared.scratch;
    *out = plan->prepared_count++;
    return SR_OK;
}

// Each run of a launch has a workspace of its own, so that they may run side by side.
static uint32_t add_workspace(sr_plan *plan, size_t bytes, uint32_t runs) {
    if (!bytes)
        return SR_REF_NONE;
    uint32_t number = plan->value_count++;
    plan->values[number] = (sr_plan_value){
        .info = {.dtype = SR_U8, .rank = 1}, .lanes = runs, .root = number, .first = SR_NO_STEP};
    sr_plan_set_workspace(&plan->values[number], bytes);
    return number;
}

static void touch(sr_plan *plan, uint32_t value, uint32_t launch) {
    sr_plan_value *root = &plan->values[plan->values[value].root];
    if (root->first == SR_NO_STEP)
        root->first = launch;
    root->last = launch;
}

static void count_cost(const sr_node_view *view, double lanes, sr_launch *launch) {
    for (int i = 0; i < view->inputs; i++)
        if (view->in[i].dtype != SR_DTYPE_COUNT)
            launch->bytes += (double)sr_info_bytes(&view->in[i]);
    for (int i = 0; i < view->op->outputs; i++)
        if (view->out[i].dtype != SR_DTYPE_COUNT)
            launch->bytes += (double)sr_info_bytes(&view->out[i]);
    if (view->op->cost)
        view->op->cost(view, &launch->flops, &launch->bytes);
    launch->flops *= lanes;
    launch->bytes *= lanes;
}

// An alias usually needs no kernel; it needs a copy only if it is its own root.
static bool needs_launch(const sr_plan *plan, const sr_program_node *node) {
    return !node->op->alias || plan->values[node->output[0]].root == node->output[0];
}

static sr_status add_join(const sr_program *p, sr_plan *plan, const sr_program_node *node,
                          sr_launch *launch) {
    const int64_t lanes = join_lanes(p, node);
    if (lanes < 2)
        return SR_OK;
    if (node->op->outputs != (node->op->join == SR_JOIN_MOMENTS ? 2 : 1))
        return SR_FAIL(SR_E_UNSUPPORTED, "%s:%d: %s: lanes join %s, not %d outputs", launch->file,
                       launch->line, node->op->name,
                       node->op->join == SR_JOIN_MOMENTS ? "mean and variance" : "one output",
                       node->op->outputs);
    for (int i = 0; i < node->op->outputs; i++)
        if (p->values[node->output[i]].info.dtype != SR_F32)
            return SR_FAIL(SR_E_UNSUPPORTED, "%s:%d: %s: lanes join values of f32, not of %s",
                           launch->file, launch->line, node->op->name,
                           sr_dtype_name(p->values[node->output[i]].info.dtype));
    launch->joins = true;
    plan->joins[plan->join_count++] = (sr_plan_join){.launch = plan->launch_count, .lanes = lanes};
    return SR_OK;
}

// The origin of a launch, for reports.
typedef struct origin {
    sr_layer layer;
    bool backward;
} origin;

static sr_status add_launch(const sr_context *context, const origin *from, sr_plan *plan,
                            uint32_t index) {
    const sr_program *p = context->recording.program;
    const sr_program_node *node = &p->nodes[index];
    const sr_node *recorded = &context->recording.nodes[node->recorded];
    if (!needs_launch(plan, node))
        return SR_OK;
    sr_view_arrays arrays = {0};
    sr_node_view view;
    sr_kernel_request request;
    sr_status status = sr_node_request(context, node, &arrays, &view, &request);
    sr_launch *launch = &plan->launches[plan->launch_count];
    *launch = (sr_launch){.op = node->op,
                          .file = recorded->file,
                          .line = recorded->line,
                          .layer = from->layer,
                          .backward = from->backward,
                          .packed = SR_REF_NONE};
    launch->args = request.args;
    launch->first_pointer = plan->arg_count;
    plan->arg_count += (uint32_t)launch->args;
    for (int i = 0; i < view.inputs; i++)
        launch->arg[i] = node->input[i];
    for (int i = 0; i < node->op->outputs; i++)
        launch->arg[view.inputs + i] = node->output[i];
    if (status == SR_OK) {
        join_request(plan, launch, &request);
        status = prepare(plan, &request, &launch->prepared);
    }
    if (status != SR_OK) {
        sr_error_prefix("%s:%d: %s", recorded->file, recorded->line, node->op->name);
        return status;
    }
    launch->workspace =
        add_workspace(plan, plan->prepared[launch->prepared].prepared.workspace, launch->runs);
    for (int i = 0; i < launch->args; i++)
        if (launch->arg[i] != SR_REF_NONE)
            touch(plan, launch->arg[i], plan->launch_count);
    if (launch->workspace != SR_REF_NONE)
        touch(plan, launch->workspace, plan->launch_count);
    SR_TRY(add_join(p, plan, node, launch));
    count_cost(&view, node_varies(plan, node) ? plan->lanes : 1, launch);
    plan->flops += launch->flops;
    plan->bytes += launch->bytes;
    plan->launch_count++;
    return SR_OK;
}

static void mark_targets(const sr_program *p, sr_plan *plan) {
    for (uint32_t t = 0; t < p->target_count; t++)
        plan->values[plan->values[p->targets[t].value].root].delivered = true;
}

// When targets are complete. Steps are numbered from 1 here; 0 is before all of them.
typedef struct positions {
    uint32_t *written; // last step that writes a root
    uint32_t *read;    // last step that accesses a variable
    uint32_t *target;  // step after which a target may be passed to the sink
    uint32_t *next;    // next free entry of a step in plan->sinks
} positions;

static void find_last_uses(const sr_plan *plan, const positions *at) {
    for (uint32_t n = 0; n < plan->step_count; n++) {
        const sr_step *step = &plan->steps[n];
        for (uint32_t i = step->first; i < step->first + step->count; i++) {
            const sr_launch *l = &plan->launches[plan->items[i].launch];
            for (int k = 0; k < l->args; k++) {
                if (!sr_item_touches(plan, &plan->items[i], k))
                    continue;
                const uint32_t root = plan->values[l->arg[k]].root;
                if (k >= l->op->inputs)
                    at->written[root] = n + 1;
                if (plan->values[root].storage == SR_STORAGE_VARIABLE)
                    at->read[plan->values[root].index] = n + 1;
            }
        }
    }
}

// A target waits for the step that completes it and for the last reader of its 'after' variable.
static void schedule_target(const sr_program *p, sr_plan *plan, const positions *at, uint32_t t) {
    const sr_program_target *target = &p->targets[t];
    uint32_t step = at->written[plan->values[target->value].root];
    if (target->after != SR_REF_NONE && at->read[target->after] > step)
        step = at->read[target->after];
    plan->target_strides[t] = sr_plan_stride(&plan->values[target->value]);
    at->target[t] = step;
}

// Sorts the targets by their steps.
static void list_sinks(const sr_program *p, sr_plan *plan, const positions *at) {
    memset(at->next, 0, ((size_t)plan->step_count + 1) * sizeof *at->next);
    plan->sink_count = 0;
    for (uint32_t t = 0; t < p->target_count; t++)
        at->next[at->target[t]]++;
    for (uint32_t n = 0; n <= plan->step_count; n++) {
        const uint32_t count = at->next[n];
        if (n == 0)
            plan->leading_sinks = count;
        else
            plan->steps[n - 1].first_sink = plan->sink_count;
        if (n > 0)
            plan->steps[n - 1].sink_count = count;
        at->next[n] = plan->sink_count;
        plan->sink_count += count;
    }
    for (uint32_t t = 0; t < p->target_count; t++)
        plan->sinks[at->next[at->target[t]]++] = (sr_sink_entry){t, p->targets[t].value};
}

// ---- Groups of targets ----

// Most bytes of the targets of a group, of one lane, that wait for another of them: those of a
// bucket of the exchange, with what reaches beyond it.
enum { MOST_WAITING = 8 << 20 };

// The targets of a group, in the order of their steps, that wait for one another.
typedef struct waiting_targets {
    uint32_t first, step; // of plan->sinks; of the last one
    size_t bytes;
} waiting_targets;

// Targets of the group among sinks [first, end) are delivered together.
static void deliver_together(const sr_program *p, const sr_plan *plan, const positions *at,
                             uint32_t group, const waiting_targets *w, uint32_t end) {
    for (uint32_t i = w->first; i < end; i++) {
        const uint32_t t = plan->sinks[i].target;
        if (p->targets[t].group == group && at->target[t] > 0)
            at->target[t] = w->step;
    }
}

static void gather_group(const sr_program *p, const sr_plan *plan, const positions *at,
                         uint32_t group) {
    waiting_targets w = {0};
    for (uint32_t i = plan->leading_sinks; i < plan->sink_count; i++) {
        const uint32_t t = plan->sinks[i].target;
        const size_t bytes = plan->values[plan->sinks[i].value].lane_bytes;
        if (p->targets[t].group != group)
            continue;
        if (w.bytes > 0 && w.bytes + bytes > MOST_WAITING) {
            deliver_together(p, plan, at, group, &w, i);
            w = (waiting_targets){.first = i};
        }
        w.bytes += bytes;
        w.step = at->target[t];
    }
    deliver_together(p, plan, at, group, &w, plan->sink_count);
}

static void gather_groups(const sr_program *p, const sr_plan *plan, const positions *at) {
    uint32_t groups = 0;
    for (uint32_t t = 0; t < p->target_count; t++)
        groups = p->targets[t].group > groups ? p->targets[t].group : groups;
    for (uint32_t group = 1; group <= groups; group++)
        gather_group(p, plan, at, group);
}

// Targets stay alive until they are delivered.
static void keep_alive(const sr_program *p, sr_plan *plan, const positions *at) {
    for (uint32_t t = 0; t < p->target_count; t++) {
        sr_plan_value *root = &plan->values[plan->values[p->targets[t].value].root];
        const uint32_t step = at->target[t];
        if (step > 0 && root->first != SR_NO_STEP && step - 1 > root->last)
            root->last = step - 1;
    }
}

static void schedule_sinks(const sr_program *p, sr_plan *plan, const positions *at) {
    find_last_uses(plan, at);
    for (uint32_t t = 0; t < p->target_count; t++)
        schedule_target(p, plan, at, t);
    list_sinks(p, plan, at);
    if (plan->asynchronous) {
        gather_groups(p, plan, at);
        list_sinks(p, plan, at);
    }
    keep_alive(p, plan, at);
}

static sr_status add_sinks(const sr_program *p, sr_plan *plan) {
    sr_status status = SR_E_MEMORY;
    const positions at = {
        sr_alloc_array(plan->value_count + 1, sizeof *at.written, "plan"),
        sr_alloc_array(plan->variable_count + 1, sizeof *at.read, "plan"),
        sr_alloc_array(p->target_count + 1, sizeof *at.target, "plan"),
        sr_alloc_array(plan->step_count + 1, sizeof *at.next, "plan"),
    };
    if (at.written && at.read && at.target && at.next) {
        schedule_sinks(p, plan, &at);
        status = SR_OK;
    }
    sr_free(at.written);
    sr_free(at.read);
    sr_free(at.target);
    sr_free(at.next);
    return status;
}

static sr_status add_launches(const sr_context *context, sr_plan *plan) {
    const sr_program *p = context->recording.program;
    sr_layer *layers = sr_alloc_array((size_t)sr_call_count(context) + 1, sizeof *layers, "layers");
    sr_status status = layers ? sr_call_layers(context, layers) : SR_E_MEMORY;
    uint32_t newest = 0;
    for (uint32_t i = 0; status == SR_OK && i < p->node_count; i++) {
        // Calls are in order; a call that appears a second time is a recomputation
        // (pass_recompute.c).
        const uint32_t call = p->nodes[i].recorded;
        const origin from = {layers[call],
                             call < newest || context->recording.nodes[call].source != 0};
        newest = call > newest ? call : newest;
        status = add_launch(context, &from, plan, i);
    }
    sr_free(layers);
    return status;
}

static sr_status compile(const sr_context *context, sr_plan *plan) {
    const sr_program *p = context->recording.program;
    SR_TRY(allocate(context, plan));
    make_values(p, plan);
    SR_TRY(mark_lanes(p, plan));
    plan->first_workspace = plan->value_count;
    SR_TRY(add_launches(context, plan));
    sr_pass_packing(plan);
    mark_targets(p, plan);
    plan->optimize = context->optimize >= 0;
    plan->asynchronous = sr_device_get_properties(context->device)->asynchronous;
    if (plan->optimize)
        sr_pass_in_place(plan);
    sr_pass_chain(plan);
    SR_TRY(add_sinks(p, plan));
    SR_TRY(sr_pass_memory(plan));
    return sr_pass_outside(plan);
}

sr_status sr_plan_compile(sr_context *context, sr_plan **out) {
    sr_plan *plan = sr_alloc(sizeof *plan, "plan");
    if (!plan)
        return SR_E_MEMORY;
    static _Atomic uint64_t plans;
    plan->number = atomic_fetch_add_explicit(&plans, 1, memory_order_relaxed) + 1;
    sr_arena_init(&plan->arena);
    sr_status status = SR_OK;
    if (context->optimize >= 0 && context->recomputes)
        status = sr_pass_recompute(context->recording.program);
    const bool launches = sr_device_get_properties(context->device)->asynchronous;
    if (status == SR_OK && context->optimize >= 0 && launches)
        status = sr_pass_fuse(context);
    if (status == SR_OK && launches) // of plans that are checked, too: it decides bits
        status = sr_pass_prologue(context);
    if (status == SR_OK)
        status = compile(context, plan);
    if (status != SR_OK) {
        sr_plan_free(plan);
        return status;
    }
    *out = plan;
    return SR_OK;
}

int sr_plan_lanes(const sr_plan *plan) {
    return (int)plan->lanes;
}
size_t sr_plan_target_stride(const sr_plan *plan, int target) {
    return plan->target_strides[target];
}
size_t sr_plan_peak_bytes(const sr_plan *plan) {
    return plan->range_bytes;
}
size_t sr_plan_live_bound_bytes(const sr_plan *plan) {
    return plan->live_bound;
}
int sr_plan_node_count(const sr_plan *plan) {
    return (int)plan->launch_count;
}
double sr_plan_flops(const sr_plan *plan) {
    return plan->flops;
}
double sr_plan_bytes(const sr_plan *plan) {
    return plan->bytes;
}
