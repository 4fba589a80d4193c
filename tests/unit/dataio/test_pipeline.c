// SPDX-License-Identifier: Apache-2.0
// The data pipeline: the same bytes whatever the workers, ranks, processes or threads, from a
// resumed position, and with killed processes; boxes; damage; ends, deadlines and clean-up.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/pipeline/stage_internal.h"
#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/clock.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { COUNT = 101, BATCH = 24, LANES = 8, STEPS = 9, SIDE = 24 };

static char pictures[256], boxes[256];

static const sr_transform_spec augment[] = {
    {.name = "random_resized_crop", .arguments = "scale=[0.3, 1]"},
    {.name = "flip"},
    {.name = "cutout", .arguments = "size=6"},
    {.name = "color_jitter", .arguments = "brightness=0.2 hue=0.1"},
};

static sr_pipeline_options usual(void) {
    return (sr_pipeline_options){.dataset = pictures,
                                 .split = "train",
                                 .transforms = augment,
                                 .transform_count = 4,
                                 .image_height = SIDE,
                                 .image_width = SIDE,
                                 .order = SR_ORDER_EXAMPLES,
                                 .seed = 1,
                                 .batch = BATCH,
                                 .lanes = LANES,
                                 .lane_end = LANES,
                                 .steps = STEPS,
                                 .workers = 2,
                                 .threads = true,
                                 .act_seconds = 30};
}

static int count_entries(const char *path) {
    DIR *dir = opendir(path);
    int n = 0;
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n;
}

// Hash of a slot: positions, counts and all bytes of all arrays.
static uint64_t hash_slot(const sr_slot *slot) {
    uint64_t hash = sr_hash64_seed(&slot->step, sizeof slot->step, (uint64_t)slot->lane);
    hash = sr_hash64_seed(&slot->first_position, sizeof slot->first_position, hash);
    hash = sr_hash64_seed(&slot->valid, sizeof slot->valid, hash);
    for (int i = 0; i < slot->arrays; i++) {
        const sr_array *a = &slot->array[i];
        size_t bytes = sr_dtype_size(a->dtype);
        for (int d = 0; d < a->rank; d++)
            bytes *= (size_t)a->shape[d];
        assert_int_equal(0, (uintptr_t)a->data % 64);
        hash = sr_hash64_seed(a->name, strlen(a->name), hash);
        hash = sr_hash64_seed(a->data, bytes, hash) + (uint64_t)a->count;
    }
    return hash;
}

typedef uint64_t hashes[STEPS + 1][LANES];

// Runs a pipeline, stores each slot's hash at its (step, lane), and calls 'between' after each
// slot.
static int64_t run(const sr_pipeline_options *o, hashes out, int64_t first_step,
                   void (*between)(sr_pipeline *, int64_t)) {
    sr_pipeline *p;
    int64_t slots = 0;
    assert_ok(sr_pipeline_open(o, &p));
    for (bool end = false;; slots++) {
        sr_slot slot;
        assert_ok(sr_pipeline_next(p, &slot, &end));
        if (end)
            break;
        int64_t lanes = o->lane_end - o->lane_begin;
        assert_int_equal(first_step + slots / lanes, slot.step);
        assert_int_equal(o->lane_begin + slots % lanes, slot.lane);
        out[slot.step][slot.lane] = hash_slot(&slot);
        sr_pipeline_release(p, &slot);
        if (between)
            between(p, slots);
    }
    sr_pipeline_stats stats = sr_pipeline_get_stats(p);
    assert_true(stats.ring_fill[0] >= 0 && stats.ring_fill[0] <= 1);
    assert_true(stats.ring_fill[1] >= 0 && stats.ring_fill[1] <= 1);
    assert_true(stats.bytes_read > 0 && stats.decode_ns > 0);
    sr_pipeline_close(p);
    return slots;
}

static hashes expected[SR_ORDER_CHUNKS + 1];

static const hashes *expect(sr_data_order order) {
    if (expected[order][0][0] == 0) {
        sr_pipeline_options o = usual();
        o.order = order;
        o.workers = 1;
        run(&o, expected[order], 0, NULL);
    }
    return (const hashes *)&expected[order];
}

static void check_same(const hashes *want, hashes got, int64_t first, int64_t last) {
    for (int64_t s = first; s < last; s++)
        for (int l = 0; l < LANES; l++)
            if ((*want)[s][l] != got[s][l])
                fail_msg("step %lld lane %d differs", (long long)s, l);
}

static void test_workers(void **state) {
    (void)state;
    for (int order = SR_ORDER_SEQUENTIAL; order <= SR_ORDER_CHUNKS; order++) {
        for (int workers = 1; workers <= 3; workers++) {
            for (int threads = 0; threads <= 1; threads++) {
                hashes got = {{0}};
                sr_pipeline_options o = usual();
                o.order = (sr_data_order)order;
                o.workers = workers;
                o.threads = threads != 0;
                assert_int_equal(STEPS * LANES, run(&o, got, 0, NULL));
                check_same(expect((sr_data_order)order), got, 0, STEPS);
            }
        }
    }
}

static void test_ranks(void **state) {
    (void)state;
    for (int order = SR_ORDER_SEQUENTIAL; order <= SR_ORDER_CHUNKS; order++) {
        for (int ranks = 2; ranks <= 4; ranks++) {
            hashes got = {{0}};
            for (int r = 0; r < ranks; r++) {
                sr_pipeline_options o = usual();
                o.order = (sr_data_order)order;
                o.lane_begin = r * LANES / ranks;
                o.lane_end = (r + 1) * LANES / ranks;
                o.prefetch = r + 1;
                run(&o, got, 0, NULL);
            }
            check_same(expect((sr_data_order)order), got, 0, STEPS);
        }
    }
}

static void test_resume(void **state) {
    (void)state;
    for (int order = SR_ORDER_SEQUENTIAL; order <= SR_ORDER_CHUNKS; order++) {
        for (int64_t step = 1; step < STEPS; step += 3) {
            hashes got = {{0}};
            sr_pipeline_options o = usual();
            o.order = (sr_data_order)order;
            o.position = step * BATCH;
            o.steps = STEPS - step;
            run(&o, got, step, NULL);
            check_same(expect((sr_data_order)order), got, step, STEPS);
        }
    }
}

// -- killing -----------------------------------------------------------------------------------

static int kills, victim_of_test; // -1: any

static void kill_one(sr_pipeline *p, int64_t slot) {
    sr_rng4 r = sr_philox(9, (uint32_t)slot, (uint32_t)victim_of_test, 0, 0);
    if (r.v[0] % 8 != 0)
        return;
    int victim = victim_of_test >= 0 ? victim_of_test : (int)(r.v[1] % 4);
    pid_t pid = sr_pipeline_stage_pid(p, victim);
    if (pid > 0 && kill(pid, SIGKILL) == 0)
        kills++;
}

static void test_kills(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    for (int order = SR_ORDER_SEQUENTIAL; order <= SR_ORDER_CHUNKS; order++) {
        for (victim_of_test = -1; victim_of_test < 4; victim_of_test++) {
            hashes got = {{0}};
            sr_pipeline_options o = usual();
            o.order = (sr_data_order)order;
            o.threads = false;
            o.prefetch = 2; // small rings, so that no stage has finished before it is killed
            o.memory = 48 << 10;
            kills = 0;
            assert_int_equal(STEPS * LANES, run(&o, got, 0, kill_one));
            check_same(expect((sr_data_order)order), got, 0, STEPS);
            assert_true(kills > 0);
        }
    }
    sr_log_set_level(SR_LOG_WARN);
}

// A process that dies repeatedly at the same position is not restarted forever.
static void test_deaths(void **state) {
    (void)state;
    sr_pipeline_options o = usual();
    o.threads = false;
    o.steps = 0;
    o.prefetch = 2;
    sr_pipeline *p;
    sr_slot slots[2], none;
    bool end;
    sr_log_set_level(SR_LOG_ERROR);
    assert_ok(sr_pipeline_open(&o, &p));
    for (int i = 0; i < 2; i++) // hold all slots, so that no process advances
        assert_ok(sr_pipeline_next(p, &slots[i], &end));
    int64_t deadline = sr_clock_ns() + 20 * SR_NS_PER_S;
    sr_status status = SR_E_ARGUMENT;
    while (status == SR_E_ARGUMENT && sr_clock_ns() < deadline) {
        pid_t pid = sr_pipeline_stage_pid(p, SR_STAGE_TRANSFORMER);
        if (pid > 0)
            (void)kill(pid, SIGABRT); // sanitizers do not handle it
        sr_clock_sleep_ns(SR_NS_PER_MS);
        status = sr_pipeline_next(p, &none, &end);
    }
    assert_int_equal(SR_E_PEER, status);
    assert_message("data transformer 0 died 3 times (signal 6");
    assert_message("run with data.processes=0 under a debugger");
    assert_true(sr_pipeline_get_stats(p).restarts >= 2);
    sr_pipeline_close(p);
    sr_log_set_level(SR_LOG_WARN);
}

// -- evaluation --------------------------------------------------------------------------------

static void see_slot(const sr_slot *slot, int *seen) {
    const int32_t *label = sr_slot_find(slot, "label")->data;
    const uint8_t *image = sr_slot_find(slot, "image")->data;
    assert_null(sr_slot_find(slot, "boxes"));
    for (int64_t i = 0; i < BATCH / LANES; i++) {
        int64_t at = slot->first_position + i;
        if (i >= slot->valid) {
            assert_true(at >= COUNT);
            assert_int_equal(0, image[i * SIDE * SIDE * 3 + 100]);
            continue;
        }
        assert_int_equal(at % 10, label[i]);
        seen[at]++;
    }
}

// Calls 'see' for each slot until the end.
static void each_slot(const sr_pipeline_options *o, void (*see)(const sr_slot *, int *),
                      int *seen) {
    sr_pipeline *p;
    assert_ok(sr_pipeline_open(o, &p));
    for (;;) {
        sr_slot slot;
        bool end;
        assert_ok(sr_pipeline_next(p, &slot, &end));
        if (end)
            break;
        see(&slot, seen);
        sr_pipeline_release(p, &slot);
    }
    sr_pipeline_close(p);
}

static void test_evaluation(void **state) {
    (void)state;
    static const sr_transform_spec eval[] = {{.name = "resize", .arguments = "size=26"},
                                             {.name = "center_crop"}};
    for (int ranks = 1; ranks <= 3; ranks++) {
        int seen[COUNT] = {0};
        for (int r = 0; r < ranks; r++) {
            sr_pipeline_options o = usual();
            o.order = SR_ORDER_ONCE;
            o.transforms = eval;
            o.transform_count = 2;
            o.steps = 0;
            o.lane_begin = r * LANES / ranks;
            o.lane_end = (r + 1) * LANES / ranks;
            each_slot(&o, see_slot, seen);
        }
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(1, seen[i]);
    }
}

// -- boxes -------------------------------------------------------------------------------------

static void check_boxes(const sr_slot *slot, int *unused) {
    (void)unused;
    const sr_array *rows = sr_slot_find(slot, "boxes"), *counts = sr_slot_find(slot, "boxes.count");
    assert_int_equal(SR_F32, rows->dtype);
    assert_int_equal(5, rows->shape[1]);
    assert_int_equal(4 * BATCH / LANES, rows->shape[0]);
    const float *row = rows->data;
    int64_t total = 0;
    for (int64_t i = 0; i < BATCH / LANES; i++) {
        int64_t sample = slot->first_position + i, n = ((const int32_t *)counts->data)[i];
        assert_int_equal(sample < COUNT ? sample % 5 : 0, n);
        for (int64_t k = 0; k < n; k++, row += 5) {
            float x1 = 2 + 3 * (float)k, y1 = 3 + 2 * (float)k;
            const float want[5] = {SIDE - (x1 + 10), y1, SIDE - x1, y1 + 11, (float)(k % 2)};
            assert_memory_equal(want, row, sizeof want);
        }
        total += n;
    }
    assert_int_equal(total, rows->count);
}

static void test_boxes(void **state) {
    (void)state;
    static const sr_transform_spec mirror[] = {{.name = "flip", .arguments = "probability=1"}};
    for (int threads = 0; threads <= 1; threads++) {
        sr_pipeline_options o = usual();
        o.dataset = boxes;
        o.transformer = "detect";
        o.transforms = mirror;
        o.transform_count = 1;
        o.order = SR_ORDER_ONCE;
        o.boxes_per_sample = 4;
        o.threads = threads != 0;
        o.steps = 0;
        each_slot(&o, check_boxes, NULL);
    }
}

// -- damage ------------------------------------------------------------------------------------

static void flip_bit(const char *folder, int shard_number, double place) {
    char path[300], name[SR_SHARD_NAME_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", folder,
                   sr_shard_file_name("train", (uint32_t)shard_number, name));
    sr_data_file shard;
    assert_ok(sr_shard_load(path, &shard));
    const sr_index_entry *entry = &shard.entries[shard.count / 2];
    long at = (long)entry->offset + (long)((double)entry->bytes * place);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(0, fseek(file, at, SEEK_SET));
    int byte = fgetc(file);
    assert_int_equal(0, fseek(file, at, SEEK_SET));
    assert_int_equal(byte ^ 16, fputc(byte ^ 16, file));
    assert_int_equal(0, fclose(file));
    sr_data_file_release(&shard);
}

// Runs to the end, skipping 'damaged' samples, or until the failure 'want'.
static void run_damaged(sr_pipeline_options *o, sr_status want, size_t damaged) {
    sr_pipeline *p;
    sr_status status = SR_OK;
    assert_ok(sr_pipeline_open(o, &p));
    for (bool end = false; !end && status == SR_OK;) {
        sr_slot slot;
        status = sr_pipeline_next(p, &slot, &end);
        if (status == SR_OK)
            sr_pipeline_release(p, &slot);
    }
    assert_int_equal(want, status);
    sr_slot slot;
    bool end;
    if (want == SR_OK) {
        assert_true(sr_pipeline_get_stats(p).replaced >
                    (int64_t)damaged); // later epochs read it again
        assert_int_equal(damaged, sr_pipeline_get_damage(p).count);
        assert_non_null(strstr(sr_pipeline_get_damage(p).last, " record "));
    } else {
        assert_int_equal(want, sr_pipeline_next(p, &slot, &end)); // the failure is permanent
    }
    sr_pipeline_close(p);
}

static void test_damage(void **state) {
    (void)state;
    char folder[256];
    test_folder_make(folder);
    pictures_pack(folder, COUNT, 40, 32, 0);
    flip_bit(folder, 1, 0.5);
    for (int threads = 0; threads <= 1; threads++) {
        sr_pipeline_options o = usual();
        o.dataset = folder;
        o.threads = threads != 0;
        run_damaged(&o, SR_E_CHECKSUM, 0);
        assert_message("train-00001.kpl");
        assert_message("record");
        o.on_corrupt = SR_CORRUPT_SKIP;
        o.skip_limit = 1; // one sample, however often it is read
        run_damaged(&o, SR_OK, 1);
        flip_bit(folder, 0, 0.5);
        run_damaged(&o, SR_E_DATA, 0);
        assert_message("2 damaged samples, more than on_corrupt: skip:1 allows; ");
        assert_message(" record ");
        o.skip_limit = 2;
        run_damaged(&o, SR_OK, 2);
        flip_bit(folder, 0, 0.5); // repairs it
    }
    test_folder_remove(folder);
}

// A picture that passes the checksum but fails to decode.
static void test_bad_picture(void **state) {
    (void)state;
    char folder[256];
    test_folder_make(folder);
    sr_writer_options options = {
        .folder = folder, .classes = (const char *const[]){"a"}, .class_count = 1};
    sr_writer *writer;
    sr_record_writer record = {0};
    assert_ok(sr_writer_open(&options, &writer));
    for (uint32_t i = 0; i < 30; i++) {
        size_t bytes;
        uint8_t *data = picture_encode(40, 40, i, &(picture_jpeg){0}, &bytes);
        sr_sample sample = {.data = data,
                            .bytes = i == 17 ? bytes / 2 : bytes,
                            .encoded = true,
                            .height = 40,
                            .width = 40,
                            .channels = 3};
        assert_ok(sr_sample_write(&record, &sample));
        assert_ok(sr_writer_append(writer, record.data, record.bytes));
        sr_free(data);
    }
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
    sr_pipeline_options o = usual();
    o.dataset = folder;
    o.transforms = &(sr_transform_spec){.name = "resize", .arguments = "stretch=true"};
    o.transform_count = 1;
    run_damaged(&o, SR_E_DATA, 0);
    assert_message("train-00000.kpl record 17");
    assert_message("JPEG");
    o.on_corrupt = SR_CORRUPT_SKIP;
    o.skip_limit = 100;
    run_damaged(&o, SR_OK, 1);
    test_folder_remove(folder);
}

// More boxes than the slot has room for: the sample is refused, and its neighbours' rows are
// unchanged.
static void check_few_boxes(const sr_slot *slot, int *unused) {
    (void)unused;
    const sr_array *rows = sr_slot_find(slot, "boxes"), *counts = sr_slot_find(slot, "boxes.count");
    const float *row = rows->data;
    for (int64_t i = 0; i < BATCH / LANES; i++) {
        int n = ((const int32_t *)counts->data)[i];
        assert_in_range(n, 0, 2); // a refused sample is replaced by the next one with at most two
        for (int k = 0; k < n; k++, row += 5)
            assert_true(row[0] == (float)(SIDE - (12 + 3 * k)) && row[4] == (float)(k % 2));
    }
}

static void test_too_many_boxes(void **state) {
    (void)state;
    static const sr_transform_spec mirror[] = {{.name = "flip", .arguments = "probability=1"}};
    sr_pipeline_options o = usual();
    o.dataset = boxes;
    o.transformer = "detect";
    o.transforms = mirror;
    o.transform_count = 1;
    o.order = SR_ORDER_ONCE;
    o.boxes_per_sample = 2;
    o.steps = 0;
    o.workers = 3;
    run_damaged(&o, SR_E_LIMIT, 0);
    assert_message("3 boxes in one picture, more than the limit of 2");
    o.on_corrupt = SR_CORRUPT_SKIP;
    o.skip_limit = COUNT;
    each_slot(&o, check_few_boxes, NULL);
}

static void test_refusals(void **state) {
    (void)state;
    sr_pipeline *p;
    int descriptors = count_entries("/proc/self/fd");
    sr_pipeline_options o = usual();
    o.batch = 25;
    assert_status(SR_E_USAGE, sr_pipeline_open(&o, &p));
    o = usual();
    o.transforms = &(sr_transform_spec){.name = "flipp"};
    o.transform_count = 1;
    assert_status(SR_E_USAGE, sr_pipeline_open(&o, &p));
    assert_message("did you mean 'flip'");
    o = usual();
    o.memory = 1000;
    assert_status(SR_E_USAGE, sr_pipeline_open(&o, &p));
    assert_message("data.memory");
    o = usual();
    o.batch = INT64_MAX / LANES * LANES;
    o.image_height = o.image_width = 1 << 16;
    assert_status(SR_E_USAGE, sr_pipeline_open(&o, &p));
    assert_message("at most 16777216 samples");
    // A program that runs itself again as a data process, and ignores that it is one.
    o = usual();
    o.threads = false;
    assert_int_equal(0, setenv("SERRIED_DATA_PROCESS", "1", 1));
    assert_status(SR_E_USAGE, sr_pipeline_open(&o, &p));
    assert_message("sr_data_process_main");
    assert_int_equal(0, unsetenv("SERRIED_DATA_PROCESS"));
    o = usual();
    o.transformer = "detct";
    assert_status(SR_E_USAGE, sr_pipeline_open(&o, &p));
    o = usual();
    o.dataset = "/nonexistent";
    assert_status(SR_E_NOT_FOUND, sr_pipeline_open(&o, &p));
    o = usual();
    o.order = SR_ORDER_CHUNKS;
    o.position = 5;
    assert_status(SR_E_ARGUMENT, sr_pipeline_open(&o, &p));
    // Transforms that give another size are an error of the recipe.
    o = usual();
    o.transforms = &(sr_transform_spec){.name = "resize", .arguments = "size=20"};
    o.transform_count = 1;
    run_damaged(&o, SR_E_SHAPE, 0);
    assert_message("end with a crop");
    assert_message(".kpl record"); // names the picture
    assert_int_equal(descriptors, count_entries("/proc/self/fd"));
}

// The caller holds all slots: that is an error at once, and not the end of the data.
static void test_held_slots(void **state) {
    (void)state;
    sr_pipeline_options o = usual();
    o.prefetch = 3;
    sr_pipeline *p;
    sr_slot slot[4];
    bool end;
    assert_ok(sr_pipeline_open(&o, &p));
    for (int i = 0; i < 3; i++)
        assert_ok(sr_pipeline_next(p, &slot[i], &end));
    assert_status(SR_E_ARGUMENT, sr_pipeline_next(p, &slot[3], &end));
    assert_message("release");
    uint64_t second = hash_slot(&slot[1]);
    sr_pipeline_release(p, &slot[0]);
    assert_ok(sr_pipeline_next(p, &slot[3], &end));
    assert_int_equal(second, hash_slot(&slot[1])); // untouched while held
    for (int i = 1; i < 4; i++)
        sr_pipeline_release(p, &slot[i]);
    sr_pipeline_close(p);
}

// A stopped process is reported by name, and the wait ends at its deadline.
static void test_deadline(void **state) {
    (void)state;
    sr_pipeline_options o = usual();
    o.threads = false;
    o.steps = 0;
    o.prefetch = 2;
    o.act_seconds = 4; // long enough for every stage to start, also under sanitizers
    sr_pipeline *p;
    assert_ok(sr_pipeline_open(&o, &p));
    assert_int_equal(0, kill(sr_pipeline_stage_pid(p, SR_STAGE_ITERATOR), SIGSTOP));
    sr_status status = SR_OK;
    for (int i = 0; i < 100 && status == SR_OK; i++) {
        sr_slot slot;
        bool end;
        status = sr_pipeline_next(p, &slot, &end);
        if (status == SR_OK)
            sr_pipeline_release(p, &slot);
    }
    assert_int_equal(SR_E_TIMEOUT, status);
    assert_message("step");
    assert_message("transformer 1 is waiting for a free slot");
    sr_pipeline_close(p);
}

// A process takes this host's turn to read and never gives it back: the readers wait for it only
// once.
static void test_no_turn(void **state) {
    (void)state;
    hashes got = {{0}};
    sr_pipeline_options o = usual();
    o.order = SR_ORDER_CHUNKS;
    const hashes *want = expect(SR_ORDER_CHUNKS);
    int fd = open(pictures, O_RDONLY | O_CLOEXEC);
    assert_int_equal(0, flock(fd, LOCK_EX | LOCK_NB));
    const int64_t begin = sr_clock_ns();
    run(&o, got, 0, NULL);
    assert_true(sr_clock_ns() - begin <
                3 * SR_NS_PER_S); // waiting once for each read would take longer
    check_same(want, got, 0, STEPS);
    (void)close(fd);
}

// -- clean-up ----------------------------------------------------------------------------------

static void test_no_leaks(void **state) {
    (void)state;
    int before = count_entries("/proc/self/fd");
    uint64_t live = sr_memory_get_stats().live_blocks;
    for (int threads = 0; threads <= 1; threads++) {
        sr_pipeline_options o = usual();
        o.threads = threads != 0;
        o.steps = 0; // endless: closed in the middle
        sr_pipeline *p;
        sr_slot slot;
        bool end;
        assert_ok(sr_pipeline_open(&o, &p));
        assert_ok(sr_pipeline_next(p, &slot, &end));
        sr_pipeline_close(p);
    }
    assert_int_equal(before, count_entries("/proc/self/fd"));
    assert_int_equal(live, sr_memory_get_stats().live_blocks);
    assert_int_equal(-1, waitpid(-1, NULL, WNOHANG)); // no child
}

// True for a process that has ended, or a zombie that was not yet waited for.
static bool is_gone(pid_t pid) {
    char path[64], line[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return true;
    bool read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    return !read || strstr(line, ") Z") != NULL;
}

static void check_orphans(const pid_t *pids, int n) {
    int64_t deadline = sr_clock_ns() + 10 * SR_NS_PER_S;
    for (int i = 0; i < n; i++) {
        while (!is_gone(pids[i])) {
            assert_true(sr_clock_ns() < deadline);
            sr_clock_sleep_ns(SR_NS_PER_MS);
        }
    }
}

// Children hold only the pipeline's memory and the standard descriptors open, and end with their
// rank.
static void test_orphans(void **state) {
    (void)state;
    int channel[2];
    pid_t pids[4];
    assert_int_equal(0, pipe(channel));
    pid_t rank = fork();
    if (rank == 0) {
        sr_pipeline_options o = usual();
        o.threads = false;
        o.steps = 0;
        sr_pipeline *p;
        sr_slot slot;
        bool end;
        if (sr_pipeline_open(&o, &p) != SR_OK || sr_pipeline_next(p, &slot, &end) != SR_OK)
            _exit(1);
        for (int i = 0; i < 4; i++)
            pids[i] = sr_pipeline_stage_pid(p, i);
        if (write(channel[1], pids, sizeof pids) != sizeof pids)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(sizeof pids, read(channel[0], pids, sizeof pids));
    for (int i = 0; i < 4; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pids[i]);
        // . and .., 0 to 4, the parent's pidfd, and at most two files of the data set.
        assert_in_range(count_entries(path), 7, 12);
        assert_int_equal(0, kill(pids[i], SIGTERM)); // ignored
        assert_int_equal(0, kill(pids[i], SIGINT));
    }
    assert_int_equal(0, kill(rank, SIGKILL));
    assert_int_equal(rank, waitpid(rank, NULL, 0));
    check_orphans(pids, 4);
    close(channel[0]);
    close(channel[1]);
}

static const pictures_set sets[] = {{pictures, PICTURES_CLASSES, COUNT, 40, 32},
                                    {boxes, PICTURES_BOXES, COUNT, SIDE, SIDE}};

static int make_data(void **state) {
    (void)state;
    return pictures_make_sets(sets, sizeof sets / sizeof sets[0]);
}

static int remove_data(void **state) {
    (void)state;
    return pictures_remove_sets(sets, sizeof sets / sizeof sets[0]);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--data-process") == 0)
        return sr_data_process_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers),     cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_resume),      cmocka_unit_test(test_kills),
        cmocka_unit_test(test_deaths),      cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_boxes),       cmocka_unit_test(test_damage),
        cmocka_unit_test(test_bad_picture), cmocka_unit_test(test_too_many_boxes),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_held_slots),
        cmocka_unit_test(test_deadline),    cmocka_unit_test(test_no_leaks),
        cmocka_unit_test(test_orphans),     cmocka_unit_test(test_no_turn),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
