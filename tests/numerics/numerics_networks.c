// SPDX-License-Identifier: Apache-2.0
// Digests of small networks after a few steps: all of a lane program, its exchange and its update,
// with the kernels that training would use. The pictures are generated here, so the numerics of the
// data path have no influence.
#include "tests/numerics/numerics_digests.h"

#include "kernels/kernel.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/engine_fixture.h"
#include "trainer/engine/fingerprint.h"

enum { STEPS = 3, DIGITS = 32 }; // hexadecimal, of 64: the table stays narrow

static void print_heading(void) {
    char text[SR_FINGERPRINT_BYTES];
    sr_device_properties device;
    assert_ok(sr_device_describe("cpu", &device));
    char *data = strstr(sr_fingerprint(&device, text), "; data ");
    assert_non_null(data);
    *data = '\0';
    printf("[%s]\n", text);
}

typedef struct network {
    const char *name, *recipe;
} network;

static void print_networks(const network *networks, size_t count) {
    enum { PRECISIONS = 3 };
    static const char *const precisions[PRECISIONS][2] = {
        {"fp32", "precision=fp32"}, {"bf16", "precision=bf16"}, {"fp16", "precision=fp16"}};
    print_heading();
    for (size_t i = 0; i < count; i++) {
        for (size_t p = 0; p < PRECISIONS; p++) {
            char hex[SR_SHA256_HEX];
            double first, last;
            engine_run(networks[i].recipe, 1, precisions[p][1], STEPS, &first, &last, hex);
            printf("%s %s %.*s\n", networks[i].name, precisions[p][0], DIGITS, hex);
        }
    }
}

void digests_of_networks(void) {
    static const network networks[] = {{"tiny", "tests/recipes/tiny.yaml"}, {"toy-gan", "toy-gan"}};
    print_networks(networks, sizeof networks / sizeof networks[0]);
}

void digests_of_portable(void) {
    static const network networks[] = {{"tiny", "tests/recipes/tiny-portable.yaml"},
                                       {"toy-gan", "tests/recipes/gan-portable.yaml"},
                                       {"cifar-fast", "tests/recipes/fast-portable.yaml"}};
    sr_kernels_use_portable(true); // for the heading; the recipes say the same
    print_networks(networks, sizeof networks / sizeof networks[0]);
    sr_kernels_use_portable(false);
}
