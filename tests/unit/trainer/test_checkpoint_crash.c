// SPDX-License-Identifier: Apache-2.0
// A checkpoint is atomic: exit before every system call, power loss after every one, failure of
// every one. A reader always finds the new generation or the previous one, complete.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/crash_image.h"
#include "tests/unit/trainer/checkpoint_fixture.h"

static char base[64], run[96], image[96];

static int set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    crash_reset();
    snprintf(base, sizeof base, "%s/serried-crash-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(base) == NULL)
        return 1;
    snprintf(run, sizeof run, "%s/run", base);
    snprintf(image, sizeof image, "%s/image", base);
    return mkdir(run, 0700);
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    crash_reset();
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

// The generation that a reader of this run folder gets, checked to be complete; 0 for none.
static int64_t newest(const char *path) {
    sr_checkpoint *checkpoint;
    if (sr_checkpoint_open(path, NULL, &checkpoint) != SR_OK)
        return 0;
    int64_t generation = sr_checkpoint_manifest(checkpoint)->generation;
    if (!state_matches(checkpoint, generation))
        fail_msg("%s: generation %d is a mixture", path, (int)generation);
    sr_checkpoint_free(checkpoint);
    return generation;
}

static int64_t next_generation(void) {
    int64_t generation = 0;
    assert_int_equal(sr_checkpoint_next_generation(run, &generation), SR_OK);
    return generation;
}

static void expect_no_side_file(int64_t generation) {
    char path[192];
    snprintf(path, sizeof path, "%s/checkpoints/%08d/optimizer-00001-of-00002.safetensors.sums",
             run, (int)generation);
    assert_false(sr_path_exists(path));
}

static void killed_before_every_call(void **state) {
    (void)state;
    int killed = 0, survived = 0;
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    assert_int_equal(state_save(run, 2, 2, false), SR_OK);
    for (long k = 1; survived == 0; ++k) {
        int64_t before = newest(run), wanted = next_generation();
        pid_t child = fork();
        if (child == 0) {
            crash.root = run;
            crash.kill_at = k;
            _exit(state_save(run, wanted, 2, k % 2 == 0) == SR_OK ? 0 : 1);
        }
        int code;
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFEXITED(code));
        int64_t after = newest(run);
        expect_no_side_file(after);
        if (WEXITSTATUS(code) == CRASH_EXIT) {
            ++killed;
            if (after != before && after != wanted)
                fail_msg("killed at call %ld: generation %d after %d", k, (int)after, (int)before);
        } else {
            assert_int_equal(WEXITSTATUS(code), 0);
            assert_int_equal(after, wanted);
            ++survived;
        }
    }
    assert_true(killed > 50); // the calls are really intercepted
    // One successful checkpoint removes what the kills left behind.
    int64_t wanted = next_generation();
    assert_int_equal(state_save(run, wanted, 2, true), SR_OK);
    assert_int_equal(state_save(run, wanted + 1, 2, true), SR_OK);
    char command[160];
    snprintf(command, sizeof command, "test $(ls '%s/checkpoints' | wc -l) = 2", run);
    assert_int_equal(system(command), 0);
}

static void every_call_may_fail(void **state) {
    (void)state;
    static const int errors[] = {EIO, ENOSPC};
    int refused = 0;
    assert_int_equal(state_save(run, 1, 2, false), SR_OK);
    for (int e = 0; e < 2; ++e) {
        for (int always = 0; always < 2; ++always) {
            bool reached = true;
            for (long k = 1; reached; ++k) {
                int64_t before = newest(run), wanted = next_generation();
                crash.root = run;
                crash.calls = 0;
                crash.fail_at = k;
                crash.fail_on = always;
                crash.fail_errno = errors[e];
                sr_status status = state_save(run, wanted, 2, false);
                reached = crash.calls >= k;
                crash.root = NULL;
                int64_t after = newest(run);
                if (status == SR_OK) {
                    assert_int_equal(after, wanted);
                    continue;
                }
                ++refused;
                assert_true(after == before || (always && after == wanted));
                assert_int_equal(status, errors[e] == EIO ? SR_E_IO : SR_E_NO_SPACE);
                assert_non_null(strstr(sr_error_message(), run)); // names the path
            }
        }
    }
    assert_true(refused > 100);
}

static void disk_full_reports_how_much(void **state) {
    (void)state;
    assert_int_equal(state_save(run, 1, 1, false), SR_OK);
    crash.root = run;
    crash.no_space = true;
    sr_status status = state_save(run, 2, 1, false);
    crash.root = NULL;
    assert_int_equal(status, SR_E_NO_SPACE);
    assert_non_null(strstr(sr_error_message(), "optimizer-00000-of-00001.safetensors"));
    assert_non_null(strstr(sr_error_message(), "needs "));
    assert_int_equal(newest(run), 1);
}

static void short_writes_are_completed(void **state) {
    (void)state;
    crash.root = run;
    crash.short_writes = true;
    assert_int_equal(state_save(run, 1, 3, false), SR_OK);
    crash.root = NULL;
    assert_int_equal(newest(run), 1);
}

// -- power loss ------------------------------------------------------------------------------

// The links may be those of either generation; the next run repairs them.
static void check_links(const sr_checkpoint *checkpoint) {
    char path[128], target[64] = "", want[64];
    const sr_manifest *manifest = sr_checkpoint_manifest(checkpoint);
    assert_int_equal(sr_checkpoint_link(image, manifest), SR_OK);
    snprintf(want, sizeof want, "checkpoints/%08d", (int)manifest->generation);
    for (int i = 0; i < 2; ++i) {
        snprintf(path, sizeof path, "%s/%s", image, i == 0 ? "last" : "best");
        assert_true(readlink(path, target, sizeof target - 1) > 0);
        assert_string_equal(target, want); // either generation was the best when it was written
    }
}

static void lose_power(int ranks) {
    int old = 0, fresh = 0;
    assert_int_equal(state_save(run, 1, ranks, false), SR_OK);
    assert_int_equal(state_save(run, 2, ranks, true), SR_OK);
    crash_image_begin(run, image);
    assert_int_equal(state_save(run, 3, ranks, true), SR_OK); // removes generation 1
    int calls = crash_image_end();
    assert_true(calls > 30);
    for (int end = 0; end <= calls; ++end) {
        for (unsigned policy = CRASH_KEEP_ALL; policy < CRASH_POLICIES; ++policy) {
            sr_checkpoint *checkpoint;
            crash_image_make(end, policy);
            int64_t got = newest(image);
            if (got != 2 && got != 3)
                fail_msg("power lost after call %d (policy %u): generation %d", end, policy,
                         (int)got);
            old += got == 2;
            fresh += got == 3;
            if (end == calls)
                assert_int_equal(got, 3); // save had returned: it is durable
            assert_int_equal(sr_checkpoint_open(image, NULL, &checkpoint), SR_OK);
            check_links(checkpoint);
            sr_checkpoint_free(checkpoint);
        }
    }
    assert_true(old > 100 && fresh > 50);
    crash_image_forget();
}

static void power_lost_after_every_call(void **state) {
    (void)state;
    lose_power(2);
}

static void power_lost_with_one_rank(void **state) {
    (void)state;
    lose_power(1);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(killed_before_every_call),    CASE(every_call_may_fail),
        CASE(disk_full_reports_how_much),  CASE(short_writes_are_completed),
        CASE(power_lost_after_every_call), CASE(power_lost_with_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
