// SPDX-License-Identifier: Apache-2.0
// serried bench decode, data and recover from their command lines to their JSON, compared with
// loaders of given speeds (a shell script stands in for them). serried's own speed is not checked.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "tests/unit/launcher/bench_fixture.h"
#include "tests/unit/support/pictures.h"
#include "trainer/checkpoint/json_tree.h"

static double median(const sr_json *json, const char *part, const char *key) {
    return bench_number(sr_json_get(part ? sr_json_get(json, part) : json, key), "median");
}

// Data of pictures 'name' in the folder, and loaders of given speeds: FFCV is fastest where it is
// not pinned, and slower as float; DALI is missing. Each run appends a letter to 'turns'.
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
    snprintf(data, 64, "%s/%s", bench_folder, name);
    assert_int_equal(mkdir(data, 0700), 0);
    pictures_pack(data, count, width, height, 0);
    bench_write_peer("data_peers.py", peer);
}

static const sr_json *loader(const sr_json *json, int number) {
    const sr_json *one = sr_json_get(json, "peers")->first;
    for (int i = 0; i < number; i++)
        one = one->next;
    return one;
}

// What a report contains for the loaders, in the order of bench_loaders.c.
static void check_loaders(const sr_json *json, const char *setting) {
    assert_int_equal(sr_json_get(json, "peers")->count, 5);
    assert_string_equal(sr_json_string(sr_json_get(loader(json, 0), "setting")), setting);
    assert_true(
        fabs(median(json, NULL, "images_per_s") / 40 - bench_number(loader(json, 1), "u8_ratio")) <
        1e-2 * bench_number(loader(json, 1), "u8_ratio"));
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

// Stages, in both forms, and loaders, one of which fails.
static void test_bench_decode(void **state) {
    (void)state;
    const sr_json *json;
    char line[256], data[64];
    sr_arena arena;
    sr_arena_init(&arena);
    make_data(data, "data", 6, 200, 160);
    snprintf(line, sizeof line, "bench decode %s --image 64 --seconds 1 --peers --json", data);
    assert_int_equal(bench_run(line), 0);
    json = bench_json(&arena);
    assert_true(bench_number(json, "pictures") == 6 && bench_number(json, "image") == 64);
    const sr_json *indexed = sr_json_get(json, "indexed");
    assert_true(median(json, "indexed", "images_per_s") >
                median(json, "indexed", "normalised_images_per_s"));
    assert_true(bench_number(indexed, "entropy_us") > 0);
    assert_true(bench_number(indexed, "library_us") == 0);
    assert_int_equal(sr_json_get(json, "peers")->count, 5);
    assert_true(median(loader(json, 1), NULL, "images_per_s") == 40);
    sr_arena_release(&arena);
    snprintf(line, sizeof line, "bench decode %s --image 64 --seconds 1 -t random_resized_crop",
             data);
    assert_int_equal(bench_run(line), 0);
    assert_non_null(strstr(bench_output, "entropy decoding"));
    snprintf(line, sizeof line, "bench decode %s --peers -t resize", data);
    assert_int_equal(bench_run(line), 2); // peers support only these two transforms
    assert_int_equal(bench_run("bench decode /nowhere"), 2);
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
    snprintf(path, sizeof path, "%s/turns", bench_folder);
    (void)remove(path);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 64 --peers --seconds 0.01 --json", data);
    assert_int_equal(bench_run(line), 0);
    json = bench_json(&arena);
    check_loaders(json, "40 files, 00000000.jpg, pinned");
    assert_true(bench_number(json, "rounds") == 1);
    assert_int_equal(sr_file_read(path, 64, &turns, &bytes), SR_OK);
    assert_string_equal(turns, "ppfftt");
    sr_free(turns);
    sr_arena_release(&arena);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 64 --peers --seconds 0.01", data);
    assert_int_equal(bench_run(line), 0);
    assert_non_null(
        strstr(bench_output, "dali, pinned: not measured: the peer exited: no DALI here\n"));
    assert_non_null(strstr(bench_output, "\nserried, float, batches of 8, pinned "));
    // None at all: our own numbers are printed, but the comparison failed.
    assert_int_equal(setenv("SERRIED_PEERS", "/nowhere", 1), 0);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 64 --peers --seconds 0.01", data);
    assert_int_equal(bench_run(line), 2);
    assert_non_null(strstr(bench_output, "no loader was measured as "));
    snprintf(line, sizeof line, "bench decode %s --image 64 --seconds 0.01 --peers", data);
    assert_int_equal(bench_run(line), 2);
    assert_int_equal(setenv("SERRIED_PEERS", bench_folder, 1), 0);
    snprintf(line, sizeof line, "bench data %s -i 16x8 --peers", data);
    assert_int_equal(bench_run(line), 2);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 64 --one-core --seconds 0.1", data);
    assert_int_equal(bench_run(line), 0);
}

// Raw pixels are passed to the loaders as NumPy arrays.
static void test_bench_data_raw(void **state) {
    (void)state;
    static const char begin[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (32, 40, 3), }";
    char line[256], data[64], path[80];
    size_t bytes;
    void *file;
    uint8_t *jpeg = picture_encode(40, 32, 7, &(picture_jpeg){.quality = 90}, &bytes);
    make_data(data, "unused", 1, 40, 32);
    snprintf(path, sizeof path, "%s/pictures", bench_folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/pictures/class", bench_folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/pictures/class/1.jpg", bench_folder);
    assert_int_equal(sr_file_write_atomic(path, jpeg, bytes), SR_OK);
    sr_free(jpeg);
    snprintf(line, sizeof line, "pack %s/pictures %s/raw --raw", bench_folder, bench_folder);
    assert_int_equal(bench_run(line), 0);
    snprintf(line, sizeof line, "bench data %s/raw -i 16 -b 64 --peers --seconds 0.01",
             bench_folder);
    assert_int_equal(bench_run(line), 0);
    assert_non_null(strstr(bench_output, "1 files, 00000000.npy, pinned"));
    snprintf(path, sizeof path, "%s/first", bench_folder);
    assert_int_equal(sr_file_read(path, 1 << 20, &file, &bytes), SR_OK);
    assert_int_equal(bytes, 128 + 32 * 40 * 3);
    assert_memory_equal(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal((char *)file + 10, begin, sizeof begin - 1);
    assert_true(((char *)file)[127] == '\n');
    sr_free(file);
}

// Stages, seeks and the order's hash, which does not depend on ranks and workers.
static void test_bench_data(void **state) {
    (void)state;
    const sr_json *json = NULL;
    char line[256], data[64], order[sizeof bench_output];
    sr_arena arena;
    sr_arena_init(&arena);
    snprintf(data, sizeof data, "%s/samples", bench_folder);
    assert_int_equal(mkdir(data, 0700), 0);
    pictures_pack(data, 90, 40, 32, 0);
    // Readers run ahead: with slow processes, a short interval may contain none of their reads.
    double seeks = 0;
    for (double seconds = 0.2; seeks == 0 && seconds < 60; seconds *= 4) {
        snprintf(line, sizeof line,
                 "bench data %s -i 16 -b 16 --seconds %.1f --order chunks --json", data, seconds);
        assert_int_equal(bench_run(line), 0);
        json = bench_json(&arena);
        seeks = bench_number(json, "seeks");
        assert_true(bench_number(json, "images_per_s") > 0);
        assert_true(bench_number(json, "decode_per_core_s") > 0);
    }
    assert_true(seeks > 0 && bench_number(json, "bytes_per_seek") > 1000);
    assert_null(sr_json_get(json, "resident_per_core_s"));
    snprintf(line, sizeof line, "bench data %s -i 16 -b 16 --seconds 0.2 -t pad_crop --json", data);
    assert_int_equal(bench_run(line), 0);
    assert_true(bench_number(bench_json(&arena), "resident_per_core_s") > 0);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 16 --order-hash 2", data);
    assert_int_equal(bench_run(line), 0);
    assert_non_null(strstr(bench_output, "epoch 1: 90 samples, order "));
    memcpy(order, bench_output, sizeof order);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 16 --order-hash 2 --ranks 3 -w 2", data);
    assert_int_equal(bench_run(line), 0);
    assert_string_equal(order, bench_output);
    snprintf(line, sizeof line, "bench data %s -i 16 -b 16 --order-hash 1 --ranks 9", data);
    assert_int_equal(bench_run(line), 2);
    snprintf(line, sizeof line, "bench recover %s -i 16 -b 16 --kills 1 --json", data);
    assert_int_equal(bench_run(line), 0);
    json = bench_json(&arena);
    static const char *const kinds[] = {"reader", "iterator", "transformer"};
    for (int i = 0; i < 3; i++) {
        assert_true(bench_number(sr_json_get(json, kinds[i]), "kills") == 1);
        assert_true(bench_number(sr_json_get(json, kinds[i]), "stall_worst_ms") <=
                    bench_number(json, "worst_ms"));
    }
    assert_true(bench_number(json, "worst_ms") > 0);
    snprintf(line, sizeof line, "bench recover %s --threads", data);
    assert_int_equal(bench_run(line), 2);
    sr_arena_release(&arena);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    bench_program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bench_decode),
        cmocka_unit_test(test_bench_data),
        cmocka_unit_test(test_bench_data_peers),
        cmocka_unit_test(test_bench_data_raw),
    };
    return cmocka_run_group_tests_name("bench_data", tests, bench_set_up, bench_tear_down);
}
