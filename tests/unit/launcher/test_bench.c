// SPDX-License-Identifier: Apache-2.0
// Benchmarks: series of measurements; peers that answer, fail and hang (shell scripts stand in for
// PyTorch); and `serried bench step` and `bench op` from their command lines to their JSON. Speeds
// are not checked.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/device/device.h"
#include "launcher/bench/bench_internal.h"
#include "tests/unit/launcher/bench_fixture.h"
#include "trainer/checkpoint/json_tree.h"

static void test_series(void **state) {
    (void)state;
    sr_series s = {.count = 0};
    assert_true(isnan(sr_series_median(&s)));
    assert_true(isnan(sr_series_min(&s)));
    const double values[] = {3, 9, 1, 5};
    for (int i = 0; i < 3; i++)
        sr_series_add(&s, values[i]);
    assert_true(sr_series_median(&s) == 3);
    sr_series_add(&s, values[3]);
    assert_true(sr_series_median(&s) == 4);
    assert_true(sr_series_min(&s) == 1 && sr_series_max(&s) == 9);
    assert_true(s.values[1] == 9); // in the order of arrival
    for (int i = 0; i < 2 * SR_SERIES_MAX; i++)
        sr_series_add(&s, 7);
    assert_int_equal(s.count, SR_SERIES_MAX);
}

// Starts a peer that runs 'script'.
static sr_peer *start(const char *script) {
    static const char *const args[] = {"resnet50", "--batch", "2", NULL};
    sr_peer *peer = NULL;
    bench_write_peer("torch_step.py", script);
    assert_int_equal(sr_peer_start("torch_step.py", args, &peer), SR_OK);
    return peer;
}

static void test_peer(void **state) {
    (void)state;
    const char *about;
    double seconds = 0;
    sr_peer *peer = start("printf 'ready {\"model\": \"%s%s%s\"}\\n' $1 $2 $3\n"
                          "while read -r run count; do echo 0.${count:-125}e0; done\n");
    assert_int_equal(sr_peer_ready(peer, 10, &about), SR_OK);
    assert_string_equal(about, "{\"model\": \"resnet50--batch2\"}");
    for (int i = 1; i < 4; i++) {
        assert_int_equal(sr_peer_begin(peer, 25 * i), SR_OK);
        assert_int_equal(sr_peer_wait(peer, 10, &seconds), SR_OK);
        assert_true(fabs(seconds - 0.25 * i) < 1e-12);
    }
    assert_int_equal(sr_peer_memory(peer, 10, &seconds), SR_OK);
    assert_true(seconds == 0.125); // the line "memory" has no count
    sr_peer_stop(peer);
}

static void test_peer_fails(void **state) {
    (void)state;
    const char *about;
    double seconds;
    sr_peer *peer = start("echo first >&2; echo 'no module named torch' >&2; exit 1\n");
    assert_int_equal(sr_peer_ready(peer, 10, &about), SR_E_PEER);
    assert_non_null(strstr(sr_error_message(), "no module named torch"));
    sr_peer_stop(peer);

    peer = start("echo 'ready {}'; read -r line; echo 'out of memory' >&2\n");
    assert_int_equal(sr_peer_ready(peer, 10, &about), SR_OK);
    assert_int_equal(sr_peer_begin(peer, 1), SR_OK);
    assert_int_equal(sr_peer_wait(peer, 10, &seconds), SR_E_PEER);
    assert_non_null(strstr(sr_error_message(), "out of memory"));
    sr_peer_stop(peer);

    peer = start("echo 'ready {}'; read -r line; echo fast\n");
    assert_int_equal(sr_peer_ready(peer, 10, &about), SR_OK);
    assert_int_equal(sr_peer_begin(peer, 1), SR_OK);
    assert_int_equal(sr_peer_wait(peer, 10, &seconds), SR_E_PEER);
    assert_non_null(strstr(sr_error_message(), "'fast' instead of seconds"));
    sr_peer_stop(peer);

    peer = start("exec sleep 60\n");
    assert_int_equal(sr_peer_ready(peer, 0.05, &about), SR_E_TIMEOUT);
    sr_peer_stop(peer);

    static const char *const none[] = {NULL};
    assert_int_equal(sr_peer_start("other.py", none, &peer), SR_E_NOT_FOUND);
    assert_non_null(strstr(sr_error_message(), "other.py"));
}

static void test_bench_step(void **state) {
    (void)state;
    const sr_json *json;
    sr_arena arena;
    sr_arena_init(&arena);
    bench_write_peer("torch_step.py", "echo 'ready {\"torch\": \"none\"}'\n"
                                      "while read -r run count; do echo 2; done\n");
    assert_int_equal(bench_run("bench step tests/recipes/tiny.yaml --batch 8 --lanes 2 --threads 1 "
                               "--blocks 3 --steps 2 --json"),
                     0);
    json = bench_json(&arena);
    assert_true(bench_number(json, "batch") == 8 && bench_number(json, "lanes") == 2);
    assert_true(bench_number(json, "images_per_s") > 0);
    assert_true(bench_number(json, "images_per_s_min") <= bench_number(json, "images_per_s"));
    assert_true(bench_number(json, "operators") > 10 && bench_number(json, "flops_per_step") > 0);
    const sr_json *peer = sr_json_get(json, "peer");
    assert_non_null(peer);
    assert_true(bench_number(peer, "images_per_s") == 8); // 2 steps of 8 in 2 s
    assert_true(fabs(bench_number(json, "ratio") - bench_number(json, "images_per_s") / 8) < 1e-9);
    sr_arena_release(&arena);

    bench_write_peer("torch_step.py", "echo 'no network equal to it' >&2\n");
    assert_int_equal(bench_run("bench step tests/recipes/tiny.yaml --batch 4 --blocks 1 --steps 1 "
                               "--profile lanes=2 data.repeats=2"),
                     0);
    assert_non_null(strstr(bench_output, "not measured: the peer exited: no network equal to it"));
    assert_non_null(strstr(bench_output, "conv2d_dw"));
    assert_int_equal(bench_run("bench step tests/recipes/tiny.yaml --batch 4 --blocks 1 --peer"),
                     6);
    assert_int_equal(bench_run("bench step"), 2);
    assert_int_equal(bench_run("bench ranks"), 2);
    assert_int_equal(bench_run("bench ranks tests/recipes/tiny.yaml"), 2); // one rank has no others
    assert_int_equal(bench_run("bench stpe"), 2);
}

#define TINY "bench step tests/recipes/tiny.yaml --batch 8 --threads 2 --blocks 1 --steps 1 "

// The mask that hides features from serried is passed to the peer; without one the peer is
// unrestricted.
static void test_peer_mask(void **state) {
    (void)state;
    bench_write_peer("torch_step.py", "echo \"$*\" >>\"${0%/*}/words\"; echo 'ready {}'\n"
                                      "while read -r what; do echo 1; done\n");
    char path[64];
    void *words = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/words", bench_folder);
    assert_int_equal(setenv("SERRIED_CPU_MASK", "avx2,amx_bf16,amx_int8", 1), 0);
    assert_int_equal(bench_run(TINY "--peer"), 0);
    assert_int_equal(unsetenv("SERRIED_CPU_MASK"), 0);
    assert_non_null(strstr(bench_output, "PyTorch's libraries: avx2,amx_bf16,amx_int8\n"));
    assert_int_equal(sr_file_read(path, 1 << 16, &words, &bytes), SR_OK);
    assert_non_null(strstr(words, "--features \n"));
    sr_free(words);
    assert_int_equal(remove(path), 0);
    assert_int_equal(bench_run(TINY "--peer"), 0);
    assert_int_equal(sr_file_read(path, 1 << 16, &words, &bytes), SR_OK);
    assert_null(strstr(words, "--features"));
    sr_free(words);
}

// All rows of a Markdown table have the same number of cells, and every line of the text is
// present.
static void test_markdown(void **state) {
    (void)state;
    bench_write_peer("torch_step.py", "echo 'ready {\"torch\": \"9\"}'\n"
                                      "while read -r what; do echo 1; done\n");
    assert_int_equal(bench_run(TINY "--peer-best --markdown"), 0);
    assert_int_equal(strncmp(bench_output, "### ", 4), 0);
    int rows = 0, points = 0, bars = 0;
    for (const char *line = bench_output; *line; line += strcspn(line, "\n") + 1) {
        int count = 0;
        for (const char *c = line; *c != '\n'; c++)
            count += *c == '|';
        points += strncmp(line, "- ", 2) == 0;
        if (*line != '|')
            continue;
        assert_true(rows == 0 || count == bars);
        bars = count;
        rows++;
    }
    assert_true(rows >= 5 && rows <= 7); // header, rule, ours, two to four of theirs
    assert_true(points > 8);
    assert_non_null(strstr(bench_output, "| PyTorch 9 | 8.00 | 8.00 | 8.00 | 1000.0 |"));
    assert_non_null(
        strstr(bench_output, "- tried: eager, ?, 1 process of 2 threads: 8.00 images/s, "));
    assert_int_equal(bench_run(TINY "--json --markdown"), 2);
}

// The memory of a lane at its peak, the owners of the process's memory, and the plot of it.
static void check_memory(const char *picture) {
    uint8_t png[8] = {0};
    assert_non_null(strstr(bench_output, "memory of a lane: "));
    assert_non_null(strstr(bench_output, "the peak is at step "));
    assert_non_null(strstr(bench_output, "(taken)"));
    assert_non_null(strstr(bench_output, "\nconv2d "));
    assert_non_null(strstr(bench_output, "\nvalues of plans "));
    assert_non_null(strstr(bench_output, "\noptimiser state "));
    FILE *file = fopen(picture, "rb");
    assert_non_null(file);
    assert_int_equal(sizeof png, fread(png, 1, sizeof png, file));
    (void)fclose(file);
    assert_memory_equal("\x89PNG\r\n\x1a\n", png, sizeof png);
}

// Reads the trace's events: counts those of a kind whose name begins with 'name'.
static int count_events(const sr_json *events, const char *kind, const char *name) {
    int count = 0;
    for (const sr_json *event = events->first; event; event = event->next) {
        const char *ph = sr_json_string(sr_json_get(event, "ph"));
        const char *of = sr_json_string(sr_json_get(event, "name"));
        assert_non_null(ph);
        assert_non_null(of);
        count += strcmp(ph, kind) == 0 && strncmp(of, name, strlen(name)) == 0;
    }
    return count;
}

// Two steps of two lanes, one on each executor where the device has two.
static void check_trace(const char *path) {
    size_t bytes;
    void *text;
    const sr_json *json;
    sr_arena arena;
    sr_arena_init(&arena);
    assert_int_equal(sr_file_read(path, 1 << 24, &text, &bytes), SR_OK);
    assert_int_equal(sr_json_parse(text, bytes, 1 << 20, path, &arena, &json), SR_OK);
    const sr_json *events = sr_json_get(json, "traceEvents");
    assert_non_null(events);
    assert_int_equal(4, count_events(events, "X", "normalize (normalize/"));
    assert_int_equal(4, count_events(events, "X", "softmax_xent ("));
    assert_int_equal(2, count_events(events, "X", "records and compiles"));
    assert_int_equal(2, count_events(events, "X", "waits for the exchange"));
    assert_true(count_events(events, "X", "bucket ") >= 2);
    sr_device_properties device;
    assert_int_equal(sr_device_describe(NULL, &device), SR_OK);
    const int executors = device.executors == 1 ? 1 : 2;
    assert_int_equal(2 + executors, count_events(events, "M", "thread_name")); // step, exchange
    for (const sr_json *event = events->first; event; event = event->next) {
        const sr_json *args = sr_json_get(event, "args");
        if (strncmp(sr_json_string(sr_json_get(event, "name")), "conv2d (", 8) != 0)
            continue;
        assert_true(bench_number(event, "dur") >= 0 && bench_number(event, "ts") >= 0);
        assert_true(bench_number(args, "flops") > 0 && bench_number(args, "bytes") > 0);
        assert_true(bench_number(args, "busy_us") <= bench_number(event, "dur") + 1e-3);
        assert_non_null(strstr(sr_json_string(sr_json_get(args, "shapes")), " -> ["));
        assert_non_null(strstr(sr_json_string(sr_json_get(args, "from")), ".c:"));
    }
    sr_free(text);
    sr_arena_release(&arena);
}

static void test_bench_step_sees(void **state) {
    (void)state;
    char line[512], picture[64], trace[64];
    snprintf(picture, sizeof picture, "%s/memory.png", bench_folder);
    snprintf(trace, sizeof trace, "%s/trace.json", bench_folder);
    snprintf(line, sizeof line,
             "bench step tests/recipes/tiny.yaml --batch 8 --lanes 2 --threads 2 --blocks 1 "
             "--steps 1 --no-peer --profile --trace %s --memory-picture %s",
             trace, picture);
    assert_int_equal(bench_run(line), 0);
    assert_non_null(strstr(bench_output, "bound by"));
    assert_non_null(strstr(bench_output, "\nall kernels "));
    check_trace(trace);
    check_memory(picture);
    assert_int_equal(bench_run("bench step tests/recipes/tiny.yaml --batch 4 --blocks 1 --steps 1 "
                               "--no-peer --memory-picture /no-such-folder/x.png"),
                     2);
}

static void test_bench_op(void **state) {
    (void)state;
    const sr_json *json;
    sr_arena arena;
    sr_arena_init(&arena);
    assert_int_equal(
        bench_run("bench op --filter '2048->1000' --dtype f32 --batch 1 --seconds 0 --json"), 0);
    json = bench_json(&arena);
    const sr_json *costs = sr_json_get(json, "own_cost");
    assert_non_null(costs);
    assert_int_equal(2, costs->count);
    for (const sr_json *own = costs->first; own; own = own->next) {
        assert_true(bench_number(own, "operators") >= 256);
        assert_true(bench_number(own, "recorded_ns") > 0 && bench_number(own, "found_ns") > 0);
        const double start = bench_number(own, "replay_start_ns");
        assert_true(start > 0);
        assert_true(start + bench_number(own, "replayed_ns") * bench_number(own, "operators") > 0);
        assert_true(bench_number(own, "compiled_ns") > 0);
        assert_true(bench_number(own, "allocations") == 0); // an unchanged step allocates nothing
    }
    assert_non_null(strstr(bench_output, "\"kernel\": \"linear_dw\""));
    sr_arena_release(&arena);
    assert_int_equal(
        bench_run("bench op --filter '2048->1000' --dtype f16 --batch 1 --seconds 0 --json"), 0);
    assert_non_null(strstr(bench_output, "\"dtype\": \"f16\""));
    assert_null(strstr(bench_output, "bf16"));
    assert_int_equal(bench_run("bench op --filter no-such-kernel"), 2);
}

// On the device of the test if that has streams, else on the CPU as such a device.
static void check_bench_op_device(int lanes, const char *filter, const char *kernel) {
    const char *name = getenv("SERRIED_TEST_DEVICE");
    char text[160];
    sr_arena arena;
    sr_arena_init(&arena);
    (void)snprintf(text, sizeof text,
                   "bench op --device %s --lanes %d --filter %s --dtype bf16 --batch 1 --seconds 0 "
                   "--json",
                   name && strcmp(name, "cpu") != 0 ? name : "cpu-async", lanes, filter);
    assert_int_equal(bench_run(text), 0);
    const sr_json *json = bench_json(&arena);
    assert_int_equal(lanes, (int)bench_number(json, "lanes"));
    for (const sr_json *row = sr_json_get(json, "rows")->first; row; row = row->next)
        assert_true(bench_number(row, "seconds") > 0 &&
                    bench_number(row, "seconds") <= bench_number(row, "median_seconds"));
    (void)snprintf(text, sizeof text, "\"kernel\": \"%s\"", kernel);
    assert_non_null(strstr(bench_output, text));
    sr_arena_release(&arena);
}

static void test_bench_op_device(void **state) {
    (void)state;
    check_bench_op_device(1, "add_relu_grad", "batchnorm_add_relu_grad"); // joined operators
    check_bench_op_device(3, "avgpool2d", "avgpool2d_grad");
    assert_int_equal(bench_run("bench op --device cpu --filter relu"), 2);
    assert_int_equal(bench_run("bench op --lanes 2 --filter relu"), 2);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    bench_program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),          cmocka_unit_test(test_peer),
        cmocka_unit_test(test_peer_fails),      cmocka_unit_test(test_bench_step),
        cmocka_unit_test(test_peer_mask),       cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_bench_step_sees), cmocka_unit_test(test_bench_op),
        cmocka_unit_test(test_bench_op_device),
    };
    return cmocka_run_group_tests_name("bench", tests, bench_set_up, bench_tear_down);
}
