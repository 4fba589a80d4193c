// SPDX-License-Identifier: Apache-2.0
// Floating-point control: whatever the calling thread, a plug-in or a work item has changed in it,
// serried computes the same results, including subnormal numbers.
//
//   test_float_control PLUGIN   the plug-in is linked with -ffast-math (fast_math_plugin.c)
#include "tests/unit/support/test_support.h"

#include <dlfcn.h>
#include <fenv.h>

#include "kernels/base/file.h"
#include "kernels/base/float_control.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/thread.h"
#include "tests/unit/trainer/engine_fixture.h"
#include "trainer/engine/plugins.h"

enum { THREADS = 3 };

static const char *plugin;

// Known only at run time, so that the compiler cannot fold them.
extern float test_tiny, test_one;
float test_tiny = 0x1p-140f, test_one = 1;

// Bits of a product, a sum and a conversion that depend on rounding, FTZ and DAZ.
static uint64_t compute(void) {
    const float results[] = {test_tiny * 0.75f, test_tiny + 0x1p-149f, test_one + 0x1p-25f,
                             0x1p-100f * (0x1p-40f * test_one)};
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        uint32_t u;
        memcpy(&u, &results[i], sizeof u);
        bits = bits * 31 + u;
    }
    const long double wide = (long double)test_one + 0x1p-63L; // x87, if available
    return bits * 31 + (wide > 1);
}

// ---- disturbances of the calling thread ----

static void round_up(void) {
    assert_int_equal(0, fesetround(FE_UPWARD));
}

#if defined(__x86_64__)
static void flush(void) {
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
}
static void narrow_x87(void) {
    static const uint16_t single = 0x007f; // 24-bit significand
    __asm__ volatile("fldcw %0" : : "m"(single));
}
// Loads a copy under a new name with plain dlopen, so that nothing restores the control. The new
// name makes the constructor run again in builds with sanitizers, which never unload a library.
static void load_fast_math(void) {
    char folder[256], copy[300];
    void *bytes;
    size_t count;
    test_folder_make(folder);
    (void)snprintf(copy, sizeof copy, "%s/copy.so", folder);
    assert_ok(sr_file_read(plugin, 16u << 20, &bytes, &count));
    assert_ok(sr_file_write_quickly(copy, bytes, count));
    sr_free(bytes);
    void *handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    test_folder_remove(folder);
    assert_non_null(handle);
    assert_int_equal(0x8040, __builtin_ia32_stmxcsr() & 0x8040u);
    assert_int_equal(0, dlclose(handle));
}
#endif

static const struct disturbance {
    const char *name;
    void (*disturb)(void);
} disturbances[] = {
#if defined(__x86_64__)
    {"FTZ and DAZ", flush},
    {"a library linked with -ffast-math", load_fast_math},
    {"24 bits of x87", narrow_x87},
#endif
    {"rounding up", round_up},
};
enum { DISTURBANCES = sizeof disturbances / sizeof disturbances[0] };

static int reset(void **state) {
    (void)state;
    sr_float_control_set();
    return 0;
}

// ---- tests ----

static void setting_it_restores_all(void **state) {
    (void)state;
    const uint64_t right = compute();
    for (int i = 0; i < DISTURBANCES; i++) {
        disturbances[i].disturb();
        if (compute() == right)
            fail_msg("%s has no effect: the test proves nothing", disturbances[i].name);
        sr_float_control_set();
        if (compute() != right)
            fail_msg("%s is not undone", disturbances[i].name);
    }
}

static void *compute_on_thread(void *user) {
    *(uint64_t *)user = compute();
    return NULL;
}

static void threads_do_not_inherit_it(void **state) {
    (void)state;
    const uint64_t right = compute();
    for (int i = 0; i < DISTURBANCES; i++) {
        pthread_t thread;
        uint64_t got = 0;
        disturbances[i].disturb();
        assert_ok(sr_thread_start(&thread, "test", compute_on_thread, &got));
        assert_int_equal(0, pthread_join(thread, NULL));
        sr_float_control_set();
        if (got != right)
            fail_msg("a thread inherits %s", disturbances[i].name);
    }
}

typedef struct shares {
    uint64_t result[THREADS];
    void (*disturb)(void); // after it
} shares;

static void run_share(void *user, int64_t item, int worker) {
    shares *s = user;
    (void)worker;
    s->result[item] = compute();
    if (s->disturb)
        s->disturb();
}

// An item that changes the control does not affect later items (except x87, which no kernel uses).
static void items_do_not_affect_later_ones(void **state) {
    (void)state;
    const uint64_t right = compute();
    for (int threads = 1; threads <= THREADS; threads += THREADS - 1) {
        sr_pool *pool;
        assert_ok(sr_pool_create(threads, NULL, NULL, &pool));
        shares s = {.disturb = round_up};
        sr_pool_run(pool, THREADS, run_share, &s);
        s.disturb = NULL;
        sr_pool_run(pool, THREADS, run_share, &s);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(right, s.result[i]);
        sr_pool_free(pool);
    }
}

static void plugins_do_not_change_it(void **state) {
    (void)state;
    const uint64_t right = compute();
    assert_ok(sr_plugin_add_file(plugin));
    assert_int_equal(right, compute());
}

// Gradients so small that all momentum is subnormal, and parameters change by such numbers.
static void train(const struct disturbance *d, char digest[SR_SHA256_HEX]) {
    engine_fixture f = {.gradient_scale = 0x1p-135};
    if (d)
        d->disturb();
    engine_begin(&f, "tests/recipes/tiny.yaml", 2, NULL);
    for (int i = 0; i < 2; i++) {
        if (d)
            d->disturb();
        (void)engine_step(&f, i);
    }
    assert_ok(sr_state_digest(f.engine, 2 * ENGINE_BATCH, 2, digest));
    engine_end(&f);
    sr_float_control_set();
}

static void digests_do_not_depend_on_it(void **state) {
    char right[SR_SHA256_HEX], got[SR_SHA256_HEX];
    (void)state;
    train(NULL, right);
    for (int i = 0; i < DISTURBANCES; i++) {
        train(&disturbances[i], got);
        if (strcmp(right, got) != 0)
            fail_msg("the digest depends on %s", disturbances[i].name);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(setting_it_restores_all, reset),
        cmocka_unit_test_teardown(threads_do_not_inherit_it, reset),
        cmocka_unit_test_teardown(items_do_not_affect_later_ones, reset),
        cmocka_unit_test_teardown(digests_do_not_depend_on_it, reset),
        cmocka_unit_test_teardown(plugins_do_not_change_it, reset), // runs last: it stays loaded
    };
    if (argc != 2)
        return 2;
    plugin = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
