// SPDX-License-Identifier: Apache-2.0
// The race of candidates (chooser.h): timing them against each other.
//
// A turn of a candidate runs a sample of each stage's blocks, in groups of a few neighbours spread
// over the stage, and extrapolates to the time of all blocks. So a request that takes a second is
// timed in milliseconds, with the caches in the state of the middle of a run. Turns of the
// candidates alternate, so that noise affects all of them; the fastest turn counts, as noise only
// adds time. CPU time of the thread is measured, so time in which other threads have the processor
// does not count. A kernel that is launched runs as a whole, as often as fits into a turn, and is
// timed by the device (chooser_launch.c).
//
// Arguments are consecutive in memory that is kept from race to race. Inputs repeat one mebibyte of
// random numbers: zeros, denormals and infinities would be faster or slower than the values in
// networks.
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/dtype.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "kernels/chooser_internal.h"
#include "kernels/kernel_params.h"

// Turns of each candidate after the first, which determines how many blocks a turn has.
#define TURNS 5
// Time of a stage or of launches in one turn, its maximum for long blocks, and the time after which
// a race ends with fewer turns. A stage with few blocks runs all of them: they may differ.
#define STAGE_NS (2 * SR_NS_PER_MS)
#define LONG_STAGE_NS (50 * SR_NS_PER_MS)
#define FEW_BLOCKS 16
#define RACE_NS (200 * SR_NS_PER_MS)
#define LEAST_TURNS 2
// Most launches of a turn.
#define LAUNCHES 100
// Neighbouring blocks that are run together.
#define NEIGHBOURS 4
// A candidate that is slower than the fastest by this factor drops out.
#define LOST 1.2
// The winner must be faster than the default by this factor, which exceeds the noise of the fastest
// turns.
#define CLEARLY 0.97
// Most memory of a race.
#define MOST_BYTES ((size_t)1 << 30)
#define PATTERN 262144 // numbers: 1 MiB of f32
#define SEED 20260131

// ---- memory ----

// Under the chooser's lock.
static char *buffer;
static size_t buffer_bytes;
static float *pattern;   // [PATTERN]
static uint16_t *halves; // [2][PATTERN]: the same as bf16, and as f16

void sr_chooser_race_release(void) {
    sr_chooser_launch_release();
    sr_free(buffer);
    sr_free(pattern);
    sr_free(halves);
    buffer = NULL;
    buffer_bytes = 0;
    pattern = NULL;
    halves = NULL;
}

static sr_status make_pattern(void) {
    if (halves != NULL)
        return SR_OK;
    if (pattern == NULL)
        pattern = sr_alloc_array(PATTERN, sizeof *pattern, "numbers to time kernels with");
    halves = sr_alloc_array((size_t)2 * PATTERN, sizeof *halves, "numbers to time kernels with");
    if (pattern == NULL || halves == NULL)
        return SR_E_MEMORY;
    for (uint32_t i = 0; i < PATTERN; i += 4) {
        const sr_rng4 draw = sr_philox(SEED, i, 0, 0, 0);
        for (uint32_t k = 0; k < 4; k++) {
            pattern[i + k] = 2 * sr_rng_unit(draw.v[k]) - 1;
            halves[i + k] = sr_f32_to_bf16(pattern[i + k]);
            halves[PATTERN + i + k] = sr_f32_to_f16(pattern[i + k]);
        }
    }
    return SR_OK;
}

static void fill(char *to, size_t bytes, const void *from, size_t from_bytes) {
    for (size_t done = 0; done < bytes; done += from_bytes)
        memcpy(to + done, from, bytes - done < from_bytes ? bytes - done : from_bytes);
}

// One period of the numbers of a dtype.
static const void *numbers_of(sr_dtype dtype, size_t *bytes) {
    const bool narrow = dtype == SR_BF16 || dtype == SR_F16;
    *bytes = PATTERN * (narrow ? sizeof *halves : sizeof *pattern);
    return narrow ? (const void *)(halves + (dtype == SR_F16 ? PATTERN : 0)) : pattern;
}

static void fill_numbers(char *to, size_t bytes, sr_dtype dtype) {
    size_t period;
    const void *numbers = numbers_of(dtype, &period);
    fill(to, bytes, numbers, period);
}

static sr_status fill_device(sr_address to, size_t bytes, sr_dtype dtype) {
    size_t period;
    const void *numbers = numbers_of(dtype, &period);
    for (size_t done = 0; done < bytes; done += period)
        SR_TRY(sr_chooser_launch_fill(sr_address_add(to, done), numbers,
                                      bytes - done < period ? bytes - done : period));
    return SR_OK;
}

static sr_status reserve(size_t bytes) {
    if (bytes <= buffer_bytes)
        return SR_OK;
    sr_free(buffer);
    buffer_bytes = 0;
    buffer = sr_alloc(bytes, "memory to time kernels in");
    if (buffer == NULL)
        return SR_E_MEMORY;
    buffer_bytes = bytes;
    fill_numbers(buffer, bytes, SR_F32);
    return SR_OK;
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t bytes_of(const sr_kernel_request *request, int i) {
    const int64_t count = sr_kernel_argument_count(request, i);
    return count > 0 ? aligned((size_t)count * sr_dtype_size(request->dtype[i])) : 0;
}

// ---- turns ----

typedef struct runner {
    sr_prepared prepared;
    bool ready, fits;                 // prepared; its memory is within the limit
    int64_t blocks[SR_KERNEL_STAGES]; // of a turn
    int64_t launches;                 // of a turn
    double best;                      // ns of a whole run
} runner;

typedef struct race {
    const char *device;
    const sr_kernel_request *request;
    runner runners[SR_CHOOSER_MAX_CANDIDATES];
    int count;
    void *p[SR_KERNEL_MAX_ARGS]; // for blocks
    char *workspace;
    sr_worker worker;
    sr_address address[SR_KERNEL_MAX_ARGS]; // for launches
    sr_address device_workspace;
} race;

static sr_kernel_args args_of(const race *r, const runner *one, int s) {
    return (sr_kernel_args){r->p, r->request->params, one->prepared.state, r->workspace,
                            one->prepared.stage[s].block_rows};
}

// Runs blocks for about STAGE_NS and stores their number.
static sr_status try_stage(race *r, runner *one, int s) {
    const sr_kernel_stage *stage = &one->prepared.stage[s];
    const sr_kernel_args args = args_of(r, one, s);
    const int64_t start = sr_clock_thread_ns();
    int64_t done = 0, taken;
    do {
        SR_TRY(stage->run(&args, done, &r->worker));
        taken = sr_clock_thread_ns() - start;
        done++;
    } while (done < stage->blocks &&
             (taken < STAGE_NS || (done < FEW_BLOCKS && taken < LONG_STAGE_NS)));
    one->blocks[s] = done;
    return SR_OK;
}

// Adds the time of all blocks of a stage, estimated from a sample. The last block is timed
// separately, as it may be smaller.
static sr_status time_stage(race *r, runner *one, int s, double *ns) {
    const sr_kernel_stage *stage = &one->prepared.stage[s];
    const sr_kernel_args args = args_of(r, one, s);
    const int64_t others = stage->blocks - 1;
    const int64_t count = one->blocks[s] > others ? others : one->blocks[s];
    const int64_t groups = (count + NEIGHBOURS - 1) / NEIGHBOURS;
    const int64_t apart = groups > 0 ? others / groups : 0;
    const int64_t start = sr_clock_thread_ns();
    for (int64_t i = 0; i < count; i++) {
        const int64_t block = count == others ? i : i / NEIGHBOURS * apart + i % NEIGHBOURS;
        SR_TRY(stage->run(&args, block, &r->worker));
    }
    const int64_t middle = sr_clock_thread_ns();
    SR_TRY(stage->run(&args, others, &r->worker));
    *ns += (double)(sr_clock_thread_ns() - middle);
    if (count > 0)
        *ns += (double)(middle - start) / (double)count * (double)others;
    return SR_OK;
}

static sr_status time_launches(const race *r, runner *one, bool first, double *ns) {
    const sr_kernel_call call = {.prepared = &one->prepared,
                                 .request = r->request,
                                 .p = r->address,
                                 .workspace = r->device_workspace};
    const int64_t repeats = first ? 1 : one->launches;
    int64_t taken;
    SR_TRY(sr_chooser_launch_time(&call, repeats, &taken));
    *ns = (double)taken / (double)repeats;
    if (first)
        one->launches = taken > STAGE_NS / LAUNCHES ? (STAGE_NS + taken - 1) / taken : LAUNCHES;
    return SR_OK;
}

static sr_status take_turn(race *r, runner *one, bool first) {
    double ns = 0;
    if (one->prepared.launch)
        SR_TRY(time_launches(r, one, first, &ns));
    for (int s = 0; s < one->prepared.stages; s++) {
        if (one->prepared.stage[s].blocks == 0)
            continue;
        SR_TRY(first ? try_stage(r, one, s) : time_stage(r, one, s, &ns));
    }
    if (!first && (one->best == 0 || ns < one->best))
        one->best = ns;
    return SR_OK;
}

static double fastest(const race *r) {
    double best = 0;
    for (int i = 0; i < r->count; i++) {
        const runner *one = &r->runners[i];
        if (one->ready && one->best > 0 && (best == 0 || one->best < best))
            best = one->best;
    }
    return best;
}

static sr_status run_turns(race *r) {
    const int64_t end = sr_clock_ns() + RACE_NS;
    for (int turn = 0; turn <= TURNS && (turn <= LEAST_TURNS || sr_clock_ns() < end); turn++) {
        for (int i = 0; i < r->count; i++) {
            runner *one = &r->runners[i];
            if (!one->ready || (i > 0 && turn > 1 && one->best > LOST * fastest(r)))
                continue;
            const sr_status status = take_turn(r, one, turn == 0);
            if (status != SR_OK && i == 0)
                return status;
            one->ready = status == SR_OK;
        }
    }
    return SR_OK;
}

// ---- the race ----

// Candidates that cannot be prepared or need more memory than the limit are skipped; the default
// always runs, so that its time is known.
static sr_status prepare_all(race *r, const sr_chooser_candidate *candidates, size_t limit) {
    for (int i = 0; i < r->count; i++) {
        runner *one = &r->runners[i];
        const sr_status status = sr_kernel_prepare_as(r->request, candidates[i].entry,
                                                      candidates[i].variant, &one->prepared);
        if (status != SR_OK && (i == 0 || status == SR_E_MEMORY || status == SR_E_DEVICE_MEMORY))
            return status;
        one->fits = status == SR_OK && one->prepared.workspace + one->prepared.scratch <= limit;
        one->ready = one->fits || i == 0;
    }
    return SR_OK;
}

static sr_status lay_out_for_launches(race *r, size_t all, size_t workspace) {
    sr_address at;
    SR_TRY(sr_chooser_launch_reserve(r->device, all, &at));
    for (int i = 0; i < r->request->args; i++) {
        const size_t own = bytes_of(r->request, i);
        r->address[i] = own > 0 ? at : sr_address_none();
        SR_TRY(fill_device(at, own, r->request->dtype[i]));
        at = sr_address_add(at, own);
    }
    r->device_workspace = workspace > 0 ? at : sr_address_none();
    return SR_OK;
}

static sr_status lay_out_for_blocks(race *r, size_t all, size_t workspace) {
    SR_TRY(reserve(all));
    char *at = buffer;
    for (int i = 0; i < r->request->args; i++) {
        const size_t own = bytes_of(r->request, i);
        r->p[i] = own > 0 ? at : NULL;
        fill_numbers(at, own, r->request->dtype[i]);
        at += own;
    }
    r->workspace = at;
    r->worker.scratch = at + aligned(workspace);
    return SR_OK;
}

static sr_status lay_out(race *r) {
    size_t workspace = 0, scratch = 0, bytes = 0;
    for (int i = 0; i < r->count; i++) {
        const runner *one = &r->runners[i];
        if (one->ready && one->prepared.workspace > workspace)
            workspace = one->prepared.workspace;
        if (one->ready && one->prepared.scratch > scratch)
            scratch = one->prepared.scratch;
    }
    for (int i = 0; i < r->request->args; i++)
        bytes += bytes_of(r->request, i);
    const size_t all = bytes + aligned(workspace) + aligned(scratch);
    if (all > MOST_BYTES)
        return SR_FAIL(SR_E_LIMIT, "timing it would take %zu MiB of memory", all >> 20);
    SR_TRY(make_pattern());
    return r->runners[0].prepared.launch ? lay_out_for_launches(r, all, workspace)
                                         : lay_out_for_blocks(r, all, workspace);
}

static void choose_winner(const race *r, sr_chooser_result *out) {
    const runner *first = &r->runners[0];
    int winner = first->fits ? 0 : -1;
    double best = first->fits ? CLEARLY * first->best : 0;
    for (int i = 1; i < r->count; i++) {
        const runner *one = &r->runners[i];
        if (one->ready && (winner < 0 || one->best < best)) {
            winner = i;
            best = one->best;
        }
    }
    out->winner = winner < 0 ? 0 : winner;
    out->ns = (uint64_t)r->runners[out->winner].best;
    out->default_ns = (uint64_t)first->best;
}

sr_status sr_chooser_race(const char *device, const sr_kernel_request *request,
                          const sr_chooser_candidate *candidates, int count, size_t workspace,
                          sr_chooser_result *out) {
    race r = {.device = device, .request = request, .count = count};
    sr_kernels_thread_init();
    sr_status status = prepare_all(&r, candidates, workspace);
    if (status == SR_OK)
        status = lay_out(&r);
    if (status == SR_OK)
        status = run_turns(&r);
    if (status == SR_OK)
        choose_winner(&r, out);
    for (int i = 0; i < count; i++)
        sr_prepared_release(&r.runners[i].prepared);
    return status;
}
