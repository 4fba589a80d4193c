// SPDX-License-Identifier: Apache-2.0
// Which requests libraries can serve; compares what a library computes for lanes side by side with
// what it computes for each alone.
#include "kernels/cuda/cuda_lanes.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "kernels/cuda/cuda_internal.h"

bool sr_cuda_is_for_libraries(const sr_kernel_request *request) {
    const sr_dtype dtype = sr_kernel_activation(request);
    const bool takes =
        dtype == SR_BF16 || dtype == SR_F16 || (dtype == SR_F32 && sr_kernels_tf32());
    if (!sr_kernel_fits(request) || !takes)
        return false;
    for (int i = 0; i < request->args; i++)
        if (sr_kernel_argument_count(request, i) == 0 && request->dtype[i] != SR_DTYPE_COUNT)
            return false;
    return true;
}

// ---- Lanes ----

enum {
    NUMBERS = 65521, // after which an argument repeats; a prime, so that lanes differ
    PIECE = 1 << 22, // bytes of results that are compared at a time
    // Few results may agree by chance, as rounding hides most differences of sums.
    LEAST_RESULTS = 1 << 14,
    MOST_ROUNDS = 4,
};

// A request with arguments in memory of the device.
typedef struct work {
    const sr_kernel_request *request;
    sr_prepared prepared;
    sr_address p[SR_KERNEL_MAX_ARGS], workspace;
} work;

typedef struct comparison {
    sr_device *device;
    sr_stream *stream;
    work lanes, lane;
    char *pieces; // memory of the host for two
} comparison;

static size_t bytes_of(const work *w, int i) {
    return (size_t)sr_kernel_argument_count(w->request, i) * sr_dtype_size(w->request->dtype[i]);
}

static bool is_present(const work *w, int i) {
    return w->request->dtype[i] != SR_DTYPE_COUNT;
}

static bool is_result(const work *w, int i) {
    int count;
    return sr_argument_is_result(sr_kernel_arguments(w->request->kernel, &count)[i].role);
}

// What lies at this place of an argument of one lane, among those of all.
static sr_address address_in_lanes(const comparison *c, int i, int lane, size_t at) {
    const size_t bytes = bytes_of(&c->lane, i);
    const bool own = bytes_of(&c->lanes, i) != bytes;
    return sr_address_add(c->lanes.p[i], (own ? (size_t)lane * bytes : 0) + at);
}

static sr_status begin_work(work *w, sr_device *device, sr_cuda_prepare_fn prepare) {
    static const char what[] = "comparing lanes";
    SR_TRY(prepare(w->request, &w->prepared));
    for (int i = 0; i < w->request->args; i++)
        if (is_present(w, i))
            SR_TRY(sr_device_alloc(device, bytes_of(w, i), what, &w->p[i]));
    return w->prepared.workspace > 0
               ? sr_device_alloc(device, w->prepared.workspace, what, &w->workspace)
               : SR_OK;
}

static void store_number(sr_dtype dtype, void *to, size_t i, float value) {
    if (dtype == SR_F32)
        ((float *)to)[i] = value;
    else
        ((uint16_t *)to)[i] = dtype == SR_BF16 ? sr_f32_to_bf16(value) : sr_f32_to_f16(value);
}

// Numbers in [-1, 1), others in each round.
static sr_status fill(const comparison *c, int i, uint32_t round) {
    const sr_dtype dtype = c->lanes.request->dtype[i];
    const size_t bytes = bytes_of(&c->lanes, i);
    const sr_address to = c->lanes.p[i];
    sr_rng rng;
    sr_rng_init(&rng, 0, (uint32_t)i, round, 0);
    const size_t count = bytes / sr_dtype_size(dtype), numbers = count < NUMBERS ? count : NUMBERS;
    for (size_t k = 0; k < numbers; k++)
        store_number(dtype, c->pieces, k, 2.0f * sr_rng_unit(sr_rng_u32(&rng)) - 1.0f);
    const size_t filled = numbers * sr_dtype_size(dtype);
    SR_TRY(sr_device_upload(c->device, to, c->pieces, filled));
    return sr_device_repeat(c->device, to, filled, bytes);
}

static sr_status run(const comparison *c, const work *w) {
    const sr_kernel_call call = {.prepared = &w->prepared,
                                 .request = w->request,
                                 .p = w->p,
                                 .workspace = w->workspace,
                                 .site = {.what = "comparing lanes"}};
    SR_TRY(sr_stream_launch(c->stream, &call));
    return sr_stream_wait(c->stream);
}

static sr_status run_lane(const comparison *c, int lane) {
    const work *w = &c->lane;
    for (int i = 0; i < w->request->args; i++)
        if (is_present(w, i) && !is_result(w, i))
            SR_TRY(sr_device_copy(c->device, w->p[i], address_in_lanes(c, i, lane, 0),
                                  bytes_of(w, i)));
    return run(c, w);
}

static sr_status compare_results(const comparison *c, int i, int lane, bool *same) {
    const size_t bytes = bytes_of(&c->lane, i);
    for (size_t at = 0; at < bytes && *same; at += PIECE) {
        const size_t piece = bytes - at < PIECE ? bytes - at : PIECE;
        SR_TRY(sr_device_download(c->device, c->pieces, address_in_lanes(c, i, lane, at), piece));
        SR_TRY(sr_device_download(c->device, c->pieces + PIECE, sr_address_add(c->lane.p[i], at),
                                  piece));
        *same = memcmp(c->pieces, c->pieces + PIECE, piece) == 0;
    }
    return SR_OK;
}

static sr_status run_round(const comparison *c, uint32_t round, bool *same) {
    const sr_kernel_request *lanes = c->lanes.request;
    for (int i = 0; i < lanes->args; i++)
        if (is_present(&c->lanes, i) && !is_result(&c->lanes, i))
            SR_TRY(fill(c, i, round));
    SR_TRY(run(c, &c->lanes));
    for (int lane = 0; lane < lanes->lanes && *same; lane++) {
        SR_TRY(run_lane(c, lane));
        for (int i = 0; i < lanes->args; i++)
            if (is_result(&c->lanes, i))
                SR_TRY(compare_results(c, i, lane, same));
    }
    return SR_OK;
}

static sr_status compare(comparison *c, int ordinal, sr_cuda_prepare_fn prepare, bool *same) {
    const int result = c->lanes.request->args - 1;
    char name[32];
    (void)snprintf(name, sizeof name, "cuda:%d", ordinal);
    SR_TRY(sr_device_open(name, &c->device));
    SR_TRY(sr_stream_create(c->device, NULL, &c->stream));
    SR_TRY(begin_work(&c->lanes, c->device, prepare));
    SR_TRY(begin_work(&c->lane, c->device, prepare));
    c->pieces = sr_alloc((size_t)2 * PIECE, "comparing lanes");
    if (!c->pieces)
        return SR_E_MEMORY;
    const int64_t results = sr_kernel_argument_count(c->lanes.request, result);
    *same = true;
    for (uint32_t round = 0; *same && round < MOST_ROUNDS && round * results < LEAST_RESULTS;
         round++)
        SR_TRY(run_round(c, round, same));
    return SR_OK;
}

static void end_comparison(comparison *c) {
    sr_prepared_release(&c->lanes.prepared);
    sr_prepared_release(&c->lane.prepared);
    sr_stream_free(c->stream);
    sr_device_close(c->device); // and the memory
    sr_free(c->pieces);
}

typedef struct answer {
    struct answer *next;
    int ordinal; // of its device
    sr_kernel_request lanes;
    bool keeps;
} answer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static answer *answers;

static answer *find_answer(const sr_kernel_request *lanes, int ordinal) {
    answer *a = answers;
    while (a && (a->ordinal != ordinal || memcmp(&a->lanes, lanes, sizeof *lanes) != 0))
        a = a->next;
    return a;
}

static answer *make_answer(const sr_kernel_request *lanes, const sr_kernel_request *lane,
                           int ordinal, sr_cuda_prepare_fn prepare) {
    comparison c = {.lanes = {.request = lanes}, .lane = {.request = lane}};
    bool same = false;
    answer *a = sr_alloc(sizeof *a, "comparing lanes");
    if (!a)
        return NULL;
    const sr_status status = compare(&c, ordinal, prepare, &same);
    end_comparison(&c);
    *a = (answer){
        .next = answers, .ordinal = ordinal, .lanes = *lanes, .keeps = status == SR_OK && same};
    answers = a;
    return a;
}

bool sr_cuda_keeps_lanes(const sr_kernel_request *lanes, const sr_kernel_request *lane,
                         sr_cuda_prepare_fn prepare) {
    int ordinal = 0;
    if (cudaGetDevice(&ordinal) != cudaSuccess)
        return false;
    (void)pthread_mutex_lock(&lock);
    const answer *a = find_answer(lanes, ordinal);
    if (!a)
        a = make_answer(lanes, lane, ordinal, prepare);
    const bool keeps = a && a->keeps;
    (void)pthread_mutex_unlock(&lock);
    return keeps;
}
