// SPDX-License-Identifier: Apache-2.0
// What a decoder that an attacker has taken over cannot do to the rank and to its replacement: it
// can write all of the shared memory, which the tests do in its place.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/pipeline/stage_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { COUNT = 60, BATCH = 8, LANES = 2, SIDE = 24, WORKERS = 2 };

static char pictures[256], boxes[256];

static sr_pipeline_options usual(void) {
    static const sr_transform_spec list[] = {{.name = "resize", .arguments = "stretch=true"},
                                             {.name = "flip", .arguments = "probability=0.25"}};
    return (sr_pipeline_options){.dataset = pictures,
                                 .split = "train",
                                 .transforms = list,
                                 .transform_count = 2,
                                 .image_height = SIDE,
                                 .image_width = SIDE,
                                 .order = SR_ORDER_EXAMPLES,
                                 .batch = BATCH,
                                 .lanes = LANES,
                                 .lane_end = LANES,
                                 .workers = WORKERS,
                                 .act_seconds = 30};
}

static sr_pipeline *open_pipeline(const sr_pipeline_options *o) {
    sr_pipeline *p;
    bool end;
    sr_slot slot;
    assert_ok(sr_pipeline_open(o, &p));
    assert_ok(sr_pipeline_next(p, &slot, &end)); // every process is in its sandbox
    sr_pipeline_release(p, &slot);
    return p;
}

// -- what decides rights -----------------------------------------------------------------------

typedef struct writable {
    uint8_t *memory; // NULL: it cannot be mapped to write
    size_t bytes;
} writable;

// Descriptor 'fd' of a process, mapped as a process with all its rights could.
static writable map_of(pid_t pid, int fd) {
    char path[64];
    struct stat info;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    const int opened = open(path, O_RDWR | O_CLOEXEC);
    writable w = {0};
    if (opened < 0)
        return w;
    assert_int_equal(0, fstat(opened, &info));
    w.bytes = (size_t)info.st_size;
    void *memory = mmap(NULL, w.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    if (memory != MAP_FAILED)
        w.memory = memory;
    else
        assert_true(pwrite(opened, "x", 1, 0) < 0);
    (void)close(opened);
    return w;
}

static bool contains(const writable *w, const char *text) {
    return memmem(w->memory, w->bytes, text, strlen(text)) != NULL;
}

// Neither the path that decides what may be read nor the other options are in memory that a data
// process can write.
static void test_policy(void **state) {
    (void)state;
    sr_pipeline_options o = usual();
    int mapped = 0;
    sr_pipeline *p = open_pipeline(&o);
    for (int i = 0; i < SR_STAGE_TRANSFORMER + WORKERS; i++) {
        for (int fd = SR_STAGE_PLAN_FD; fd <= SR_STAGE_WORK_FD; fd++) {
            const writable w = map_of(sr_pipeline_stage_pid(p, i), fd);
            if (w.memory == NULL)
                continue;
            const uint64_t magic = SR_STAGE_MAGIC;
            mapped++;
            assert_false(contains(&w, pictures));
            assert_false(contains(&w, "probability=0.25"));
            assert_null(memmem(w.memory, w.bytes, &magic, sizeof magic));
            (void)munmap(w.memory, w.bytes);
        }
    }
    assert_int_equal(SR_STAGE_TRANSFORMER + WORKERS, mapped); // rings and slots
    sr_pipeline_close(p);
}

// -- what the rank reads -----------------------------------------------------------------------

static void overwrite(const sr_pipeline *p, int value) {
    void *memory;
    const size_t bytes = sr_pipeline_get_memory(p, 0, &memory);
    memset(memory, value, bytes);
}

// Of boxes or of classes.
static sr_pipeline_options usual_of(bool detect) {
    sr_pipeline_options o = usual();
    o.dataset = detect ? boxes : pictures;
    o.transformer = detect ? "detect" : "classify";
    return o;
}

static uint64_t hash_of(const sr_array *a) {
    size_t bytes = sr_dtype_size(a->dtype);
    for (int d = 0; d < a->rank; d++)
        bytes *= (size_t)a->shape[d];
    return sr_hash64(a->data, bytes);
}

// Labels, boxes and counts that were delivered stay as they are; only pixels may change.
static void test_delivered(void **state) {
    (void)state;
    static const char *const names[] = {"label", "boxes", "boxes.count"};
    for (int detect = 0; detect <= 1; detect++) {
        sr_pipeline_options o = usual_of(detect);
        sr_pipeline *p = open_pipeline(&o);
        sr_slot slot;
        bool end;
        int kept = 0;
        uint64_t before[3] = {0};
        assert_ok(sr_pipeline_next(p, &slot, &end));
        for (int i = 0; i < 3; i++)
            if (sr_slot_find(&slot, names[i]))
                before[i] = hash_of(sr_slot_find(&slot, names[i]));
        overwrite(p, 0x7f);
        for (int i = 0; i < 3; i++) {
            if (!sr_slot_find(&slot, names[i]))
                continue;
            assert_true(before[i] == hash_of(sr_slot_find(&slot, names[i])));
            kept++;
        }
        assert_int_equal(detect ? 2 : 1, kept);
        sr_pipeline_close(p);
    }
}

// A slot that was overwritten before it is taken is an error of a peer, whatever is in it.
static void test_undelivered(void **state) {
    (void)state;
    static const int values[] = {0xff, 0x7f, 0x01, 0x80};
    for (int detect = 0; detect <= 1; detect++) {
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            sr_pipeline_options o = usual_of(detect);
            sr_pipeline *p = open_pipeline(&o);
            sr_slot slot;
            bool end;
            while (!sr_pipeline_is_ready(p))
                sr_clock_sleep_ns(SR_NS_PER_MS);
            overwrite(p, values[i]);
            assert_status(SR_E_PEER, sr_pipeline_next(p, &slot, &end));
            assert_true(sr_error_message()[0] != '\0');
            for (const char *c = sr_error_message(); *c != '\0'; c++)
                assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
            sr_pipeline_close(p);
        }
    }
}

static sr_stage_plan plan_of(const sr_pipeline *p) {
    sr_stage_plan plan;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)sr_pipeline_stage_pid(p, 0),
                   SR_STAGE_PLAN_FD);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(sizeof plan, pread(fd, &plan, sizeof plan, 0));
    (void)close(fd);
    return plan;
}

// An error without a message, or with a status that no version has.
static void test_errors(void **state) {
    (void)state;
    static const int32_t statuses[] = {SR_E_DATA, SR_E_PEER, 12345, INT32_MIN};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        sr_stage_error shared = {.status = statuses[i], .sample = INT64_MAX}, copy;
        sr_stage_error_read(&shared, &copy);
        assert_int_equal(i == 0 ? SR_E_DATA : SR_E_PEER, atomic_load(&copy.status));
        assert_string_equal("a data process failed, and its message was overwritten", copy.message);
    }
    sr_stage_error shared = {.status = SR_E_DATA, .message = "a\x1b[0m"}, copy;
    sr_stage_error_read(&shared, &copy);
    assert_string_equal("a?[0m", copy.message);
}

// Numbers of a sample that the rank uses to find something are checked one by one.
static void test_numbers(void **state) {
    (void)state;
    static const size_t fields[] = {offsetof(sr_row_state, replaced),
                                    offsetof(sr_row_state, epoch)};
    static const int64_t values[] = {INT64_MAX, INT64_MIN, -1, 1 << 20};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            const sr_pipeline_options o = usual();
            sr_pipeline *p = open_pipeline(&o);
            const sr_stage_plan plan = plan_of(p);
            sr_slot slot;
            bool end;
            void *memory;
            while (!sr_pipeline_is_ready(p))
                sr_clock_sleep_ns(SR_NS_PER_MS);
            (void)sr_pipeline_get_memory(p, 0, &memory);
            uint8_t *second = (uint8_t *)memory + plan.layout.bytes; // the slot that is next
            memcpy(second + plan.layout.states + fields[i], &values[k], sizeof values[k]);
            assert_status(SR_E_PEER, sr_pipeline_next(p, &slot, &end));
            assert_message("was overwritten");
            sr_pipeline_close(p);
        }
    }
}

static const pictures_set sets[] = {{pictures, PICTURES_CLASSES, COUNT, SIDE, SIDE},
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
        cmocka_unit_test(test_policy),      cmocka_unit_test(test_delivered),
        cmocka_unit_test(test_undelivered), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
