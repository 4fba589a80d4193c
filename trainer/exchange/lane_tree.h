// SPDX-License-Identifier: Apache-2.0
// The fixed binary tree on lane numbers, through which all sums over lanes are computed.
//
// L lanes are the leaves; node j of level k covers lanes [j 2^k, (j+1) 2^k), except those past the
// right edge. Its value is the value of its left child plus that of its right child (fp32, one
// plain add per element); a missing right child leaves the left one unchanged. So the value of the
// root is one fixed expression of the lanes' values, no matter which rank or thread computes which
// part, or when.
//
// A rank owns lanes [first, last). It folds them as they arrive and ends up with the maximal nodes
// inside this range (its "sub-trees", at most 2 log2 L); a rank that has the sub-trees of all ranks
// folds them with sr_lane_fold_plan.
#ifndef SR_TRAINER_LANE_TREE_H
#define SR_TRAINER_LANE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_LANE_MAX_SUBTREES 64 // of one rank

// Lanes [begin, end) of one node.
typedef struct sr_lane_range {
    int begin, end;
} sr_lane_range;

// partial[into] += partial[from]
typedef struct sr_lane_add {
    int into, from;
} sr_lane_add;

// Writes the maximal nodes inside lanes [first, last), in lane order, and returns how many.
int sr_lane_subtrees(int lanes, int first, int last, sr_lane_range *out);
// The adds, in order, that fold the sub-trees of all ranks (in lane order, together covering all
// lanes) into partial 0. Writes count - 1 of them; SR_E_INTERNAL if the ranges are not such
// sub-trees.
SR_NODISCARD sr_status sr_lane_fold_plan(int lanes, const sr_lane_range *partials, int count,
                                         sr_lane_add *out);
// Buffers of equal size on a device, which trees share. Grows on demand and never shrinks. Locked
// inside.
typedef struct sr_lane_pool sr_lane_pool;
SR_NODISCARD sr_status sr_lane_pool_create(sr_device *device, int64_t elements, sr_lane_pool **out);
void sr_lane_pool_free(sr_lane_pool *pool);
// Allocates buffers until there are 'count', so that no later use allocates. Large ones use only
// address space until they are first written.
SR_NODISCARD sr_status sr_lane_pool_reserve(sr_lane_pool *pool, size_t count);
// Prepares the kernel that adds 'count' elements, so that no later use allocates.
SR_NODISCARD sr_status sr_lane_pool_prepare(sr_lane_pool *pool, int64_t count);
// Maximum number of buffers in use at once so far.
size_t sr_lane_pool_peak(const sr_lane_pool *pool);
// Enqueues into[i] += from[i] on the stream.
SR_NODISCARD sr_status sr_lane_pool_add(sr_lane_pool *pool, sr_stream *stream, sr_address into,
                                        sr_address from, int64_t count);

// Elements [offset, offset + count) of the lanes of one node of the tree, which arrive at once with
// the same bits as one after the other: those of the first lane are at 'data', those of each next
// one 'stride' elements behind.
typedef struct sr_lane_part {
    sr_address data;
    int64_t stride; // 0: all lanes have the same value
    int64_t offset, count;
} sr_lane_part;

#define SR_LANE_PARTS 15 // at most, that are added at a time
// Enqueues into[i] = sum, or into[i] + sum, of the elements of so many lanes, in the order of the
// tree, for all parts, which do not overlap: one launch.
SR_NODISCARD sr_status sr_lane_pool_fold(sr_lane_pool *pool, sr_stream *stream, sr_address into,
                                         int lanes, const sr_lane_part *parts, int count,
                                         bool adds);

// One bucket of 'elements' elements, of which each lane contributes 'covered' (the others are
// zero). Buffers in use: at most one per node that is complete without its sibling, and one per
// node that is being written; one whose sibling is complete is added to it in place. So lanes that
// arrive in order need at most log2 L + 1 buffers; n nodes at a time need n - 1 more. Locked
// inside.
typedef struct sr_lane_tree sr_lane_tree;
SR_NODISCARD sr_status sr_lane_tree_create(int lanes, int first, int last, int64_t elements,
                                           int64_t covered, sr_lane_pool *pool, sr_lane_tree **out);
void sr_lane_tree_free(sr_lane_tree *tree);
// Parts of these lanes, at most SR_LANE_PARTS: the copies or additions are enqueued when the call
// returns. All parts of a lane must use one stream, from one thread at a time, and come with the
// same lanes; several nodes may arrive at the same time. *complete becomes true in the one call
// after which all sub-trees are final once sr_lane_tree_ready.
SR_NODISCARD sr_status sr_lane_tree_put(sr_lane_tree *tree, sr_lane_range lanes,
                                        const sr_lane_part *parts, int count, sr_stream *stream,
                                        bool *complete);
// Whether the device has finished all work that was enqueued for a complete tree.
bool sr_lane_tree_ready(const sr_lane_tree *tree);
// The same for a stream: work enqueued on it from now on runs after all of that work.
SR_NODISCARD sr_status sr_lane_tree_wait(const sr_lane_tree *tree, sr_stream *stream);
// Buffer of the i-th sub-tree of a complete tree; the caller may overwrite it.
sr_address sr_lane_tree_partial(const sr_lane_tree *tree, int i);
// Releases all buffers; the tree then expects every lane again. No stream may use them any more.
void sr_lane_tree_reset(sr_lane_tree *tree);

#ifdef __cplusplus
}
#endif
#endif
