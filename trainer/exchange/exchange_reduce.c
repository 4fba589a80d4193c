// SPDX-License-Identifier: Apache-2.0
// What an owner does with the partial sums of a bucket: folds them in tree order and updates its
// part, or measures it. All of it is enqueued on the exchange's stream, whichever driver moves the
// messages.
#include <stdio.h>

#include "kernels/base/clock.h"
#include "trainer/exchange/exchange_internal.h"

// Enqueues the work of some elements.
static sr_status reduce_part(sr_exchange *x, const sr_exchange_transfer *transfer, int64_t begin,
                             int64_t end, int64_t offset) {
    const int adds = x->pass == SR_PASS_SPREAD ? 0 : x->first_partial[x->size] - 1;
    const sr_address sum = x->pass == SR_PASS_SPREAD
                               ? sr_exchange_element(x->agreement.sums, begin)
                               : sr_exchange_element(transfer->partials[0], offset);
    for (int i = 0; i < adds; i++)
        SR_TRY(sr_lane_pool_add(
            x->pool, x->stream, sr_exchange_element(transfer->partials[x->plan[i].into], offset),
            sr_exchange_element(transfer->partials[x->plan[i].from], offset), end - begin));
    return transfer->spreads ? x->update(x->user, x->step, begin, end, sum,
                                         sr_exchange_element(x->values, begin), x->stream)
                             : sr_exchange_measure(x, begin, end, sum);
}

sr_status sr_exchange_fail_reduce(sr_exchange *x, sr_status status) {
    char text[SR_EXCHANGE_TEXT_BYTES];
    snprintf(text, sizeof text, "step %lld: %s", (long long)x->step, sr_error_message());
    sr_exchange_fail(x, status, text);
    return status;
}

static sr_status reduce(sr_exchange *x, sr_exchange_transfer *transfer) {
    const sr_range own = sr_exchange_bucket_range(x, transfer->bucket, x->rank);
    for (int64_t begin = own.begin, end; begin < own.end; begin = end) {
        end = sr_exchange_part_end(x, begin, own.end);
        const sr_status status = reduce_part(x, transfer, begin, end, begin - own.begin);
        if (status != SR_OK)
            return sr_exchange_fail_reduce(x, status);
    }
    return sr_event_record(transfer->updated, x->stream);
}

sr_status sr_exchange_reduce(sr_exchange *x, sr_exchange_transfer *transfer) {
    const int64_t start = x->trace ? sr_clock_ns() : 0;
    SR_TRY(reduce(x, transfer));
    if (x->trace)
        sr_trace_span(x->trace->work, x->trace->sums[transfer->bucket], start, sr_clock_ns());
    return SR_OK;
}

sr_status sr_exchange_check_stream(sr_exchange *x) {
    const sr_status status = sr_stream_wait(x->stream);
    return status == SR_OK ? SR_OK : sr_exchange_fail_reduce(x, status);
}

void sr_exchange_release(sr_exchange *x, sr_exchange_transfer *transfer) {
    sr_lane_tree_reset(x->buckets[transfer->bucket].tree);
    transfer->released = true;
}
