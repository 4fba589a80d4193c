// SPDX-License-Identifier: Apache-2.0
// Groups of messages on streams: order against the work around them and between ranks, failures,
// and what a communicator says about kinds of memory.
#include <string.h>

#include "kernels/base/memory.h"
#include "tests/unit/support/device_support.h"
#include "tests/unit/support/stream_comm.h"

enum { RANKS = 3, COUNT = 400 };
#define BYTES (COUNT * sizeof(int32_t))
#define LONG_WAIT 60.0

typedef struct ranks {
    sr_device *device;
    sr_local_world *world;
    sr_comm *comms[RANKS];
    sr_stream *streams[RANKS];
    int count;
} ranks;

static void open_ranks(ranks *r, const char *device, int count) {
    static const sr_stream_options one = {.threads = 1};
    memset(r, 0, sizeof *r);
    r->count = count;
    assert_ok(sr_device_open(device, &r->device));
    assert_ok(
        sr_local_world_create(&(sr_local_options){.size = count, .eager_bytes = 16}, &r->world));
    for (int i = 0; i < count; i++) {
        assert_ok(stream_comm_join(r->world, i, count, NULL, &r->comms[i]));
        assert_ok(sr_stream_create(r->device, &one, &r->streams[i]));
    }
}

static void close_ranks(ranks *r) {
    for (int i = 0; i < r->count; i++)
        sr_stream_free(r->streams[i]);
    for (int i = 0; i < r->count; i++)
        sr_comm_free(r->comms[i]);
    sr_local_world_free(r->world);
    sr_device_close(r->device);
}

static sr_address memory(const ranks *r) {
    sr_address out = sr_address_none();
    assert_ok(sr_device_alloc(r->device, BYTES, "a test", &out));
    return out;
}

static sr_comm_message send(int to, sr_address data, size_t bytes) {
    return (sr_comm_message){.peer = to, .data = data, .bytes = bytes};
}

static sr_comm_message receive(int from, sr_address data, size_t bytes) {
    return (sr_comm_message){.peer = from, .receives = true, .data = data, .bytes = bytes};
}

static void expect(const ranks *r, sr_address data, int32_t value) {
    int32_t got[COUNT];
    assert_ok(sr_device_download(r->device, got, data, sizeof got));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(value, got[i]);
}

static void fill(const ranks *r, sr_address data, int32_t value) {
    int32_t values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = value;
    assert_ok(sr_device_upload(r->device, data, values, sizeof values));
}

// What is sent is written by the stream before the group, what is received is read behind it, and
// the one thread of all ranks waits for neither.
static void groups_keep_their_place_in_the_stream(void **state) {
    const char *const devices[] = {"cpu", "cpu-async"};
    (void)state;
    for (int d = 0; d < 2; d++) {
        ranks r;
        sr_address source[RANKS], own[RANKS], in[RANKS][RANKS], out[RANKS][RANKS];
        open_ranks(&r, devices[d], RANKS);
        for (int i = 0; i < RANKS; i++) {
            sr_comm_message group[2 * RANKS];
            int count = 0;
            source[i] = memory(&r);
            own[i] = memory(&r);
            fill(&r, source[i], 100 + i);
            assert_ok(sr_stream_copy(r.streams[i], own[i], source[i], BYTES));
            for (int j = 0; j < RANKS; j++) {
                in[i][j] = memory(&r);
                out[i][j] = memory(&r);
                group[count++] = receive(j, in[i][j], BYTES); // of oneself, too
                group[count++] = send(j, own[i], BYTES);
            }
            assert_ok(sr_comm_enqueue(r.comms[i], r.streams[i], group, count));
            assert_ok(sr_stream_clear(r.streams[i], own[i], BYTES));
            for (int j = 0; j < RANKS; j++)
                assert_ok(sr_stream_copy(r.streams[i], out[i][j], in[i][j], BYTES));
        }
        for (int i = 0; i < RANKS; i++) {
            assert_ok(sr_stream_wait(r.streams[i]));
            for (int j = 0; j < RANKS; j++)
                expect(&r, out[i][j], 100 + j);
        }
        close_ranks(&r);
    }
}

// Nothing but order matches messages: a rank that keeps another order gets other bytes.
static void order_alone_matches_messages(void **state) {
    (void)state;
    for (int groups = 1; groups <= 2; groups++) {
        ranks r;
        open_ranks(&r, "cpu-async", 2);
        const sr_address a = memory(&r), b = memory(&r), c = memory(&r), d = memory(&r);
        fill(&r, a, 1);
        fill(&r, b, 2);
        const sr_comm_message sends[] = {send(1, a, BYTES), send(1, b, BYTES)};
        const sr_comm_message receives[] = {receive(0, d, BYTES), receive(0, c, BYTES)};
        for (int g = 0; g < groups; g++) {
            const int count = 2 / groups;
            assert_ok(sr_comm_enqueue(r.comms[0], r.streams[0], sends + g * count, count));
            assert_ok(sr_comm_enqueue(r.comms[1], r.streams[1], receives + g * count, count));
        }
        assert_ok(sr_stream_wait(r.streams[0]));
        assert_ok(sr_stream_wait(r.streams[1]));
        expect(&r, d, 1);
        expect(&r, c, 2);
        close_ranks(&r);
    }
}

static void messages_of_other_sizes_fail(void **state) {
    ranks r;
    (void)state;
    open_ranks(&r, "cpu", 2);
    const sr_address a = memory(&r), b = memory(&r);
    const sr_comm_message out = send(1, a, BYTES), in = receive(0, b, BYTES - 4);
    assert_ok(sr_comm_enqueue(r.comms[0], r.streams[0], &out, 1));
    assert_ok(sr_comm_enqueue(r.comms[1], r.streams[1], &in, 1));
    assert_status(SR_E_PEER, sr_stream_wait(r.streams[1]));
    assert_message("rank 0 sent 1600 bytes where 1596 were expected");
    close_ranks(&r);
}

// Rank 0 waits for what rank 1 never sends; what is behind the group does not run.
static void an_abort_ends_groups(void **state) {
    const char *const devices[] = {"cpu", "cpu-async"};
    (void)state;
    for (int d = 0; d < 2; d++) {
        ranks r;
        sr_event *end = NULL;
        open_ranks(&r, devices[d], 2);
        const sr_address a = memory(&r), b = memory(&r);
        const sr_comm_message in = receive(1, a, BYTES);
        fill(&r, b, 7);
        assert_ok(sr_event_create(r.device, &end));
        for (int i = 0; i < 2; i++) // one that runs, one that has not begun
            assert_ok(sr_comm_enqueue(r.comms[0], r.streams[0], &in, 1));
        assert_ok(sr_stream_clear(r.streams[0], b, BYTES));
        assert_ok(sr_event_record(end, r.streams[0]));
        assert_false(sr_event_done(end));
        sr_comm_abort(r.comms[1], SR_E_DATA, "record 3 is damaged");
        assert_status(SR_E_DATA, sr_comm_poll(r.comms[0]));
        assert_message("rank 1 (rank 1): record 3 is damaged");
        assert_ok(sr_event_wait(end, LONG_WAIT));
        assert_status(SR_E_PEER, sr_stream_wait(r.streams[0]));
        expect(&r, b, 7);
        assert_status(SR_E_DATA, sr_comm_enqueue(r.comms[0], r.streams[0], &in, 1));
        sr_event_free(end);
        close_ranks(&r);
    }
}

static void kinds_of_memory(void **state) {
    ranks r;
    sr_device *async = NULL;
    sr_comm *plain = NULL;
    sr_stream *stream = NULL;
    (void)state;
    open_ranks(&r, "cpu", 1);
    assert_ok(sr_device_open("cpu-async", &async));
    assert_ok(sr_local_world_join(r.world, 0, NULL, &plain));
    assert_true(sr_comm_memory_of(plain, r.device).in_place);
    assert_false(sr_comm_memory_of(plain, async).in_place);
    assert_false(sr_comm_memory_of(plain, r.device).on_stream);
    assert_true(sr_comm_memory_of(r.comms[0], async).on_stream);
    assert_false(sr_comm_memory_of(r.comms[0], async).in_place);

    const sr_address data = memory(&r);
    const sr_comm_message good = send(0, data, BYTES), far = send(1, data, BYTES),
                          none = send(0, sr_address_none(), BYTES), empty = receive(0, data, 0);
    assert_ok(sr_stream_create(r.device, NULL, &stream));
    assert_status(SR_E_UNSUPPORTED, sr_comm_enqueue(plain, stream, &good, 1));
    assert_message("backend 'local' puts no messages on streams of device cpu");
    assert_status(SR_E_ARGUMENT, sr_comm_enqueue(r.comms[0], stream, &far, 1));
    assert_status(SR_E_ARGUMENT, sr_comm_enqueue(r.comms[0], stream, &none, 1));
    assert_status(SR_E_ARGUMENT, sr_comm_enqueue(r.comms[0], stream, &empty, 1));
    assert_ok(sr_comm_enqueue(r.comms[0], stream, NULL, 0));
    sr_stream_free(stream);
    sr_comm_free(plain);
    sr_device_close(async);
    close_ranks(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_keep_their_place_in_the_stream),
        cmocka_unit_test(order_alone_matches_messages),
        cmocka_unit_test(messages_of_other_sizes_fail),
        cmocka_unit_test(an_abort_ends_groups),
        cmocka_unit_test(kinds_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
