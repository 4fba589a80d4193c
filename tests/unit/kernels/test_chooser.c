// SPDX-License-Identifier: Apache-2.0
// The chooser: races of deliberately slow kernels, memory limits, the cache on disk in every state
// that it may have, and a process that uses what another one measured.
#include "tests/unit/support/test_support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/chooser_internal.h"
#include "kernels/kernel_params.h"

// ---- kernels of known duration ----

enum { BLOCKS = 40, SLOW_US = 60, MUCH = 1 << 20 };
enum { RETRIES = 5 };   // in case the processor is slower for a while
static int pause_us[3]; // of each block, by variant
static size_t needs[3]; // workspace by variant
static bool fails[3];
static int64_t runs[3];

static sr_status wait_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const int variant = *(const int *)args->state;
    const float *x = args->p[0];
    (void)worker;
    assert_true(block >= 0 && block < BLOCKS);
    assert_true(x[0] != 0 && x[1] != x[0] && x[0] >= -1 && x[0] <= 1); // never zeros
    runs[variant]++;
    const int64_t end = sr_clock_thread_ns() + pause_us[variant] * INT64_C(1000);
    while (sr_clock_thread_ns() < end) {
    }
    return SR_OK;
}

static bool always(const sr_kernel_request *request) {
    (void)request;
    return true;
}

static sr_status prepare_slow(const sr_kernel_request *request, sr_prepared *out) {
    static int number[] = {0, 1, 2};
    (void)request;
    if (fails[out->variant])
        return SR_FAIL(SR_E_UNSUPPORTED, "not this one");
    out->stages = 1;
    out->stage[0] = (sr_kernel_stage){.run = wait_block, .blocks = BLOCKS};
    out->workspace = needs[out->variant];
    out->state = &number[out->variant];
    return SR_OK;
}

static const char *const ways[] = {"one", "two", NULL};
static const sr_kernel_entry slow = {.struct_size = sizeof slow,
                                     .abi = SR_KERNEL_ABI,
                                     .kernel = SR_KERNEL_linear_dw,
                                     .name = "linear_dw/slow",
                                     .provider = "test",
                                     .numerics_class = "test",
                                     .supports = always,
                                     .prepare = prepare_slow,
                                     .variants = ways};

static sr_kernel_request linear_request(void) {
    const sr_linear_params p = {.n = 8, .c = 16, .k = 4};
    sr_kernel_request r = {.kernel = SR_KERNEL_linear_dw, .args = 3};
    r.dtype[0] = r.dtype[1] = r.dtype[2] = SR_F32;
    memcpy(r.params, &p, sizeof p);
    return r;
}

static sr_chooser_result race(size_t limit) {
    const sr_kernel_request request = linear_request();
    const sr_chooser_candidate candidates[] = {{&slow, 0}, {&slow, 1}, {&slow, 2}};
    sr_chooser_result result = {-1, 0, 0};
    memset(runs, 0, sizeof runs);
    assert_ok(sr_chooser_race("cpu", &request, candidates, 3, limit, &result));
    sr_chooser_race_release();
    return result;
}

static int reset(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        pause_us[i] = SLOW_US;
        needs[i] = 0;
        fails[i] = false;
    }
    return 0;
}

static void test_the_fastest_wins(void **state) {
    (void)state;
    pause_us[2] = SLOW_US / 3;
    const sr_chooser_result r = race(MUCH);
    assert_int_equal(2, r.winner);
    assert_true(r.ns >= BLOCKS * (SLOW_US / 3) * INT64_C(1000)); // of the whole run
    assert_true(r.default_ns >= BLOCKS * SLOW_US * INT64_C(1000) && r.ns < r.default_ns);
}

static void test_the_default_stays_unless_beaten(void **state) {
    (void)state;
    pause_us[1] = SLOW_US * 99 / 100; // faster, but not clearly
    pause_us[2] = 4 * SLOW_US;
    int winner = 1;
    for (int i = 0; i < RETRIES && winner != 0; i++)
        winner = race(MUCH).winner;
    assert_int_equal(0, winner);
    assert_true(runs[2] > 0 && runs[2] < runs[0]); // lost, and was not measured further
}

static void test_memory_has_a_limit(void **state) {
    (void)state;
    pause_us[1] = pause_us[2] = SLOW_US / 3;
    needs[2] = 1000;
    needs[1] = MUCH + 1;
    assert_int_equal(2, race(MUCH).winner);
    assert_int_equal(0, runs[1]);
    pause_us[2] = 2 * SLOW_US;
    assert_int_equal(0, race(MUCH).winner);
    // A default over the limit is replaced by a variant within it, but is kept if there is none.
    needs[0] = MUCH + 1;
    assert_int_equal(2, race(MUCH).winner);
    needs[2] = MUCH + 1;
    assert_int_equal(0, race(MUCH).winner);
}

static void test_what_cannot_be_prepared_is_left_out(void **state) {
    (void)state;
    fails[1] = true;
    pause_us[1] = 0;
    assert_int_equal(0, race(MUCH).winner);
    fails[0] = true;
    const sr_kernel_request request = linear_request();
    const sr_chooser_candidate candidates[] = {{&slow, 0}, {&slow, 1}};
    sr_chooser_result result;
    assert_status(SR_E_UNSUPPORTED, sr_chooser_race("cpu", &request, candidates, 2, MUCH, &result));
}

// ---- the cache ----

static char folder[256], home[300];

static int make_folder(void **state) {
    (void)state;
    test_folder_make(folder);
    (void)snprintf(home, sizeof home, "%s/cache", folder);
    assert_int_equal(0, setenv("SERRIED_CACHE", home, 1));
    sr_log_set_level(SR_LOG_ERROR);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static sr_chooser_entry entry_of(int number) {
    sr_kernel_request request = linear_request();
    sr_chooser_entry item;
    request.params[0] = (uint64_t)number;
    sr_chooser_question(&request, MUCH, &item);
    (void)snprintf(item.chosen, sizeof item.chosen, "linear_dw/slow");
    item.ns = 1000 + (uint64_t)number;
    return item;
}

static sr_chooser_cache open_cache_of(const char *numerics) {
    sr_device_properties device;
    sr_chooser_cache cache;
    assert_ok(sr_device_describe("cpu", &device));
    assert_ok(sr_chooser_cache_init(&cache, &device, numerics));
    return cache;
}

static sr_chooser_cache open_cache(void) {
    return open_cache_of("numerics 1");
}

// Adds entries first .. first + count - 1 and saves.
static void write_entries(int first, int count) {
    sr_chooser_cache cache = open_cache();
    for (int i = first; i < first + count; i++) {
        const sr_chooser_entry item = entry_of(i);
        sr_chooser_cache_add(&cache, &item);
    }
    assert_true(cache.changed);
    sr_chooser_cache_save(&cache);
    sr_chooser_cache_release(&cache);
}

// The number of those records that are found.
static int found(int first, int count) {
    sr_chooser_cache cache = open_cache();
    int all = 0;
    for (int i = first; i < first + count; i++) {
        const sr_chooser_entry question = entry_of(i);
        const sr_chooser_entry *item = sr_chooser_cache_find(&cache, &question);
        all += item != NULL;
        if (item != NULL)
            assert_memory_equal(item, &question, sizeof question);
    }
    sr_chooser_cache_release(&cache);
    return all;
}

static char *path_of_file(void) {
    sr_chooser_cache cache = open_cache();
    char *path = sr_strdup(cache.path);
    sr_chooser_cache_release(&cache);
    return path;
}

static void test_what_was_written_is_found(void **state) {
    (void)state;
    struct stat s;
    char *path = path_of_file();
    assert_int_equal(0, found(0, 4));
    write_entries(0, 4);
    assert_int_equal(4, found(0, 5));
    assert_int_equal(0, stat(home, &s));
    assert_int_equal(0700, s.st_mode & 0777);
    assert_int_equal(0, stat(path, &s));
    assert_int_equal(0600, s.st_mode & 0777);
    // Other numerics, processors or builds have their own file.
    sr_chooser_cache other = open_cache_of("numerics 2");
    assert_string_not_equal(path, other.path);
    sr_chooser_cache_release(&other);
    sr_free(path);
}

static void test_writers_are_merged(void **state) {
    (void)state;
    enum { WRITERS = 6, EACH = 20 };
    for (int i = 0; i < WRITERS; i++) {
        const pid_t child = fork();
        if (child == 0) {
            write_entries(i * EACH, EACH);
            _exit(0);
        }
        assert_true(child > 0);
    }
    int status;
    while (wait(&status) > 0)
        assert_int_equal(0, status);
    assert_int_equal(WRITERS * EACH, found(0, WRITERS * EACH));
}

static void *read_whole(const char *path, size_t *bytes) {
    void *data;
    assert_ok(sr_file_read(path, 1 << 20, &data, bytes));
    return data;
}

static void test_damage_is_measured_again(void **state) {
    (void)state;
    size_t bytes;
    char *path = path_of_file();
    write_entries(0, 3);
    char *good = read_whole(path, &bytes);
    for (size_t i = 0; i < bytes; i += 7) {
        good[i] = (char)(good[i] ^ 4);
        assert_ok(sr_file_write_atomic(path, good, bytes));
        assert_int_equal(0, found(0, 3));
        good[i] = (char)(good[i] ^ 4);
    }
    for (size_t cut = 0; cut < bytes; cut += 101) {
        assert_ok(sr_file_write_atomic(path, good, cut));
        assert_int_equal(0, found(0, 3));
    }
    write_entries(1, 1); // replaces it
    assert_int_equal(1, found(0, 3));
    sr_free(good);
    sr_free(path);
}

static void test_only_own_files_are_trusted(void **state) {
    (void)state;
    char *path = path_of_file(), other[300];
    write_entries(0, 3);
    assert_int_equal(0, chmod(path, 0620));
    assert_int_equal(0, found(0, 3));
    assert_int_equal(0, chmod(path, 0600));
    assert_int_equal(0, chmod(home, 0770));
    assert_int_equal(0, found(0, 3));
    assert_int_equal(0, chmod(home, 0700));
    assert_int_equal(3, found(0, 3));
    (void)snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(0, rename(path, other));
    assert_int_equal(0, symlink(other, path)); // in a folder that only the user may write
    assert_int_equal(3, found(0, 3));
    write_entries(3, 1);
    assert_int_equal(4, found(0, 4));
    assert_int_equal(0, chmod(other, 0620)); // the target's mode decides
    assert_int_equal(0, found(0, 3));
    assert_int_equal(0, chmod(other, 0600));
    assert_int_equal(0, unlink(path));
    assert_int_equal(0, mkfifo(path, 0600)); // opening it would block until there is a writer
    assert_int_equal(0, found(0, 3));
    if (geteuid() != 0) {
        print_message("NOT RUN: a cache of another user (only root can make one)\n");
    } else {
        assert_int_equal(0, unlink(path));
        assert_int_equal(0, rename(other, path));
        assert_int_equal(0, chown(path, 12345, 12345));
        assert_int_equal(0, found(0, 3));
    }
    sr_free(path);
}

static void test_no_writable_folder_is_no_error(void **state) {
    (void)state;
    const int fd =
        open(home, O_CREAT | O_WRONLY | O_CLOEXEC, 0600); // a file instead of the cache's folder
    assert_true(fd >= 0);
    (void)close(fd);
    write_entries(0, 3);
    assert_int_equal(0, found(0, 3));
    assert_int_equal(0, unsetenv("SERRIED_CACHE"));
    assert_int_equal(0, setenv("XDG_CACHE_HOME", "relative", 1));
    char *old = getenv("HOME");
    char *kept = old ? sr_strdup(old) : NULL;
    assert_int_equal(0, unsetenv("HOME"));
    write_entries(0, 3);
    assert_int_equal(0, setenv("XDG_CACHE_HOME", folder, 1));
    sr_chooser_cache cache = open_cache();
    assert_non_null(strstr(cache.folder, "/serried"));
    sr_chooser_cache_release(&cache);
    assert_int_equal(0, unsetenv("XDG_CACHE_HOME"));
    if (kept)
        assert_int_equal(0, setenv("HOME", kept, 1));
    sr_free(kept);
}

// ---- all of it ----

static sr_kernel_request conv_request(void) {
    const sr_conv_params p = {.n = 4,
                              .h = 16,
                              .w = 16,
                              .c = 64,
                              .k = 64,
                              .r = 3,
                              .s = 3,
                              .p = 16,
                              .q = 16,
                              .stride_h = 1,
                              .stride_w = 1,
                              .pad_top = 1,
                              .pad_left = 1,
                              .pad_bottom = 1,
                              .pad_right = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .groups = 1};
    sr_kernel_request r = {.kernel = SR_KERNEL_conv2d, .args = 4};
    r.dtype[0] = r.dtype[1] = r.dtype[3] = SR_F32;
    r.dtype[2] = SR_DTYPE_COUNT;
    memcpy(r.params, &p, sizeof p);
    return r;
}

static void prepare_once(void) {
    const sr_kernel_request request = conv_request();
    sr_prepared prepared;
    assert_ok(sr_kernel_prepare(&request, &prepared));
    sr_prepared_release(&prepared);
    sr_chooser_save();
}

static void use(bool on, const char *numerics) {
    const sr_chooser_options options = {.on = on, .numerics = numerics, .device = "cpu"};
    sr_chooser_use(&options);
}

static void count_choice(void *user, const sr_chooser_choice *choice) {
    assert_string_equal("conv2d", choice->kernel);
    assert_true(choice->seconds > 0 && choice->default_seconds >= choice->seconds);
    ++*(int *)user;
}

static void test_a_second_run_times_nothing(void **state) {
    (void)state;
    const sr_kernel_request request = conv_request();
    sr_chooser_candidate candidates[SR_CHOOSER_MAX_CANDIDATES];
    if (sr_chooser_candidates(&request, sr_kernel_find(&request), candidates) < 2)
        test_skip("this build or processor has one kernel for each request");
    use(false, NULL);
    const sr_chooser_stats before = sr_chooser_get_stats();
    prepare_once();
    assert_int_equal(before.timed, sr_chooser_get_stats().timed);
    use(true, NULL);
    prepare_once();
    prepare_once();
    assert_int_equal(before.timed + 1, sr_chooser_get_stats().timed);
    assert_int_equal(before.found + 1, sr_chooser_get_stats().found);
    assert_true(sr_chooser_get_stats().ns > before.ns);
    use(true, "another file");
    use(true, NULL); // like a process that starts
    prepare_once();
    assert_int_equal(before.timed + 1, sr_chooser_get_stats().timed);
    assert_int_equal(before.found + 2, sr_chooser_get_stats().found);
    int count = 0;
    sr_chooser_visit(count_choice, &count);
    assert_int_equal(1, count);
    // Another limit is another request.
    const sr_chooser_options less = {.on = true, .workspace = 1, .device = "cpu"};
    sr_chooser_use(&less);
    prepare_once();
    assert_int_equal(before.timed + 2, sr_chooser_get_stats().timed);
    use(false, NULL);
}

// When memory runs out, the default is used, or the preparation of the kernel itself fails.
static void test_failed_allocations_are_no_errors(void **state) {
    (void)state;
    enum { ALLOCATIONS = 40 };
    const sr_kernel_request request = conv_request();
    for (uint64_t n = 1; n <= ALLOCATIONS; n++) {
        char numerics[32];
        sr_prepared prepared;
        (void)snprintf(numerics, sizeof numerics, "failure %d", (int)n);
        sr_memory_fail_nth(n);
        use(true, numerics); // an empty cache
        const sr_status status = sr_kernel_prepare(&request, &prepared);
        sr_chooser_save();
        sr_memory_fail_nth(0);
        assert_true(status == SR_OK || status == SR_E_MEMORY);
        if (status == SR_OK)
            sr_prepared_release(&prepared);
    }
    use(false, NULL);
}

#define RACE(test) cmocka_unit_test_setup(test, reset)
#define CACHE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        RACE(test_the_fastest_wins),
        RACE(test_the_default_stays_unless_beaten),
        RACE(test_memory_has_a_limit),
        RACE(test_what_cannot_be_prepared_is_left_out),
        CACHE(test_what_was_written_is_found),
        CACHE(test_writers_are_merged),
        CACHE(test_damage_is_measured_again),
        CACHE(test_only_own_files_are_trusted),
        CACHE(test_no_writable_folder_is_no_error),
        CACHE(test_a_second_run_times_nothing),
        CACHE(test_failed_allocations_are_no_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
