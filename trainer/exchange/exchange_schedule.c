// SPDX-License-Identifier: Apache-2.0
// What a rank sends and receives for a bucket, in the one order that every driver keeps.
//
// A bucket is two groups of messages. *Swap*: a rank sends its partial sums of each part of the
// bucket to the part's owner, and receives those of the other ranks for its own part. *Spread*: it
// sends the new values of its own part to all others. All ranks take buckets in the same order, and
// the groups of a bucket in this one. Inside a group, what one rank sends to another is in the
// order in which that one receives it: sub-trees in lane order. So order alone matches messages, as
// a backend without tags needs.
#include "trainer/exchange/exchange_internal.h"

sr_range sr_exchange_bucket_range(const sr_exchange *x, int bucket, int rank) {
    const sr_exchange_bucket *b = &x->buckets[bucket];
    const int64_t units = b->units;
    return (sr_range){x->cuts[b->first_unit + units * rank / x->size],
                      x->cuts[b->first_unit + units * (rank + 1) / x->size]};
}

// The peer at a distance from this rank: since each rank begins with its own neighbours, ranks do
// not all send to the same peer first.
static int rank_behind(const sr_exchange *x, int distance) {
    return (x->rank - distance + x->size) % x->size;
}

static int rank_ahead(const sr_exchange *x, int distance) {
    return (x->rank + distance) % x->size;
}

// A message of a part of the bucket; 'data' is where the part lies.
static void add(sr_message_list *list, int peer, bool receives, sr_address data, sr_range part) {
    if (part.begin >= part.end)
        return;
    list->messages[list->count++] =
        (sr_comm_message){.peer = peer,
                          .receives = receives,
                          .data = data,
                          .bytes = (size_t)(part.end - part.begin) * sizeof(float)};
    list->receives += receives;
}

void sr_exchange_list_swap(const sr_exchange *x, sr_exchange_transfer *transfer) {
    const sr_exchange_bucket *b = &x->buckets[transfer->bucket];
    const sr_range own = sr_exchange_bucket_range(x, transfer->bucket, x->rank);
    const int first = x->first_partial[x->rank], mine = x->first_partial[x->rank + 1] - first;
    sr_message_list *list = &transfer->swap;
    sr_address place = transfer->received;
    list->receives = list->count = 0;
    for (int r = 0; r < x->size; r++) {
        for (int i = x->first_partial[r]; i < x->first_partial[r + 1]; i++) {
            if (r == x->rank) {
                transfer->partials[i] = sr_exchange_element(
                    sr_lane_tree_partial(b->tree, i - first), own.begin - b->begin);
                continue;
            }
            transfer->partials[i] = place;
            place = sr_exchange_element(place, own.end - own.begin);
            add(list, r, true, transfer->partials[i], own);
        }
    }
    for (int distance = 1; distance < x->size; distance++) {
        const int to = rank_ahead(x, distance);
        const sr_range part = sr_exchange_bucket_range(x, transfer->bucket, to);
        for (int i = 0; i < mine; i++)
            add(list, to, false,
                sr_exchange_element(sr_lane_tree_partial(b->tree, i), part.begin - b->begin), part);
    }
}

void sr_exchange_list_spread(const sr_exchange *x, int bucket, sr_address values,
                             sr_message_list *list) {
    const sr_range own = sr_exchange_bucket_range(x, bucket, x->rank);
    list->receives = list->count = 0;
    for (int distance = 1; distance < x->size; distance++) {
        const int from = rank_behind(x, distance);
        const sr_range part = sr_exchange_bucket_range(x, bucket, from);
        add(list, from, true, sr_exchange_element(values, part.begin), part);
    }
    for (int distance = 1; distance < x->size; distance++)
        add(list, rank_ahead(x, distance), false, sr_exchange_element(values, own.begin), own);
}

void sr_exchange_count(sr_exchange *x, const sr_message_list *list) {
    x->stats.messages += list->count - list->receives;
    for (int i = 0; i < list->count; i++) {
        if (list->messages[i].receives)
            x->stats.bytes_received += (int64_t)list->messages[i].bytes;
        else
            x->stats.bytes_sent += (int64_t)list->messages[i].bytes;
    }
}
