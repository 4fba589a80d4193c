// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/kernel_fixture.h"

#include <math.h>

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/support/test_support.h"

const sr_dtype fixture_types[4] = {SR_F32, SR_BF16, SR_F16, SR_F64};

#define MAX_ARRAYS 64
static test_array arrays[MAX_ARRAYS];
static int array_count;
static uint64_t digest;

double *zeros(int64_t count) {
    double *v = test_calloc((size_t)count, sizeof *v);
    assert_non_null(v);
    return v;
}

test_array *array_new(sr_dtype dtype, int64_t count) {
    assert_true(array_count < MAX_ARRAYS);
    test_array *a = &arrays[array_count++];
    *a = (test_array){dtype, count, sr_alloc((size_t)count * sr_dtype_size(dtype), "test array")};
    assert_non_null(a->data);
    return a;
}

int arrays_free(void **state) {
    (void)state;
    while (array_count > 0)
        sr_free(arrays[--array_count].data);
    return 0;
}

test_array *array_random(sr_dtype dtype, int64_t count, uint32_t seed, double low, double high) {
    test_array *a = array_new(dtype, count);
    for (int64_t i = 0; i < count; i++) {
        const sr_rng4 draw = sr_philox(seed, (uint32_t)i, 0, 0, 0);
        array_set(a, i, low + (high - low) * (double)sr_rng_unit(draw.v[0]));
    }
    return a;
}

test_array *array_of(sr_dtype dtype, int64_t count, const double *values) {
    test_array *a = array_new(dtype, count);
    for (int64_t i = 0; i < count; i++)
        array_set(a, i, values[i]);
    return a;
}

double array_get(const test_array *a, int64_t i) {
    assert_true(i >= 0 && i < a->count);
    switch (a->dtype) {
    case SR_F32:
        return (double)((const float *)a->data)[i];
    case SR_BF16:
        return (double)sr_bf16_to_f32(((const uint16_t *)a->data)[i]);
    case SR_F16:
        return (double)sr_f16_to_f32(((const uint16_t *)a->data)[i]);
    case SR_F64:
        return ((const double *)a->data)[i];
    case SR_U8:
        return ((const uint8_t *)a->data)[i];
    case SR_I8:
        return ((const int8_t *)a->data)[i];
    case SR_I32:
        return ((const int32_t *)a->data)[i];
    case SR_I64:
        return (double)((const int64_t *)a->data)[i];
    case SR_DTYPE_COUNT:
        break;
    }
    fail_msg("unknown dtype");
    return 0;
}

void array_set(test_array *a, int64_t i, double value) {
    assert_true(i >= 0 && i < a->count);
    if (a->dtype == SR_F32)
        ((float *)a->data)[i] = (float)value;
    else if (a->dtype == SR_BF16)
        ((uint16_t *)a->data)[i] = sr_f32_to_bf16((float)value);
    else if (a->dtype == SR_F16)
        ((uint16_t *)a->data)[i] = sr_f32_to_f16((float)value);
    else if (a->dtype == SR_F64)
        ((double *)a->data)[i] = value;
    else if (a->dtype == SR_U8)
        ((uint8_t *)a->data)[i] = (uint8_t)(int64_t)value;
    else if (a->dtype == SR_I8)
        ((int8_t *)a->data)[i] = (int8_t)(int64_t)value;
    else if (a->dtype == SR_I32)
        ((int32_t *)a->data)[i] = (int32_t)value;
    else
        ((int64_t *)a->data)[i] = (int64_t)value;
}

double round_to(sr_dtype dtype, double value) {
    if (dtype == SR_F32)
        return (double)(float)value;
    if (dtype == SR_BF16)
        return (double)sr_bf16_to_f32(sr_f32_to_bf16((float)value));
    if (dtype == SR_F16)
        return (double)sr_f16_to_f32(sr_f32_to_f16((float)value));
    return value;
}

double unit_roundoff(sr_dtype dtype) {
    return dtype == SR_BF16 ? 0x1p-8 : dtype == SR_F16 ? 0x1p-11 : sum_roundoff(dtype);
}

double sum_roundoff(sr_dtype dtype) {
    return dtype == SR_F64 ? 0x1p-53 : 0x1p-24;
}

sr_dtype parameter_type(sr_dtype activation) {
    return activation == SR_F64 ? SR_F64 : SR_F32;
}

static void make_request(sr_kernel_id kernel, const void *params, size_t bytes, int count,
                         test_array *const *args, sr_kernel_request *request, void **p) {
    *request = (sr_kernel_request){.kernel = kernel, .args = count};
    assert_true(bytes <= sizeof request->params);
    memcpy(request->params, params, bytes);
    assert_true(count <= SR_KERNEL_MAX_ARGS);
    for (int i = 0; i < count; i++) {
        request->dtype[i] = args[i] ? args[i]->dtype : SR_DTYPE_COUNT;
        p[i] = args[i] ? args[i]->data : NULL;
    }
    for (int i = 0; i < count; i++) // arrays of the size that the list states
        if (args[i])
            assert_int_equal(args[i]->count, sr_kernel_argument_count(request, i));
}

// One run; 'reverse' runs the blocks backwards and overwrites the scratch before each. On a device
// it overwrites the workspace.
static sr_status run_once(const sr_prepared *prepared, const sr_kernel_request *request,
                          void *const *p, bool reverse) {
    void *workspace = sr_alloc(prepared->workspace, "test workspace");
    void *scratch = sr_alloc(prepared->scratch, "test scratch");
    sr_worker worker = {.index = 0, .scratch = scratch};
    sr_kernel_args args = {p, request->params, prepared->state, workspace, 0};
    sr_status status = SR_OK;
    assert_true(workspace && scratch);
    if (prepared->launch) {
        device_run(device_of_test(), prepared, request, p, reverse ? 0xff : 0);
        device_run_packed(device_of_test(), prepared, request, p, reverse ? 0xff : 0);
    }
    if (reverse)
        memset(workspace, 0xff, prepared->workspace);
    for (int s = 0; s < prepared->stages; s++) {
        args.block_rows = prepared->stage[s].block_rows;
        const int64_t blocks = prepared->stage[s].blocks;
        for (int64_t i = 0; i < blocks && status == SR_OK; i++) {
            if (reverse)
                memset(scratch, 0xff, prepared->scratch);
            status = prepared->stage[s].run(&args, reverse ? blocks - 1 - i : i, &worker);
        }
    }
    sr_free(workspace);
    sr_free(scratch);
    return status;
}

static void prepare(const char *provider, const sr_kernel_request *request, sr_prepared *prepared) {
    const sr_kernel_entry *entry = sr_kernel_find_in(request, provider);
    if (!entry) {
        fail_msg("%s does not serve %s", provider, sr_kernel_name(request->kernel));
        return; // fail_msg does not return
    }
    *prepared = (sr_prepared){0};
    assert_ok(entry->prepare(request, prepared));
    prepared->entry = entry;
}

static bool is_for_cpus(const char *provider) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(providers[i]->name, provider) == 0 &&
            sr_provider_is_for(providers[i], SR_DEVICE_CPU))
            return true;
    return false;
}

const sr_provider *provider_of_test(const char *name) {
    size_t count;
    if (!device_of_test())
        return NULL;
    const sr_provider *const *providers = sr_providers(&count); // the open device's, too
    for (size_t i = 0; i < count; i++)
        if (strcmp(providers[i]->name, name) == 0)
            return providers[i];
    return NULL;
}

void use_device_of(const char *provider, sr_kernel_request *request) {
    if (device_of_test() && sr_kernel_activation(request) != SR_F64 &&
        (strcmp(provider, SR_KERNEL_REFERENCE) == 0 || !is_for_cpus(provider)))
        request->device = sr_device_get_properties(device_of_test())->kind;
}

sr_status kernel_try(const char *provider, sr_kernel_id kernel, const void *params, size_t bytes,
                     int count, test_array *const *args) {
    sr_kernel_request request;
    sr_prepared prepared = {0};
    void *p[SR_KERNEL_MAX_ARGS] = {0};
    make_request(kernel, params, bytes, count, args, &request, p);
    use_device_of(provider, &request);
    prepare(provider, &request, &prepared);
    sr_status status = run_once(&prepared, &request, p, false);
    sr_prepared_release(&prepared);
    return status;
}

static void *copy_of(const test_array *a) {
    const size_t bytes = (size_t)a->count * sr_dtype_size(a->dtype);
    void *copy = sr_alloc(bytes, "test copy");
    assert_non_null(copy);
    memcpy(copy, a->data, bytes);
    return copy;
}

// Adds an array to the digest. All NaN are one: which one comes out depends on the device.
static void hash_array(const test_array *a) {
    test_array same = {a->dtype, a->count, copy_of(a)};
    for (int64_t i = 0; i < a->count && sr_dtype_is_float(a->dtype); i++)
        if (isnan(array_get(a, i)))
            array_set(&same, i, (double)NAN);
    digest = sr_hash64_seed(same.data, (size_t)a->count * sr_dtype_size(a->dtype), digest);
    sr_free(same.data);
}

void kernel_run(const char *provider, sr_kernel_id kernel, const void *params, size_t bytes,
                int count, test_array *const *args) {
    sr_kernel_request request;
    sr_prepared prepared = {0};
    void *p[SR_KERNEL_MAX_ARGS] = {0}, *before[SR_KERNEL_MAX_ARGS] = {0};
    make_request(kernel, params, bytes, count, args, &request, p);
    for (int i = 0; i < count; i++)
        if (args[i])
            before[i] = copy_of(args[i]);
    use_device_of(provider, &request);
    prepare(provider, &request, &prepared);
    assert_ok(run_once(&prepared, &request, p, false));
    for (int i = 0; i < count; i++) {
        if (!args[i])
            continue;
        p[i] = before[i];
        for (int k = 0; k < i; k++) // arguments that were in place stay in place
            if (args[k] && args[k]->data == args[i]->data)
                p[i] = p[k];
    }
    assert_ok(run_once(&prepared, &request, p, true));
    for (int i = 0; i < count; i++) {
        if (!args[i])
            continue;
        const size_t size = (size_t)args[i]->count * sr_dtype_size(args[i]->dtype);
        if (memcmp(p[i], args[i]->data, size) != 0)
            fail_msg("%s: argument %d depends on the order of blocks or on scratch contents",
                     prepared.entry->name, i);
        hash_array(args[i]);
    }
    for (int i = 0; i < count; i++)
        sr_free(before[i]);
    sr_prepared_release(&prepared);
}

static int reference_numerics(void) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(providers[i]->name, "reference") == 0)
            return providers[i]->numerics;
    return 0;
}

void assert_digest(int version, uint64_t golden) {
    const int now = reference_numerics();
    if (now != version)
        fail_msg("the reference's numerics are %d, the golden digest is of %d: write 0x%016llx, of "
                 "%d",
                 now, version, (unsigned long long)digest, now);
    if (digest != golden)
        fail_msg("bits of the reference moved (0x%016llx, not 0x%016llx) but its version did not: "
                 "if that is meant, raise SR_REFERENCE_NUMERICS "
                 "(kernels/reference_order.h) and write the new digest",
                 (unsigned long long)digest, (unsigned long long)golden);
}

void assert_near(const char *what, int64_t i, sr_dtype dtype, double got, double want, double terms,
                 double magnitude) {
    const double tiny = dtype == SR_F16 ? 0x1p-24 : 1e-37;
    const double bound =
        1.01 * unit_roundoff(dtype) * fabs(want) + terms * sum_roundoff(dtype) * magnitude + tiny;
    if (!(fabs(got - want) <= bound))
        fail_msg("%s %s [%lld]: got %.9g, expected %.9g, bound %.3g", what, sr_dtype_name(dtype),
                 (long long)i, got, want, bound);
}
