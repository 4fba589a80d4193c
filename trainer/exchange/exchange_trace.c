// SPDX-License-Identifier: Apache-2.0
// The exchange in a trace: sums and updates of buckets on the communication thread, and how long
// the messages of a bucket were under way.
#include <stdio.h>

#include "kernels/base/memory.h"
#include "trainer/exchange/exchange_internal.h"

static sr_status add_rows(const sr_exchange *x, sr_trace *trace, const char *name,
                          sr_exchange_trace *t) {
    char row[96];
    SR_TRY(sr_trace_add_row(trace, name, 0, &t->work));
    for (int i = 0; i < x->transfer_count && x->size > 1; i++) {
        (void)snprintf(row, sizeof row, "%s, messages %d", name, i);
        SR_TRY(sr_trace_add_row(trace, row, 0, &t->messages[i]));
    }
    return SR_OK;
}

static sr_status add_labels(const sr_exchange *x, sr_trace *trace, sr_exchange_trace *t) {
    char name[64], args[96];
    t->sums = sr_alloc_array((size_t)x->bucket_count, sizeof *t->sums, "trace");
    t->moves = sr_alloc_array((size_t)x->bucket_count, sizeof *t->moves, "trace");
    if (!t->sums || !t->moves)
        return SR_E_MEMORY;
    for (int b = 0; b < x->bucket_count; b++) {
        const sr_range own = sr_exchange_bucket_range(x, b, x->rank);
        const long long all = (long long)(x->buckets[b].end - x->buckets[b].begin);
        (void)snprintf(args, sizeof args, "\"elements\": %lld, \"own\": %lld", all,
                       (long long)(own.end - own.begin));
        (void)snprintf(name, sizeof name, "bucket %d: sums, update", b);
        SR_TRY(sr_trace_add_label(trace, name, args, &t->sums[b]));
        (void)snprintf(name, sizeof name, "bucket %d under way", b);
        SR_TRY(sr_trace_add_label(trace, name, args, &t->moves[b]));
    }
    return SR_OK;
}

void sr_exchange_trace_free(sr_exchange_trace *t) {
    if (!t)
        return;
    sr_free(t->sums);
    sr_free(t->moves);
    sr_free(t);
}

sr_status sr_exchange_set_trace(sr_exchange *x, sr_trace *trace, const char *name) {
    sr_exchange_trace_free(x->trace);
    x->trace = NULL;
    if (!trace)
        return SR_OK;
    sr_exchange_trace *t = sr_alloc(sizeof *t, "trace");
    if (!t)
        return SR_E_MEMORY;
    sr_status status = add_rows(x, trace, name, t);
    if (status == SR_OK)
        status = add_labels(x, trace, t);
    if (status != SR_OK) {
        sr_exchange_trace_free(t);
        return status;
    }
    x->trace = t;
    return SR_OK;
}

sr_status sr_exchange_trace_begin(sr_exchange *x) {
    const size_t buckets = (size_t)x->bucket_count;
    SR_TRY(sr_trace_reserve(x->trace->work, buckets));
    for (int i = 0; i < x->transfer_count && x->trace->messages[i]; i++)
        SR_TRY(sr_trace_reserve(x->trace->messages[i], buckets));
    return SR_OK;
}
