// SPDX-License-Identifier: Apache-2.0
// The memory plan: an offset for every value, of the forward and the backward pass together.
//
// A value is alive from the step that writes it to the last that reads it; before and after, other
// values may use its bytes (reverse-mode garbage collection at compile time). Several planners are
// tried and the smallest result is used: largest first (Pisarchyk & Lee 2020, "greedy by size"); in
// the order of first use with the best-fitting gap; and, if both stay above the bound, largest
// first after moving the values that determined the peak of an earlier attempt to the front.
// Bit-neutral.
//
// All choose the smallest gap that is large enough between values that are alive at the same time.
// In the order of first use these are the values alive at that moment, a short list sorted by
// offset. Largest first must look at all values placed so far; that scan is sorted by offset, too,
// reads a few words per value, about a nanosecond each, and ends when a gap fits exactly. So
// planning costs less than a microsecond per operator for a thousand operators, and the cost per
// operator grows with their number.
#include <stdlib.h>
#include <string.h>

#include "graph/plan_internal.h"

#define NEAR 64 // an excess over the bound of 1 / NEAR is not worth another attempt

enum { PLACED_AGAIN = 8192 }; // most values placed in further attempts

typedef struct item {
    uint32_t value;
    uint32_t first, last;
    size_t bytes, offset;
} item;

// An item with its offset.
typedef struct block {
    size_t offset, end;
    uint32_t first, last;
} block;

typedef struct planner {
    item *items;
    uint32_t count;
    block *placed; // sorted by offset
    uint32_t placed_count;
} planner;

static block block_of(const item *it) {
    return (block){it->offset, it->offset + it->bytes, it->first, it->last};
}

// The offset of the smallest large enough gap between items alive at the same time, else the end.
static size_t best_gap(const planner *p, const item *it) {
    size_t end = 0, best = SIZE_MAX, best_offset = 0;
    for (uint32_t i = 0; i < p->placed_count && best > it->bytes; i++) {
        const block *other = &p->placed[i];
        if (other->first > it->last || other->last < it->first)
            continue;
        if (other->offset > end && other->offset - end >= it->bytes && other->offset - end < best) {
            best = other->offset - end;
            best_offset = end;
        }
        if (other->end > end)
            end = other->end;
    }
    return best == SIZE_MAX ? end : best_offset;
}

// Index of a block with this offset in the sorted list: after those that begin no later.
static uint32_t position(const planner *p, size_t offset) {
    uint32_t low = 0, high = p->placed_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->placed[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(planner *p, const item *it) {
    const uint32_t at = position(p, it->offset);
    memmove(p->placed + at + 1, p->placed + at, (p->placed_count - at) * sizeof *p->placed);
    p->placed[at] = block_of(it);
    p->placed_count++;
}

// Drops the blocks that are dead at a step.
static void drop_dead(planner *p, uint32_t step) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->placed_count; i++)
        if (p->placed[i].last >= step)
            p->placed[kept++] = p->placed[i];
    p->placed_count = kept;
}

static int by_size(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->value < y->value ? -1 : 1;
}

static int by_first_use(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return by_size(a, b);
}

// Assigns an offset to every item, in the order of the array; returns the peak. 'births': the array
// is in the order of first use.
static size_t place_all(planner *p, bool births) {
    size_t peak = 0;
    uint32_t now = 0;
    p->placed_count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        item *it = &p->items[i];
        if (births && it->first > now)
            drop_dead(p, now = it->first);
        it->offset = best_gap(p, it);
        insert(p, it);
        if (it->offset + it->bytes > peak)
            peak = it->offset + it->bytes;
    }
    return peak;
}

// ---- Planners ----

enum { LARGEST_FIRST, IN_ORDER_OF_BIRTH, PEAKS_FIRST };
const char *const sr_planner_names[SR_PLANNERS] = {"largest first", "in order of birth",
                                                   "peaks first"};

// Keeps the offsets of a planner if its peak is the smallest so far.
static void offer(sr_plan *plan, const planner *p, size_t peak, int number) {
    if (peak < plan->peaks[number])
        plan->peaks[number] = peak;
    if (peak >= plan->range_bytes)
        return;
    plan->range_bytes = peak;
    plan->planner = number;
    for (uint32_t i = 0; i < p->count; i++)
        plan->values[p->items[i].value].offset = p->items[i].offset;
}

static void move_peak_forward(planner *p, size_t peak) {
    uint32_t at = 0;
    while (p->items[at].offset + p->items[at].bytes != peak)
        at++;
    const item moved = p->items[at];
    memmove(p->items + 1, p->items, at * sizeof *p->items);
    p->items[0] = moved;
}

// Largest first; then repeatedly moves the item that determined the peak to the front.
static void run_largest_and_peaks_first(sr_plan *plan, planner *p) {
    const size_t near = plan->live_bound + plan->live_bound / NEAR;
    qsort(p->items, p->count, sizeof *p->items, by_size);
    size_t peak = place_all(p, false);
    offer(plan, p, peak, LARGEST_FIRST);
    plan->peaks[PEAKS_FIRST] = peak;
    for (uint32_t n = p->count; n < PLACED_AGAIN && plan->range_bytes > near; n += p->count) {
        move_peak_forward(p, peak);
        peak = place_all(p, false);
        offer(plan, p, peak, PEAKS_FIRST);
    }
}

static void run_planners(sr_plan *plan, planner *p) {
    plan->range_bytes = SIZE_MAX;
    for (int i = 0; i < SR_PLANNERS; i++)
        plan->peaks[i] = SIZE_MAX;
    qsort(p->items, p->count, sizeof *p->items, by_first_use);
    offer(plan, p, place_all(p, true), IN_ORDER_OF_BIRTH);
    run_largest_and_peaks_first(plan, p);
}

static sr_status find_live_bound(sr_plan *plan, const planner *p) {
    // Differences first: unsigned sums wrap around and give the right result.
    size_t *live = sr_alloc_array((size_t)plan->step_count + 2, sizeof *live, "memory plan");
    if (!live)
        return SR_E_MEMORY;
    for (uint32_t i = 0; i < p->count; i++) {
        live[p->items[i].first] += p->items[i].bytes;
        live[p->items[i].last + 1] -= p->items[i].bytes;
    }
    for (size_t t = 0, now = 0; t < plan->step_count; t++) {
        now += live[t];
        if (now > plan->live_bound)
            plan->live_bound = now;
    }
    sr_free(live);
    return SR_OK;
}

static void collect(const sr_plan *plan, planner *p) {
    for (uint32_t i = 0; i < plan->value_count; i++) {
        if (!sr_plan_in_range(plan, i))
            continue;
        const sr_plan_value *v = &plan->values[i];
        p->items[p->count++] = (item){.value = i,
                                      .first = plan->optimize ? v->first : 0,
                                      .last = plan->optimize ? v->last : plan->step_count,
                                      .bytes = sr_plan_aligned(v->bytes),
                                      .offset = v->offset};
    }
}

static sr_status begin_planner(const sr_plan *plan, planner *p) {
    p->items = sr_alloc_array(plan->value_count + 1, sizeof *p->items, "memory plan");
    p->placed = sr_alloc_array(plan->value_count + 1, sizeof *p->placed, "memory plan");
    if (!p->items || !p->placed)
        return SR_E_MEMORY;
    collect(plan, p);
    return SR_OK;
}

static void end_planner(planner *p) {
    sr_free(p->items);
    sr_free(p->placed);
}

sr_status sr_pass_memory(sr_plan *plan) {
    planner p = {0};
    sr_status status = begin_planner(plan, &p);
    if (status == SR_OK)
        status = find_live_bound(plan, &p);
    if (status == SR_OK)
        run_planners(plan, &p);
    end_planner(&p);
    return status == SR_OK ? sr_plan_check(plan) : status;
}

// Goes through the items in the order of first use, with those alive sorted by offset, so that a
// new item can only overlap its two neighbours.
static sr_status check(planner *p) {
    qsort(p->items, p->count, sizeof *p->items, by_first_use);
    for (uint32_t i = 0, now = 0; i < p->count; i++) {
        const item *it = &p->items[i];
        if (it->first > now)
            drop_dead(p, now = it->first);
        const uint32_t at = position(p, it->offset);
        if ((at > 0 && p->placed[at - 1].end > it->offset) ||
            (at < p->placed_count && p->placed[at].offset < it->offset + it->bytes))
            return SR_FAIL(SR_E_INTERNAL,
                           "memory plan: value %u overlaps another one that is alive", it->value);
        insert(p, it);
    }
    return SR_OK;
}

sr_status sr_plan_check(const sr_plan *plan) {
    planner p = {0};
    sr_status status = begin_planner(plan, &p);
    if (status == SR_OK)
        status = check(&p);
    end_planner(&p);
    return status;
}
