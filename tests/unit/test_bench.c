// SPDX-License-Identifier: Apache-2.0
// Benchmarks: series of measurements, peers that answer, fail and hang (shell scripts take the part
// of PyTorch), and `serried bench step`, `bench op` and `bench decode` from their command lines to
// their JSON. No speed is judged.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "launcher/bench_internal.h"
#include "tests/unit/pictures.h"
#include "trainer/json_tree.h"

static const char *program;
static char folder[] = "/tmp/serried-bench-XXXXXX";
static char output[1 << 16];

static int set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    if (!mkdtemp(folder))
        return -1;
    return setenv("SERRIED_PEERS", folder, 1) || setenv("SERRIED_PEER_PYTHON", "/bin/sh", 1);
}

static void write_peer(const char *text) {
    char path[64];
    snprintf(path, sizeof path, "%s/torch_step.py", folder);
    assert_int_equal(sr_file_write_atomic(path, text, strlen(text)), SR_OK);
}

static int tear_down(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

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
    assert_true(s.values[1] == 9); // in the order they came
    for (int i = 0; i < 2 * SR_SERIES_MAX; i++)
        sr_series_add(&s, 7);
    assert_int_equal(s.count, SR_SERIES_MAX);
}

// A peer that has written 'script'.
static sr_peer *start(const char *script) {
    static const char *const args[] = {"resnet50", "--batch", "2", NULL};
    sr_peer *peer = NULL;
    write_peer(script);
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

// Runs the program with 'line' behind it; returns the exit code, 'output' gets stdout.
static int run(const char *line) {
    char command[1024];
    snprintf(command, sizeof command, "'%s' %s 2>%s/messages </dev/null", program, line, folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t bytes = fread(output, 1, sizeof output - 1, pipe);
    output[bytes] = '\0';
    int code = pclose(pipe);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static double number(const sr_json *json, const char *key) {
    double value = (double)NAN;
    assert_true(sr_json_double(sr_json_get(json, key), &value));
    return value;
}

static void test_bench_step(void **state) {
    (void)state;
    const sr_json *json;
    sr_arena arena;
    sr_arena_init(&arena);
    write_peer("echo 'ready {\"torch\": \"none\"}'\n"
               "while read -r run count; do echo 2; done\n");
    assert_int_equal(run("bench step tests/recipes/tiny.yaml --batch 8 --lanes 2 --threads 1 "
                         "--blocks 3 --steps 2 --json"),
                     0);
    assert_int_equal(sr_json_parse(output, strlen(output), 1000, "bench", &arena, &json), SR_OK);
    assert_true(number(json, "batch") == 8 && number(json, "lanes") == 2);
    assert_true(number(json, "images_per_s") > 0);
    assert_true(number(json, "images_per_s_min") <= number(json, "images_per_s"));
    assert_true(number(json, "operators") > 10 && number(json, "flops_per_step") > 0);
    const sr_json *peer = sr_json_get(json, "peer");
    assert_non_null(peer);
    assert_true(number(peer, "images_per_s") == 8); // 2 steps of 8 in 2 s
    assert_true(fabs(number(json, "ratio") - number(json, "images_per_s") / 8) < 1e-9);
    sr_arena_release(&arena);

    write_peer("echo 'no network equal to it' >&2\n");
    assert_int_equal(run("bench step tests/recipes/tiny.yaml --batch 4 --blocks 1 --steps 1 "
                         "--profile"),
                     0);
    assert_non_null(strstr(output, "not measured: the peer ended: no network equal to it"));
    assert_non_null(strstr(output, "conv2d_dw"));
    assert_int_equal(run("bench step tests/recipes/tiny.yaml --batch 4 --blocks 1 --peer"), 6);
    assert_int_equal(run("bench step"), 2);
    assert_int_equal(run("bench ranks"), 2);
    assert_int_equal(run("bench ranks tests/recipes/tiny.yaml"), 2); // one rank has no others
    assert_int_equal(run("bench stpe"), 2);
}

#define TINY "bench step tests/recipes/tiny.yaml --batch 8 --threads 2 --blocks 1 --steps 1 "

// What is hidden from us is told to the peer; without a mask it uses what it likes.
static void test_peer_mask(void **state) {
    (void)state;
    write_peer("echo \"$*\" >>\"${0%/*}/words\"; echo 'ready {}'\n"
               "while read -r what; do echo 1; done\n");
    char path[64];
    void *words = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/words", folder);
    assert_int_equal(setenv("SERRIED_CPU_MASK", "avx2,amx_bf16,amx_int8", 1), 0);
    assert_int_equal(run(TINY "--peer"), 0);
    assert_int_equal(unsetenv("SERRIED_CPU_MASK"), 0);
    assert_non_null(strstr(output, "PyTorch's libraries: avx2,amx_bf16,amx_int8\n"));
    assert_int_equal(sr_file_read(path, 1 << 16, &words, &bytes), SR_OK);
    assert_non_null(strstr(words, "--features \n"));
    sr_free(words);
    assert_int_equal(remove(path), 0);
    assert_int_equal(run(TINY "--peer"), 0);
    assert_int_equal(sr_file_read(path, 1 << 16, &words, &bytes), SR_OK);
    assert_null(strstr(words, "--features"));
    sr_free(words);
}

// Rows of a Markdown table have one number of cells, and all of the text's lines are there.
static void test_markdown(void **state) {
    (void)state;
    write_peer("echo 'ready {\"torch\": \"9\"}'\n"
               "while read -r what; do echo 1; done\n");
    assert_int_equal(run(TINY "--peer-best --markdown"), 0);
    assert_int_equal(strncmp(output, "### ", 4), 0);
    int rows = 0, points = 0, bars = 0;
    for (const char *line = output; *line; line += strcspn(line, "\n") + 1) {
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
    assert_true(rows >= 5 && rows <= 7); // heads, rule, ours, two to four of theirs
    assert_true(points > 8);
    assert_non_null(strstr(output, "| PyTorch 9 | 8.00 | 8.00 | 8.00 | 1000.0 |"));
    assert_non_null(strstr(output, "- tried: eager, ?, 1 process of 2 threads: 8.00 images/s, "));
    assert_int_equal(run(TINY "--json --markdown"), 2);
}

// What a lane's memory holds at its peak, who holds the process's, and the picture of it.
static void check_memory(const char *picture) {
    uint8_t png[8] = {0};
    assert_non_null(strstr(output, "memory of a lane: "));
    assert_non_null(strstr(output, "most is live at step "));
    assert_non_null(strstr(output, "(taken)"));
    assert_non_null(strstr(output, "\nconv2d "));
    assert_non_null(strstr(output, "\nvalues of plans "));
    assert_non_null(strstr(output, "\noptimiser state "));
    FILE *file = fopen(picture, "rb");
    assert_non_null(file);
    assert_int_equal(sizeof png, fread(png, 1, sizeof png, file));
    (void)fclose(file);
    assert_memory_equal("\x89PNG\r\n\x1a\n", png, sizeof png);
}

// Reads the trace's events: counts those of a kind whose name begins so.
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

// Two steps of two lanes, one on each executor.
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
    assert_int_equal(4, count_events(events, "M", "thread_name")); // step, executors, exchange
    for (const sr_json *event = events->first; event; event = event->next) {
        const sr_json *args = sr_json_get(event, "args");
        if (strncmp(sr_json_string(sr_json_get(event, "name")), "conv2d (", 8) != 0)
            continue;
        assert_true(number(event, "dur") >= 0 && number(event, "ts") >= 0);
        assert_true(number(args, "flops") > 0 && number(args, "bytes") > 0);
        assert_true(number(args, "busy_us") <= number(event, "dur") + 1e-3);
        assert_non_null(strstr(sr_json_string(sr_json_get(args, "shapes")), " -> ["));
        assert_non_null(strstr(sr_json_string(sr_json_get(args, "from")), ".c:"));
    }
    sr_free(text);
    sr_arena_release(&arena);
}

static void test_bench_step_sees(void **state) {
    (void)state;
    char line[512], picture[64], trace[64];
    snprintf(picture, sizeof picture, "%s/memory.png", folder);
    snprintf(trace, sizeof trace, "%s/trace.json", folder);
    snprintf(line, sizeof line,
             "bench step tests/recipes/tiny.yaml --batch 8 --lanes 2 --threads 2 --blocks 1 "
             "--steps 1 --no-peer --profile --trace %s --memory-picture %s",
             trace, picture);
    assert_int_equal(run(line), 0);
    assert_non_null(strstr(output, "bound by"));
    assert_non_null(strstr(output, "\nall kernels "));
    check_trace(trace);
    check_memory(picture);
    assert_int_equal(run("bench step tests/recipes/tiny.yaml --batch 4 --blocks 1 --steps 1 "
                         "--no-peer --memory-picture /no-such-folder/x.png"),
                     2);
}

static void test_bench_op(void **state) {
    (void)state;
    const sr_json *json;
    sr_arena arena;
    sr_arena_init(&arena);
    assert_int_equal(run("bench op --filter '2048->1000' --dtype f32 --batch 1 --seconds 0 --json"),
                     0);
    assert_int_equal(sr_json_parse(output, strlen(output), 1000, "bench", &arena, &json), SR_OK);
    const sr_json *own = sr_json_get(json, "own_cost");
    assert_non_null(own);
    assert_true(number(own, "recorded_ns") > 0 && number(own, "found_ns") > 0);
    assert_true(number(own, "replayed_ns") > 0 && number(own, "compiled_ns") > 0);
    assert_true(number(own, "allocations") == 0); // an unchanged step takes no memory
    assert_non_null(strstr(output, "\"kernel\": \"linear_dw\""));
    sr_arena_release(&arena);
    assert_int_equal(run("bench op --filter no-such-kernel"), 2);
}

static double median(const sr_json *json, const char *part, const char *key) {
    return number(sr_json_get(part ? sr_json_get(json, part) : json, key), "median");
}

// Data of pictures 'name' in the folder, and loaders of given speeds: FFCV fastest where it is not
// pinned, as float slower; DALI is missing. Each run leaves a letter in 'turns'.
static void make_data(char data[64], const char *name, int count, int width, int height) {
    static const char peer[] =
        "[ $1 = dali ] && { echo 'no DALI here' >&2; exit 1; }\n"
        "tenths=5 letter=t\n"
        "case \"$*\" in *ffcv*pinned*) tenths=4 letter=p;; *ffcv*) tenths=3 letter=f;; esac\n"
        "case \"$*\" in *'--kind float'*) tenths=$((tenths + 1));; esac\n"
        "cp \"$2/$(ls $2 | head -n 1)\" \"${0%/*}/first\"\n"
        "set -- \"$1\" \"$2\" \"$(ls $2 | wc -l)\" \"$(ls $2 | head -n 1)\"\n"
        "printf 'ready {\"version\": \"%s 1\", \"setting\": \"%s files, %s\", \"pictures\": "
        "12}\\n' "
        "$1 $3 $4\n"
        "while read -r run count; do printf $letter >>\"${0%/*}/turns\"; echo 0.$tenths; done\n";
    char path[80];
    snprintf(data, 64, "%s/%s", folder, name);
    assert_int_equal(mkdir(data, 0700), 0);
    pictures_pack(data, count, width, height, 0);
    snprintf(path, sizeof path, "%s/data_peers.py", folder);
    assert_int_equal(sr_file_write_atomic(path, peer, sizeof peer - 1), SR_OK);
}

static const sr_json *loader(const sr_json *json, int number) {
    const sr_json *one = sr_json_get(json, "peers")->first;
    for (int i = 0; i < number; i++)
        one = one->next;
    return one;
}

// What a report says of loaders, in the order of bench_loaders.c.
static void check_loaders(const sr_json *json, const char *setting) {
    assert_int_equal(sr_json_get(json, "peers")->count, 5);
    assert_string_equal(sr_json_string(sr_json_get(loader(json, 0), "setting")), setting);
    assert_true(
        fabs(median(json, NULL, "images_per_s") / 40 - number(loader(json, 1), "u8_ratio")) <
        1e-2 * number(loader(json, 1), "u8_ratio"));
    assert_true(median(loader(json, 0), NULL, "images_per_s") == 30);
    assert_true(median(loader(json, 1), NULL, "images_per_s") == 40);
    assert_true(median(loader(json, 1), NULL, "normalised_images_per_s") == 30);
    assert_string_equal("torchvision 1", sr_json_string(sr_json_get(loader(json, 4), "version")));
    for (int i = 2; i < 4; i++)
        assert_non_null(
            strstr(sr_json_string(sr_json_get(loader(json, i), "not_measured")), "no DALI here"));
    const char *headline = sr_json_string(sr_json_get(json, "headline"));
    assert_non_null(strstr(headline, "x the fastest loader as u8 (ffcv 1, "));
    assert_non_null(strstr(headline, ", not pinned); "));
}

// Stages, both ways, and loaders beside it, one of which fails.
static void test_bench_decode(void **state) {
    (void)state;
    const sr_json *json;
    char line[256], data[64];
    sr_arena arena;
    sr_arena_init(&arena);
    make_data(data, "data", 6, 200, 160);
    snprintf(line, sizeof line, "bench decode %s --image 64 --seconds 1 --peers --json", data);
    assert_int_equal(run(line), 0);
    assert_int_equal(sr_json_parse(output, strlen(output), 1000, "bench", &arena, &json), SR_OK);
    assert_true(number(json, "pictures") == 6 && number(json, "image") == 64);
    const sr_json *indexed = sr_json_get(json, "indexed");
    assert_true(median(json, "indexed", "images_per_s") >
                median(json, "indexed", "normalised_images_per_s"));
    assert_true(number(indexed, "entropy_us") > 0);
    assert_true(number(indexed, "library_us") == 0);
    assert_int_equal(sr_json_get(json, "peers")->count, 5);
    assert_true(median(loader(json, 1), NULL, "images_per_s") == 40);
    sr_arena_release(&arena);
    snprintf(line, sizeof line, "bench decode %s --image 64 --seconds 1 -t random_resized_crop",
             data);
    assert_int_equal(run(line), 0);
    assert_non_null(strstr(output, "entropy decoding"));
    snprintf(line, sizeof line, "bench decode %s --peers -t resize", data);
    assert_int_equal(run(line), 2); // peers have these two transforms alone
    assert_int_equal(run("bench decode /nowhere"), 2);
}

// Pipelines in turns: a block of every loader and kind in each round; the fastest is named.
static void test_bench_data_peers(void **state) {
    (void)state;
    const sr_json *json;
    char line[256], data[64], path[80];
    size_t bytes;
    void *turns;
    sr_arena arena;
    sr_arena_init(&arena);
    make_data(data, "jpeg", 40, 40, 32);
    snprintf(path, sizeof path, "%s/turns", folder);
    (void)remove(path);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 64 --peers --seconds 0.01 --json", data);
    assert_int_equal(run(line), 0);
    assert_int_equal(sr_json_parse(output, strlen(output), 1000, "bench", &arena, &json), SR_OK);
    check_loaders(json, "40 files, 00000000.jpg, pinned");
    assert_true(number(json, "rounds") == 1);
    assert_int_equal(sr_file_read(path, 64, &turns, &bytes), SR_OK);
    assert_string_equal(turns, "ppfftt");
    sr_free(turns);
    sr_arena_release(&arena);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 64 --peers --seconds 0.01", data);
    assert_int_equal(run(line), 0);
    assert_non_null(strstr(output, "dali, pinned: not measured: the peer ended: no DALI here\n"));
    assert_non_null(strstr(output, "\nserried, float, batches of 8, pinned "));
    snprintf(line, sizeof line, "bench data %s -i 16x8 --peers", data);
    assert_int_equal(run(line), 2);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 64 --one-core --seconds 0.1", data);
    assert_int_equal(run(line), 0);
}

// Raw pixels reach the loaders as arrays of NumPy's format.
static void test_bench_data_raw(void **state) {
    (void)state;
    static const char begin[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (32, 40, 3), }";
    char line[256], data[64], path[80];
    size_t bytes;
    void *file;
    uint8_t *jpeg = picture_encode(40, 32, 7, &(picture_jpeg){.quality = 90}, &bytes);
    make_data(data, "unused", 1, 40, 32);
    snprintf(path, sizeof path, "%s/pictures", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/pictures/class", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/pictures/class/1.jpg", folder);
    assert_int_equal(sr_file_write_atomic(path, jpeg, bytes), SR_OK);
    sr_free(jpeg);
    snprintf(line, sizeof line, "pack %s/pictures %s/raw --raw", folder, folder);
    assert_int_equal(run(line), 0);
    snprintf(line, sizeof line, "bench data %s/raw -i 16 -b 64 --peers --seconds 0.01", folder);
    assert_int_equal(run(line), 0);
    assert_non_null(strstr(output, "1 files, 00000000.npy, pinned"));
    snprintf(path, sizeof path, "%s/first", folder);
    assert_int_equal(sr_file_read(path, 1 << 20, &file, &bytes), SR_OK);
    assert_int_equal(bytes, 128 + 32 * 40 * 3);
    assert_memory_equal(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal((char *)file + 10, begin, sizeof begin - 1);
    assert_true(((char *)file)[127] == '\n');
    sr_free(file);
}

// Stages, seeks and the order's hash, which ranks and workers leave alone.
static void test_bench_data(void **state) {
    (void)state;
    const sr_json *json;
    char line[256], data[64], order[sizeof output];
    sr_arena arena;
    sr_arena_init(&arena);
    snprintf(data, sizeof data, "%s/samples", folder);
    assert_int_equal(mkdir(data, 0700), 0);
    pictures_pack(data, 90, 40, 32, 0);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 16 --seconds 0.2 --order chunks --json",
             data);
    assert_int_equal(run(line), 0);
    assert_int_equal(sr_json_parse(output, strlen(output), 1000, "bench", &arena, &json), SR_OK);
    assert_true(number(json, "images_per_s") > 0 && number(json, "decode_per_core_s") > 0);
    assert_true(number(json, "seeks") > 0 && number(json, "bytes_per_seek") > 1000);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 16 --order-hash 2", data);
    assert_int_equal(run(line), 0);
    assert_non_null(strstr(output, "epoch 1: 90 samples, order "));
    memcpy(order, output, sizeof order);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 16 --order-hash 2 --ranks 3 -w 2", data);
    assert_int_equal(run(line), 0);
    assert_string_equal(order, output);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 16 --order-hash 1 --ranks 9", data);
    assert_int_equal(run(line), 2);
    snprintf(line, sizeof line, "bench recover %s -i 16 -b 16 --kills 1 --json", data);
    assert_int_equal(run(line), 0);
    assert_int_equal(sr_json_parse(output, strlen(output), 1000, "bench", &arena, &json), SR_OK);
    static const char *const kinds[] = {"reader", "iterator", "transformer"};
    for (int i = 0; i < 3; i++) {
        assert_true(number(sr_json_get(json, kinds[i]), "kills") == 1);
        assert_true(number(sr_json_get(json, kinds[i]), "stall_worst_ms") <=
                    number(json, "worst_ms"));
    }
    assert_true(number(json, "worst_ms") > 0);
    snprintf(line, sizeof line, "bench recover %s --threads", data);
    assert_int_equal(run(line), 2);
    sr_arena_release(&arena);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),           cmocka_unit_test(test_peer),
        cmocka_unit_test(test_peer_fails),       cmocka_unit_test(test_bench_step),
        cmocka_unit_test(test_bench_data),       cmocka_unit_test(test_bench_step_sees),
        cmocka_unit_test(test_bench_op),         cmocka_unit_test(test_peer_mask),
        cmocka_unit_test(test_markdown),         cmocka_unit_test(test_bench_decode),
        cmocka_unit_test(test_bench_data_peers), cmocka_unit_test(test_bench_data_raw),
    };
    return cmocka_run_group_tests_name("bench", tests, set_up, tear_down);
}
