// SPDX-License-Identifier: Apache-2.0
// Driver of the exchange by isend, irecv and test: the host sees every message.
//
// A bucket starts when the partial sums of this rank have been computed. Starting it posts, without
// waiting: receives for the sub-trees of its owned part and for the new values of the other parts
// (straight into V, which no local lane reads any more), and sends of its own sub-trees to the
// owners. When all sub-trees of the owned part have arrived, they are folded and updated, and the
// new values are sent. Messages are only tested, never awaited in an order, so the order in which
// they arrive affects nothing but time.
//
// Tags: 2 b for sums and 2 b + 1 for values of bucket b modulo 2048, far more than can be under way
// at once. A message of the next step cannot be taken for one of this step: a rank only gets there
// with values that their owner computed from sums of this step by everybody.
#include "trainer/exchange/exchange_internal.h"

#define TAG_BUCKETS (SR_EXCHANGE_TAG_MEASURES / 2)

static int tag_of(int bucket, bool values) {
    return 2 * (bucket % TAG_BUCKETS) + (values ? 1 : 0);
}

sr_status sr_exchange_post(sr_exchange *x, const sr_comm_message *messages, int count, int tag,
                           sr_comm_request *requests, int *posted) {
    for (const sr_comm_message *m = messages; m < messages + count; m++) {
        sr_comm_request *r = &requests[*posted];
        SR_TRY(m->receives
                   ? sr_comm_irecv_device(x->comm, m->peer, tag, x->device, m->data, m->bytes, r)
                   : sr_comm_isend_device(x->comm, m->peer, tag, x->device, m->data, m->bytes, r));
        (*posted)++;
    }
    return SR_OK;
}

static sr_status post_receives(sr_exchange *x, const sr_message_list *list, int tag,
                               sr_message_group *group) {
    return sr_exchange_post(x, list->messages, list->receives, tag, group->requests, &group->count);
}

static sr_status post_sends(sr_exchange *x, const sr_message_list *list, int tag,
                            sr_message_group *group) {
    return sr_exchange_post(x, list->messages + list->receives, list->count - list->receives, tag,
                            group->requests, &group->count);
}

static void clear(sr_message_group *group) {
    group->count = group->next = 0;
}

static sr_status start(sr_exchange *x, sr_exchange_transfer *transfer) {
    const int sums = tag_of(transfer->bucket, false), values = tag_of(transfer->bucket, true);
    clear(&transfer->sums_in);
    clear(&transfer->sums_out);
    clear(&transfer->values_in);
    clear(&transfer->values_out);
    if (transfer->spreads) {
        sr_exchange_list_spread(x, transfer->bucket, x->values, &transfer->spread);
        sr_exchange_count(x, &transfer->spread);
        SR_TRY(post_receives(x, &transfer->spread, values, &transfer->values_in));
    }
    if (transfer->released)
        return SR_OK;
    sr_exchange_list_swap(x, transfer);
    sr_exchange_count(x, &transfer->swap);
    SR_TRY(post_receives(x, &transfer->swap, sums, &transfer->sums_in));
    return post_sends(x, &transfer->swap, sums, &transfer->sums_out);
}

static bool all_done(const sr_message_group *group) {
    return group->next == group->count;
}

static sr_status test_group(sr_exchange *x, sr_message_group *group, bool *moved) {
    while (group->next < group->count) {
        bool done = false;
        SR_TRY(sr_comm_test(x->comm, &group->requests[group->next], &done));
        if (!done)
            return SR_OK;
        group->next++;
        *moved = true;
    }
    return SR_OK;
}

// Sends the new values once they have been computed.
static sr_status finish_reduce(sr_exchange *x, sr_exchange_transfer *transfer) {
    SR_TRY(sr_exchange_check_stream(x));
    transfer->reduced = true;
    if (!transfer->spreads)
        return SR_OK;
    return post_sends(x, &transfer->spread, tag_of(transfer->bucket, true), &transfer->values_out);
}

static sr_status advance(sr_exchange *x, sr_exchange_transfer *transfer, bool *moved) {
    SR_TRY(test_group(x, &transfer->sums_in, moved));
    SR_TRY(test_group(x, &transfer->sums_out, moved));
    SR_TRY(test_group(x, &transfer->values_in, moved));
    if (!transfer->swapped && all_done(&transfer->sums_in)) {
        SR_TRY(sr_exchange_reduce(x, transfer));
        transfer->swapped = true;
        *moved = true;
    }
    if (transfer->swapped && !transfer->reduced && sr_event_done(transfer->updated)) {
        SR_TRY(finish_reduce(x, transfer));
        *moved = true;
    }
    if (!transfer->released && transfer->reduced && all_done(&transfer->sums_out)) {
        sr_exchange_release(x, transfer);
        *moved = true;
    }
    SR_TRY(test_group(x, &transfer->values_out, moved));
    transfer->done = transfer->reduced && transfer->released && all_done(&transfer->values_in) &&
                     all_done(&transfer->values_out);
    return SR_OK;
}

bool sr_exchange_name_group(sr_exchange *x, const sr_message_group *group, const char *what,
                            sr_peer_names *names) {
    sr_exchange_names_begin(names, what);
    for (int i = group->next; i < group->count; i++) {
        bool done = false;
        int peer = group->requests[i].peer;
        if (sr_comm_test(x->comm, &group->requests[i], &done) == SR_OK && !done)
            sr_exchange_names_add(names, x, peer);
    }
    return sr_exchange_names_end(names);
}

static bool describe(sr_exchange *x, sr_exchange_transfer *transfer, sr_peer_names *names) {
    return sr_exchange_name_group(x, &transfer->sums_in, "partial sums from", names) ||
           sr_exchange_name_group(x, &transfer->values_in, "new values from", names) ||
           sr_exchange_name_group(x, &transfer->sums_out, "partial sums to be taken by", names) ||
           sr_exchange_name_group(x, &transfer->values_out, "new values to be taken by", names);
}

const sr_exchange_driver sr_exchange_host = {
    .name = "host",
    .stream = {.direct = true},
    .ready = sr_lane_tree_ready,
    .start = start,
    .advance = advance,
    .describe = describe,
};
