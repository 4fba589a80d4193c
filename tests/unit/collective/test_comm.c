// SPDX-License-Identifier: Apache-2.0
// Communicators: messages, collectives, deadlines and failures, over the backends self and local.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "collective/backend_local_internal.h"
#include "collective/comm_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"

#define MAX_RANKS 9

// ---- self

static void self_sends_to_itself(void **state) {
    (void)state;
    sr_comm *comm = NULL;
    sr_comm_options options = {.alone = true};
    assert_int_equal(sr_comm_create(&options, &comm), SR_OK);
    assert_int_equal(sr_comm_rank(comm), 0);
    assert_int_equal(sr_comm_size(comm), 1);
    assert_string_equal(sr_comm_backend_name(comm), "self");
    assert_non_null(strstr(sr_comm_peer_name(comm, 0), "pid"));
    int first = 41, second = 42, got_first = 0, got_second = 0;
    sr_comm_request requests[4] = {0};
    // Two messages with one tag arrive in order, even when the later receive is tested first.
    assert_int_equal(sr_comm_isend(comm, 0, 5, &first, sizeof first, &requests[0]), SR_OK);
    assert_int_equal(sr_comm_isend(comm, 0, 5, &second, sizeof second, &requests[1]), SR_OK);
    assert_int_equal(sr_comm_irecv(comm, 0, 5, &got_first, sizeof first, &requests[2]), SR_OK);
    assert_int_equal(sr_comm_irecv(comm, 0, 5, &got_second, sizeof second, &requests[3]), SR_OK);
    bool done = false;
    assert_int_equal(sr_comm_test(comm, &requests[3], &done), SR_OK);
    assert_true(done);
    assert_int_equal(sr_comm_wait(comm, requests, 4, "myself"), SR_OK);
    assert_int_equal(got_first, 41);
    assert_int_equal(got_second, 42);
    assert_int_equal(sr_comm_barrier(comm, "alone"), SR_OK);
    assert_int_equal(sr_comm_broadcast(comm, 0, &first, sizeof first, "alone"), SR_OK);
    assert_int_equal(sr_comm_all_gather(comm, &first, sizeof first, &second, "alone"), SR_OK);
    assert_int_equal(second, 41);
    sr_comm_free(comm);
}

static void mistakes_are_named(void **state) {
    (void)state;
    sr_comm *comm = NULL;
    sr_comm_options options = {.alone = true, .backend = "carrier-pigeon"};
    assert_int_equal(sr_comm_create(&options, &comm), SR_E_USAGE);
    assert_non_null(strstr(sr_error_message(), "carrier-pigeon"));
    options.backend = "mpi";
    assert_int_equal(sr_comm_create(&options, &comm), SR_E_USAGE);
    assert_non_null(strstr(sr_error_message(),
                           "backend 'mpi' cannot connect this job (1 rank, started by 'self')"));
    options.backend = "self";
    assert_int_equal(sr_comm_create(&options, &comm), SR_OK);
    sr_comm_request request = {0};
    int data = 0;
    assert_int_equal(sr_comm_isend(comm, 1, 0, &data, sizeof data, &request), SR_E_ARGUMENT);
    assert_int_equal(sr_comm_isend(comm, 0, -1, &data, sizeof data, &request), SR_E_ARGUMENT);
    assert_int_equal(sr_comm_isend(comm, 0, 0, NULL, sizeof data, &request), SR_E_ARGUMENT);
    assert_int_equal(sr_comm_irecv(comm, 0, 0, &data, sizeof data, &request), SR_OK);
    assert_int_equal(sr_comm_irecv(comm, 0, 0, &data, sizeof data, &request), SR_E_ARGUMENT);
    // None of these errors is a failure of the communicator.
    sr_comm_request send = {0};
    assert_int_equal(sr_comm_isend(comm, 0, 0, &data, sizeof data, &send), SR_OK);
    assert_int_equal(sr_comm_wait(comm, &request, 1, "it"), SR_OK);
    assert_int_equal(sr_comm_broadcast(comm, 3, &data, sizeof data, "x"), SR_E_ARGUMENT);
    sr_comm_free(comm);
    sr_comm_free(NULL);
}

static void tasks_that_are_alone_are_refused(void **state) {
    (void)state;
    sr_comm *comm = NULL;
    setenv("SLURM_PROCID", "2", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    assert_int_equal(sr_comm_create(NULL, &comm), SR_E_USAGE);
    assert_non_null(strstr(sr_error_message(), "srun --mpi=pmix"));
    sr_comm_options options = {.alone = true}; // on purpose
    assert_int_equal(sr_comm_create(&options, &comm), SR_OK);
    sr_comm_free(comm);
    unsetenv("SLURM_PROCID");
    unsetenv("SLURM_STEP_NUM_TASKS");
}

// ---- who is where

// Ranks 0 to 3: this process; one of its host; one of another container there; one elsewhere.
static sr_status give_cards(void *state, const void *mine, size_t bytes, void *all,
                            double seconds) {
    sr_comm_card *cards = all;
    (void)state;
    (void)seconds;
    assert_int_equal(bytes, sizeof *cards);
    for (int r = 0; r < 4; r++) {
        memcpy(&cards[r], mine, bytes);
        cards[r].pid += r;
        cards[r].host += r == 3 ? 1 : 0;
        cards[r].pids += r == 2 ? 1 : 0;
    }
    return SR_OK;
}

static void ranks_know_their_hosts(void **state) {
    static const sr_bootstrap four = {.name = "four", .exchange = give_cards};
    static const int hosts[] = {0, 0, 0, 3};
    sr_local_world *world = NULL;
    sr_comm *comm = NULL;
    (void)state;
    assert_int_equal(sr_local_world_create(&(sr_local_options){.size = 4}, &world), SR_OK);
    assert_int_equal(sr_local_world_join(world, 0, NULL, &comm), SR_OK);
    comm->job.bootstrap = &four;
    assert_int_equal(sr_comm_meet(comm), SR_OK);
    comm->job.bootstrap = NULL; // its ranks never end
    for (int r = 0; r < 4; r++)
        assert_int_equal(sr_comm_host(comm, r), hosts[r]);
    assert_int_equal(comm->pids[0], getpid());
    assert_int_equal(comm->pids[1], getpid() + 1);
    assert_int_equal(comm->pids[2], 0);
    assert_int_equal(comm->pids[3], 0);
    assert_non_null(strstr(sr_comm_peer_name(comm, 3), "pid"));
    sr_comm_free(comm);
    sr_local_world_free(world);
}

// ---- many ranks as threads

typedef struct comm_rank {
    sr_comm *comm;
    int rank, size;
    void *(*body)(struct comm_rank *);
    sr_status status;
    char message[512];
    int checks; // failed checks: cmocka's assertions may be used in the main thread only
} comm_rank;

#define CHECK(run, condition) ((run)->checks += (condition) ? 0 : 1)

static void *thread_body(void *argument) {
    comm_rank *run = argument;
    return run->body(run);
}

static void run_ranks(const sr_local_options *local, const sr_comm_options *options,
                      void *(*body)(comm_rank *), comm_rank *runs) {
    sr_local_world *world = NULL;
    pthread_t threads[MAX_RANKS] = {0};
    assert_int_equal(sr_local_world_create(local, &world), SR_OK);
    for (int r = 0; r < local->size; r++) {
        runs[r] = (comm_rank){.rank = r, .size = local->size, .body = body};
        assert_int_equal(sr_local_world_join(world, r, options, &runs[r].comm), SR_OK);
    }
    for (int r = 0; r < local->size; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, thread_body, &runs[r]), 0);
    for (int r = 0; r < local->size; r++)
        (void)pthread_join(threads[r], NULL);
    for (int r = 0; r < local->size; r++) {
        sr_comm_free(runs[r].comm);
        assert_int_equal(runs[r].checks, 0);
    }
    sr_local_world_free(world);
}

static atomic_int arrived;

static void *collectives_body(comm_rank *run) {
    int rank = run->rank, size = run->size;
    unsigned char big[3000];
    for (int turn = 0; turn < 3; turn++) {
        atomic_fetch_add(&arrived, 1);
        CHECK(run, sr_comm_barrier(run->comm, "the others") == SR_OK);
        CHECK(run, atomic_load(&arrived) >= size * (turn + 1));
        for (int root = 0; root < size; root++) {
            memset(big, rank == root ? root + 1 : 0, sizeof big);
            CHECK(run, sr_comm_broadcast(run->comm, root, big, sizeof big, "b") == SR_OK);
            CHECK(run, big[0] == root + 1 && big[sizeof big - 1] == root + 1);
        }
        int mine[2] = {rank * 10, turn}, all[MAX_RANKS][2];
        CHECK(run, sr_comm_all_gather(run->comm, mine, sizeof mine, all, "g") == SR_OK);
        for (int r = 0; r < size; r++)
            CHECK(run, all[r][0] == r * 10 && all[r][1] == turn);
        // Rank r contributes r bytes, so rank 0 contributes none.
        size_t offset[MAX_RANKS], bytes[MAX_RANKS], end = 0;
        for (int r = 0; r < size; r++) {
            offset[r] = end;
            bytes[r] = (size_t)r;
            end += (size_t)r;
        }
        memset(big, 0, sizeof big);
        memset(big + offset[rank], rank, bytes[rank]);
        CHECK(run, sr_comm_all_gather_v(run->comm, big, offset, bytes, "v") == SR_OK);
        for (int r = 1; r < size; r++)
            CHECK(run, big[offset[r]] == r && big[offset[r] + bytes[r] - 1] == r);
        CHECK(run, sr_comm_barrier(run->comm, "end of turn") == SR_OK);
    }
    return NULL;
}

static void collectives_of_any_size(void **state) {
    (void)state;
    comm_rank runs[MAX_RANKS] = {0};
    for (int size = 1; size <= MAX_RANKS; size += size < 5 ? 1 : 2) {
        atomic_store(&arrived, 0);
        sr_local_options local = {.size = size, .seed = 3};
        run_ranks(&local, NULL, collectives_body, runs);
        atomic_store(&arrived, 0);
        local.max_delay_ns = 300000; // streams overtake each other
        run_ranks(&local, NULL, collectives_body, runs);
    }
}

// Rank 1 fails while the others are in a barrier.
static void *failing_body(comm_rank *run) {
    if (run->rank == 1)
        sr_comm_abort(run->comm, SR_E_DATA, "record 7 of train-00001.kpl is damaged");
    run->status = sr_comm_barrier(run->comm, "all ranks to meet");
    snprintf(run->message, sizeof run->message, "%s", sr_error_message());
    return NULL;
}

static void a_failure_reaches_every_rank(void **state) {
    (void)state;
    comm_rank runs[MAX_RANKS] = {0};
    for (int size = 2; size <= 5; size++) {
        run_ranks(&(sr_local_options){.size = size, .seed = 5, .max_delay_ns = 200000}, NULL,
                  failing_body, runs);
        for (int r = 0; r < size; r++) {
            assert_int_equal(runs[r].status, SR_E_DATA);
            assert_string_equal(runs[r].message, "rank 1 (rank 1): record 7 of train-00001.kpl is "
                                                 "damaged");
        }
    }
}

// ---- deadlines, with a clock that advances by a second at each reading

static _Atomic int64_t fake_now;

static int64_t ticking_clock(void) {
    return atomic_fetch_add(&fake_now, SR_NS_PER_S);
}

static void a_wait_ends_at_its_deadline(void **state) {
    (void)state;
    sr_local_world *world = NULL;
    sr_comm *comms[3] = {0};
    sr_log_set_level(SR_LOG_ERROR);
    sr_comm_options options = {.act_seconds = 30, .clock_ns = ticking_clock};
    assert_int_equal(sr_local_world_create(&(sr_local_options){.size = 3}, &world), SR_OK);
    for (int r = 0; r < 3; r++)
        assert_int_equal(sr_local_world_join(world, r, &options, &comms[r]), SR_OK);
    int data = 0;
    sr_comm_request request = {0};
    assert_int_equal(sr_comm_irecv(comms[0], 2, 1, &data, sizeof data, &request), SR_OK);
    assert_int_equal(sr_comm_wait(comms[0], &request, 1, "the plan"), SR_E_TIMEOUT);
    assert_non_null(strstr(sr_error_message(),
                           "rank 0 (rank 0): waited 30 s (deadline.act) for the plan; "
                           "waiting for rank 2 (rank 2)"));
    assert_false(request.active);
    // The failure is permanent, and the other ranks get the same message.
    assert_int_equal(sr_comm_barrier(comms[0], "x"), SR_E_TIMEOUT);
    assert_int_equal(sr_comm_poll(comms[1]), SR_E_TIMEOUT);
    assert_non_null(
        strstr(sr_error_message(), "rank 0 (rank 0): waited 30 s (deadline.act) for the plan"));
    assert_int_equal(sr_comm_irecv(comms[2], 0, 1, &data, sizeof data, &request), SR_OK);
    assert_int_equal(sr_comm_wait(comms[2], &request, 1, "more"), SR_E_TIMEOUT);
    assert_non_null(strstr(sr_error_message(), "the plan"));
    for (int r = 0; r < 3; r++)
        sr_comm_free(comms[r]);
    sr_local_world_free(world);
    sr_log_set_level(SR_LOG_INFO);
}

static void a_dead_rank_is_found_by_the_deadline(void **state) {
    (void)state;
    sr_local_world *world = NULL;
    sr_comm *comms[2] = {0};
    sr_log_set_level(SR_LOG_ERROR);
    unsigned char big[5000] = {0};
    sr_comm_options options = {.act_seconds = 20, .clock_ns = ticking_clock};
    assert_int_equal(sr_local_world_create(&(sr_local_options){.size = 2}, &world), SR_OK);
    for (int r = 0; r < 2; r++)
        assert_int_equal(sr_local_world_join(world, r, &options, &comms[r]), SR_OK);
    sr_comm_request from_dead = {0}, to_dead = {0};
    assert_int_equal(sr_comm_isend(comms[1], 0, 1, big, sizeof big, &from_dead), SR_OK);
    sr_local_world_kill(world, 1);
    assert_int_equal(sr_comm_isend(comms[0], 1, 1, big, sizeof big, &to_dead), SR_OK);
    assert_int_equal(sr_comm_wait(comms[0], &to_dead, 1, "delivery"), SR_E_TIMEOUT);
    assert_non_null(strstr(sr_error_message(), "rank 1"));
    sr_comm_settle(comms[1], &from_dead, 1);
    for (int r = 0; r < 2; r++)
        sr_comm_free(comms[r]);
    sr_local_world_free(world);
    sr_log_set_level(SR_LOG_INFO);
}

static void wrong_sizes_are_a_failure(void **state) {
    (void)state;
    sr_local_world *world = NULL;
    sr_comm *comms[2] = {0};
    assert_int_equal(sr_local_world_create(&(sr_local_options){.size = 2}, &world), SR_OK);
    for (int r = 0; r < 2; r++)
        assert_int_equal(sr_local_world_join(world, r, NULL, &comms[r]), SR_OK);
    int data[2] = {0};
    sr_comm_request requests[2] = {0};
    assert_int_equal(sr_comm_isend(comms[0], 1, 1, data, 4, &requests[0]), SR_OK);
    assert_int_equal(sr_comm_irecv(comms[1], 0, 1, data, 8, &requests[1]), SR_OK);
    assert_int_equal(sr_comm_wait(comms[1], &requests[1], 1, "it"), SR_E_PEER);
    assert_non_null(strstr(sr_error_message(), "4 bytes where 8 were expected"));
    for (int r = 0; r < 2; r++)
        sr_comm_free(comms[r]);
    sr_local_world_free(world);
}

// ---- memory

static void steady_messages_allocate_nothing(void **state) {
    (void)state;
    sr_comm *comm = NULL;
    unsigned char out[4000] = {1}, in[4000];
    uint64_t before = 0;
    sr_comm_options options = {.alone = true};
    assert_int_equal(sr_comm_create(&options, &comm), SR_OK);
    for (int turn = 0; turn < 20; turn++) {
        sr_comm_request requests[4] = {0};
        if (turn == 1)
            before = sr_memory_get_stats().allocations;
        assert_int_equal(sr_comm_irecv(comm, 0, 1, in, sizeof in, &requests[0]), SR_OK);
        assert_int_equal(sr_comm_irecv(comm, 0, 2, in, 100, &requests[1]), SR_OK);
        assert_int_equal(sr_comm_isend(comm, 0, 2, out, 100, &requests[2]), SR_OK);
        assert_int_equal(sr_comm_isend(comm, 0, 1, out, sizeof out, &requests[3]), SR_OK);
        assert_int_equal(sr_comm_wait(comm, requests, 4, "it"), SR_OK);
    }
    assert_int_equal(sr_memory_get_stats().allocations, before);
    sr_comm_free(comm);
}

static void survives_each_failing_allocation(void **state) {
    (void)state;
    uint64_t live = sr_memory_get_stats().live_blocks;
    int failures = 0;
    for (uint64_t n = 1; n <= 20; n++) {
        sr_comm *comm = NULL;
        sr_comm_options options = {.alone = true};
        sr_comm_request requests[2] = {0};
        int data = 1, got = 0;
        sr_memory_fail_nth(n);
        sr_status status = sr_comm_create(&options, &comm);
        if (status == SR_OK)
            status = sr_comm_isend(comm, 0, 1, &data, sizeof data, &requests[0]);
        if (status == SR_OK)
            status = sr_comm_irecv(comm, 0, 1, &got, sizeof got, &requests[1]);
        if (status == SR_OK)
            status = sr_comm_wait(comm, requests, 2, "it");
        sr_memory_fail_nth(0);
        assert_true(status == SR_OK ? got == 1 : status == SR_E_MEMORY);
        failures += status == SR_E_MEMORY ? 1 : 0;
        sr_comm_free(comm);
        assert_int_equal(sr_memory_get_stats().live_blocks, live);
    }
    assert_in_range(failures, 5, 19);
}

int main(void) {
    // The environment selects the backend; this program does not run under a launcher.
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMIX_RANK");
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_sends_to_itself),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(tasks_that_are_alone_are_refused),
        cmocka_unit_test(ranks_know_their_hosts),
        cmocka_unit_test(collectives_of_any_size),
        cmocka_unit_test(a_failure_reaches_every_rank),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(a_dead_rank_is_found_by_the_deadline),
        cmocka_unit_test(wrong_sizes_are_a_failure),
        cmocka_unit_test(steady_messages_allocate_nothing),
        cmocka_unit_test(survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
