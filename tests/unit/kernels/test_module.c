// SPDX-License-Identifier: Apache-2.0
// Modules (kernels/device/module.h): a device and kernels of a kind of their own, beside those of
// the CPU; the chooser, the fingerprint and the agreement of ranks on such a device; and modules
// that are refused. The modules are stand_in_module.c, in a folder with a link to libserried, from
// which this program is linked (tests/CMakeLists.txt).
#include <pthread.h>

#include "collective/backend_local_internal.h"
#include "kernels/chooser.h"
#include "kernels/device/module.h"
#include "kernels/kernel.h"
#include "kernels/kernel_params.h"
#include "kernels/prepared_cache.h"
#include "tests/unit/support/device_support.h"
#include "trainer/engine/fingerprint.h"

static sr_device_properties describe(const char *name) {
    sr_device_properties device;
    assert_ok(sr_device_describe(name, &device));
    return device;
}

static void test_a_device_of_a_module(void **state) {
    (void)state;
    const sr_device_properties first = describe("test-device"), third = describe("test-device:2");
    int count = 0;
    sr_device *device;
    assert_int_not_equal(SR_DEVICE_CPU, first.kind);
    assert_int_equal(first.kind, third.kind);
    assert_string_equal("test-device", sr_device_kind_name(first.kind));
    assert_string_equal("?", sr_device_kind_name(first.kind + 1));
    assert_string_equal("stand-in 2", third.model);
    assert_string_equal("device test-device:2", third.memory_owner);
    assert_true(third.count == 3 && third.ordinal == 2 && third.executors == 1);
    assert_ok(sr_device_count("test-device", &count));
    assert_int_equal(3, count);
    assert_ok(sr_device_count("test-device:1", &count));
    assert_int_equal(1, count);
    assert_status(SR_E_USAGE, sr_device_open("test-device:3", &device));
    assert_message("this machine has 3 devices 'test-device', from number 0 on");
    assert_ok(sr_device_open("test-device:1", &device));
    assert_string_equal("test-device:1", sr_device_name(device));
    sr_device_close(device);
}

static sr_kernel_request add_request(sr_device_kind kind, int64_t count) {
    const sr_expression_params params = {.count = count};
    sr_kernel_request request;
    sr_kernel_request_init(&request, kind, SR_KERNEL_add, SR_F32, &params, sizeof params);
    return request;
}

// Adds a value to itself on the device, count numbers.
static void run_add(const sr_prepared_entry *kernel, int count) {
    float *x = sr_alloc_array((size_t)count, sizeof *x, "a test");
    sr_device *device;
    sr_stream *stream;
    assert_non_null(x);
    for (int i = 0; i < count; i++)
        x[i] = (float)i;
    assert_ok(sr_device_open("test-device", &device));
    assert_ok(sr_stream_create(device, NULL, &stream));
    const sr_address memory = device_copy(device, x, (size_t)count * sizeof *x);
    const sr_address p[] = {memory, memory, memory};
    const sr_kernel_call call = {
        .prepared = &kernel->prepared, .request = &kernel->request, .p = p};
    assert_ok(sr_stream_launch(stream, &call));
    assert_ok(sr_stream_download(stream, x, memory, (size_t)count * sizeof *x));
    assert_ok(sr_stream_wait(stream));
    for (int i = 0; i < count; i++)
        assert_true(x[i] == (float)(2 * i));
    sr_stream_free(stream);
    sr_device_close(device);
    sr_free(x);
}

// The same request for two kinds of devices is two kernels.
static void test_kernels_of_two_kinds(void **state) {
    enum { COUNT = 1000 };
    (void)state;
    const sr_kernel_request there = add_request(describe("test-device").kind, COUNT),
                            here = add_request(SR_DEVICE_CPU, COUNT);
    const sr_prepared_entry *own, *cpus;
    sr_prepared_cache *cache;
    assert_ok(sr_prepared_cache_create(&cache));
    assert_ok(sr_prepared_cache_get(cache, &there, &own));
    assert_ok(sr_prepared_cache_get(cache, &here, &cpus));
    assert_true(own != cpus && own->prepared.launch && !own->prepared.stages);
    assert_true(cpus->prepared.stages && !cpus->prepared.launch);
    assert_ptr_not_equal(sr_kernel_find_in(&there, SR_KERNEL_REFERENCE),
                         sr_kernel_find_in(&here, SR_KERNEL_REFERENCE));
    assert_null(sr_kernel_find_in(&there, "x86"));
    assert_null(sr_kernel_find_in(&here, "choice"));
    run_add(own, COUNT);
    sr_prepared_cache_free(cache);
}

static void test_a_missing_kernel_names_the_kind(void **state) {
    (void)state;
    sr_kernel_request request = add_request(describe("test-device").kind, 10);
    sr_prepared prepared;
    request.dtype[0] = SR_U8;
    assert_status(SR_E_UNSUPPORTED, sr_kernel_prepare(&request, &prepared));
    assert_message("device test-device has no kernel for add (u8, f32, f32)");
    assert_message("its providers: reference, choice");
    const sr_kernel_entry own = {.name = "own/test"};
    const sr_kernel_request plugged = {
        .device = request.device, .kernel = SR_KERNEL_OWN, .own = &own, .own_count = 1};
    assert_status(SR_E_UNSUPPORTED, sr_kernel_prepare(&plugged, &prepared));
    assert_message("kernels of plug-ins (own/test) are for CPUs, and cannot run on device "
                   "test-device; give device=cpu");
    request = add_request(SR_DEVICE_CPU, 10);
    request.dtype[0] = SR_U8;
    assert_status(SR_E_UNSUPPORTED, sr_kernel_prepare(&request, &prepared));
    assert_null(strstr(sr_error_message(), "choice"));
}

// ---- The chooser ----

static sr_kernel_request small_request(sr_device_kind kind) {
    const sr_linear_params p = {.n = 8, .c = 16, .k = 4};
    sr_kernel_request request;
    sr_kernel_request_init(&request, kind, SR_KERNEL_linear_dw, SR_F32, &p, sizeof p);
    return request;
}

static void expect_variant(const sr_kernel_request *request, const char *name) {
    sr_prepared prepared;
    assert_ok(sr_kernel_prepare(request, &prepared));
    assert_string_equal(name, sr_kernel_variant(prepared.entry, prepared.variant));
    sr_prepared_release(&prepared);
}

static void expect_quick(void *user, const sr_chooser_choice *c) {
    assert_string_equal("linear_dw/choice", c->entry);
    assert_string_equal("quick", c->variant);
    assert_true(c->seconds >= 0.001 && c->default_seconds >= 0.004); // of one run
    ++*(int *)user;
}

// Times are those of the device's events, and the cache is the device's own.
static void test_the_chooser_of_a_device(void **state) {
    char folder[256], *file;
    (void)state;
    test_folder_make(folder);
    assert_int_equal(0, setenv("SERRIED_CACHE", folder, 1));
    const sr_kernel_request request = small_request(describe("test-device").kind);
    const sr_chooser_options there = {.on = true, .device = "test-device:1"},
                             here = {.on = true, .device = "cpu"}, off = {.on = false};
    const sr_chooser_stats before = sr_chooser_get_stats();
    sr_chooser_use(&here);
    file = sr_strdup(sr_chooser_file());
    expect_variant(&request, ""); // the CPU's choices are not for it
    assert_int_equal(before.timed, sr_chooser_get_stats().timed);
    sr_chooser_use(&there);
    assert_string_not_equal(file, sr_chooser_file());
    expect_variant(&request, "quick");
    expect_variant(&request, "quick");
    assert_int_equal(before.timed + 1, sr_chooser_get_stats().timed);
    assert_int_equal(before.found + 1, sr_chooser_get_stats().found);
    int count = 0;
    sr_chooser_visit(expect_quick, &count);
    assert_int_equal(1, count);
    sr_chooser_save();
    sr_chooser_use(&here);
    sr_chooser_use(&there); // like a process that starts
    expect_variant(&request, "quick");
    assert_int_equal(before.timed + 1, sr_chooser_get_stats().timed);
    sr_chooser_use(&off);
    sr_free(file);
    test_folder_remove(folder);
}

// ---- The fingerprint ----

static void test_the_fingerprint_of_a_device(void **state) {
    char cpu[SR_FINGERPRINT_BYTES], own[SR_FINGERPRINT_BYTES];
    (void)state;
    const sr_device_properties here = describe("cpu"), there = describe("test-device");
    sr_fingerprint(&here, cpu);
    sr_fingerprint(&there, own);
    assert_null(strstr(cpu, "stand-in"));
    assert_null(strstr(cpu, "choice"));
    assert_non_null(strstr(own, "; stand-in 7; reference "));
    assert_non_null(strstr(own, "; choice 2; data "));
    assert_null(strstr(own, "processor"));
    assert_null(strstr(own, "x86"));
    sr_kernels_use_portable(true); // the reference's bits, on any device
    assert_string_equal(sr_fingerprint(&here, cpu), sr_fingerprint(&there, own));
    sr_kernels_use_portable(false);
}

typedef struct device_user {
    sr_comm *comm;
    const char *device;
    sr_status status;
    char message[512];
} device_user;

static void *agree(void *user) {
    device_user *u = user;
    sr_device_properties device;
    u->status = sr_device_describe(u->device, &device);
    if (u->status == SR_OK)
        u->status = sr_fingerprint_agree(u->comm, &device, false);
    (void)snprintf(u->message, sizeof u->message, "%s", sr_error_message());
    return NULL;
}

static void check_agreement(const char *first, const char *second, device_user out[2]) {
    const sr_local_options local = {.size = 2, .seed = 3};
    sr_local_world *world = NULL;
    pthread_t threads[2];
    assert_ok(sr_local_world_create(&local, &world));
    for (int r = 0; r < 2; r++) {
        out[r] = (device_user){.device = r ? second : first};
        assert_ok(sr_local_world_join(world, r, NULL, &out[r].comm));
        assert_int_equal(0, pthread_create(&threads[r], NULL, agree, &out[r]));
    }
    for (int r = 0; r < 2; r++)
        assert_int_equal(0, pthread_join(threads[r], NULL));
    for (int r = 0; r < 2; r++)
        sr_comm_free(out[r].comm);
    sr_local_world_free(world);
}

static void test_ranks_agree_on_a_kind_of_device(void **state) {
    device_user user[2];
    (void)state;
    check_agreement("cpu", "cpu-async", user); // both run the CPU's kernels
    assert_true(user[0].status == SR_OK && user[1].status == SR_OK);
    check_agreement("test-device", "test-device:2", user);
    assert_true(user[0].status == SR_OK && user[1].status == SR_OK);
    check_agreement("test-device", "cpu", user);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(SR_E_NUMERICS, user[r].status);
        assert_non_null(strstr(user[r].message, "rank 1 ("));
        assert_non_null(strstr(user[r].message, ") computes on device 'cpu', but rank 0 ("));
        assert_non_null(strstr(user[r].message, ") on 'test-device'"));
        assert_non_null(strstr(user[r].message, "or give device=cpu"));
    }
}

// ---- What is refused ----

static void refused(const char *name, const char *cause) {
    sr_device_properties device;
    for (int i = 0; i < 2; i++) { // a module that was refused stays refused, for the same reason
        assert_status(SR_E_USAGE, sr_device_describe(name, &device));
        assert_message("cannot be used: ");
        assert_message(cause);
        assert_message(", or give device=cpu");
    }
}

static void test_modules_that_are_refused(void **state) {
    (void)state;
    refused("test-abi",
            "libserried-test-abi.so was built for module interface 77, but this serried");
    refused("test-version",
            "libserried-test-version.so is of serried 0.0.1, but this is serried " SR_VERSION);
    refused("test-ops", "a device for interface 77, but this serried has interface");
    refused("test-kernels", "kernel 0 of provider 'reference' is for interface 77");
    refused("test-renamed", "libserried-test-renamed.so is the module 'test-device'");
    refused("test-null", "its sr_module_entry returns NULL");
    refused("test-entry", "has no function sr_module_entry");
    refused("test-text", "libserried-test-text.so cannot be loaded: ");
    refused("test-unusable", "no driver is loaded; install one");
    refused("cuda", "libserried-cuda.so is not installed; put it beside libserried, into ");
}

static void test_unknown_devices(void **state) {
    static const char *const names[] = {"test-nothing", "../test-device", "", "test-device.so",
                                        "TEST-DEVICE"};
    sr_device_properties device;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!*names[i])
            continue;
        assert_status(SR_E_USAGE, sr_device_describe(names[i], &device));
        assert_message("unknown device '");
    }
}

static void find_name(void *user, const char *name) {
    const char **wanted = user;
    for (int i = 0; wanted[i]; i++)
        if (strcmp(wanted[i], name) == 0)
            wanted[i] = "";
}

static void test_all_kinds_are_listed(void **state) {
    const char *wanted[] = {"cpu", "cpu-async", "cuda", "test-device", "test-version", NULL};
    (void)state;
    sr_device_visit_kinds(find_name, wanted);
    for (int i = 0; wanted[i]; i++)
        assert_string_equal("", wanted[i]);
}

static void test_the_default_without_modules_of_the_list(void **state) {
    sr_device_properties device;
    (void)state;
    assert_int_equal(0, unsetenv("SERRIED_TEST_DEVICE")); // which may be of a module elsewhere
    assert_ok(sr_device_describe(NULL, &device));
    assert_string_equal("cpu", device.name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds_are_listed),
        cmocka_unit_test(test_the_default_without_modules_of_the_list),
        cmocka_unit_test(test_a_device_of_a_module),
        cmocka_unit_test(test_kernels_of_two_kinds),
        cmocka_unit_test(test_a_missing_kernel_names_the_kind),
        cmocka_unit_test(test_the_chooser_of_a_device),
        cmocka_unit_test(test_the_fingerprint_of_a_device),
        cmocka_unit_test(test_ranks_agree_on_a_kind_of_device),
        cmocka_unit_test(test_modules_that_are_refused),
        cmocka_unit_test(test_unknown_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
