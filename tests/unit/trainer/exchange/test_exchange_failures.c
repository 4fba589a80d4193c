// SPDX-License-Identifier: Apache-2.0
// The exchange as a simulation: failures and deadlines of every kind reach all ranks and name who
// is waited for, with both drivers.
#include <pthread.h>

#include "kernels/base/log.h"
#include "tests/unit/trainer/exchange/exchange_simulation.h"

static void expect_failure_everywhere(const world *w, sr_status status, const char *text,
                                      bool one_cause) {
    const char *first = NULL;
    for (int r = 0; r < w->ranks; r++) {
        if (w->dead[r])
            continue;
        assert_int_equal(w->status[r], status);
        assert_non_null(strstr(w->message[r], text));
        first = first ? first : w->message[r];
        if (one_cause)
            assert_string_equal(w->message[r], first); // the same message on every rank
    }
}

static void a_failing_rank_fails_all(void **state) {
    (void)state;
    static world w;
    for (uint64_t seed = 1; seed <= 30; seed += now->stride) {
        setting s = {.lanes = 8,
                     .ranks = 2 + (int)(seed % 4),
                     .bucket_bytes = 2 * BLOCK * 4,
                     .max_delay_ns = 300000,
                     .seed = seed,
                     .shuffled = true};
        open_world(&w, &s);
        int until = (int)(seed * 37 % 200);
        for (int turns = 0; turns < until; turns++)
            turn(&w, NEVER, 50000);
        sr_exchange_fail(w.exchanges[1], SR_E_DATA, "record 9 is damaged");
        assert_ok(sr_stream_wait(stream)); // it may still read what is given again now
        assert_status(SR_E_DATA, put(&w, 1, sr_lanes_first(8, s.ranks, 1), 0));
        run(&w, NEVER, 50000);
        expect_failure_everywhere(&w, SR_E_DATA, "rank 1 (rank 1): record 9 is damaged", true);
        for (int r = 0; r < s.ranks; r++)
            assert_int_equal(sr_exchange_step_begin(w.exchanges[r], 99), SR_E_DATA);
        close_world(&w);
    }
}

// An update that fails when it is put on the stream, or when it runs there.
typedef struct failing {
    int left; // of all ranks together
    bool later;
} failing;

static sr_status fail_update(const world_work *work) {
    return SR_FAIL(SR_E_NON_FINITE, "the gradient of element %lld is not finite",
                   (long long)work->begin);
}

static sr_status failing_update(void *user, int64_t step, int64_t begin, int64_t end,
                                sr_address sum, sr_address values, sr_stream *on) {
    failing *f = user;
    const world_work work = {.run = fail_update, .begin = begin};
    if (f->left-- != 0)
        return world_update(NULL, step, begin, end, sum, values, on);
    return f->later ? world_enqueue(on, values, sum, &work) : fail_update(&work);
}

static void a_failing_update_fails_all(void **state) {
    (void)state;
    static world w;
    for (int later = 0; later < 2; later++) {
        failing f = {.left = 20, .later = later};
        setting s = {.lanes = 6,
                     .ranks = 3,
                     .bucket_bytes = BLOCK * 4,
                     .seed = 5,
                     .update = failing_update,
                     .user = &f};
        open_world(&w, &s);
        run(&w, NEVER, 50000);
        expect_failure_everywhere(&w, SR_E_NON_FINITE, "step 2: the gradient of element", true);
        close_world(&w);
    }
}

// Ranks compare their buckets before they start; if they did not, messages would not fit.
static void messages_that_do_not_fit_fail_all(void **state) {
    (void)state;
    static world w;
    setting s = {.lanes = 4,
                 .ranks = 2,
                 .bucket_bytes = 4 * BLOCK * 4,
                 .other_bucket_bytes = 6 * BLOCK * 4,
                 .seed = 3};
    open_world(&w, &s);
    run(&w, NEVER, 50000);
    expect_failure_everywhere(&w, SR_E_PEER, " bytes where ", false);
    close_world(&w);
}

static sr_status measure_nothing(void *user, int64_t step, int round, int64_t begin, int64_t end,
                                 sr_address sum, sr_address out, sr_stream *on) {
    (void)user, (void)step, (void)round, (void)begin, (void)end, (void)sum, (void)out, (void)on;
    return SR_OK;
}

static sr_status agree_at_once(void *user, int64_t step, int round, const sr_exchange_piece *pieces,
                               const double *measures, int64_t count) {
    (void)user, (void)step, (void)round, (void)pieces, (void)measures, (void)count;
    return SR_OK;
}

// Whether a rank waits for rank 2, and will for ever: in a message that it received or a group that
// it joined since, rank 2 would be missing.
static bool waits_for_the_dead(const world *w, int rank) {
    sr_exchange *x = w->exchanges[rank];
    sr_peer_names names = {.length = 0};
    if (x->pass == SR_PASS_AGREE)
        (void)sr_exchange_name_group(x, &x->agreement.group, "", &names);
    else if (now->on_stream)
        return stream_comm_looks(w->comms[rank]) > 0;
    else if (x->started > x->finished)
        (void)x->driver->describe(x, &x->transfers[x->finished % x->transfer_count], &names);
    return strstr(names.text, "rank 2 (rank 2)") != NULL;
}

static bool all_wait_for_the_dead(const world *w) {
    for (int r = 0; r < w->ranks; r++)
        if (!w->dead[r] && !waits_for_the_dead(w, r))
            return false;
    return true;
}

// Until nothing moves any more, however long threads take for it: each rank waits, and still does
// after all streams have looked for messages again, which none of them has sent in between.
static void run_until_all_wait(world *w) {
    enum { TURNS = 100, LOOKS = 3 };
    for (int quiet = 0; quiet < LOOKS;) {
        uint64_t before[MAX_RANKS];
        for (int r = 0; r < w->ranks; r++)
            before[r] = now->on_stream ? stream_comm_looks(w->comms[r]) : 0;
        bool moved = false;
        for (int i = 0; i < TURNS; i++)
            moved = turn(w, NEVER, 1000) || moved;
        sr_clock_sleep_ns(100000);
        bool looked = all_wait_for_the_dead(w) && !moved;
        for (int r = 0; r < w->ranks && looked && now->on_stream; r++)
            looked = w->dead[r] || w->exchanges[r]->pass == SR_PASS_AGREE ||
                     stream_comm_looks(w->comms[r]) > before[r] + 1;
        quiet = looked ? quiet + 1 : 0;
    }
}

static void a_dead_rank_is_found_and_named(void **state) {
    (void)state;
    static world w;
    int in_agreement = 0;
    sr_log_set_level(SR_LOG_ERROR);
    for (uint64_t seed = 1; seed <= 40; seed += runs_beside() ? 10 : 1) {
        setting s = {.lanes = 8,
                     .ranks = 4,
                     .bucket_bytes = 4 * BLOCK * 4, // every rank owns a part of every bucket
                     .max_delay_ns = 300000,
                     .seed = seed,
                     .user = &w,
                     .measure = measure_nothing,
                     .agree = seed > 20 ? agree_at_once : NULL};
        open_world(&w, &s);
        while (w.step[0] < 2)
            turn(&w, NEVER, 50000);
        for (uint64_t turns = 0; turns < seed * 11 % 100; turns++)
            turn(&w, NEVER, 50000);
        while (s.agree && w.exchanges[0]->pass != SR_PASS_AGREE)
            run_until(&w, NEVER, 1000, 1);
        sr_local_world_kill(w.local, 2);
        w.dead[2] = true;
        int64_t died = now_ns;
        run_until_all_wait(&w);
        w.rushes = true;
        run(&w, NEVER, 50 * SR_NS_PER_MS);
        assert_true(now_ns - died > 119 * SR_NS_PER_S);
        assert_true(now_ns - died < 140 * SR_NS_PER_S || runs_beside());
        // Several ranks may reach their deadline at once, each with its own message.
        expect_failure_everywhere(&w, SR_E_TIMEOUT, "rank 2 (rank 2)", false);
        expect_failure_everywhere(&w, SR_E_TIMEOUT, s.agree ? " s for " : " s for bucket ", false);
        for (int r = 0; r < s.ranks; r++)
            in_agreement += strstr(w.message[r], " s for norms of gradients ") != NULL;
        close_world(&w);
    }
    assert_true(in_agreement > 0 || runs_beside());
    sr_log_set_level(SR_LOG_INFO);
}

static void a_missing_lane_is_named(void **state) {
    (void)state;
    static world w;
    setting s = {.lanes = 4, .ranks = 2, .bucket_bytes = BLOCK * 4, .seed = 1};
    sr_log_set_level(SR_LOG_ERROR);
    open_world(&w, &s);
    for (int i = 0; i < SEGMENTS + 2; i++)
        give_next(&w, 0); // lane 0, and the segments 'last' and 'to the middle' of lane 1
    while (now_ns < 100 * SR_NS_PER_S) { // a long computation is no failure
        now_ns += SR_NS_PER_S / 4;
        sr_exchange_progress(w.exchanges[1], now_ns);
    }
    assert_int_equal(sr_exchange_step_wait(w.exchanges[1]), SR_E_ARGUMENT); // not driven to its end
    for (int i = 0; i < 10000 && !sr_exchange_is_over(w.exchanges[1]); i++) {
        now_ns += SR_NS_PER_S / 4;
        sr_exchange_progress(w.exchanges[1], now_ns);
    }
    assert_int_equal(sr_exchange_step_wait(w.exchanges[1]), SR_E_TIMEOUT);
    assert_non_null(strstr(sr_error_message(),
                           "rank 1 (rank 1): step 0: waited 600 s for lane 2 of "
                           "this rank to give segment 'first'"));
    close_world(&w);
    sr_log_set_level(SR_LOG_INFO);
}

// ---- lanes that the device still computes

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reached, open;
} gate;

#define CLOSED_GATE                                                                                \
    { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static sr_status pass_gate(void *user) {
    gate *g = user;
    (void)pthread_mutex_lock(&g->lock);
    g->reached = true;
    (void)pthread_cond_broadcast(&g->changed);
    while (!g->open)
        (void)pthread_cond_wait(&g->changed, &g->lock);
    (void)pthread_mutex_unlock(&g->lock);
    return SR_OK;
}

static void wait_at_gate(gate *g) {
    (void)pthread_mutex_lock(&g->lock);
    while (!g->reached)
        (void)pthread_cond_wait(&g->changed, &g->lock);
    (void)pthread_mutex_unlock(&g->lock);
}

static void open_gate(gate *g) {
    (void)pthread_mutex_lock(&g->lock);
    g->open = true;
    (void)pthread_cond_broadcast(&g->changed);
    (void)pthread_mutex_unlock(&g->lock);
}

// Everything is put, but the stream of the lanes does not come that far: nobody else is blamed.
static void lanes_on_the_device_are_waited_for(void **state) {
    (void)state;
    static world w;
    gate g = CLOSED_GATE;
    setting s = {.lanes = 2, .ranks = 2, .bucket_bytes = 4 * BLOCK * 4, .seed = 1};
    sr_stream *direct = stream;
    static const sr_stream_options one = {.threads = 1};
    sr_log_set_level(SR_LOG_ERROR);
    assert_ok(sr_stream_create(device, &one, &stream));
    open_world(&w, &s);
    assert_ok(sr_cpu_stream_call(stream, pass_gate, &g));
    while (give_next(&w, 1)) {
    }
    while (now_ns < 400 * SR_NS_PER_S) { // a long computation is no failure
        now_ns += SR_NS_PER_S / 4;
        sr_exchange_progress(w.exchanges[1], now_ns);
    }
    assert_status(SR_E_ARGUMENT, sr_exchange_step_wait(w.exchanges[1])); // not driven to its end
    for (int i = 0; i < 10000 && !sr_exchange_is_over(w.exchanges[1]); i++) {
        now_ns += SR_NS_PER_S / 4;
        sr_exchange_progress(w.exchanges[1], now_ns);
    }
    assert_status(SR_E_TIMEOUT, sr_exchange_step_wait(w.exchanges[1]));
    assert_message("rank 1 (rank 1): step 0: waited 600 s for the lanes of this rank");
    open_gate(&g);
    close_world(&w);
    sr_stream_free(stream);
    stream = direct;
    sr_log_set_level(SR_LOG_INFO);
}

static sr_status gated_update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                              sr_address values, sr_stream *on) {
    SR_TRY(sr_cpu_stream_call(on, pass_gate, user));
    return world_update(NULL, step, begin, end, sum, values, on);
}

// While an update is still to read its sum, further buckets come: they take other buffers.
static void sums_are_kept_until_the_update_has_run(void **state) {
    (void)state;
    static world w;
    static float expected[ELEMENTS];
    gate g = CLOSED_GATE;
    setting s = {.lanes = 2,
                 .ranks = 1,
                 .bucket_bytes = BLOCK * 4,
                 .seed = 1,
                 .update = gated_update,
                 .user = &g};
    memset(expected, 0, sizeof expected);
    world_expect(s.lanes, 1, segments, SEGMENTS, expected);
    open_world(&w, &s);
    for (int segment = SEGMENTS - 1; segment >= 0; segment--) {
        for (int lane = 0; lane < s.lanes; lane++)
            assert_ok(put(&w, 0, lane, segment));
        assert_ok(sr_stream_wait(stream));
        sr_exchange_progress(w.exchanges[0], now_ns);
        wait_at_gate(&g); // of bucket 0
        sr_exchange_progress(w.exchanges[0], now_ns);
    }
    open_gate(&g);
    w.given[0] = (uint32_t)s.lanes * SEGMENTS;
    run(&w, 1, 1000);
    assert_status(SR_OK, w.status[0]);
    assert_values(&w, 0, expected);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ALL_CASES(a_failing_rank_fails_all),
        ALL_CASES(a_failing_update_fails_all),
        ALL_CASES(messages_that_do_not_fit_fail_all),
        ALL_CASES(a_dead_rank_is_found_and_named),
        ALL_CASES(lanes_on_the_device_are_waited_for),
        CASE(sums_are_kept_until_the_update_has_run, CPU_STREAM),
        CASE(sums_are_kept_until_the_update_has_run, ON_ASYNC),
        CASE(sums_are_kept_until_the_update_has_run, ASYNC_STREAM),
        CPU_CASES(a_missing_lane_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
