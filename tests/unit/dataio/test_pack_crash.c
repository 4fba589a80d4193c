// SPDX-License-Identifier: Apache-2.0
// Packing and power loss: after a crash at any call that changes a file, with any unsynced data
// lost, packing again gives the same bytes and leaves no other files; a pack that returned is
// complete.
#include "tests/unit/support/test_support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "dataio/pack/pack.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/crash_image.h"
#include "tests/unit/support/pictures.h"

static uint64_t shard_bytes; // 0: the default
static char top[256], source[300], place[300], image[300], want[300];
static const char *format; // of the packed data set

static void make_source(void) {
    for (unsigned i = 0; i < 5; i++) {
        char path[400];
        size_t bytes;
        const picture_jpeg kind = {.quality = 50};
        uint8_t *picture = picture_encode(24, 16, i, &kind, &bytes);
        (void)snprintf(path, sizeof path, "%s/%s", source, i % 2 ? "cats" : "dogs");
        assert_ok(sr_make_folders(path));
        (void)snprintf(path, sizeof path, "%s/%s/%u.jpg", source, i % 2 ? "cats" : "dogs", i);
        assert_ok(sr_file_write_atomic(path, picture, i == 4 ? bytes / 2 : bytes)); // damaged
        sr_free(picture);
    }
}

static sr_status pack(const char *parent, int64_t max_side) {
    char folder[400];
    sr_pack_report report;
    const sr_pack_options options = {.source = source,
                                     .destination = folder,
                                     .val_fraction = 0.5,
                                     .max_side = max_side,
                                     .allow_refused = 1,
                                     .workers = 1,
                                     .shard_bytes = shard_bytes,
                                     .format = format,
                                     .quiet = true};
    (void)snprintf(folder, sizeof folder, "%s/data", parent);
    return sr_pack(&options, &report);
}

static int set_up(void **state) {
    crash_reset();
    (void)snprintf(top, sizeof top, "%s/serried-test-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(top));
    (void)snprintf(source, sizeof source, "%s/source", top);
    (void)snprintf(place, sizeof place, "%s/place", top);
    (void)snprintf(image, sizeof image, "%s/image", top);
    (void)snprintf(want, sizeof want, "%s/want", top);
    make_source();
    shard_bytes = *state ? *(const uint64_t *)*state : 0;
    assert_int_equal(0, mkdir(want, 0700));
    assert_ok(pack(want, 0));
    return mkdir(place, 0700);
}

static int set_up_kpl(void **state) {
    format = "kpl-dir";
    return set_up(state);
}

static int tear_down(void **state) {
    (void)state;
    crash_reset();
    crash_image_forget();
    test_folder_remove(top);
    format = NULL;
    return 0;
}

static void lose_power(void) {
    crash_image_begin(place, image);
    assert_ok(pack(place, 0));
    int calls = crash_image_end();
    assert_true(calls > 30);
    for (int end = 0; end <= calls; end++) {
        for (unsigned policy = CRASH_KEEP_ALL; policy < CRASH_POLICIES; policy++) {
            crash_image_make(end, policy);
            if (end == calls && !crash_same_folders(image, want))
                fail_msg("the pack had returned, but is incomplete (policy %u)", policy);
            assert_ok(pack(image, 0));
            if (!crash_same_folders(image, want))
                fail_msg("power lost after call %d (policy %u): different bytes", end, policy);
        }
    }
}

static void into_a_new_folder(void **state) {
    (void)state;
    lose_power();
}

// One shard for each record, so that there are many shards to reuse.
static void into_many_shards(void **state) {
    (void)state;
    lose_power();
}

// The destination has a killed pack with other options, whose shards must be removed first.
static void over_an_unfinished_pack(void **state) {
    (void)state;
    crash.root = place;
    crash.fail_at = 30;
    crash.fail_errno = 5; // EIO
    crash.fail_on = true; // prevents its clean-up
    assert_int_not_equal(SR_OK, pack(place, 8));
    crash_reset();
    lose_power();
}

static void other_options_change_nothing(void **state) {
    (void)state;
    assert_ok(pack(place, 0));
    crash_image_begin(place, image);
    assert_status(SR_E_EXISTS, pack(place, 8));
    assert_int_equal(0, crash_image_end() - 1); // fsync of the parent
    assert_true(crash_same_folders(place, want));
}

int main(void) {
    static uint64_t one_each = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(into_a_new_folder, set_up, tear_down),
        cmocka_unit_test_prestate_setup_teardown(into_many_shards, set_up, tear_down, &one_each),
        cmocka_unit_test_setup_teardown(over_an_unfinished_pack, set_up, tear_down),
        cmocka_unit_test_setup_teardown(into_a_new_folder, set_up_kpl, tear_down),
        cmocka_unit_test_setup_teardown(over_an_unfinished_pack, set_up_kpl, tear_down),
        cmocka_unit_test_setup_teardown(other_options_change_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
