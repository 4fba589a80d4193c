// SPDX-License-Identifier: Apache-2.0
// The exchange over MPI, run by mpirun.sh under mpirun. The argument selects the case:
//   digest   trains some steps and prints the hash of V: the same for every number of ranks
//   fail     rank 1 reads damaged data in step 2          -> every rank ends with code 3
//   update   the update of rank 1 finds a NaN in step 2   -> code 5
//   between  rank 1 fails between two steps               -> code 3
//   unequal  rank 1 has different segments                -> code 2
//   drift    rank 1 stores a different first value in its V -> code 4
//   exit     rank 1 exits with code 9 without an error    -> mpirun ends the others, code 9
//   vanish   rank 1 exits with code 0 without an error    -> code 1
//   kill     rank 1 is killed                             -> code 137
//   hang     rank 1 sleeps forever, the deadline is 1 s   -> code 6
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/trainer/exchange/exchange_world.h"

#define LANES 8
#define ELEMENTS (INT64_C(2) * SR_BLOCK_ELEMENTS + 5000)
#define STEPS 3
#define FAILING_STEP 2

static const sr_segment segments[] = {
    {"stem", 0, 1000, false, false},
    {"big", 1000, SR_BLOCK_ELEMENTS + 10000, false, false},
    {"head", SR_BLOCK_ELEMENTS + 11000, ELEMENTS - SR_BLOCK_ELEMENTS - 11000, false, false},
};
enum { SEGMENTS = sizeof segments / sizeof segments[0] };

typedef struct mpi_run {
    const char *mode;
    sr_comm *comm;
    sr_exchange *exchange;
    float *values, *scratch;
    int rank, size;
    sr_device *device;
    sr_stream *stream;
} mpi_run;

// Modes other than "digest" send few, cheap values.
static bool is_mode(const mpi_run *r, const char *mode) {
    return strcmp(r->mode, mode) == 0;
}

static bool fails_here(const mpi_run *r, const char *mode, int64_t step) {
    return is_mode(r, mode) && step == FAILING_STEP && r->rank == 1;
}

static sr_status update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                        sr_address values, sr_stream *stream) {
    const mpi_run *r = user;
    if (fails_here(r, "update", step))
        return SR_FAIL(SR_E_NON_FINITE, "the gradient is not finite");
    return world_update(NULL, step, begin, end, sum, values, stream);
}

static sr_status give(mpi_run *r, int64_t step, int lane, int segment) {
    if (is_mode(r, "digest"))
        return world_put(r->stream, r->exchange, segments, step, lane, segment, r->scratch);
    return world_put_data(r->stream, r->exchange, segments, lane, segment, r->scratch);
}

static sr_status give_lanes(mpi_run *r, int64_t step) {
    int last = sr_lanes_first(LANES, r->size, r->rank + 1);
    for (int lane = sr_lanes_first(LANES, r->size, r->rank); lane < last; lane++) {
        for (int s = SEGMENTS - 1; s >= 0; s--)
            SR_TRY(give(r, step, lane, s));
    }
    return SR_OK;
}

static void misbehave(mpi_run *r, int64_t step) {
    if (fails_here(r, "fail", step))
        sr_exchange_fail(r->exchange, SR_E_DATA, "record 7 of train-00000.kpl is damaged");
    if (fails_here(r, "exit", step))
        _exit(9);
    if (fails_here(r, "vanish", step))
        _exit(0);
    if (fails_here(r, "kill", step))
        raise(SIGKILL);
    while (fails_here(r, "hang", step))
        pause();
}

static sr_status train(mpi_run *r) {
    for (int64_t step = 0; step < STEPS; step++) {
        if (fails_here(r, "between", step))
            sr_exchange_fail(r->exchange, SR_E_DATA, "the list of files has changed");
        SR_TRY(sr_exchange_step_begin(r->exchange, step));
        misbehave(r, step);
        sr_status put = give_lanes(r, step);
        sr_status wait = sr_exchange_step_wait(r->exchange);
        if (wait != SR_OK || put != SR_OK)
            return wait != SR_OK ? wait : put;
    }
    return SR_OK;
}

static uint64_t hash_of(const float *values) {
    return sr_hash64(values, ELEMENTS * sizeof *values);
}

static sr_status check_collectives(mpi_run *r) {
    // Longer than split_bytes, so that it is sent in several messages.
    SR_TRY(sr_comm_broadcast(r->comm, r->size - 1, r->values, ELEMENTS * sizeof *r->values,
                             "a broadcast"));
    int count = 0;
    const sr_range *owned = sr_exchange_owned(r->exchange, &count);
    float *state = sr_alloc_array(ELEMENTS, sizeof *state, "state");
    if (!state)
        return SR_E_MEMORY;
    for (int i = 0; i < count; i++)
        memcpy(state + owned[i].begin, r->values + owned[i].begin,
               (size_t)(owned[i].end - owned[i].begin) * sizeof *state);
    sr_status status = sr_exchange_gather(r->exchange, world_address(state), "a gather");
    if (status == SR_OK && hash_of(state) != hash_of(r->values))
        status = SR_FAIL(SR_E_INTERNAL, "the gathered values differ");
    sr_free(state);
    if (status == SR_OK)
        status = sr_comm_barrier(r->comm, "a barrier");
    return status;
}

static sr_status work(mpi_run *r) {
    bool hangs = is_mode(r, "hang");
    sr_comm_options comm_options = {.act_seconds = hangs ? 1 : 60, .split_bytes = 100000};
    SR_TRY(sr_comm_create(&comm_options, &r->comm));
    SR_TRY(sr_device_open("cpu", &r->device));
    SR_TRY(world_stream(r->device, &r->stream));
    r->rank = sr_comm_rank(r->comm);
    r->size = sr_comm_size(r->comm);
    r->values = sr_alloc_array(ELEMENTS, sizeof *r->values, "values");
    r->scratch = sr_alloc_array(ELEMENTS, sizeof *r->scratch, "scratch");
    if (!r->values || !r->scratch)
        return SR_E_MEMORY;
    sr_segment own[SEGMENTS];
    memcpy(own, segments, sizeof own);
    if (is_mode(r, "unequal") && r->rank == 1)
        own[1].name = "bigger";
    sr_exchange_options options = {.device = r->device,
                                   .lanes = LANES,
                                   .bucket_bytes =
                                       is_mode(r, "digest") ? 1 : 0, // one or three blocks
                                   .segments = own,
                                   .segment_count = SEGMENTS,
                                   .values = world_address(r->values),
                                   .elements = ELEMENTS,
                                   .update = update,
                                   .user = r,
                                   .act_seconds = hangs ? 1 : 60};
    SR_TRY(sr_exchange_create(r->comm, &options, &r->exchange));
    if (is_mode(r, "drift") && r->rank == 1)
        r->values[ELEMENTS - 1] = 1;
    SR_TRY(sr_exchange_compare(r->exchange));
    SR_TRY(train(r));
    return check_collectives(r);
}

int main(int argc, char **argv) {
    mpi_run r = {.mode = argc > 1 ? argv[1] : "digest"};
    sr_status status = work(&r);
    if (status != SR_OK)
        fprintf(stderr, "%s: %s\n", sr_status_name(status), sr_error_message());
    if (status == SR_OK && r.rank == 0) {
        sr_hash128 hash = sr_hash_128(r.values, ELEMENTS * sizeof *r.values);
        printf("%016llx%016llx\n", (unsigned long long)hash.high, (unsigned long long)hash.low);
    }
    sr_exchange_free(r.exchange);
    sr_comm_free(r.comm);
    sr_stream_free(r.stream);
    sr_device_close(r.device);
    sr_free(r.values);
    sr_free(r.scratch);
    return sr_status_exit_code(status);
}
