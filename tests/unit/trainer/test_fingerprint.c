// SPDX-License-Identifier: Apache-2.0
// The numerics fingerprint: its contents, and how differences are reported.
#include "tests/unit/support/test_support.h"

#include "dataio/pipeline/data_numerics.h"
#include "kernels/base/cpuid.h"
#include "kernels/kernel.h"
#include "trainer/engine/fingerprint.h"

static void contains_every_part(void **state) {
    char text[SR_FINGERPRINT_BYTES], part[SR_PROVIDER_TEXT + 2], numerics[SR_PROVIDER_TEXT];
    char data[SR_DATA_NUMERICS_TEXT], features[80];
    const uint32_t decide = sr_cpu_features() & sr_providers_features(SR_DEVICE_CPU);
    sr_device_properties device;
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    (void)state;
    assert_ok(sr_device_describe("cpu", &device));
    sr_fingerprint(&device, text);
    assert_in_range(strlen(text), 1, SR_FINGERPRINT_BYTES - 2); // not truncated
    for (size_t i = 0; i < count; i++) {
        // Checkpoints from before numerics versions were stored count as 1.
        assert_true(providers[i]->numerics >= 2);
        (void)snprintf(part, sizeof part, "; %s", sr_provider_numerics(providers[i], numerics));
        assert_non_null(strstr(text, part));
    }
    assert_non_null(strstr(text, sr_data_numerics(data)));
    (void)snprintf(part, sizeof part, "; processor %s; ",
                   decide ? sr_cpu_features_text(decide, features) : "plain");
    assert_non_null(strstr(text, part));
    assert_int_equal(0, strncmp(text, "serried-numerics ", 17));
}

// Features that select the entries that run decide bits, and so do those that a provider lists
// itself.
static void features_that_decide_are_known(void **state) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    const uint32_t decide = sr_providers_features(SR_DEVICE_CPU);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(0, providers[i]->features & ~decide);
        for (size_t k = 0; k < providers[i]->count; k++)
            assert_int_equal(0, providers[i]->entries[k].needs & ~decide);
        if (strcmp(providers[i]->name, "reference") == 0)
            assert_int_equal(0, providers[i]->features);
    }
}

// With portable numerics only the reference's version and the data path's decide, on any processor.
static void portable_numerics_name_no_processor(void **state) {
    char text[SR_FINGERPRINT_BYTES], expected[SR_FINGERPRINT_BYTES], data[SR_DATA_NUMERICS_TEXT];
    sr_device_properties device;
    size_t count;
    (void)state;
    assert_ok(sr_device_describe("cpu-async", &device));
    sr_kernels_use_portable(true);
    (void)snprintf(expected, sizeof expected,
                   "serried-numerics %d; processor any; reference %d; %s", SR_NUMERICS_VERSION,
                   sr_providers(&count)[0]->numerics, sr_data_numerics(data));
    assert_string_equal(expected, sr_fingerprint(&device, text));
    assert_int_equal(0, sr_providers_features(SR_DEVICE_CPU));
    sr_kernels_use_portable(false);
}

// Only devices that have kernels for it differ in it.
static void tf32_is_named_for_gpus(void **state) {
    char text[SR_FINGERPRINT_BYTES];
    sr_device_properties device;
    (void)state;
    assert_ok(sr_device_describe("cpu", &device));
    sr_kernels_use_tf32(true);
    assert_null(strstr(sr_fingerprint(&device, text), "tf32"));
    device.kind++;
    assert_non_null(strstr(sr_fingerprint(&device, text), "; tf32 on; "));
    sr_kernels_use_tf32(false);
    assert_null(strstr(sr_fingerprint(&device, text), "tf32"));
}

static void knows_the_loaded_libjpeg(void **state) {
    int major = 0, minor = -1, patch = -1, end = 0;
    const char *version = sr_jpeg_library_version();
    (void)state;
    assert_int_equal(3, sscanf(version, "%d.%d.%d%n", &major, &minor, &patch, &end));
    assert_int_equal(strlen(version),
                     end); // nothing follows it: it is the version of the loaded library
    assert_true(major >= 1 && minor >= 0 && patch >= 0);
}

static void check_difference(const char *a, const char *b, const char *expected) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "what stood there before");
    sr_fingerprint_difference(&(sr_fingerprint_origin){a, "there"},
                              &(sr_fingerprint_origin){b, "here"}, &text);
    assert_ok(sr_text_check(&text));
    assert_string_equal(expected, text.data);
    sr_text_release(&text);
}

static void names_what_differs(void **state) {
    (void)state;
    check_difference("a 1; b 2", "a 1; b 2", "");
    check_difference("a 1; b 2; c 3, lib 4.5", "a 1; b 3; c 3, lib 4.6",
                     "b: 2 there and 3 here; c: 3, lib 4.5 there and 3, lib 4.6 here");
    check_difference("a 1; b 2", "a 1", "b: 2 there and nothing here");
    check_difference("a 1", "a 1; b 2", "b: nothing there and 2 here");
    check_difference("b 1", "bb 1", "b: 1 there and nothing here; bb: nothing there and 1 here");
    check_difference("a 1", "a 12", "a: 1 there and 12 here");
    check_difference("", "a 1", "a: nothing there and 1 here");
    check_difference("x86; a 1", "x86 2; a 1", "x86: 1 there and 2 here"); // without a version
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contains_every_part),
        cmocka_unit_test(features_that_decide_are_known),
        cmocka_unit_test(portable_numerics_name_no_processor),
        cmocka_unit_test(tf32_is_named_for_gpus),
        cmocka_unit_test(knows_the_loaded_libjpeg),
        cmocka_unit_test(names_what_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
