// SPDX-License-Identifier: Apache-2.0
// Digests of small networks after a few steps: all of a lane program, its exchange and its update,
// with the kernels that training would use. The pictures are generated here, so the numerics of the
// data path have no influence.
#include "tests/numerics/numerics_digests.h"

#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/engine_fixture.h"
#include "trainer/engine/fingerprint.h"

enum { STEPS = 3, DIGITS = 32 }; // hexadecimal, of 64: the table stays narrow

static void print_heading(void) {
    char text[SR_FINGERPRINT_BYTES];
    char *data = strstr(sr_fingerprint(text), "; data ");
    assert_non_null(data);
    *data = '\0';
    printf("[%s]\n", text);
}

void digests_of_networks(void) {
    static const struct {
        const char *name, *recipe;
    } networks[] = {{"tiny", "tests/recipes/tiny.yaml"}, {"toy-gan", "toy-gan"}};
    static const char *const precisions[][2] = {{"fp32", "precision=fp32"},
                                                {"bf16", "precision=bf16"}};
    print_heading();
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        for (size_t p = 0; p < 2; p++) {
            char hex[SR_SHA256_HEX];
            double first, last;
            engine_run(networks[i].recipe, 1, precisions[p][1], STEPS, &first, &last, hex);
            printf("%s %s %.*s\n", networks[i].name, precisions[p][0], DIGITS, hex);
        }
    }
}
