// SPDX-License-Identifier: Apache-2.0
// Chains: stages of consecutive launches that stream over the same rows run block by block.
//
// A kernel has up to four stages, and a stage of independent blocks may declare which arguments
// its blocks stream over (kernels/kernel.h). If the next stage streams over the same rows, both
// become one step: for every unit of rows the blocks of the first stage run, then those of the
// second, while the rows are in the second-level cache. So normalisation, addition and relu read
// memory once, and so do the gradient of relu and the sums of batch normalisation's gradient. Loops
// are fused, not arithmetic: the same blocks of the same kernels give the same bits, in every
// dtype, and kernels of plug-ins take part by declaring their streams.
//
// Two stages may share a step if no unit of one needs a different unit of the other: both must
// stream over every array that both access and one of them writes. Blocks of sums are fixed, as
// their order is part of the result; they determine the unit. Other stages adapt their blocks to
// the unit.
#include "graph/plan_internal.h"

// Most memory that a unit of rows accesses: half of a second-level cache of 1 MiB, so that the
// first reads of the next unit do not evict it.
#define UNIT_BYTES (INT64_C(512) << 10)
// Fewest units, so that all threads of a team have work.
#define UNITS 8
// Every unit reads all weights of its stages from the shared cache. Two stages with more weights
// than this share a chain only if a unit has so many rows.
#define WEIGHT_BYTES (UNIT_BYTES / 4)
#define WEIGHT_ROWS 64
// Most launches between two of a chain.
#define LOOK_AHEAD 3

typedef struct chain {
    const sr_plan *plan;
    sr_item items[SR_CHAIN_ITEMS];
    int count;
    int64_t rows; // of the chain: every stage has a multiple of them
    int64_t unit; // rows of one unit
} chain;

static const sr_kernel_stage *stage_of(const sr_plan *plan, const sr_item *item) {
    const sr_launch *l = &plan->launches[item->launch];
    return &plan->prepared[l->prepared].prepared.stage[item->stage];
}

bool sr_item_touches(const sr_plan *plan, const sr_item *item, int arg) {
    if (plan->launches[item->launch].arg[arg] == SR_REF_NONE)
        return false;
    return item->stage == SR_ALL_STAGES || !(stage_of(plan, item)->leaves >> arg & 1);
}

static bool writes(const sr_launch *l, int arg) {
    return arg >= l->op->inputs || (l->op->updates >> arg & 1);
}

typedef enum relation {
    APART,    // may run in any order, or at the same time
    TOGETHER, // they access the same rows unit by unit: in order within a unit
    ORDERED,  // the first must end before the second begins
} relation;

static relation relation_of_args(const sr_plan *plan, const sr_item *a, int i, const sr_item *b,
                                 int k, bool *shared) {
    const sr_launch *la = &plan->launches[a->launch], *lb = &plan->launches[b->launch];
    const sr_plan_value *va = &plan->values[la->arg[i]], *vb = &plan->values[lb->arg[k]];
    if (va->root != vb->root)
        return APART;
    const bool streamed = (stage_of(plan, a)->streams >> i & 1) &&
                          (stage_of(plan, b)->streams >> k & 1) && va->bytes == vb->bytes;
    *shared = *shared || streamed;
    if (!writes(la, i) && !writes(lb, k))
        return APART;
    return streamed ? TOGETHER : ORDERED;
}

// Sets *shared if both stream over one array.
static relation relation_of(const sr_plan *plan, const sr_item *a, const sr_item *b, bool *shared) {
    const sr_launch *la = &plan->launches[a->launch], *lb = &plan->launches[b->launch];
    relation most = la == lb ? ORDERED : APART; // stages of a kernel run one after the other
    for (int i = 0; i < la->args && most != ORDERED; i++) {
        for (int k = 0; sr_item_touches(plan, a, i) && k < lb->args; k++) {
            if (!sr_item_touches(plan, b, k))
                continue;
            const relation own = relation_of_args(plan, a, i, b, k, shared);
            most = own > most ? own : most;
        }
    }
    return most;
}

static relation relation_to_chain(const chain *c, const sr_item *item, bool *shared) {
    relation most = APART;
    *shared = false;
    for (int i = 0; i < c->count; i++) {
        const relation own = relation_of(c->plan, &c->items[i], item, shared);
        most = own > most ? own : most;
    }
    return most;
}

// Bytes per row of all arrays that the chain streams over.
static int64_t row_bytes(const chain *c) {
    size_t bytes = 0;
    for (int n = 0; n < c->count; n++) {
        const sr_launch *l = &c->plan->launches[c->items[n].launch];
        for (int i = 0; i < l->args; i++) {
            bool seen = !sr_item_touches(c->plan, &c->items[n], i) ||
                        !(stage_of(c->plan, &c->items[n])->streams >> i & 1);
            for (int k = 0; k < n && !seen; k++) {
                const sr_launch *before = &c->plan->launches[c->items[k].launch];
                for (int j = 0; j < before->args && !seen; j++)
                    seen = before->arg[j] != SR_REF_NONE &&
                           c->plan->values[before->arg[j]].root == c->plan->values[l->arg[i]].root;
            }
            bytes += seen ? 0 : c->plan->values[l->arg[i]].bytes;
        }
    }
    return (int64_t)bytes / c->rows;
}

// The larger of two blocks if it is a multiple of the smaller, else 0.
static int64_t common_block(int64_t a, int64_t b) {
    const int64_t large = a > b ? a : b, small = a > b ? b : a;
    return large % small ? 0 : large;
}

// Rows of a unit, in rows of the chain: as many as fit in the cache, in multiples of all granules
// and fixed blocks, and at least one such multiple, even if it does not fit; 0 if granules and
// blocks are incompatible.
static int64_t fit_unit(const chain *c) {
    int64_t fixed = 1, granule = 1;
    for (int i = 0; i < c->count; i++) {
        const sr_kernel_stage *s = stage_of(c->plan, &c->items[i]);
        const int64_t each = s->rows / c->rows; // rows of the stage in one of the chain's
        if (s->granule > 0) {
            const int64_t step = granule;
            while (granule * each % s->granule)
                granule += step;
            continue;
        }
        fixed = s->block_rows % each ? 0 : common_block(fixed, s->block_rows / each);
        if (fixed == 0)
            return 0;
    }
    const int64_t step = common_block(fixed, granule);
    if (step == 0)
        return 0;
    const int64_t fit = UNIT_BYTES / (row_bytes(c) + 1), most = (c->rows + UNITS - 1) / UNITS;
    const int64_t unit = fit < most ? fit : most;
    return unit < step ? step : unit / step * step;
}

// Bytes of the inputs that a stage does not stream over: every block reads them, or what an earlier
// stage packed of them.
static size_t weight_bytes(const sr_plan *plan, const sr_item *item) {
    const sr_launch *l = &plan->launches[item->launch];
    size_t bytes = 0;
    for (int i = 0; i < l->op->inputs; i++)
        if (l->arg[i] != SR_REF_NONE && !(stage_of(plan, item)->streams >> i & 1))
            bytes += plan->values[l->arg[i]].bytes;
    return bytes;
}

// Whether the weights of several stages would be read for too few rows each time.
static bool streams_weights(const chain *c) {
    int stages = 0;
    for (int i = 0; i < c->count; i++)
        stages += weight_bytes(c->plan, &c->items[i]) > WEIGHT_BYTES;
    return stages > 1 && c->unit < WEIGHT_ROWS;
}

// Adds a stage that streams over rows to the chain, if possible.
static bool join(chain *c, sr_item item) {
    const sr_kernel_stage *s = stage_of(c->plan, &item);
    bool shared;
    if (!s->streams || s->rows < 1 || c->count == SR_CHAIN_ITEMS ||
        relation_to_chain(c, &item, &shared) == ORDERED || (c->count > 0 && !shared))
        return false;
    chain longer = *c;
    longer.rows = c->count == 0 || s->rows < c->rows ? s->rows : c->rows;
    longer.items[longer.count++] = item;
    for (int i = 0; i < longer.count; i++)
        if (stage_of(c->plan, &longer.items[i])->rows % longer.rows)
            return false;
    longer.unit = fit_unit(&longer);
    if (!longer.unit || streams_weights(&longer))
        return false;
    *c = longer;
    return true;
}

static void add_step(sr_plan *plan, const sr_item *items, int count, int64_t units) {
    plan->steps[plan->step_count++] =
        (sr_step){.first = plan->item_count, .count = (uint32_t)count, .units = units};
    for (int i = 0; i < count; i++)
        plan->items[plan->item_count++] = items[i];
}

static void add_single(sr_plan *plan, sr_item item) {
    const sr_kernel_stage *s = stage_of(plan, &item);
    item.block_rows = s->block_rows;
    item.per_unit = 1;
    item.blocks = s->blocks;
    add_step(plan, &item, 1, s->blocks);
}

static void close_chain(sr_plan *plan, chain *c) {
    if (c->count == 1)
        add_single(plan, c->items[0]);
    for (int i = 0; c->count > 1 && i < c->count; i++) {
        const sr_kernel_stage *s = stage_of(plan, &c->items[i]);
        const int64_t rows = c->unit * (s->rows / c->rows);
        sr_item *item = &c->items[i];
        item->block_rows = s->granule ? rows : s->block_rows;
        item->per_unit = rows / item->block_rows;
        item->blocks = (s->rows + item->block_rows - 1) / item->block_rows;
    }
    if (c->count > 1)
        add_step(plan, c->items, c->count, (c->rows + c->unit - 1) / c->unit);
    c->count = 0;
}

static int stages_of(const sr_plan *plan, uint32_t launch) {
    return plan->prepared[plan->launches[launch].prepared].prepared.stages;
}

// Whether stages [0, count) of a launch may run before the chain: they share no written array with
// it.
static bool may_precede(const chain *c, uint32_t launch, int count) {
    for (int s = 0; s < count; s++) {
        bool shared;
        if (relation_to_chain(c, &(sr_item){.launch = launch, .stage = s}, &shared) != APART)
            return false;
    }
    return true;
}

static void schedule_before(sr_plan *plan, uint32_t launch, int count) {
    for (int s = 0; s < count; s++)
        add_single(plan, (sr_item){.launch = launch, .stage = s});
}

// Adds the first suitable stage of a launch to the chain and returns the number of stages up to it,
// or 0. The stages before it (which pack weights) may run before the chain.
static int join_launch(chain *c, uint32_t launch) {
    for (int s = 0; s < stages_of(c->plan, launch); s++) {
        chain longer = *c;
        if (may_precede(c, launch, s) && join(&longer, (sr_item){.launch = launch, .stage = s})) {
            *c = longer;
            return s + 1;
        }
    }
    return 0;
}

// Continues the chain with launch 't', or with a later one if those between may run before the
// chain (the running average of a normalisation, the gradient of weights next to that of images).
// Returns the launch that joined and, in *stages, how many of its stages are scheduled; 0 if none
// joined.
static uint32_t continue_chain(sr_plan *plan, chain *c, uint32_t t, int *stages) {
    *stages = 0;
    for (uint32_t k = t; k < plan->launch_count && k <= t + LOOK_AHEAD; k++) {
        *stages = join_launch(c, k);
        if (*stages) {
            for (uint32_t i = t; i < k; i++)
                schedule_before(plan, i, stages_of(plan, i));
            schedule_before(plan, k, *stages - 1);
            return k;
        }
        if (plan->launches[k].joins || !may_precede(c, k, stages_of(plan, k)))
            break;
    }
    return t;
}

// Behind a launch that joins lanes a replay stops, except between two such launches.
static void add_stop(sr_plan *plan, uint32_t launch) {
    const sr_plan_stop *last = plan->stop_count ? &plan->stops[plan->stop_count - 1] : NULL;
    const uint32_t first = last ? last->first + last->count : 0;
    const bool more = launch + 1 < plan->launch_count && plan->launches[launch + 1].joins;
    uint32_t end = first;
    while (end < plan->join_count && plan->joins[end].launch <= launch)
        end++;
    if (!plan->launches[launch].joins || (more && end - first < SR_STOP_VALUES))
        return;
    plan->stops[plan->stop_count++] =
        (sr_plan_stop){.end = plan->step_count, .first = first, .count = end - first};
}

static void make_launch_steps(sr_plan *plan) {
    for (uint32_t t = 0; t < plan->launch_count; t++) {
        add_step(plan, &(sr_item){.launch = t, .stage = SR_ALL_STAGES}, 1, 1);
        add_stop(plan, t);
    }
}

static void make_steps(sr_plan *plan) {
    chain c = {.plan = plan};
    for (uint32_t t = 0; t < plan->launch_count; t++) {
        int s = 0;
        if (c.count > 0)
            t = continue_chain(plan, &c, t, &s);
        for (; s < stages_of(plan, t); s++) {
            const sr_item item = {.launch = t, .stage = s};
            close_chain(plan, &c);
            if (!plan->optimize || !join(&c, item))
                add_single(plan, item);
        }
        if (plan->launches[t].joins)
            close_chain(plan, &c);
        add_stop(plan, t);
    }
    close_chain(plan, &c);
}

// Extends the lifetime of a value, now in steps instead of launches.
static void live_until(sr_plan *plan, uint32_t value, uint32_t step) {
    sr_plan_value *root = &plan->values[plan->values[value].root];
    if (root->first == SR_NO_STEP || step < root->first)
        root->first = step;
    if (step > root->last)
        root->last = step;
}

static void live_in_step(sr_plan *plan, uint32_t step) {
    const sr_step *s = &plan->steps[step];
    for (uint32_t n = s->first; n < s->first + s->count; n++) {
        const sr_item *item = &plan->items[n];
        const sr_launch *l = &plan->launches[item->launch];
        for (int i = 0; i < l->args; i++)
            if (sr_item_touches(plan, item, i))
                live_until(plan, l->arg[i], step);
        if (l->workspace != SR_REF_NONE)
            live_until(plan, l->workspace, step);
        if (l->packed != SR_REF_NONE)
            live_until(plan, l->packed, step);
    }
}

void sr_pass_chain(sr_plan *plan) {
    if (plan->asynchronous)
        make_launch_steps(plan);
    else
        make_steps(plan);
    for (uint32_t i = 0; i < plan->value_count; i++) {
        plan->values[i].first = SR_NO_STEP;
        plan->values[i].last = 0;
    }
    for (uint32_t step = 0; step < plan->step_count; step++)
        live_in_step(plan, step);
}
