// SPDX-License-Identifier: Apache-2.0
// Sums over lanes through the fixed binary tree; see lane_tree.h.
//
// A binary counter generalised to arrivals in any order: a table holds the complete nodes that wait
// for their sibling, keyed by their first lane (two nodes that wait never begin at the same lane).
// Whoever completes a node looks for its sibling; when it is there, takes it out, adds outside
// the lock and goes on with the parent. So whatever the order, the same pairs are added, and since
// a + b and b + a have the same bits, it does not matter which of the two buffers is kept.
// Not here: messages between ranks (exchange.c).
#include "trainer/exchange/lane_tree.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "kernels/base/memory.h"

#define VECTOR 16 // floats that one turn of the sum adds; a fixed count lets compilers vectorise

typedef struct lane_node {
    int begin, level;
} lane_node;

// Lanes that a node would cover without the right edge.
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

// First lane of the sibling. Only for promoted nodes below the root: it exists there.
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

void sr_lane_sum(float *restrict into, const float *restrict from, int64_t count) {
    int64_t i = 0;
    for (; i + VECTOR <= count; i += VECTOR) {
        for (int j = 0; j < VECTOR; j++)
            into[i + j] += from[i + j];
    }
    for (; i < count; i++)
        into[i] += from[i];
}

// ---- buffers

struct sr_lane_pool {
    pthread_mutex_t lock;
    int64_t elements;
    float **unused; // the last one given back is the first one taken: it is warm
    size_t count, capacity, made, peak;
};

sr_status sr_lane_pool_create(int64_t elements, sr_lane_pool **out) {
    sr_lane_pool *pool = sr_alloc(sizeof *pool, "lane buffers");
    if (!pool)
        return SR_E_MEMORY;
    pthread_mutex_init(&pool->lock, NULL);
    pool->elements = elements;
    *out = pool;
    return SR_OK;
}

void sr_lane_pool_free(sr_lane_pool *pool) {
    if (!pool)
        return;
    for (size_t i = 0; i < pool->count; i++)
        sr_free(pool->unused[i]);
    sr_free(pool->unused);
    pthread_mutex_destroy(&pool->lock);
    sr_free(pool);
}

size_t sr_lane_pool_peak(const sr_lane_pool *pool) {
    return pool->peak;
}

static sr_status make_buffer(sr_lane_pool *pool, float **out) {
    // Room to give it back is made now, so that giving back never fails.
    void *unused = pool->unused;
    sr_status status = sr_grow(&unused, &pool->capacity, pool->made + 1, sizeof *pool->unused,
                               "list of lane buffers");
    pool->unused = unused;
    SR_TRY(status);
    *out = sr_alloc_array((size_t)pool->elements, sizeof **out, "partial sum over lanes");
    if (!*out)
        return SR_E_MEMORY;
    pool->made++;
    return SR_OK;
}

static sr_status take_buffer(sr_lane_pool *pool, float **out) {
    sr_status status = SR_OK;
    pthread_mutex_lock(&pool->lock);
    if (pool->count > 0)
        *out = pool->unused[--pool->count];
    else
        status = make_buffer(pool, out);
    if (pool->made - pool->count > pool->peak)
        pool->peak = pool->made - pool->count;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

sr_status sr_lane_pool_reserve(sr_lane_pool *pool, size_t count) {
    sr_status status = SR_OK;
    pthread_mutex_lock(&pool->lock);
    while (pool->made < count && status == SR_OK) {
        float *buffer;
        status = make_buffer(pool, &buffer);
        if (status == SR_OK)
            pool->unused[pool->count++] = buffer;
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

static void give_buffer(sr_lane_pool *pool, float *buffer) {
    pthread_mutex_lock(&pool->lock);
    pool->unused[pool->count++] = buffer;
    pthread_mutex_unlock(&pool->lock);
}

// ---- one bucket

typedef struct lane_leaf {
    float *buffer; // being written; NULL before the first part and after the last
    bool adds;     // 'buffer' is the sibling's, and this lane is added to it
    int64_t left;  // elements still to come
} lane_leaf;

typedef struct waiting {
    float *buffer; // NULL: no complete node begins here
    int level;
} waiting;

struct sr_lane_tree {
    pthread_mutex_t lock;
    int lanes, first, last;
    int64_t elements, covered;
    sr_lane_pool *pool;
    lane_leaf *leaves; // per lane of the rank
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

// Takes the buffer of a complete node out of the table; NULL when it is not (yet) there.
static float *take_node(sr_lane_tree *tree, int begin, int level) {
    waiting *entry = entry_of(tree, begin);
    if (!entry || !entry->buffer || entry->level != level)
        return NULL;
    float *buffer = entry->buffer;
    entry->buffer = NULL;
    return buffer;
}

// A lane's place to write: its complete sibling, to be added to, or a buffer of its own.
static sr_status open_leaf(sr_lane_tree *tree, int lane) {
    lane_leaf *own = &tree->leaves[lane - tree->first];
    own->buffer = take_node(tree, lane ^ 1, 0);
    own->adds = own->buffer != NULL;
    if (own->adds)
        return SR_OK;
    SR_TRY(take_buffer(tree->pool, &own->buffer));
    if (tree->covered < tree->elements)
        memset(own->buffer, 0, (size_t)tree->elements * sizeof *own->buffer);
    return SR_OK;
}

// With the lock held: a node is complete. Adds pairs of siblings upwards as long as there are.
// Returns whether all sub-trees are final now.
static bool complete_node(sr_lane_tree *tree, lane_node at, float *buffer) {
    for (;;) {
        at = promote(at, tree->lanes);
        bool is_root = width(at.level) >= tree->lanes;
        int other = is_root ? -1 : sibling_begin(at);
        float *sibling = is_root ? NULL : take_node(tree, other, at.level);
        if (!sibling)
            break;
        tree->merging++;
        pthread_mutex_unlock(&tree->lock);
        sr_lane_sum(buffer, sibling, tree->elements);
        give_buffer(tree->pool, sibling);
        pthread_mutex_lock(&tree->lock);
        tree->merging--;
        at.begin = at.begin < other ? at.begin : other;
        at.level++;
    }
    *entry_of(tree, at.begin) = (waiting){.buffer = buffer, .level = at.level};
    return tree->leaves_done == tree->last - tree->first && tree->merging == 0;
}

static bool close_leaf(sr_lane_tree *tree, int lane) {
    lane_leaf *own = &tree->leaves[lane - tree->first];
    float *buffer = own->buffer;
    own->buffer = NULL;
    tree->leaves_done++;
    lane_node at =
        own->adds ? (lane_node){.begin = lane & ~1, .level = 1} : (lane_node){.begin = lane};
    return complete_node(tree, at, buffer);
}

sr_status sr_lane_tree_put(sr_lane_tree *tree, int lane, int64_t offset, int64_t count,
                           const float *data, bool *complete) {
    *complete = false;
    if (lane < tree->first || lane >= tree->last || offset < 0 || count < 0 ||
        offset + count > tree->elements)
        return SR_FAIL(SR_E_ARGUMENT, "lane %d gives elements %lld to %lld of %lld", lane,
                       (long long)offset, (long long)(offset + count), (long long)tree->elements);
    if (count == 0)
        return SR_OK;
    lane_leaf *own = &tree->leaves[lane - tree->first];
    pthread_mutex_lock(&tree->lock);
    sr_status status = SR_OK;
    if (own->left < count)
        status = SR_FAIL(SR_E_ARGUMENT, "lane %d gives more elements than it has", lane);
    else if (!own->buffer)
        status = open_leaf(tree, lane);
    float *place = own->buffer ? own->buffer + offset : NULL;
    bool adds = own->adds;
    pthread_mutex_unlock(&tree->lock);
    if (status != SR_OK)
        return status;
    assert(place);

    if (adds)
        sr_lane_sum(place, data, count);
    else
        memcpy(place, data, (size_t)count * sizeof *data);

    pthread_mutex_lock(&tree->lock);
    own->left -= count;
    if (own->left == 0)
        *complete = close_leaf(tree, lane);
    pthread_mutex_unlock(&tree->lock);
    return SR_OK;
}

float *sr_lane_tree_partial(const sr_lane_tree *tree, int i) {
    return tree->waiting[tree->subtrees[i].begin - tree->first].buffer;
}

int sr_lane_tree_missing(sr_lane_tree *tree) {
    int missing = -1;
    pthread_mutex_lock(&tree->lock);
    for (int i = 0; i < tree->last - tree->first && missing < 0; i++) {
        if (tree->leaves[i].left > 0)
            missing = tree->first + i;
    }
    pthread_mutex_unlock(&tree->lock);
    return missing;
}
