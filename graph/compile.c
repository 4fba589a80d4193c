// SPDX-License-Identifier: Apache-2.0
// From a canonical program to a plan: kernels are chosen and prepared, lives of values found,
// passes run. Everything here happens once per distinct record.
//
// Order is the record's own, but for what pass_chain.c puts before a chain. A target is handed to
// the sink after the step that completes it and, where it has one, after the last step that reads
// its 'after' variable.
#include <stdatomic.h>
#include <string.h>

#include "graph/plan_internal.h"

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

static sr_status allocate(const sr_context *context, sr_plan *plan) {
    const sr_program *p = context->program;
    TAKE(plan, record, p->byte_count);
    TAKE(plan, values, p->value_count + p->node_count); // and one workspace a node at most
    TAKE(plan, launches, p->node_count);
    TAKE(plan, items, p->node_count * SR_KERNEL_STAGES);
    TAKE(plan, steps, p->node_count * SR_KERNEL_STAGES);
    TAKE(plan, prepared, p->node_count);
    TAKE(plan, sinks, p->target_count);
    TAKE(plan, memory, p->memory_count);
    TAKE(plan, variables, context->variable_count);
    memcpy(plan->record, p->bytes, p->byte_count);
    plan->record_bytes = p->byte_count;
    plan->hash = p->hash;
    plan->memory_count = (uint32_t)p->memory_count;
    plan->variable_count = (uint32_t)context->variable_count;
    return SR_OK;
}

static void place_leaf(sr_plan_value *value, const sr_program_value *leaf) {
    static const sr_place places[] = {[SR_LEAF_VARIABLE] = SR_PLACE_VARIABLE,
                                      [SR_LEAF_INPUT] = SR_PLACE_INPUT,
                                      [SR_LEAF_MEMORY] = SR_PLACE_MEMORY};
    value->place = places[leaf->leaf_kind];
    value->index = leaf->leaf;
    value->pinned = true;
}

// Whether a node of the program updates this leaf in place.
static bool is_updated(const sr_program *p, uint32_t leaf) {
    for (uint32_t i = 0; i < p->node_count; i++)
        for (int k = 0; k < p->nodes[i].op->inputs; k++)
            if ((p->nodes[i].op->updates >> k & 1) && p->nodes[i].input[k] == leaf)
                return true;
    return false;
}

// Values and their roots: aliases share the memory of what they rename. A kept alias is its own
// root and gets a copy; so is a name for a variable that the program updates: it was taken before.
static void make_values(const sr_program *p, sr_plan *plan) {
    plan->value_count = (uint32_t)p->value_count;
    for (uint32_t i = 0; i < plan->value_count; i++) {
        sr_plan_value *v = &plan->values[i];
        const sr_program_value *from = &p->values[i];
        *v = (sr_plan_value){.info = from->info,
                             .bytes = sr_info_bytes(&from->info),
                             .root = i,
                             .first = SR_NO_STEP};
        if (from->node == SR_REF_NONE)
            place_leaf(v, from);
        else if (p->nodes[from->node].op->alias && !from->kept) {
            const uint32_t root = plan->values[p->nodes[from->node].input[0]].root;
            v->root = is_updated(p, root) ? i : root;
        }
    }
    for (uint32_t i = 0; i < plan->value_count; i++) {
        if (!p->values[i].kept)
            continue;
        sr_plan_value *v = &plan->values[i];
        v->place = SR_PLACE_MEMORY;
        v->index = p->values[i].kept - 1;
        v->pinned = true;
    }
}

static void node_view(const sr_program *p, const sr_program_node *node, sr_view_arrays *arrays,
                      sr_node_view *view) {
    for (int i = 0; i < node->op->inputs; i++)
        arrays->in[i] = node->input[i] == SR_REF_NONE ? (sr_info){.dtype = SR_DTYPE_COUNT}
                                                      : p->values[node->input[i]].info;
    for (int i = 0; i < node->op->outputs; i++)
        arrays->out[i] = p->values[node->output[i]].info;
    *view = (sr_node_view){.op = node->op,
                           .attr = p->attrs + node->attr,
                           .inputs = node->op->inputs,
                           .in = arrays->in,
                           .out = arrays->out};
}

// Equal requests share one prepared kernel: its state is immutable while it runs.
static sr_status prepare(sr_plan *plan, const sr_kernel_request *request, uint32_t *out) {
    for (uint32_t i = 0; i < plan->prepared_count; i++) {
        if (memcmp(&plan->prepared[i].request, request, sizeof *request) == 0) {
            *out = i;
            return SR_OK;
        }
    }
    sr_shared_prepared *shared = &plan->prepared[plan->prepared_count];
    shared->request = *request;
    SR_TRY(sr_kernel_prepare(request, &shared->prepared));
    if (shared->prepared.scratch > plan->scratch_bytes)
        plan->scratch_bytes = shared->prepared.scratch;
    *out = plan->prepared_count++;
    return SR_OK;
}

static uint32_t add_workspace(sr_plan *plan, size_t bytes) {
    if (!bytes)
        return SR_REF_NONE;
    uint32_t number = plan->value_count++;
    plan->values[number] = (sr_plan_value){
        .info = {.dtype = SR_U8, .rank = 1}, .bytes = bytes, .root = number, .first = SR_NO_STEP};
    return number;
}

static void touch(sr_plan *plan, uint32_t value, uint32_t launch) {
    sr_plan_value *root = &plan->values[plan->values[value].root];
    if (root->first == SR_NO_STEP)
        root->first = launch;
    root->last = launch;
}

static void count_cost(const sr_node_view *view, sr_launch *launch) {
    for (int i = 0; i < view->inputs; i++)
        if (view->in[i].dtype != SR_DTYPE_COUNT)
            launch->bytes += (double)sr_info_bytes(&view->in[i]);
    for (int i = 0; i < view->op->outputs; i++)
        launch->bytes += (double)sr_info_bytes(&view->out[i]);
    if (view->op->cost)
        view->op->cost(view, &launch->flops, &launch->bytes);
}

// An alias is usually free. It needs a copy only where it has memory of its own.
static bool needs_launch(const sr_plan *plan, const sr_program_node *node) {
    return !node->op->alias || plan->values[node->output[0]].root == node->output[0];
}

static sr_status lower_copy(const sr_node_view *view, sr_kernel_request *request) {
    sr_request_init(request, view);
    request->kernel = SR_KERNEL_cast;
    int64_t count = sr_info_count(&view->in[0]);
    memcpy(request->params, &count, sizeof count);
    return SR_OK;
}

static sr_status add_launch(const sr_context *context, sr_plan *plan, uint32_t index) {
    const sr_program *p = context->program;
    const sr_program_node *node = &p->nodes[index];
    const sr_node *record = &context->nodes[node->record];
    if (!needs_launch(plan, node))
        return SR_OK;
    sr_view_arrays arrays;
    sr_node_view view;
    sr_kernel_request request;
    node_view(p, node, &arrays, &view);
    sr_request_init(&request, &view);
    sr_status status = SR_OK;
    if (node->op->alias)
        status = lower_copy(&view, &request);
    else if (node->op->lower)
        status = node->op->lower(&view, &request);
    sr_launch *launch = &plan->launches[plan->launch_count];
    *launch = (sr_launch){
        .op = node->op, .record_node = node->record, .file = record->file, .line = record->line};
    if (status == SR_OK)
        status = prepare(plan, &request, &launch->prepared);
    if (status != SR_OK) {
        sr_error_prefix("%s:%d: %s", record->file, record->line, node->op->name);
        return status;
    }
    launch->args = request.args;
    launch->first_pointer = plan->arg_count;
    plan->arg_count += (uint32_t)launch->args;
    for (int i = 0; i < view.inputs; i++)
        launch->arg[i] = node->input[i];
    for (int i = 0; i < node->op->outputs; i++)
        launch->arg[view.inputs + i] = node->output[i];
    launch->workspace = add_workspace(plan, plan->prepared[launch->prepared].prepared.workspace);
    for (int i = 0; i < launch->args; i++)
        if (launch->arg[i] != SR_REF_NONE)
            touch(plan, launch->arg[i], plan->launch_count);
    if (launch->workspace != SR_REF_NONE)
        touch(plan, launch->workspace, plan->launch_count);
    count_cost(&view, launch);
    plan->flops += launch->flops;
    plan->bytes += launch->bytes;
    plan->launch_count++;
    return SR_OK;
}

static void mark_targets(const sr_program *p, sr_plan *plan) {
    for (uint32_t t = 0; t < p->target_count; t++)
        plan->values[plan->values[p->targets[t].value].root].delivered = true;
}

// Whether an item completes the target or reads the variable that it waits for.
static bool holds_back(const sr_plan *plan, const sr_item *item, const sr_program_target *target) {
    const sr_launch *l = &plan->launches[item->launch];
    for (int k = 0; k < l->args; k++) {
        if (!sr_item_touches(plan, item, k))
            continue;
        const uint32_t number = plan->values[l->arg[k]].root;
        const sr_plan_value *root = &plan->values[number];
        if ((k >= l->op->inputs && number == plan->values[target->value].root) ||
            (root->place == SR_PLACE_VARIABLE && root->index == target->after))
            return true;
    }
    return false;
}

// Step after which a target may go to the sink, or SR_NO_STEP when it may at once.
static uint32_t sink_position(const sr_plan *plan, const sr_program_target *target) {
    for (uint32_t step = plan->step_count; step-- > 0;)
        for (uint32_t i = 0; i < plan->steps[step].count; i++)
            if (holds_back(plan, &plan->items[plan->steps[step].first + i], target))
                return step;
    return SR_NO_STEP;
}

static sr_status place_sinks(const sr_program *p, sr_plan *plan) {
    uint32_t *positions = sr_arena_alloc(&plan->arena, (p->target_count + 1) * sizeof *positions);
    if (!positions)
        return SR_E_MEMORY;
    for (uint32_t t = 0; t < p->target_count; t++) {
        positions[t] = sink_position(plan, &p->targets[t]);
        sr_plan_value *root = &plan->values[plan->values[p->targets[t].value].root];
        if (positions[t] == SR_NO_STEP)
            plan->sinks[plan->sink_count++] = (sr_sink_entry){t, p->targets[t].value};
        else if (root->first != SR_NO_STEP && positions[t] > root->last)
            root->last = positions[t]; // alive until it is delivered
    }
    plan->leading_sinks = plan->sink_count;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        plan->steps[i].first_sink = plan->sink_count;
        for (uint32_t t = 0; t < p->target_count; t++)
            if (positions[t] == i)
                plan->sinks[plan->sink_count++] = (sr_sink_entry){t, p->targets[t].value};
        plan->steps[i].sink_count = plan->sink_count - plan->steps[i].first_sink;
    }
    return SR_OK;
}

static sr_status compile(const sr_context *context, sr_plan *plan) {
    const sr_program *p = context->program;
    SR_TRY(allocate(context, plan));
    make_values(p, plan);
    plan->first_workspace = plan->value_count;
    for (uint32_t i = 0; i < p->node_count; i++)
        SR_TRY(add_launch(context, plan, i));
    mark_targets(p, plan);
    plan->optimize = context->optimize >= 0;
    if (plan->optimize)
        sr_pass_in_place(plan);
    sr_pass_chain(plan);
    SR_TRY(place_sinks(p, plan));
    return sr_pass_memory(plan);
}

sr_status sr_plan_compile(sr_context *context, sr_plan **out) {
    sr_plan *plan = sr_alloc(sizeof *plan, "plan");
    if (!plan)
        return SR_E_MEMORY;
    static _Atomic uint64_t plans;
    plan->number = atomic_fetch_add_explicit(&plans, 1, memory_order_relaxed) + 1;
    sr_arena_init(&plan->arena);
    sr_status status = context->optimize >= 0 ? sr_pass_recompute(context->program) : SR_OK;
    if (status == SR_OK)
        status = compile(context, plan);
    if (status != SR_OK) {
        sr_plan_free(plan);
        return status;
    }
    *out = plan;
    return SR_OK;
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
