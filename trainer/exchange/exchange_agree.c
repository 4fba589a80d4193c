// SPDX-License-Identifier: Apache-2.0
// Agreement between folding and updating: the measures of all blocks (norms of gradients) on every
// rank, so that all decide alike how, and whether, they update.
//
// A rank measures the blocks that it owns, on its stream. The measures are copied to the host, and
// every rank sends its own to all others. Nobody adds anything here: 'agree' gets the measures of
// all blocks in the order of the flat space, which is the same on any number of ranks.
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/exchange/exchange_internal.h"

// Blocks of the flat space that a rank owns in a bucket, by number.
static sr_range blocks_of(const sr_exchange *x, int bucket, int rank) {
    const sr_range part = sr_exchange_bucket_range(x, bucket, rank);
    return (sr_range){part.begin / x->block, (part.end + x->block - 1) / x->block};
}

static sr_address measures_at(const sr_exchange *x, int64_t block) {
    return sr_address_add(x->agreement.measures,
                          (size_t)block * SR_EXCHANGE_MEASURES * sizeof(double));
}

sr_status sr_exchange_agreement_create(sr_exchange *x) {
    sr_exchange_agreement *a = &x->agreement;
    const size_t blocks = (size_t)((x->elements + x->block - 1) / x->block);
    const size_t bytes = blocks * SR_EXCHANGE_MEASURES * sizeof(double);
    const int messages = 2 * (x->size - 1) * x->bucket_count;
    a->blocks = (int64_t)blocks;
    a->host = sr_alloc_array(blocks * SR_EXCHANGE_MEASURES, sizeof *a->host, "measures");
    a->requests = sr_alloc_array((size_t)messages + 1, sizeof *a->requests, "messages");
    if (!a->host || !a->requests)
        return SR_E_MEMORY;
    SR_TRY(sr_device_register_host(x->device, a->host, bytes));
    a->registered = true;
    SR_TRY(sr_event_create(x->device, &a->copied));
    SR_TRY(sr_device_alloc(x->device, bytes, "measures", &a->measures));
    return sr_device_alloc(x->device, (size_t)x->elements * sizeof(float), "sums of gradients",
                           &a->sums);
}

void sr_exchange_agreement_free(sr_exchange *x) {
    sr_exchange_agreement *a = &x->agreement;
    sr_event_free(a->copied);
    sr_device_free(x->device, a->measures);
    sr_device_free(x->device, a->sums);
    if (a->registered)
        sr_device_unregister_host(x->device, a->host);
    sr_free(a->host);
    sr_free(a->requests);
}

sr_status sr_exchange_measure(sr_exchange *x, int64_t begin, int64_t end, sr_address sum) {
    const size_t bytes = (size_t)(end - begin) * sizeof(float);
    const sr_address kept = sr_address_add(x->agreement.sums, (size_t)begin * sizeof(float));
    const sr_address out = measures_at(x, begin / x->block);
    SR_TRY(sr_stream_copy(x->stream, kept, sum, bytes));
    SR_TRY(sr_stream_clear(x->stream, out, SR_EXCHANGE_MEASURES * sizeof(double)));
    return x->measure(x->user, x->step, begin, end, kept, out, x->stream);
}

sr_status sr_exchange_agreement_begin(sr_exchange *x) {
    sr_exchange_agreement *a = &x->agreement;
    a->sent = false;
    a->group = (sr_message_group){.requests = a->requests};
    for (int b = 0; b < x->bucket_count; b++) {
        const sr_range own = blocks_of(x, b, x->rank);
        if (own.begin < own.end)
            SR_TRY(sr_stream_download(
                x->stream, a->host + own.begin * SR_EXCHANGE_MEASURES, measures_at(x, own.begin),
                (size_t)(own.end - own.begin) * SR_EXCHANGE_MEASURES * sizeof(double)));
    }
    return sr_event_record(a->copied, x->stream);
}

static sr_status post(sr_exchange *x, int peer, int bucket, bool receives) {
    sr_exchange_agreement *a = &x->agreement;
    const sr_range blocks = blocks_of(x, bucket, receives ? peer : x->rank);
    double *data = a->host + blocks.begin * SR_EXCHANGE_MEASURES;
    const size_t bytes =
        (size_t)(blocks.end - blocks.begin) * SR_EXCHANGE_MEASURES * sizeof(double);
    sr_comm_request *request = &a->requests[a->group.count];
    if (blocks.begin >= blocks.end)
        return SR_OK;
    SR_TRY(receives ? sr_comm_irecv(x->comm, peer, SR_EXCHANGE_TAG_MEASURES, data, bytes, request)
                    : sr_comm_isend(x->comm, peer, SR_EXCHANGE_TAG_MEASURES, data, bytes, request));
    a->group.count++;
    return SR_OK;
}

static sr_status post_all(sr_exchange *x) {
    for (int distance = 1; distance < x->size; distance++) {
        for (int b = 0; b < x->bucket_count; b++) {
            SR_TRY(post(x, (x->rank - distance + x->size) % x->size, b, true));
            SR_TRY(post(x, (x->rank + distance) % x->size, b, false));
        }
    }
    return SR_OK;
}

sr_status sr_exchange_agreement_advance(sr_exchange *x, bool *gathered) {
    sr_exchange_agreement *a = &x->agreement;
    *gathered = false;
    if (!a->sent) {
        if (!sr_event_done(a->copied))
            return SR_OK;
        SR_TRY(sr_stream_wait(x->stream));
        SR_TRY(post_all(x));
        a->sent = true;
    }
    while (a->group.next < a->group.count) {
        bool done = false;
        SR_TRY(sr_comm_test(x->comm, &a->requests[a->group.next], &done));
        if (!done)
            return SR_OK;
        a->group.next++;
    }
    *gathered = true;
    return SR_OK;
}
