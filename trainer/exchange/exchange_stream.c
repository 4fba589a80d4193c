// SPDX-License-Identifier: Apache-2.0
// Driver of the exchange for backends that move messages on the device's stream, and for a single
// rank, which has none: the host enqueues and watches events.
//
// As soon as all lanes of this rank are on their streams, the whole bucket is enqueued on the
// exchange's stream: wait for the partial sums, swap, fold and update, spread. All ranks do so in
// the same order, bucket by bucket, so groups match without tags and no rank waits in a circle.
// Nothing in between waits for the host, which detects the ends of the parts by their events,
// returns lane buffers, and checks the deadlines. A failed stream skips what follows, so all its
// events are soon reached; the host asks for the failure only when the stream is empty, since that
// call waits.
//
// This driver cannot see single messages: a wait names all ranks that a group needs. What the
// buckets under way put on the stream must fit into its queue: if the queue is full, the host waits
// inside a call, which the watchdog ends, not the deadline.
#include "trainer/exchange/exchange_internal.h"

static sr_status enqueue(sr_exchange *x, const sr_message_list *list, sr_event *end) {
    sr_exchange_count(x, list);
    if (x->size > 1)
        SR_TRY(sr_comm_enqueue(x->comm, x->stream, list->messages, list->count));
    return sr_event_record(end, x->stream);
}

static sr_status start(sr_exchange *x, sr_exchange_transfer *transfer) {
    if (!transfer->released) {
        sr_exchange_list_swap(x, transfer);
        SR_TRY(sr_lane_tree_wait(x->buckets[transfer->bucket].tree, x->stream));
        SR_TRY(enqueue(x, &transfer->swap, transfer->sums_here));
    }
    SR_TRY(sr_exchange_reduce(x, transfer));
    if (!transfer->spreads)
        return SR_OK;
    sr_exchange_list_spread(x, transfer->bucket, x->values, &transfer->spread);
    return enqueue(x, &transfer->spread, transfer->values_here);
}

// Whether nothing follows this bucket on the stream.
static bool is_last(const sr_exchange *x, const sr_exchange_transfer *transfer) {
    for (int b = transfer->bucket + 1; b < x->started; b++)
        if (!x->transfers[b % x->transfer_count].done)
            return false;
    return true;
}

static sr_status advance(sr_exchange *x, sr_exchange_transfer *transfer, bool *moved) {
    if (!transfer->swapped && (transfer->released || sr_event_done(transfer->sums_here)))
        transfer->swapped = *moved = true;
    if (transfer->swapped && !transfer->reduced && sr_event_done(transfer->updated))
        transfer->reduced = *moved = true;
    if (transfer->reduced && !transfer->released) {
        sr_exchange_release(x, transfer);
        *moved = true;
    }
    if (transfer->reduced && (!transfer->spreads || sr_event_done(transfer->values_here)))
        transfer->done = *moved = true;
    return transfer->done && is_last(x, transfer) ? sr_exchange_check_stream(x) : SR_OK;
}

static bool name_peers(const sr_exchange *x, const sr_message_list *list, bool receives,
                       const char *what, sr_peer_names *names) {
    sr_exchange_names_begin(names, what);
    for (int i = 0; i < list->count; i++)
        if (list->messages[i].receives == receives)
            sr_exchange_names_add(names, x, list->messages[i].peer);
    return sr_exchange_names_end(names);
}

static bool describe(sr_exchange *x, sr_exchange_transfer *transfer, sr_peer_names *names) {
    if (!transfer->swapped)
        return name_peers(x, &transfer->swap, true, "partial sums from", names) ||
               name_peers(x, &transfer->swap, false, "partial sums to be taken by", names);
    if (!transfer->reduced || !transfer->spreads)
        return false;
    return name_peers(x, &transfer->spread, true, "new values from", names) ||
           name_peers(x, &transfer->spread, false, "new values to be taken by", names);
}

const sr_exchange_driver sr_exchange_on_stream = {
    .name = "stream",
    .stream = {.threads = 1},
    .start = start,
    .advance = advance,
    .describe = describe,
};
