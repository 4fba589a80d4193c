// SPDX-License-Identifier: Apache-2.0
// Sums over lanes through the fixed binary tree; see lane_tree.h.
//
// A binary counter generalised to arrivals in any order: a table holds the complete nodes that wait
// for their sibling, keyed by their first lane (two nodes that wait never begin at the same lane).
// The thread that completes a node looks for its sibling. If that is in the table, the thread takes
// it out, adds the two outside the lock and continues with the parent. So whatever the order, the
// same pairs are added, and since a + b and b + a have the same bits, it does not matter which of
// the two buffers is kept. Not here: messages between ranks (exchange.c).
#include "trainer/exchange/lane_tree.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/kernel_params.h"
#include "kernels/prepared_cache.h"

typedef struct lane_node {
    int begin, level;
} lane_node;

// The number of lanes that a node would cover if the tree had no right edge.
static int64_t width(int level) {
    return INT64_C(1) << level;
}

static bool is_left(lane_node n) {
    return (n.begin / width(n.level)) % 2 == 0;
}

// A left child without a sibling is its own parent: goes up to the highest such node.
static lane_node promote(lane_node n, int lanes) {
    while (width(n.level) < lanes && is_left(n) && n.begin + width(n.level) >= lanes)
        n.level++;
    return n;
}

// First lane of the sibling. Only legal for promoted nodes below the root, which have one.
static int sibling_begin(lane_node n) {
    int64_t w = width(n.level);
    return (int)(is_left(n) ? n.begin + w : n.begin - w);
}

int sr_lane_subtrees(int lanes, int first, int last, sr_lane_range *out) {
    int count = 0;
    for (int begin = first; begin < last;) {
        int64_t end = begin + 1;
        for (int level = 1; width(level - 1) < lanes && begin % width(level) == 0; level++) {
            int64_t clipped = begin + width(level);
            clipped = clipped < lanes ? clipped : lanes;
            if (clipped > last)
                break;
            end = clipped;
        }
        out[count++] = (sr_lane_range){begin, (int)end};
        begin = (int)end;
    }
    return count;
}

sr_status sr_lane_fold_plan(int lanes, const sr_lane_range *partials, int count, sr_lane_add *out) {
    struct {
        lane_node at;
        int partial;
    } stack[SR_LANE_MAX_SUBTREES];
    int depth = 0, adds = 0;
    for (int i = 0; i < count; i++) {
        lane_node at = {.begin = partials[i].begin, .level = 0};
        while (width(at.level) < partials[i].end - partials[i].begin)
            at.level++;
        at = promote(at, lanes);
        int partial = i;
        while (depth > 0 && stack[depth - 1].at.level == at.level &&
               sibling_begin(at) == stack[depth - 1].at.begin) {
            depth--;
            out[adds++] = (sr_lane_add){.into = stack[depth].partial, .from = partial};
            partial = stack[depth].partial;
            at = promote((lane_node){stack[depth].at.begin, at.level + 1}, lanes);
        }
        if (depth == SR_LANE_MAX_SUBTREES)
            return SR_FAIL(SR_E_INTERNAL, "%d partial sums of %d lanes do not fold", count, lanes);
        stack[depth].at = at;
        stack[depth++].partial = partial;
    }
    if (depth != 1 || adds != count - 1 || width(stack[0].at.level) < lanes)
        return SR_FAIL(SR_E_INTERNAL, "%d partial sums of %d lanes do not fold into one", count,
                       lanes);
    return SR_OK;
}

// ---- buffers

// A buffer, and the end of the work that was enqueued for it.
typedef struct lane_buffer {
    sr_address memory;
    sr_event *used;
    const sr_lane_tree *owner; // in a pool that keeps owners; NULL: no tree has used it
} lane_buffer;

struct sr_lane_pool {
    pthread_mutex_t lock;
    sr_device *device;
    int64_t elements;
    bool keeps_owners;
    lane_buffer **unused;
    size_t count, capacity;
    lane_buffer **all;
    size_t made, all_capacity, peak;
    sr_prepared_cache *kernels;
};

sr_status sr_lane_pool_create(sr_device *device, int64_t elements, sr_lane_pool **out) {
    sr_lane_pool *pool = sr_alloc(sizeof *pool, "lane buffers");
    if (!pool)
        return SR_E_MEMORY;
    pthread_mutex_init(&pool->lock, NULL);
    pool->device = device;
    pool->elements = elements;
    pool->keeps_owners = sr_device_get_properties(device)->asynchronous;
    const sr_status status = sr_prepared_cache_create(&pool->kernels);
    if (status != SR_OK) {
        sr_lane_pool_free(pool);
        return status;
    }
    *out = pool;
    return SR_OK;
}

static void free_buffer(sr_lane_pool *pool, lane_buffer *buffer) {
    sr_event_free(buffer->used);
    sr_device_free(pool->device, buffer->memory);
    sr_free(buffer);
}

void sr_lane_pool_free(sr_lane_pool *pool) {
    if (!pool)
        return;
    for (size_t i = 0; i < pool->made; i++)
        free_buffer(pool, pool->all[i]);
    sr_free(pool->all);
    sr_free(pool->unused);
    sr_prepared_cache_free(pool->kernels);
    pthread_mutex_destroy(&pool->lock);
    sr_free(pool);
}

size_t sr_lane_pool_peak(const sr_lane_pool *pool) {
    return pool->peak;
}

// Both lists are enlarged first, so that returning a buffer never fails.
static sr_status make_room(sr_lane_pool *pool) {
    void *unused = pool->unused, *all = pool->all;
    sr_status status = sr_grow(&unused, &pool->capacity, pool->made + 1, sizeof *pool->unused,
                               "list of lane buffers");
    pool->unused = unused;
    SR_TRY(status);
    status = sr_grow(&all, &pool->all_capacity, pool->made + 1, sizeof *pool->all,
                     "list of lane buffers");
    pool->all = all;
    return status;
}

static sr_status make_buffer(sr_lane_pool *pool, lane_buffer **out) {
    SR_TRY(make_room(pool));
    lane_buffer *buffer = sr_alloc(sizeof *buffer, "partial sum over lanes");
    if (!buffer)
        return SR_E_MEMORY;
    sr_status status = sr_event_create(pool->device, &buffer->used);
    if (status == SR_OK)
        status = sr_device_alloc(pool->device, (size_t)pool->elements * sizeof(float),
                                 "partial sum over lanes", &buffer->memory);
    if (status != SR_OK) {
        free_buffer(pool, buffer);
        return status;
    }
    pool->all[pool->made++] = buffer;
    *out = buffer;
    return SR_OK;
}

// Whether a tree takes this buffer rather than that one, which it could take, too: one that it has
// had before, or else a new one; of these the same in every step.
static bool is_better(const sr_lane_tree *tree, const lane_buffer *a, const lane_buffer *b) {
    const int rank_of_a = a->owner == tree ? 0 : a->owner ? 2 : 1;
    const int rank_of_b = b->owner == tree ? 0 : b->owner ? 2 : 1;
    return rank_of_a != rank_of_b ? rank_of_a < rank_of_b : a->memory.at < b->memory.at;
}

// The place of the buffer that a tree takes; there is one. On a CPU it is the one that was returned
// last, since it is in the cache. A device replays work that has the addresses of an earlier step
// (stream.h), so there a tree takes its buffers again.
static size_t find_unused(const sr_lane_pool *pool, const sr_lane_tree *tree) {
    size_t found = pool->count - 1;
    for (size_t i = 0; pool->keeps_owners && i < pool->count; i++)
        if (is_better(tree, pool->unused[i], pool->unused[found]))
            found = i;
    return found;
}

static sr_status take_buffer(sr_lane_pool *pool, const sr_lane_tree *tree, lane_buffer **out) {
    sr_status status = SR_OK;
    pthread_mutex_lock(&pool->lock);
    if (pool->count > 0) {
        const size_t at = find_unused(pool, tree);
        *out = pool->unused[at];
        pool->unused[at] = pool->unused[--pool->count];
    } else {
        status = make_buffer(pool, out);
    }
    if (status == SR_OK && pool->keeps_owners)
        (*out)->owner = tree;
    if (pool->made - pool->count > pool->peak)
        pool->peak = pool->made - pool->count;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

sr_status sr_lane_pool_reserve(sr_lane_pool *pool, size_t count) {
    sr_status status = SR_OK;
    pthread_mutex_lock(&pool->lock);
    while (pool->made < count && status == SR_OK) {
        lane_buffer *buffer;
        status = make_buffer(pool, &buffer);
        if (status == SR_OK)
            pool->unused[pool->count++] = buffer;
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

static void give_buffer(sr_lane_pool *pool, lane_buffer *buffer) {
    pthread_mutex_lock(&pool->lock);
    pool->unused[pool->count++] = buffer;
    pthread_mutex_unlock(&pool->lock);
}

static sr_status get_add(sr_lane_pool *pool, int64_t count, const sr_prepared_entry **out) {
    const sr_expression_params params = {.count = count};
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(pool->device)->kind, SR_KERNEL_add,
                           SR_F32, &params, sizeof params);
    return sr_prepared_cache_get(pool->kernels, &request, out);
}

sr_status sr_lane_pool_prepare(sr_lane_pool *pool, int64_t count) {
    const sr_prepared_entry *kernel;
    return get_add(pool, count, &kernel);
}

sr_status sr_lane_pool_add(sr_lane_pool *pool, sr_stream *stream, sr_address into, sr_address from,
                           int64_t count) {
    const sr_prepared_entry *kernel;
    SR_TRY(get_add(pool, count, &kernel));
    const sr_address p[] = {into, from, into};
    const sr_kernel_call call = {.prepared = &kernel->prepared,
                                 .request = &kernel->request,
                                 .p = p,
                                 .site = {.what = "sum over lanes"}};
    return sr_stream_launch(stream, &call);
}

static_assert(SR_LANE_PARTS == SR_FOLD_PARTS, "parts of one launch");

static sr_status get_fold(sr_lane_pool *pool, const sr_fold_params *params,
                          const sr_prepared_entry **out) {
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(pool->device)->kind,
                           SR_KERNEL_fold_lanes, SR_F32, params, sizeof *params);
    for (int i = params->parts; i < SR_FOLD_PARTS; i++)
        request.dtype[sr_fold_input(i)] = SR_DTYPE_COUNT;
    return sr_prepared_cache_get(pool->kernels, &request, out);
}

static sr_status fill_fold(int lanes, const sr_lane_part *parts, int count, sr_fold_params *out) {
    *out = (sr_fold_params){.parts = count, .lanes = lanes};
    for (int i = 0; i < count; i++) {
        const sr_lane_part *part = &parts[i];
        if (part->count > UINT32_MAX || part->stride > UINT32_MAX || part->offset > UINT32_MAX)
            return SR_FAIL(SR_E_UNSUPPORTED,
                           "lanes with %lld elements, %lld apart; at most 2^32 - 1 are added at a "
                           "time",
                           (long long)part->count, (long long)part->stride);
        out->part[i] = (sr_fold_part){.count = (uint32_t)part->count,
                                      .stride = (uint32_t)part->stride,
                                      .place = (uint32_t)part->offset};
    }
    return SR_OK;
}

// Which of two nodes arrives first may differ from step to step, so both kernels are prepared.
sr_status sr_lane_pool_fold(sr_lane_pool *pool, sr_stream *stream, sr_address into, int lanes,
                            const sr_lane_part *parts, int count, bool adds) {
    const sr_prepared_entry *kernel;
    sr_fold_params params;
    sr_address p[SR_FOLD_PARTS + 1] = {0};
    SR_TRY(fill_fold(lanes, parts, count, &params));
    params.adds = !adds;
    SR_TRY(get_fold(pool, &params, &kernel));
    params.adds = adds;
    SR_TRY(get_fold(pool, &params, &kernel));
    p[SR_FOLD_OUTPUT] = into;
    for (int i = 0; i < count; i++)
        p[sr_fold_input(i)] = parts[i].data;
    const sr_kernel_call call = {.prepared = &kernel->prepared,
                                 .request = &kernel->request,
                                 .p = p,
                                 .site = {.what = "sum over lanes"}};
    return sr_stream_launch(stream, &call);
}

// ---- one bucket

// What arrives: a lane, or the lanes of a node at once.
typedef struct lane_leaf {
    lane_buffer *buffer; // being written; NULL before the first part and after the last
    bool adds;           // 'buffer' is the sibling's, and this one is added to it
    int end;             // of its lanes
    int64_t left;        // elements still to come
} lane_leaf;

typedef struct waiting {
    lane_buffer *buffer; // NULL: no complete node begins here
    int level;
} waiting;

struct sr_lane_tree {
    pthread_mutex_t lock;
    int lanes, first, last;
    int64_t elements, covered;
    sr_lane_pool *pool;
    lane_leaf *leaves; // per first lane of what arrives
    waiting *waiting;  // per first lane of a node
    int leaves_done, merging;
    int subtree_count;
    sr_lane_range subtrees[SR_LANE_MAX_SUBTREES];
};

sr_status sr_lane_tree_create(int lanes, int first, int last, int64_t elements, int64_t covered,
                              sr_lane_pool *pool, sr_lane_tree **out) {
    if (first < 0 || first >= last || last > lanes || covered < 1 || covered > elements ||
        elements > pool->elements)
        return SR_FAIL(SR_E_ARGUMENT, "a tree of lanes %d to %d of %d with %lld elements", first,
                       last, lanes, (long long)elements);
    sr_lane_tree *tree = sr_alloc(sizeof *tree, "lane tree");
    if (!tree)
        return SR_E_MEMORY;
    pthread_mutex_init(&tree->lock, NULL);
    size_t local = (size_t)(last - first);
    tree->lanes = lanes;
    tree->first = first;
    tree->last = last;
    tree->elements = elements;
    tree->covered = covered;
    tree->pool = pool;
    tree->subtree_count = sr_lane_subtrees(lanes, first, last, tree->subtrees);
    tree->leaves = sr_alloc_array(local, sizeof *tree->leaves, "lane tree");
    tree->waiting = sr_alloc_array(local, sizeof *tree->waiting, "lane tree");
    if (!tree->leaves || !tree->waiting) {
        sr_lane_tree_free(tree);
        return SR_E_MEMORY;
    }
    sr_lane_tree_reset(tree);
    *out = tree;
    return SR_OK;
}

void sr_lane_tree_reset(sr_lane_tree *tree) {
    pthread_mutex_lock(&tree->lock);
    for (int i = 0; i < tree->last - tree->first; i++) {
        if (tree->leaves[i].buffer)
            give_buffer(tree->pool, tree->leaves[i].buffer);
        if (tree->waiting[i].buffer)
            give_buffer(tree->pool, tree->waiting[i].buffer);
        tree->leaves[i] = (lane_leaf){.left = tree->covered};
        tree->waiting[i] = (waiting){0};
    }
    tree->leaves_done = 0;
    pthread_mutex_unlock(&tree->lock);
}

void sr_lane_tree_free(sr_lane_tree *tree) {
    if (!tree)
        return;
    if (tree->leaves && tree->waiting)
        sr_lane_tree_reset(tree);
    sr_free(tree->leaves);
    sr_free(tree->waiting);
    pthread_mutex_destroy(&tree->lock);
    sr_free(tree);
}

// The entry of the node that begins at this lane, NULL when it is another rank's.
static waiting *entry_of(sr_lane_tree *tree, int begin) {
    return begin >= tree->first && begin < tree->last ? &tree->waiting[begin - tree->first] : NULL;
}

// Takes the buffer of a complete node out of the table; NULL if it is not in the table (yet).
static lane_buffer *take_node(sr_lane_tree *tree, int begin, int level) {
    waiting *entry = entry_of(tree, begin);
    if (!entry || !entry->buffer || entry->level != level)
        return NULL;
    lane_buffer *buffer = entry->buffer;
    entry->buffer = NULL;
    return buffer;
}

static lane_node node_of(sr_lane_range lanes) {
    lane_node at = {.begin = lanes.begin};
    while (width(at.level) < lanes.end - lanes.begin)
        at.level++;
    return at;
}

// The buffer that a node is written to: its complete sibling's, to be added to, or a new one. The
// stream first waits for other streams' work on it.
static sr_status open_leaf(sr_lane_tree *tree, sr_lane_range lanes, sr_stream *stream) {
    lane_leaf *own = &tree->leaves[lanes.begin - tree->first];
    const lane_node at = node_of(lanes);
    own->end = lanes.end;
    own->buffer = take_node(tree, sibling_begin(at), at.level);
    own->adds = own->buffer != NULL;
    if (!own->adds)
        SR_TRY(take_buffer(tree->pool, tree, &own->buffer));
    SR_TRY(sr_stream_wait_event(stream, own->buffer->used));
    if (own->adds || tree->covered == tree->elements)
        return SR_OK;
    return sr_stream_clear(stream, own->buffer->memory, (size_t)tree->elements * sizeof(float));
}

// Adds a complete node to its sibling; its buffer is free afterwards.
static sr_status merge(sr_lane_tree *tree, lane_buffer *into, lane_buffer *from,
                       sr_stream *stream) {
    SR_TRY(sr_stream_wait_event(stream, from->used));
    SR_TRY(sr_lane_pool_add(tree->pool, stream, into->memory, from->memory, tree->elements));
    return sr_event_record(from->used, stream);
}

// With the lock held: a node is complete. Adds pairs of siblings upwards as long as there are any.
// *complete: all sub-trees are now final.
static sr_status complete_node(sr_lane_tree *tree, lane_node at, lane_buffer *buffer,
                               sr_stream *stream, bool *complete) {
    sr_status status = SR_OK;
    for (;;) {
        at = promote(at, tree->lanes);
        bool is_root = width(at.level) >= tree->lanes;
        int other = is_root ? -1 : sibling_begin(at);
        lane_buffer *sibling = is_root ? NULL : take_node(tree, other, at.level);
        if (!sibling || status != SR_OK)
            break;
        tree->merging++;
        pthread_mutex_unlock(&tree->lock);
        status = merge(tree, buffer, sibling, stream);
        give_buffer(tree->pool, sibling);
        pthread_mutex_lock(&tree->lock);
        tree->merging--;
        at.begin = at.begin < other ? at.begin : other;
        at.level++;
    }
    if (status == SR_OK)
        status = sr_event_record(buffer->used, stream);
    *entry_of(tree, at.begin) = (waiting){.buffer = buffer, .level = at.level};
    *complete = tree->leaves_done == tree->last - tree->first && tree->merging == 0;
    return status;
}

static sr_status close_leaf(sr_lane_tree *tree, sr_lane_range lanes, sr_stream *stream,
                            bool *complete) {
    lane_leaf *own = &tree->leaves[lanes.begin - tree->first];
    lane_buffer *buffer = own->buffer;
    lane_node at = node_of(lanes);
    own->buffer = NULL;
    tree->leaves_done += lanes.end - lanes.begin;
    if (own->adds)
        at =
            (lane_node){.begin = is_left(at) ? at.begin : sibling_begin(at), .level = at.level + 1};
    return complete_node(tree, at, buffer, stream, complete);
}

// Writes or adds parts of some lanes to a node's buffer. Where a launch costs more than the work on
// a part, all parts are one.
static sr_status fold(sr_lane_tree *tree, int lanes, const sr_lane_part *parts, int count,
                      sr_address memory, bool adds, sr_stream *stream) {
    if (lanes > 1 || sr_device_get_properties(tree->pool->device)->asynchronous)
        return sr_lane_pool_fold(tree->pool, stream, memory, lanes, parts, count, adds);
    for (int i = 0; i < count; i++) {
        const sr_address to = sr_address_add(memory, (size_t)parts[i].offset * sizeof(float));
        SR_TRY(adds ? sr_lane_pool_add(tree->pool, stream, to, parts[i].data, parts[i].count)
                    : sr_stream_copy(stream, to, parts[i].data,
                                     (size_t)parts[i].count * sizeof(float)));
    }
    return SR_OK;
}

static sr_status check_parts(const sr_lane_tree *tree, sr_lane_range lanes,
                             const sr_lane_part *parts, int count) {
    if (count < 1 || count > SR_LANE_PARTS)
        return SR_FAIL(SR_E_ARGUMENT, "%d parts of lanes at a time", count);
    for (int i = 0; i < count; i++) {
        const int64_t begin = parts[i].offset, end = begin + parts[i].count;
        if (lanes.begin < tree->first || lanes.end > tree->last || lanes.begin >= lanes.end ||
            begin < 0 || parts[i].count < 1 || end > tree->elements)
            return SR_FAIL(SR_E_ARGUMENT, "lanes %d to %d give elements %lld to %lld of %lld",
                           lanes.begin, lanes.end - 1, (long long)begin, (long long)end,
                           (long long)tree->elements);
    }
    return SR_OK;
}

sr_status sr_lane_tree_put(sr_lane_tree *tree, sr_lane_range lanes, const sr_lane_part *parts,
                           int count, sr_stream *stream, bool *complete) {
    int64_t elements = 0;
    *complete = false;
    SR_TRY(check_parts(tree, lanes, parts, count));
    for (int i = 0; i < count; i++)
        elements += parts[i].count;
    lane_leaf *own = &tree->leaves[lanes.begin - tree->first];
    pthread_mutex_lock(&tree->lock);
    sr_status status = SR_OK;
    if (own->left < elements || (own->buffer && own->end != lanes.end))
        status = SR_FAIL(SR_E_ARGUMENT, "lane %d gives more elements than it has", lanes.begin);
    else if (!own->buffer)
        status = open_leaf(tree, lanes, stream);
    const sr_address memory = own->buffer ? own->buffer->memory : sr_address_none();
    const bool adds = own->adds;
    pthread_mutex_unlock(&tree->lock);
    SR_TRY(status);
    SR_TRY(fold(tree, lanes.end - lanes.begin, parts, count, memory, adds, stream));
    pthread_mutex_lock(&tree->lock);
    own->left -= elements;
    if (own->left == 0)
        status = close_leaf(tree, lanes, stream, complete);
    pthread_mutex_unlock(&tree->lock);
    return status;
}

static lane_buffer *subtree(const sr_lane_tree *tree, int i) {
    return tree->waiting[tree->subtrees[i].begin - tree->first].buffer;
}

bool sr_lane_tree_ready(const sr_lane_tree *tree) {
    for (int i = 0; i < tree->subtree_count; i++)
        if (!sr_event_done(subtree(tree, i)->used))
            return false;
    return true;
}

sr_status sr_lane_tree_wait(const sr_lane_tree *tree, sr_stream *stream) {
    for (int i = 0; i < tree->subtree_count; i++)
        SR_TRY(sr_stream_wait_event(stream, subtree(tree, i)->used));
    return SR_OK;
}

sr_address sr_lane_tree_partial(const sr_lane_tree *tree, int i) {
    return subtree(tree, i)->memory;
}
