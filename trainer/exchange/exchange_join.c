// SPDX-License-Identifier: Apache-2.0
// Joins: values of the lanes of a group that are combined in the middle of a step, between forward
// and backward passes of its layers (sr_lane_sum, sr_batchnorm_group).
//
// They are small (two numbers for each channel) and every lane of the group waits for them, so a
// join is not an exchange of owned parts: each rank folds its lanes into maximal sub-trees of the
// tree on the lanes of the group, sends them to every other rank of the group, and folds all of
// them. Folding is on the host, in the fixed order of the tree, so all ranks get the same bits,
// which do not depend on the number of ranks.
//
// The engine's thread folds and waits; the communication thread moves the messages. Two ranks have
// lanes of at most one group in common, and its joins come in the order of the program, so messages
// match by their order.
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "trainer/exchange/exchange_internal.h"

// Mean and biased variance of 'from' joined with those of 'into', of a and b lanes (Chan, Golub &
// LeVeque 1979).
static void join_moments(float *into, const float *from, int64_t count, double a, double b) {
    float *mean = into, *var = into + count;
    const double share = b / (a + b);
    for (int64_t i = 0; i < count; i++) {
        const double delta = (double)from[i] - (double)mean[i];
        const double within = (1 - share) * (double)var[i] + share * (double)from[count + i];
        mean[i] = (float)((double)mean[i] + share * delta);
        var[i] = (float)(within + share * (1 - share) * delta * delta);
    }
}

static void join_rows(const sr_exchange_joining *j, int into, int middle, int end) {
    float *to = j->rows + into * j->elements;
    const float *from = j->rows + middle * j->elements;
    for (const sr_exchange_part *p = j->parts; p < j->parts + j->part_count; p++) {
        if (p->moments)
            join_moments(to, from, p->count, middle - into, end - middle);
        for (int64_t i = 0; !p->moments && i < p->count; i++)
            to[i] += from[i];
        to += sr_exchange_part_elements(p);
        from += sr_exchange_part_elements(p);
    }
}

// Whether a node of the tree is inside one of these sub-trees.
static bool is_inside(const sr_lane_range *trees, int count, int begin, int end) {
    for (int i = 0; i < count; i++)
        if (trees[i].begin <= begin && end <= trees[i].end)
            return true;
    return false;
}

// Computes the nodes that are inside the sub-trees, or those that are not. A node is in the row of
// its first lane.
static void fold(const sr_exchange_joining *j, const sr_lane_range *trees, int count, bool inside) {
    for (int width = 1; width < j->lanes; width *= 2) {
        for (int begin = 0; begin + width < j->lanes; begin += 2 * width) {
            const int end = begin + 2 * width < j->lanes ? begin + 2 * width : j->lanes;
            if (is_inside(trees, count, begin, end) == inside)
                join_rows(j, begin, begin + width, end);
        }
    }
}

static int clip(int lane, int first, int lanes) {
    return lane < first ? 0 : lane > first + lanes ? lanes : lane - first;
}

// The sub-trees of a rank's lanes of the group.
static int trees_of(const sr_exchange *x, int rank, sr_lane_range *out) {
    const sr_exchange_joining *j = &x->joining;
    const int begin = clip(sr_lanes_first(x->lanes, x->size, rank), j->first, j->lanes);
    const int end = clip(sr_lanes_first(x->lanes, x->size, rank + 1), j->first, j->lanes);
    return sr_lane_subtrees(j->lanes, begin, end, out);
}

// ---- messages, by the communication thread

static sr_status post(sr_exchange *x, int peer, bool receives) {
    sr_exchange_joining *j = &x->joining;
    sr_lane_range trees[SR_LANE_MAX_SUBTREES];
    const int count = trees_of(x, receives ? peer : x->rank, trees);
    const size_t bytes = (size_t)j->elements * sizeof(float);
    for (int i = 0; i < count; i++) {
        float *row = j->rows + trees[i].begin * j->elements;
        sr_comm_request *request = &j->requests[j->group.count];
        SR_TRY(receives ? sr_comm_irecv(x->comm, peer, SR_EXCHANGE_TAG_JOIN, row, bytes, request)
                        : sr_comm_isend(x->comm, peer, SR_EXCHANGE_TAG_JOIN, row, bytes, request));
        j->group.count++;
        x->stats.messages++;
        *(receives ? &x->stats.bytes_received : &x->stats.bytes_sent) += (int64_t)bytes;
    }
    return SR_OK;
}

static sr_status post_all(sr_exchange *x) {
    for (int peer = x->joining.first_rank; peer <= x->joining.last_rank; peer++) {
        if (peer == x->rank)
            continue;
        SR_TRY(post(x, peer, true));
        SR_TRY(post(x, peer, false));
    }
    return SR_OK;
}

bool sr_exchange_is_joining(const sr_exchange *x) {
    return atomic_load_explicit(&x->joining.under_way, memory_order_acquire);
}

static void end_join(sr_exchange *x) {
    pthread_mutex_lock(&x->lock);
    atomic_store_explicit(&x->joining.under_way, false, memory_order_release);
    pthread_cond_broadcast(&x->finished_step);
    pthread_mutex_unlock(&x->lock);
}

sr_status sr_exchange_join_advance(sr_exchange *x, bool *moved) {
    sr_exchange_joining *j = &x->joining;
    if (!sr_exchange_is_joining(x))
        return SR_OK;
    if (!j->posted) {
        j->group = (sr_message_group){.requests = j->requests};
        SR_TRY(post_all(x));
        j->posted = *moved = true;
    }
    while (j->group.next < j->group.count) {
        bool done = false;
        SR_TRY(sr_comm_test(x->comm, &j->group.requests[j->group.next], &done));
        if (!done)
            return SR_OK;
        j->group.next++;
        *moved = true;
    }
    end_join(x);
    return SR_OK;
}

// ---- calls of the engine's thread

void sr_exchange_joining_free(sr_exchange_joining *j) {
    sr_free(j->rows);
    sr_free(j->requests);
    sr_free(j->trees);
}

static sr_status reserve(sr_exchange_joining *j, size_t elements, size_t trees, size_t messages) {
    void *rows = j->rows, *all = j->trees, *requests = j->requests;
    SR_TRY(sr_grow(&rows, &j->row_capacity, elements, sizeof *j->rows, "joined lanes"));
    j->rows = rows;
    SR_TRY(sr_grow(&all, &j->tree_capacity, trees, sizeof *j->trees, "joined lanes"));
    j->trees = all;
    SR_TRY(sr_grow(&requests, &j->request_capacity, messages, sizeof *j->requests, "messages"));
    j->requests = requests;
    return SR_OK;
}

sr_status sr_exchange_join_begin(sr_exchange *x, int first, int lanes,
                                 const sr_exchange_part *parts, int part_count, float **rows) {
    sr_exchange_joining *j = &x->joining;
    j->first = first;
    j->lanes = lanes;
    j->parts = parts;
    j->part_count = part_count;
    j->elements = 0;
    for (int i = 0; i < part_count; i++)
        j->elements += sr_exchange_part_elements(&parts[i]);
    j->first_rank = j->last_rank = x->rank;
    while (sr_lanes_first(x->lanes, x->size, j->first_rank) > first)
        j->first_rank--;
    while (sr_lanes_first(x->lanes, x->size, j->last_rank + 1) < first + lanes)
        j->last_rank++;
    // Every sub-tree of this rank goes to every other one; lanes bound the sub-trees.
    const size_t peers = (size_t)(j->last_rank - j->first_rank);
    SR_TRY(reserve(j, (size_t)lanes * (size_t)j->elements, (size_t)lanes,
                   (size_t)lanes * (peers + 1)));
    *rows = j->rows;
    return SR_OK;
}

// Returns when the sub-trees of the other ranks are there.
static sr_status swap(sr_exchange *x) {
    pthread_mutex_lock(&x->lock);
    x->joining.posted = false;
    atomic_store_explicit(&x->joining.under_way, true, memory_order_release);
    x->wakes++;
    pthread_cond_broadcast(&x->wake);
    while (sr_exchange_is_joining(x) && !x->told && x->active && !x->done)
        sr_exchange_timed_wait(&x->finished_step, &x->lock, SR_NS_PER_S);
    const bool failed = x->failed != SR_OK, joined = !sr_exchange_is_joining(x);
    atomic_store_explicit(&x->joining.under_way, false, memory_order_release);
    pthread_mutex_unlock(&x->lock);
    if (failed)
        return sr_exchange_failure(x);
    return joined ? SR_OK
                  : SR_FAIL(SR_E_ARGUMENT, "lanes %d to %d join outside a step, or behind its end",
                            x->joining.first, x->joining.first + x->joining.lanes - 1);
}

sr_status sr_exchange_join(sr_exchange *x) {
    sr_exchange_joining *j = &x->joining;
    sr_lane_range own[SR_LANE_MAX_SUBTREES];
    int count = 0;
    fold(j, own, trees_of(x, x->rank, own), true);
    if (j->first_rank < j->last_rank)
        SR_TRY(swap(x));
    for (int rank = j->first_rank; rank <= j->last_rank; rank++)
        count += trees_of(x, rank, j->trees + count);
    fold(j, j->trees, count, false);
    return SR_OK;
}
