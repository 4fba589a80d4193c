// SPDX-License-Identifier: Apache-2.0
// What is fixed when an exchange is created: buckets, owners, buffers, the order of adds.
//
// Blocks of 64 Ki elements are counted from the start of the flat space, buckets (runs of units:
// blocks, or more where a segment has one owner) from its end, since gradients finish backwards.
// Rank r of p owns units [r n / p, (r + 1) n / p) of a bucket of n. All memory of a step is taken
// here, except partial sums over lanes, whose number depends on the order in which lanes run
// (lane_tree.h).
#include <stdio.h>
#include <string.h>

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "trainer/exchange/exchange_internal.h"

#define BUCKET_BYTES (INT64_C(4) << 20)

int sr_lanes_first(int lanes, int ranks, int rank) {
    return (int)((int64_t)rank * lanes / ranks);
}

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static sr_status check_options(const sr_exchange *x, const sr_exchange_options *o) {
    if (o->lanes < 1 || o->elements < 1 || !o->device || sr_address_is_none(o->values) ||
        !o->update || o->segment_count < 1 || !o->segments || o->bucket_bytes < 0)
        return SR_FAIL(SR_E_ARGUMENT, "an exchange needs lanes, elements, segments, a device, "
                                      "values and an update");
    if (x->size > o->lanes)
        return SR_FAIL(SR_E_USAGE,
                       "%d ranks need at least %d lanes, but lanes is %d; start fewer ranks, or "
                       "raise lanes (changes BatchNorm and results)",
                       x->size, x->size, o->lanes);
    int64_t end = 0;
    for (int i = 0; i < o->segment_count; i++) {
        const sr_segment *s = &o->segments[i];
        if (s->begin < end || s->count < 0 || s->begin > o->elements - s->count) {
            return SR_FAIL(SR_E_ARGUMENT,
                           "segment '%s' covers elements %lld to %lld; segments lie in order, "
                           "without overlap, within %lld",
                           s->name, (long long)s->begin, (long long)(s->begin + s->count),
                           (long long)o->elements);
        }
        end = s->begin + s->count;
    }
    if (end == 0)
        return SR_FAIL(SR_E_ARGUMENT, "an exchange whose %d segments are all empty",
                       o->segment_count);
    return SR_OK;
}

static sr_status copy_segments(sr_exchange *x, const sr_exchange_options *o) {
    size_t bytes = 1;
    for (int i = 0; i < o->segment_count; i++)
        bytes += strlen(o->segments[i].name ? o->segments[i].name : "") + 1;
    x->segment_names = sr_alloc(bytes, "names of segments");
    x->segments = sr_alloc_array((size_t)o->segment_count, sizeof *x->segments, "segments");
    size_t local = (size_t)(x->lane_last - x->lane_first);
    x->given = sr_alloc_array(local * (size_t)o->segment_count, sizeof *x->given, "marks");
    if (!x->segment_names || !x->segments || !x->given)
        return SR_E_MEMORY;
    char *at = x->segment_names;
    for (int i = 0; i < o->segment_count; i++) {
        x->segments[i] = o->segments[i];
        x->segments[i].name = at;
        const char *name = o->segments[i].name ? o->segments[i].name : "";
        memcpy(at, name, strlen(name) + 1);
        at += strlen(name) + 1;
    }
    x->segment_count = o->segment_count;
    return SR_OK;
}

// Zeros: what a lane contributes to a padded segment beyond the elements that it computes.
static sr_status make_zeros(sr_exchange *x) {
    int64_t most = 1;
    for (int i = 0; i < x->segment_count; i++)
        most = max64(most, x->segments[i].count);
    return sr_device_alloc(x->device, (size_t)most * sizeof(float), "zero gradient", &x->zeros);
}

// Elements of segments inside [begin, end).
static int64_t covered(const sr_exchange *x, int64_t begin, int64_t end) {
    int64_t sum = 0;
    for (int i = 0; i < x->segment_count; i++) {
        const sr_segment *s = &x->segments[i];
        sum += max64(0, min64(end, s->begin + s->count) - max64(begin, s->begin));
    }
    return sum;
}

// The segment around an element that must not be divided there, since one owner has all of it;
// NULL: none.
static const sr_segment *whole_around(const sr_exchange *x, int64_t element) {
    for (int i = 0; i < x->segment_count && x->segments[i].begin < element; i++)
        if (x->segments[i].whole && element < x->segments[i].begin + x->segments[i].count)
            return &x->segments[i];
    return NULL;
}

// Units are blocks, except that a unit which would end inside an undivided segment ends before it.
static sr_status cut_units(sr_exchange *x) {
    const int64_t blocks = divide_up(x->elements, x->block);
    x->cuts = sr_alloc_array((size_t)blocks + 1, sizeof *x->cuts, "units of owners");
    if (!x->cuts)
        return SR_E_MEMORY;
    for (int64_t b = 1; b < blocks; b++) {
        const sr_segment *whole = whole_around(x, b * x->block);
        const int64_t cut = whole ? whole->begin : b * x->block;
        if (cut > x->cuts[x->unit_count])
            x->cuts[++x->unit_count] = cut;
    }
    x->cuts[++x->unit_count] = x->elements;
    return SR_OK;
}

// The number of blocks in a run of units, rounded up.
static int64_t blocks_between(const sr_exchange *x, int first, int end) {
    return divide_up(x->cuts[end] - x->cuts[first], x->block);
}

// Runs of units, from the end of the flat space: of at most 'most' blocks, or one larger unit.
static void list_buckets(sr_exchange *x, int64_t most) {
    for (int end = x->unit_count; end > 0; end = x->buckets[x->bucket_count - 1].first_unit) {
        sr_exchange_bucket *b = &x->buckets[x->bucket_count++];
        int first = end - 1;
        while (first > 0 && blocks_between(x, first - 1, end) <= most)
            first--;
        *b = (sr_exchange_bucket){.begin = x->cuts[first],
                                  .end = x->cuts[end],
                                  .first_unit = first,
                                  .units = end - first};
        x->bucket_elements = max64(x->bucket_elements, b->end - b->begin);
    }
}

static sr_status cut_buckets(sr_exchange *x, int64_t bucket_bytes) {
    const int64_t block_bytes = x->block * (int64_t)sizeof(float);
    const int64_t wanted = bucket_bytes ? bucket_bytes : BUCKET_BYTES;
    SR_TRY(cut_units(x));
    x->buckets = sr_alloc_array((size_t)x->unit_count, sizeof *x->buckets, "buckets");
    if (!x->buckets)
        return SR_E_MEMORY;
    list_buckets(x, max64(1, divide_up(wanted, block_bytes)));
    SR_TRY(sr_lane_pool_create(x->device, x->bucket_elements, &x->pool));
    for (int i = 0; i < x->bucket_count; i++) {
        sr_exchange_bucket *b = &x->buckets[i];
        const int64_t inside = covered(x, b->begin, b->end);
        if (inside > 0)
            SR_TRY(sr_lane_tree_create(x->lanes, x->lane_first, x->lane_last, b->end - b->begin,
                                       inside, x->pool, &b->tree));
    }
    return SR_OK;
}

// The sub-trees of all ranks in lane order, and the adds that fold them.
static sr_status plan_adds(sr_exchange *x) {
    sr_lane_range *all = sr_alloc_array((size_t)x->lanes + SR_LANE_MAX_SUBTREES, sizeof *all,
                                        "sub-trees of all ranks");
    x->first_partial = sr_alloc_array((size_t)x->size + 1, sizeof *x->first_partial, "sub-trees");
    sr_status status = all && x->first_partial ? SR_OK : SR_E_MEMORY;
    int count = 0;
    for (int r = 0; r < x->size && status == SR_OK; r++) {
        x->first_partial[r] = count;
        count += sr_lane_subtrees(x->lanes, sr_lanes_first(x->lanes, x->size, r),
                                  sr_lanes_first(x->lanes, x->size, r + 1), all + count);
        x->first_partial[r + 1] = count;
    }
    if (status == SR_OK) {
        x->plan = sr_alloc_array((size_t)count, sizeof *x->plan, "plan of adds");
        status = x->plan ? sr_lane_fold_plan(x->lanes, all, count, x->plan) : SR_E_MEMORY;
    }
    sr_free(all);
    return status;
}

static sr_status list_owned(sr_exchange *x) {
    x->owned = sr_alloc_array((size_t)x->bucket_count, sizeof *x->owned, "owned ranges");
    if (!x->owned)
        return SR_E_MEMORY;
    for (int i = x->bucket_count - 1; i >= 0; i--) {
        sr_range part = sr_exchange_bucket_range(x, i, x->rank);
        if (part.begin == part.end)
            continue;
        if (x->owned_count > 0 && x->owned[x->owned_count - 1].end == part.begin)
            x->owned[x->owned_count - 1].end = part.end;
        else
            x->owned[x->owned_count++] = part;
    }
    return SR_OK;
}

static sr_status make_list(sr_message_list *list, int capacity) {
    list->messages = sr_alloc_array((size_t)capacity + 1, sizeof *list->messages, "messages");
    return list->messages ? SR_OK : SR_E_MEMORY;
}

// Groups are runs of one array, so that all requests can be cancelled together.
static sr_comm_request *make_group(sr_message_group *group, sr_comm_request *place, int capacity) {
    *group = (sr_message_group){.requests = place, .capacity = capacity};
    return place + capacity;
}

static sr_status make_transfers(sr_exchange *x) {
    int mine = x->first_partial[x->rank + 1] - x->first_partial[x->rank];
    int all = x->first_partial[x->size], others = x->size - 1;
    int64_t largest = 0;
    for (int i = 0; i < x->bucket_count; i++) {
        sr_range part = sr_exchange_bucket_range(x, i, x->rank);
        largest = max64(largest, part.end - part.begin);
    }
    x->transfer_count = (int)min64(SR_EXCHANGE_WINDOW, x->bucket_count);
    x->request_count = x->transfer_count * (all - mine + others * mine + 2 * others);
    x->requests = sr_alloc_array((size_t)x->request_count, sizeof *x->requests, "messages");
    if (!x->requests)
        return SR_E_MEMORY;
    sr_comm_request *place = x->requests;
    for (int i = 0; i < x->transfer_count; i++) {
        sr_exchange_transfer *transfer = &x->transfers[i];
        place = make_group(&transfer->sums_in, place, all - mine);
        place = make_group(&transfer->sums_out, place, others * mine);
        place = make_group(&transfer->values_in, place, others);
        place = make_group(&transfer->values_out, place, others);
        transfer->partials =
            sr_alloc_array((size_t)all, sizeof *transfer->partials, "partial sums");
        if (!transfer->partials)
            return SR_E_MEMORY;
        SR_TRY(make_list(&transfer->swap, all - mine + others * mine));
        SR_TRY(make_list(&transfer->spread, 2 * others));
        SR_TRY(sr_event_create(x->device, &transfer->updated));
        SR_TRY(sr_event_create(x->device, &transfer->sums_here));
        SR_TRY(sr_event_create(x->device, &transfer->values_here));
        if (all > mine && largest > 0)
            SR_TRY(sr_device_alloc(x->device,
                                   (size_t)(all - mine) * (size_t)largest * sizeof(float),
                                   "partial sums of other ranks", &transfer->received));
    }
    return SR_OK;
}

sr_status sr_exchange_prepare_adds(sr_exchange *x) {
    for (int b = 0; b < x->bucket_count; b++) {
        const sr_exchange_bucket *bucket = &x->buckets[b];
        SR_TRY(sr_lane_pool_prepare(x->pool, bucket->end - bucket->begin));
        if (sr_device_get_properties(x->device)->asynchronous)
            continue; // lanes are added by another kernel (sr_lane_pool_fold)
        for (int s = 0; s < x->segment_count; s++) {
            const sr_segment *segment = &x->segments[s];
            const int64_t count = min64(segment->begin + segment->count, bucket->end) -
                                  max64(segment->begin, bucket->begin);
            for (int64_t n = segment->padded ? 1 : count; n > 0 && n <= count; n++)
                SR_TRY(sr_lane_pool_prepare(x->pool, n));
        }
    }
    return SR_OK;
}

sr_status sr_exchange_build(sr_exchange *x, const sr_exchange_options *o, int64_t block_elements) {
    SR_TRY(check_options(x, o));
    x->lanes = o->lanes;
    x->lane_first = sr_lanes_first(o->lanes, x->size, x->rank);
    x->lane_last = sr_lanes_first(o->lanes, x->size, x->rank + 1);
    x->block = block_elements ? block_elements : SR_BLOCK_ELEMENTS;
    x->elements = o->elements;
    x->device = o->device;
    x->values = o->values;
    x->update = o->update;
    x->measure = o->measure;
    x->agree = o->agree;
    x->rounds = o->rounds > 0 ? o->rounds : 1;
    x->user = o->user;
    x->report_ns = (int64_t)((o->report_seconds > 0 ? o->report_seconds : 10) * 1e9);
    x->act_ns = (int64_t)((o->act_seconds > 0 ? o->act_seconds : 120) * 1e9);
    SR_TRY(sr_stream_create(x->device, &x->driver->stream, &x->stream));
    SR_TRY(copy_segments(x, o));
    SR_TRY(make_zeros(x));
    SR_TRY(cut_buckets(x, o->bucket_bytes));
    SR_TRY(plan_adds(x));
    SR_TRY(list_owned(x));
    return make_transfers(x);
}

void sr_exchange_unbuild(sr_exchange *x) {
    // These wait for work that uses the memory freed below: work on the stream, and copies of
    // messages.
    sr_stream_free(x->stream);
    if (x->device)
        sr_comm_release_device(x->comm, x->device);
    for (int i = 0; i < SR_EXCHANGE_WINDOW; i++) {
        sr_exchange_transfer *transfer = &x->transfers[i];
        sr_free(transfer->partials);
        sr_free(transfer->swap.messages);
        sr_free(transfer->spread.messages);
        sr_event_free(transfer->updated);
        sr_event_free(transfer->sums_here);
        sr_event_free(transfer->values_here);
        sr_device_free(x->device, transfer->received);
    }
    for (int i = 0; x->buckets && i < x->bucket_count; i++)
        sr_lane_tree_free(x->buckets[i].tree);
    sr_lane_pool_free(x->pool);
    sr_free(x->requests);
    sr_free(x->buckets);
    sr_free(x->cuts);
    sr_free(x->first_partial);
    sr_free(x->plan);
    sr_free(x->owned);
    sr_device_free(x->device, x->zeros);
    sr_free(x->segments);
    sr_free(x->segment_names);
    sr_free(x->given);
}

static uint64_t hash_options(const sr_exchange *x) {
    int64_t numbers[] = {x->lanes,           x->block,         x->elements,
                         x->bucket_elements, x->segment_count, x->measure ? x->rounds : 0};
    uint64_t hash = sr_hash64_seed(x->driver->name, strlen(x->driver->name),
                                   sr_hash64(numbers, sizeof numbers));
    for (int i = 0; i < x->segment_count; i++) {
        const sr_segment *s = &x->segments[i];
        int64_t place[] = {s->begin, s->count, s->whole};
        hash = sr_hash64_seed(place, sizeof place, hash);
        hash = sr_hash64_seed(s->name, strlen(s->name), hash);
    }
    return hash;
}

static sr_status hash_values(const sr_exchange *x, uint64_t *out) {
    const size_t bytes = (size_t)x->elements * sizeof(float);
    void *values = NULL;
    SR_TRY(sr_device_map(x->device, x->values, bytes, &values));
    *out = sr_hash64(values, bytes);
    return sr_device_unmap(x->device, x->values, bytes, values, false);
}

sr_status sr_exchange_compare(sr_exchange *x) {
    if (x->size == 1)
        return SR_OK;
    uint64_t mine[2] = {hash_options(x), 0};
    SR_TRY(hash_values(x, &mine[1]));
    uint64_t(*all)[2] = sr_alloc_array((size_t)x->size, sizeof *all, "hashes of ranks");
    if (!all)
        return SR_E_MEMORY;
    sr_status status = sr_comm_all_gather(x->comm, mine, sizeof mine, all,
                                          "all ranks to compare their first values");
    for (int r = 1; r < x->size && status == SR_OK; r++) {
        if (all[r][0] != all[0][0]) {
            status = SR_FAIL(SR_E_USAGE,
                             "rank %d (%s) has different segments, lanes or buckets from rank 0; "
                             "start all ranks with the same recipe and build",
                             r, sr_comm_peer_name(x->comm, r));
        } else if (all[r][1] != all[0][1]) {
            status = SR_FAIL(SR_E_NUMERICS,
                             "rank %d (%s) starts from different values than rank 0; its "
                             "processor, libraries or checkpoint differ",
                             r, sr_comm_peer_name(x->comm, r));
        }
    }
    sr_free(all);
    return status;
}
