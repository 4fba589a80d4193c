// SPDX-License-Identifier: Apache-2.0
// serried bench step compared with PyTorch: which settings are tried, which are measured again, in
// which turns, and what the headline says. Shell scripts of given speeds stand in for PyTorch;
// nothing depends on a clock.
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
#include "launcher/bench/bench_step_internal.h"
#include "tests/unit/launcher/bench_fixture.h"
#include "trainer/checkpoint/json_tree.h"

// ---- Settings that are tried ----

static int list(const sr_step_options *o, const char *precision, int64_t lanes, bool best,
                sr_step_setting out[SR_STEP_TRIES]) {
    static sr_step_result r;
    r.precision = precision;
    r.peer_precision = o->peer_precision ? o->peer_precision : precision;
    r.batch = 32;
    r.lanes = lanes;
    r.threads = r.cpu_count = 2;
    return sr_step_settings_list(o, &r, best, out);
}

static const char *text_of(const sr_step_setting *s, const char *precision) {
    static char text[SR_STEP_TEXT];
    return sr_step_setting_text(s, precision, text);
}

// A plain run measures both kinds of groups, also in the wider precisions.
static void test_usual_settings(void **state) {
    (void)state;
    sr_step_setting s[SR_STEP_TRIES];
    const sr_step_options plain = {.recipe = "resnet50"};
    assert_int_equal(list(&plain, "fp32", 1, false, s), 2);
    assert_string_equal(text_of(&s[0], "fp32"), "eager, auto, 1 process of 2 threads");
    assert_string_equal(text_of(&s[1], "fp32"),
                        "eager, auto, 2 processes of 1 thread, pinned, other groups");
    assert_int_equal(list(&plain, "bf16", 1, false, s), SR_STEP_FINALS);
    assert_string_equal(text_of(&s[1], "bf16"),
                        "eager, auto, 2 processes of 1 thread, pinned, other groups");
    assert_string_equal(text_of(&s[2], "bf16"), "fp32, eager, auto, 1 process of 2 threads");
    assert_int_equal(list(&plain, "fp16", 1, false, s), 6);
    assert_string_equal(text_of(&s[2], "fp16"), "bf16, eager, auto, 1 process of 2 threads");
    assert_string_equal(text_of(&s[4], "fp16"), "fp32, eager, auto, 1 process of 2 threads");
    // Two lanes of 16: one process each has equal groups, the whole batch at once has others.
    assert_int_equal(list(&plain, "fp32", 2, false, s), 2);
    assert_string_equal(text_of(&s[0], "fp32"), "eager, auto, 2 processes of 1 thread, pinned");
    assert_string_equal(text_of(&s[1], "fp32"),
                        "eager, auto, 1 process of 2 threads, other groups");
    assert_true(s[0].passes == 1 && s[1].passes == 1);
}

// Every combination once.
static void test_all_settings(void **state) {
    (void)state;
    sr_step_setting s[SR_STEP_TRIES];
    const sr_step_options all = {.peer_best = true};
    const int count = list(&all, "fp32", 1, true, s);
    assert_int_equal(count, 8); // modes, pinned or not, one process or two
    int equal = 0, pinned = 0, compiled = 0;
    for (int i = 0; i < count; i++) {
        equal += s[i].equal_groups && s[i].processes == 1;
        pinned += s[i].pinned;
        compiled += strcmp(s[i].mode, "compile") == 0;
        for (int k = 0; k < i; k++) {
            char text[SR_STEP_TEXT];
            (void)sr_step_setting_text(&s[k], "fp32", text);
            assert_string_not_equal(text, text_of(&s[i], "fp32"));
        }
    }
    assert_true(equal == 4 && pinned == 4 && compiled == 4);
    assert_int_equal(list(&all, "bf16", 1, true, s), 16);
    assert_int_equal(list(&all, "fp16", 1, true, s), 24);
    const sr_step_options wide = {.peer_best = true, .peer_precision = "fp32"};
    assert_int_equal(list(&wide, "bf16", 1, true, s), 8);
    assert_string_equal(text_of(&s[0], "bf16"), "fp32, eager, auto, 1 process of 2 threads");
    assert_int_equal(list(&all, "fp32", 4, true, s), 16); // 2 x 2 and 1 x 4 lanes; 2 x 16, 1 x 32
    assert_true(s[0].processes == 2 && s[0].passes == 2 && s[0].equal_groups);

    const sr_step_options some = {
        .peer_mode = "compile", .peer_pinned = "no", .peer_groups = SR_STEP_GROUPS_EQUAL};
    assert_int_equal(list(&some, "fp32", 1, true, s), 1);
    assert_string_equal(text_of(&s[0], "fp32"), "compile, auto, 1 process of 2 threads");
    const sr_step_options other = {.peer_malloc = "default", .peer_groups = SR_STEP_GROUPS_OTHER};
    assert_int_equal(list(&other, "fp32", 1, false, s), 1);
    assert_string_equal(text_of(&s[0], "fp32"),
                        "eager, default, 2 processes of 1 thread, pinned, other groups");
    const sr_step_options four = {.peer_processes = 4, .peer_pinned = "yes"};
    assert_int_equal(list(&four, "fp32", 1, true, s), 2);
    assert_true(s[0].processes == 4 && s[0].threads == 1 && !s[0].equal_groups && s[0].pinned);
}

// ---- Settings that are measured again ----

static sr_step_try try_of(sr_step_setting setting, double images_per_s, double share) {
    sr_step_try t = {.setting = setting};
    for (int i = 0; i < 3; i++) {
        sr_series_add(&t.per_s, images_per_s);
        sr_series_add(&t.share, share * (1 + 0.01 * (i - 1)));
    }
    return t;
}

static const sr_step_setting equal = {.mode = "eager",
                                      .malloc = "tcmalloc",
                                      .precision = "bf16",
                                      .processes = 1,
                                      .threads = 2,
                                      .equal_groups = true};
static const sr_step_setting other = {
    .mode = "eager", .malloc = "tcmalloc", .precision = "bf16", .processes = 2, .threads = 1};
static const sr_step_setting single = {
    .mode = "compile", .malloc = "tcmalloc", .precision = "fp32", .processes = 2, .threads = 1};

static void test_choose(void **state) {
    (void)state;
    static sr_step_try t[7];
    int chosen[SR_STEP_FINALS];
    t[0] = try_of(equal, 90,
                  0.5); // many images while the machine was quiet, but ours were even faster
    t[1] = try_of(other, 60, 0.7);
    t[2] = try_of(other, 50, 0.8);
    t[3] = try_of(equal, 50, 0.6);
    t[4] = try_of(single, 40, 0.4);
    t[5] = try_of(single, 40, 0.3);
    t[6] = (sr_step_try){.setting = equal, .reason = "out of memory"};
    assert_int_equal(sr_step_choose_finals(t, 7, "bf16", chosen), 4);
    const int expected[] = {2, 1, 3, 4}; // the fastest two, equal groups, fp32
    assert_memory_equal(chosen, expected, sizeof expected);
    t[4] = try_of(single, 40, 0.9); // fp32 is the fastest, and no setting is listed twice
    assert_int_equal(sr_step_choose_finals(t, 7, "bf16", chosen), 3);
    const int again[] = {4, 2, 3};
    assert_memory_equal(chosen, again, sizeof again);
    assert_int_equal(sr_step_choose_finals(&t[6], 1, "bf16", chosen), 0);
    assert_int_equal(sr_step_choose_finals(&t[3], 1, "bf16", chosen), 1);
}

// ---- The headline ----

static void add_final(sr_step_result *r, const sr_step_setting *setting, double images_per_s) {
    sr_step_final *f = &r->finals[r->final_count++];
    *f = (sr_step_final){.setting = *setting, .peers = {.name = "PyTorch 9"}};
    (void)sr_step_setting_text(setting, r->precision, f->text);
    for (int i = 0; i < 3 && images_per_s > 0; i++)
        sr_series_add(&f->per_s, images_per_s * (i + 1) / 2);
    if (!(images_per_s > 0))
        snprintf(f->reason, sizeof f->reason, "out of memory");
}

static void check_headline(const sr_step_result *r, const char *expected) {
    sr_text text;
    sr_text_init(&text);
    sr_step_headline(r, &text);
    assert_string_equal(text.data, expected);
    sr_text_release(&text);
}

static void test_headline(void **state) {
    (void)state;
    static sr_step_result r = {.precision = "bf16", .peer_precision = "bf16", .setting_count = 17};
    for (int i = 0; i < 3; i++)
        sr_series_add(&r.ours, 50 * (i + 1));
    add_final(&r, &equal, 50);
    add_final(&r, &other, 80);
    check_headline(
        &r, "1.25x the fastest measured setting of PyTorch 9 (eager, tcmalloc, 2 "
            "processes of 1 thread, other groups); 2.00x with equal groups; in "
            "another precision not measured; 2 of the 17 settings of --peer-best were measured");
    add_final(&r, &single, 0);
    check_headline(
        &r, "1.25x the fastest measured setting of PyTorch 9 (eager, tcmalloc, 2 "
            "processes of 1 thread, other groups); 2.00x with equal groups; in "
            "another precision not measured; 2 of the 17 settings of --peer-best were measured");
    r.final_count = 2;
    add_final(&r, &single, 125);
    check_headline(&r, "0.80x the fastest measured setting of PyTorch 9 (fp32, compile, tcmalloc, "
                       "2 processes of 1 thread, other groups); 2.00x with equal groups; 1.25x "
                       "with other groups; 3 of the 17 settings of --peer-best were measured");
    r.final_count = 1;
    r.peer_precision = "fp32"; // of a step in bf16
    r.finals[0].setting.precision = "fp32";
    check_headline(&r, "2.00x the one measured setting of PyTorch 9 (eager, tcmalloc, 1 process of "
                       "2 threads); with other groups not measured; 1 of the 17 settings of "
                       "--peer-best were measured");
    r.final_count = 0;
    snprintf(r.peer_reason, sizeof r.peer_reason, "no torch");
    check_headline(&r, "PyTorch: not measured: no torch");
}

// ---- From the command line ----

// A PyTorch of many speeds: a process logs its arguments at its start and at each run.
static void write_peer(void) {
    static const char text[] =
        "tenths=42 bytes=3000 mode=eager malloc=tcmalloc\n"
        "case \"$*\" in *'--mode compile'*) mode=compile bytes=9000 tenths=22;; esac\n"
        "case \"$*\" in *'--threads 1'*) tenths=$((tenths - 2));; esac\n"
        "case \"$*\" in *--cpus*) tenths=$((tenths - 10));; esac\n"
        "case \"$*\" in *'--malloc default'*) tenths=9000 malloc='default malloc';; esac\n"
        "case \"$*\" in *'--threads 2'*compile*--cpus*) echo 'out of cores' >&2; exit 1;; esac\n"
        "say() { echo \"$1 $*\" >>\"${0%/*}/log\"; }\n"
        "say start \"$@\"\n"
        "echo \"ready {\\\"torch\\\": \\\"9\\\", \\\"malloc\\\": \\\"$malloc\\\"}\"\n"
        "while read -r what count; do\n"
        "case $what in run) say run \"$@\"; echo $((tenths / 10)).$((tenths % 10));; memory) echo "
        "$bytes;; esac; done\n";
    char path[64];
    bench_write_peer("torch_step.py", text);
    snprintf(path, sizeof path, "%s/log", bench_folder);
    (void)remove(path);
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

// The runs of the log, a letter each; every distinct line has its own letter.
static void read_turns(char *turns, size_t size) {
    char path[64], *line, *rest;
    char *seen[26];
    size_t bytes, count = 0, length = 0;
    void *log;
    snprintf(path, sizeof path, "%s/log", bench_folder);
    assert_int_equal(sr_file_read(path, 1 << 20, &log, &bytes), SR_OK);
    for (line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "run", 3) != 0)
            continue;
        size_t i = 0;
        while (i < count && strcmp(seen[i], line) != 0)
            i++;
        assert_true(i < sizeof seen / sizeof *seen && length + 1 < size);
        if (i == count)
            seen[count++] = line;
        turns[length++] = (char)('A' + i);
    }
    turns[length] = '\0';
    sr_free(log);
}

#define TINY "bench step tests/recipes/tiny.yaml --batch 8 --threads 2 --steps 1 "

// Eager with one process is slow, compiled and pinned with two is fast, one setting fails.
static void test_best(void **state) {
    (void)state;
    sr_arena arena;
    sr_arena_init(&arena);
    write_peer();
    assert_int_equal(bench_run(TINY "--peer-best --peer-resident 8 --blocks 2 --json"), 0);
    const sr_json *json = bench_json(&arena), *peer = sr_json_get(json, "peer");
    assert_string_equal(sr_json_string(sr_json_get(peer, "setting")),
                        "compile, tcmalloc, 2 processes of 1 thread, pinned, other groups");
    assert_true(bench_number(peer, "images_per_s") == 8);
    assert_true(fabs(bench_number(json, "ratio") - bench_number(json, "images_per_s") / 8) < 1e-9);
    assert_true(bench_number(json, "ratio_other_groups") == bench_number(json, "ratio"));
    assert_true(fabs(bench_number(json, "ratio_equal_groups") -
                     bench_number(json, "images_per_s") * 2.2 / 8) < 1e-9);
    assert_true(bench_number(json, "peer_memory_bytes") == 3000); // eager's with equal groups
    assert_true(bench_number(json, "memory_ratio") == bench_number(json, "memory_bytes") / 3000);
    const sr_json *tried = sr_json_get(json, "peer_tried");
    assert_int_equal(tried->count, 9); // all, and the fastest with the other allocator
    assert_true(bench_number(json, "peer_setting_count") == 9);
    int failed = 0;
    for (const sr_json *t = tried->first; t; t = t->next) {
        const char *reason = sr_json_string(sr_json_get(t, "not_measured"));
        failed += reason != NULL;
        assert_true(!reason || strstr(reason, "out of cores") != NULL);
    }
    assert_int_equal(failed, 1);
    const sr_json *finals = sr_json_get(json, "peer_settings");
    assert_int_equal(finals->count, 3); // the fastest two have other groups; one has equal ones
    assert_non_null(strstr(sr_json_string(sr_json_get(json, "headline")),
                           "; 8 of the 9 settings of --peer-best were measured"));
    sr_arena_release(&arena);
}

// The times of layers and those outside add up to those of the operators, calls as well.
static void test_profile(void **state) {
    (void)state;
    sr_arena arena;
    sr_arena_init(&arena);
    assert_int_equal(bench_run(TINY "--no-peer --blocks 1 --profile --json --depth 0"), 0);
    const sr_json *profile = sr_json_get(bench_json(&arena), "profile");
    double ms[2] = {0}, calls[2] = {0}, within = 0, backward = 0;
    const sr_json *operators = sr_json_get(profile, "operators");
    const sr_json *layers = sr_json_get(profile, "layers");
    for (const sr_json *o = operators->first; o; o = o->next) {
        ms[0] += bench_number(o, "ms");
        calls[0] += bench_number(o, "calls");
    }
    for (const sr_json *l = layers->first; l; l = l->next) {
        const double own = bench_number(l, "forward_ms") + bench_number(l, "backward_ms");
        if (bench_number(l, "depth") == 0) { // the network, and what is outside
            ms[1] += own;
            calls[1] += bench_number(l, "calls");
            backward += bench_number(l, "backward_ms");
        }
        within += bench_number(l, "depth") == 1 ? own : 0;
    }
    assert_true(fabs(ms[0] - ms[1]) < 1e-9 * ms[0]);
    assert_true(fabs(calls[0] - calls[1]) < 1e-9 * calls[0]);
    assert_true(backward > 0 && backward < ms[1]);
    assert_true(within > 0 && within <= ms[1]);
    assert_int_equal(bench_run("bench step cifar10-fast -b 2 --steps 1 --no-peer --blocks 1 "
                               "--profile --json --depth 1"),
                     0);
    profile = sr_json_get(bench_json(&arena), "profile");
    // The network, whiten, layers, head, and what is outside.
    assert_int_equal(sr_json_get(profile, "layers")->count, 5);
    assert_int_equal(bench_run(TINY "--no-peer --blocks 1 --profile --depth 1"), 0);
    assert_non_null(strstr(bench_output, "forward ms backward ms"));
    assert_non_null(strstr(bench_output, "\ninputs, loss, metrics "));
    assert_int_equal(count_of(bench_output, "\nall kernels "), 2);
    sr_arena_release(&arena);
}

// All resident settings take their turn once before any takes the next one.
static void test_turns(void **state) {
    (void)state;
    char turns[256] = {0};
    write_peer();
    assert_int_equal(bench_run(TINY
                               "--peer-best --peer-groups equal --peer-pinned no --peer-malloc "
                               "default --peer-resident 4 --blocks 3"),
                     0);
    read_turns(turns, sizeof turns); // two settings: no selection
    assert_string_equal(turns, "ABABAB");
    assert_null(strstr(bench_output, "tried: "));
    write_peer();
    assert_int_equal(bench_run(TINY "--peer-best --peer-processes 1 --lanes 2 --blocks 2 "
                                    "--peer-resident 3"),
                     0);
    // One process, in two passes or one, eager or compiled, pinned or not, three at a time, of
    // which the compiled pinned ones fail; then one with the other allocator; then the finals,
    // twice.
    static const char tried[] = "ABCABCABCDEDEDEFFFGGG";
    read_turns(turns, sizeof turns);
    assert_int_equal(count_of(bench_output, "tried: "), 9);
    assert_int_equal(count_of(bench_output, "not measured: the peer exited: out of cores"), 2);
    assert_int_equal(strncmp(turns, tried, sizeof tried - 1), 0);
    const char *finals = turns + sizeof tried - 1;
    const size_t half = strlen(finals) / 2;
    assert_true(half >= 2 && half <= SR_STEP_FINALS && strlen(finals) == 2 * half);
    assert_memory_equal(finals, finals + half, half);
    for (size_t i = 0; i < half; i++)
        assert_ptr_equal(strchr(finals, finals[i]), finals + i);
}

// A comparison that was asked for and cannot be made fails, and says what is missing.
static void test_without_peers(void **state) {
    (void)state;
    char path[80];
    static const char *const asks[] = {"--peer", "--peer-best", "--peer-mode eager",
                                       "--peer-precision fp32"};
    snprintf(path, sizeof path, "%s/torch_step.py", bench_folder);
    (void)remove(path);
    for (size_t i = 0; i < 4; i++) {
        char line[256];
        snprintf(line, sizeof line, TINY "--blocks 1 %s", asks[i]);
        assert_int_not_equal(bench_run(line), 0);
    }
    assert_int_equal(bench_run(TINY "--blocks 1"), 0);
    assert_non_null(strstr(bench_output, "PyTorch: not measured: "));
    assert_int_equal(setenv("SERRIED_PEER_PYTHON", "/usr/bin/env", 1), 0);
    bench_write_peer("torch_step.py", "");
    assert_int_not_equal(bench_run(TINY "--blocks 1 --peer"), 0);
    assert_int_equal(setenv("SERRIED_PEER_PYTHON", "/bin/sh", 1), 0);
}

// Settings from the command line are used as given.
static void test_given_settings(void **state) {
    (void)state;
    sr_arena arena;
    sr_arena_init(&arena);
    write_peer();
    assert_int_equal(bench_run(TINY "--blocks 1 --lanes 2 --json"), 0);
    const sr_json *json = bench_json(&arena);
    assert_true(bench_number(json, "peer_memory_bytes") == 6000); // two lanes in flight
    assert_int_equal(sr_json_get(json, "peer_tried")->count, 0);
    assert_int_equal(sr_json_get(json, "peer_settings")->count, 2);
    assert_int_equal(bench_run(TINY "--blocks 1 --peer-mode compile --json"), 0);
    json = bench_json(&arena);
    assert_true(bench_number(json, "peer_memory_bytes") == 3000); // of fresh processes
    sr_arena_release(&arena);
    assert_int_equal(bench_run(TINY "--blocks 1 --peer --peer-processes 2"), 0);
    assert_non_null(strstr(bench_output, "with equal groups not measured"));
    assert_int_equal(bench_run(TINY "--blocks 1 --peer-processes 2 --peer-groups equal"), 2);
    assert_int_equal(bench_run(TINY "--blocks 1 --peer-processes 3"), 2);
    assert_int_equal(bench_run(TINY "--peer-mode fast"), 2);
    assert_int_equal(bench_run(TINY "--peer-pinned maybe"), 2);
    assert_int_equal(bench_run(TINY "--peer-groups any"), 2);
    assert_int_equal(bench_run(TINY "--blocks 1 --precision bf16 --peer-precision fp32"), 0);
    assert_non_null(strstr(bench_output, "(fp32, eager, "));
    assert_non_null(strstr(bench_output, "of PyTorch's eager mode in fp32 with equal groups"));
    assert_int_equal(bench_run(TINY "--precision fp32 --peer-precision bf16"), 2);
    assert_int_equal(bench_run(TINY "--peer-precision f64"), 2);
}

// The recipe's device is used; a PyTorch beside a GPU computes on the GPU, too.
static void test_device(void **state) {
    (void)state;
    sr_arena arena;
    void *log;
    char path[64];
    size_t bytes;
    sr_arena_init(&arena);
    write_peer();
    assert_int_equal(bench_run(TINY "--blocks 1 --no-peer --json device=cpu-async"), 0);
    assert_string_equal(sr_json_string(sr_json_get(bench_json(&arena), "device")), "cpu-async");
    assert_int_equal(bench_run(TINY "--no-peer device=gpu"), 2);
    assert_int_equal(bench_run(TINY "--blocks 1 --json"), 0);
    const char *device = sr_json_string(sr_json_get(bench_json(&arena), "device"));
    assert_non_null(device);
    snprintf(path, sizeof path, "%s/log", bench_folder);
    assert_int_equal(sr_file_read(path, 1 << 20, &log, &bytes), SR_OK);
    assert_int_equal(strncmp(device, "cuda", 4) == 0, strstr(log, "--device cuda") != NULL);
    sr_free(log);
    sr_arena_release(&arena);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    bench_program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_settings), cmocka_unit_test(test_all_settings),
        cmocka_unit_test(test_choose),         cmocka_unit_test(test_headline),
        cmocka_unit_test(test_best),           cmocka_unit_test(test_profile),
        cmocka_unit_test(test_turns),          cmocka_unit_test(test_without_peers),
        cmocka_unit_test(test_given_settings), cmocka_unit_test(test_device),
    };
    return cmocka_run_group_tests_name("bench_step", tests, bench_set_up, bench_tear_down);
}
