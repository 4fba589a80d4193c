// SPDX-License-Identifier: Apache-2.0
// CPU features compared with /proc/cpuinfo, the mask that hides them, and the clock.
#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

static char *flags; // from /proc/cpuinfo, with a blank on both sides of each

static int set_up(void **state) {
    (void)state;
    void *data = NULL;
    size_t bytes = 0;
    if (sr_file_read("/proc/cpuinfo", 64 << 20, &data, &bytes) != SR_OK)
        return -1;
    char *start = strstr(data, "\nflags");
    if (start != NULL) {
        start = strchr(start, ':');
        start[strcspn(start, "\n")] = ' ';
        start[strcspn(start, "\n")] = '\0';
        flags = sr_strdup(start);
    }
    sr_free(data);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sr_free(flags);
    return 0;
}

static void agrees_with_the_kernel(void **state) {
    (void)state;
    if (flags == NULL)
        test_skip("/proc/cpuinfo has no flags line");
    static const struct {
        uint32_t bit;
        const char *name;
    } cases[] = {{SR_CPU_AVX2, " avx2 "},         {SR_CPU_AVX512, " avx512vl "},
                 {SR_CPU_VNNI, " avx512_vnni "},  {SR_CPU_BF16, " avx512_bf16 "},
                 {SR_CPU_FP16, " avx512_fp16 "},  {SR_CPU_AMX_BF16, " amx_bf16 "},
                 {SR_CPU_AMX_INT8, " amx_int8 "}, {SR_CPU_BF16_DOT, " avx512_bf16 "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (sr_cpu_features() & cases[i].bit)
            assert_non_null(strstr(flags, cases[i].name));
    if (strstr(flags, " avx2 ") && strstr(flags, " fma ") && strstr(flags, " f16c ") &&
        getenv("SERRIED_CPU_MASK") == NULL)
        assert_true(sr_cpu_features() & SR_CPU_AVX2);
}

static void texts(void **state) {
    (void)state;
    char out[80];
    assert_string_equal("", sr_cpu_features_text(0, out));
    assert_string_equal("avx2 vnni", sr_cpu_features_text(SR_CPU_AVX2 | SR_CPU_VNNI, out));
    assert_string_equal("avx2 avx512 vnni bf16 fp16 amx_bf16 amx_int8 bf16_dot",
                        sr_cpu_features_text(0xff, out));
    assert_true(strlen(sr_cpu_model()) > 0);
}

static void monotonic_clock(void **state) {
    (void)state;
    int64_t start = sr_clock_ns();
    sr_clock_sleep_ns(2 * SR_NS_PER_MS);
    assert_true(sr_clock_ns() - start >= 2 * SR_NS_PER_MS);
    sr_clock_sleep_ns(0);
    sr_clock_sleep_ns(-5);
    char label[21];
    sr_clock_utc_label(label);
    assert_int_equal(20, strlen(label));
    assert_true(label[4] == '-' && label[10] == 'T' && label[19] == 'Z');
}

static void restricted(void **state) { // runs last: a restriction cannot be undone
    (void)state;
    sr_cpu_restrict(SR_CPU_AVX2);
    assert_int_equal(0, sr_cpu_features() & ~(uint32_t)SR_CPU_AVX2);
    sr_cpu_restrict(0);
    assert_int_equal(0, sr_cpu_features());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_kernel),
        cmocka_unit_test(texts),
        cmocka_unit_test(monotonic_clock),
        cmocka_unit_test(restricted),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
