// SPDX-License-Identifier: Apache-2.0
// Ticks of the plots: few round steps, and labels as a person would write them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "trainer/draw/plot_ticks.h"

static void steps_are_round(void **state) {
    (void)state;
    double range = 1e-9;
    for (int i = 0; i < 130; ++i, range *= 1.37) {
        double step = sr_plot_step(3, 3 + range, 5), mantissa = step / pow(10, floor(log10(step)));
        assert_true(fabs(mantissa - 1) < 1e-6 || fabs(mantissa - 2) < 1e-6 ||
                    fabs(mantissa - 5) < 1e-6 || fabs(mantissa - 10) < 1e-6);
        assert_true(range / step > 2.4 && range / step < 10);
    }
    assert_true(sr_plot_step(1, 1, 5) == 1);
}

static void labels(void **state) {
    (void)state;
    static const struct {
        double value, step;
        const char *text;
    } cases[] = {
        {0, 0.5, "0.0"},        {1.5, 0.5, "1.5"},       {-0.25, 0.05, "-0.25"},
        {20, 20, "20"},         {10000, 2000, "10,000"}, {1234567, 1, "1,234,567"},
        {-1000, 500, "-1,000"}, {-100, 50, "-100"},      {1234.5, 0.5, "1,234.5"},
        {1e-17, 0.1, "0.0"},    {2e-8, 1e-8, "2e-08"},   {0.0002, 0.0001, "0.0002"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char text[32];
        sr_plot_number(cases[i].value, cases[i].step, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
    char tiny[4];
    sr_plot_number(123456, 1, tiny, sizeof tiny); // truncated, never overrun
    assert_true(strlen(tiny) < sizeof tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_round),
        cmocka_unit_test(labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
