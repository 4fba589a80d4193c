// SPDX-License-Identifier: Apache-2.0
// Agreement between folding and updating: every rank gets the measures of all pieces (norms of
// gradients), so that all make the same decision on how, and whether, to update.
//
// A rank measures the blocks that it owns, on its stream. The measures are copied to the host, and
// every rank sends its own to all others. Nothing is added here: 'agree' gets the measures of all
// pieces in the order of the flat space, which is the same on any number of ranks. Blocks belong to
// one owner, and a piece is part of a segment inside a block, so neither the number of ranks nor
// the size of buckets decides what is measured at a time.
//
// A second round is for updates that need the norm of what they computed from the first one: the
// owner goes over its blocks again. Its only messages are the measures.
#include <string.h>

#include "kernels/base/memory.h"
#include "trainer/exchange/exchange_internal.h"

// The pieces of a range that cuts no piece.
static sr_range pieces_in(const sr_exchange *x, sr_range range) {
    const sr_exchange_agreement *a = &x->agreement;
    int64_t begin = a->first_piece[range.begin / x->block];
    int64_t end = a->first_piece[(range.end + x->block - 1) / x->block];
    while (begin < end && a->pieces[begin].begin < range.begin)
        begin++;
    while (begin < end && a->pieces[end - 1].begin >= range.end)
        end--;
    return (sr_range){begin, end};
}

// Those that a rank owns in a bucket.
static sr_range pieces_of(const sr_exchange *x, int bucket, int rank) {
    return pieces_in(x, sr_exchange_bucket_range(x, bucket, rank));
}

static sr_address measures_at(const sr_exchange *x, int64_t piece) {
    return sr_address_add(x->agreement.measures,
                          (size_t)piece * SR_EXCHANGE_MEASURES * sizeof(double));
}

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Lists the pieces, block by block; with 'out' NULL it only counts them.
static int64_t list_pieces(const sr_exchange *x, int64_t blocks, sr_exchange_piece *out,
                           int64_t *first) {
    int64_t count = 0;
    int next = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t begin = b * x->block, end = min64(x->elements, begin + x->block);
        if (out)
            first[b] = count;
        while (next < x->segment_count &&
               x->segments[next].begin + x->segments[next].count <= begin)
            next++;
        for (int s = next; s < x->segment_count && x->segments[s].begin < end; s++) {
            const sr_segment *segment = &x->segments[s];
            if (segment->count == 0)
                continue;
            if (out) {
                out[count] =
                    (sr_exchange_piece){.segment = s,
                                        .block = b,
                                        .begin = segment->begin > begin ? segment->begin : begin,
                                        .end = min64(segment->begin + segment->count, end)};
            }
            count++;
        }
    }
    if (out)
        first[blocks] = count;
    return count;
}

static sr_status make_pieces(sr_exchange *x) {
    sr_exchange_agreement *a = &x->agreement;
    const int64_t blocks = (x->elements + x->block - 1) / x->block;
    a->piece_count = list_pieces(x, blocks, NULL, NULL);
    a->pieces = sr_alloc_array((size_t)a->piece_count, sizeof *a->pieces, "pieces");
    a->first_piece = sr_alloc_array((size_t)blocks + 1, sizeof *a->first_piece, "pieces");
    if (!a->pieces || !a->first_piece)
        return SR_E_MEMORY;
    (void)list_pieces(x, blocks, a->pieces, a->first_piece);
    return SR_OK;
}

sr_status sr_exchange_agreement_create(sr_exchange *x) {
    sr_exchange_agreement *a = &x->agreement;
    const int messages = 2 * (x->size - 1) * x->bucket_count;
    SR_TRY(make_pieces(x));
    const size_t count = (size_t)a->piece_count * SR_EXCHANGE_MEASURES;
    const size_t bytes = count * sizeof(double);
    a->host = sr_alloc_array(count, sizeof *a->host, "measures");
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
    sr_free(a->pieces);
    sr_free(a->first_piece);
}

// Enqueues the measuring of owned elements, whose sums are kept, block by block.
static sr_status measure(sr_exchange *x, int round, int64_t first, int64_t last) {
    const sr_range all = pieces_in(x, (sr_range){first, last});
    if (all.begin >= all.end)
        return SR_OK;
    SR_TRY(sr_stream_clear(x->stream, measures_at(x, all.begin),
                           (size_t)(all.end - all.begin) * SR_EXCHANGE_MEASURES * sizeof(double)));
    for (int64_t begin = first, end; begin < last; begin = end) {
        end = sr_exchange_part_end(x, begin, last);
        const sr_range pieces = pieces_in(x, (sr_range){begin, end});
        if (pieces.begin < pieces.end)
            SR_TRY(x->measure(x->user, x->step, round, begin, end,
                              sr_exchange_element(x->agreement.sums, begin),
                              measures_at(x, pieces.begin), x->stream));
    }
    return SR_OK;
}

sr_status sr_exchange_measure(sr_exchange *x, int64_t begin, int64_t end, sr_address sum) {
    SR_TRY(sr_stream_copy(x->stream, sr_exchange_element(x->agreement.sums, begin), sum,
                          (size_t)(end - begin) * sizeof(float)));
    return measure(x, 0, begin, end);
}

static sr_status measure_owned(sr_exchange *x, int round) {
    for (int b = 0; b < x->bucket_count; b++) {
        const sr_range own = sr_exchange_bucket_range(x, b, x->rank);
        SR_TRY(measure(x, round, own.begin, own.end));
    }
    return SR_OK;
}

sr_status sr_exchange_agreement_begin(sr_exchange *x, int round) {
    sr_exchange_agreement *a = &x->agreement;
    a->round = round;
    a->sent = false;
    a->group = (sr_message_group){.requests = a->requests};
    if (round > 0)
        SR_TRY(measure_owned(x, round));
    for (int b = 0; b < x->bucket_count; b++) {
        const sr_range own = pieces_of(x, b, x->rank);
        if (own.begin < own.end)
            SR_TRY(sr_stream_download(
                x->stream, a->host + own.begin * SR_EXCHANGE_MEASURES, measures_at(x, own.begin),
                (size_t)(own.end - own.begin) * SR_EXCHANGE_MEASURES * sizeof(double)));
    }
    return sr_event_record(a->copied, x->stream);
}

static sr_status post(sr_exchange *x, int peer, int bucket, bool receives) {
    sr_exchange_agreement *a = &x->agreement;
    const sr_range pieces = pieces_of(x, bucket, receives ? peer : x->rank);
    double *data = a->host + pieces.begin * SR_EXCHANGE_MEASURES;
    const size_t bytes =
        (size_t)(pieces.end - pieces.begin) * SR_EXCHANGE_MEASURES * sizeof(double);
    sr_comm_request *request = &a->requests[a->group.count];
    if (pieces.begin >= pieces.end)
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
