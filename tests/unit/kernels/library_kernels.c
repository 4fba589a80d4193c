// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/library_kernels.h"

#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/device_run.h"
#include "tests/unit/support/test_support.h"

double library_number(sr_dtype dtype, const void *p, int64_t i) {
    float f;
    uint16_t h;
    if (dtype == SR_F32) {
        memcpy(&f, (const char *)p + i * 4, sizeof f);
        return (double)f;
    }
    memcpy(&h, (const char *)p + i * 2, sizeof h);
    return (double)(dtype == SR_BF16 ? sr_bf16_to_f32(h) : sr_f16_to_f32(h));
}

double *library_rounded(const problem *c, const arrays *inputs, int i) {
    double *out = zeros(c->arg[i].count);
    for (int64_t k = 0; k < c->arg[i].count; k++)
        out[k] = round_to(sr_kernel_activation(&c->request),
                          library_number(c->request.dtype[i], inputs->p[i], k));
    return out;
}

double library_product_roundings(const problem *c) {
    const double cut = 0x1p-10;
    return sr_kernel_activation(&c->request) == SR_F32 ? (2 * cut + cut * cut) / 0x1p-24 : 0;
}

// Whether the stand-in has no kernel for anything.
static bool serves_nothing(const library *l) {
    const char *mode = l->stand_in ? getenv(l->stand_in) : NULL;
    return mode && (strcmp(mode, "none") == 0 || strcmp(mode, "plans") == 0);
}

static void run(const library *l, const problem *c, const sr_prepared *prepared,
                const sr_kernel_request *request, const arrays *inputs) {
    static const int fills[] = {0x00, 0xff};
    const int result = request->args - 1;
    arrays first = copy_arrays(c, inputs);
    device_run(device_of_test(), prepared, request, first.p, 0xff);
    l->check(c, inputs, first.p[result]);
    for (size_t i = 0; i < sizeof fills / sizeof *fills && !serves_nothing(l); i++) {
        arrays again = copy_arrays(c, inputs);
        device_run(device_of_test(), prepared, request, again.p, fills[i]);
        if (memcmp(again.p[result], first.p[result], bytes_of(c, result)) != 0)
            fail_msg("%s: run %zu has other bits", prepared->entry->name, i + 2);
        device_run_packed(device_of_test(), prepared, request, first.p, fills[i]);
        free_arrays(&again);
    }
    free_arrays(&first);
}

static bool is_software_gpu(void) {
    return strcmp(sr_device_get_properties(device_of_test())->model, "software GPU") == 0;
}

// The stand-in of the software GPU serves everything, unless it is told otherwise.
static bool must_serve(const library *l) {
    const char *mode = l->stand_in ? getenv(l->stand_in) : "";
    return is_software_gpu() && !mode;
}

static const sr_provider *provider_of(const library *l) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(providers[i]->name, l->provider) == 0)
            return providers[i];
    return NULL;
}

// The library's entries say that it has none for the request.
static void expect_refusal(const library *l, const sr_kernel_request *request) {
    const sr_provider *provider = provider_of(l);
    for (size_t i = 0; i < provider->count; i++) {
        sr_prepared prepared;
        if (provider->entries[i].kernel != request->kernel)
            continue;
        assert_status(SR_E_UNSUPPORTED,
                      sr_kernel_prepare_as(request, &provider->entries[i], 0, &prepared));
        assert_message(" has no ");
    }
}

// Stand-ins have one loop for all sizes, and would need a minute for the few largest problems.
static bool takes_long(const library *l, const problem *c) {
    const double products = c->terms * (double)c->arg[c->request.args - 1].count;
    return l->stand_in && is_software_gpu() && products > (1 << 24);
}

void library_check_problem(library *l, const problem *c) {
    const sr_dtype dtype = sr_kernel_activation(&c->request);
    if (dtype == SR_F64 || takes_long(l, c))
        return;
    sr_kernel_request request = c->request;
    request.device = sr_device_get_properties(device_of_test())->kind;
    if (dtype == SR_F32) {
        sr_kernels_use_tf32(false);
        assert_null(sr_kernel_find_in(&request, l->provider));
    }
    sr_kernels_use_tf32(true);
    const sr_kernel_entry *entry = sr_kernel_find_in(&request, l->provider);
    if (!entry) {
        if (must_serve(l))
            fail_msg("%s does not serve %s in %s", l->name, sr_kernel_name(c->request.kernel),
                     sr_dtype_name(dtype));
        l->refused++;
        if (!serves_nothing(l))
            return;
        expect_refusal(l, &request);
        entry = sr_kernel_find(&request);
        assert_non_null(entry);
        assert_string_not_equal(entry->provider, l->provider);
    } else {
        assert_string_equal(entry->numerics_class, l->provider);
        l->checked++;
    }
    sr_prepared prepared = {0};
    assert_ok(sr_kernel_prepare_as(&request, entry, 0, &prepared));
    arrays inputs = make_inputs(c);
    run(l, c, &prepared, &request, &inputs);
    free_arrays(&inputs);
    sr_prepared_release(&prepared);
}

void library_assert_checked(const library *l) {
    print_message("%d problems, %d without a kernel of %s\n", l->checked, l->refused, l->name);
    assert_true(serves_nothing(l) ? l->checked == 0 && l->refused > 0 : l->checked > 0);
}

bool library_is_there(const library *l) {
    char reason[96];
    if (!device_of_test()) {
        test_skip("this device runs the CPU's kernels");
        return false;
    }
    const sr_provider *provider = provider_of(l);
    if (provider && (!l->stand_in || strcmp(provider->version(), "not found") != 0))
        return true;
    (void)snprintf(reason, sizeof reason, "%s is not found", l->name);
    test_skip(reason);
    return false;
}

// Activations and results.
static uint32_t varying_of(const sr_kernel_request *request) {
    int count;
    uint32_t varies = 0;
    const sr_kernel_argument *arguments = sr_kernel_arguments(request->kernel, &count);
    for (int i = 0; i < count; i++)
        if (arguments[i].type == SR_ARG_T || arguments[i].role == SR_ARG_OUT)
            varies |= 1U << i;
    return varies;
}

void library_check_lanes(library *l, const sr_kernel_request *lane, uint32_t shared,
                         bool may_refuse) {
    sr_kernels_use_tf32(true);
    for (int lanes = 2; lanes <= 3; lanes++) {
        const uint32_t varies = varying_of(lane) & ~shared;
        const sr_kernel_entry *entry = check_lanes(lane, lanes, varies);
        (void)arrays_free(NULL);
        if (entry && serves_nothing(l)) {
            assert_string_not_equal(entry->provider, l->provider);
            l->refused++;
        } else if (entry) {
            assert_string_equal(entry->provider, l->provider);
            assert_true(entry->lanes);
            l->checked++;
        } else if (must_serve(l) && !may_refuse) {
            fail_msg("%s does not serve lanes of %s in %s", l->name, sr_kernel_name(lane->kernel),
                     sr_dtype_name(sr_kernel_activation(lane)));
        } else {
            l->refused++;
        }
    }
}

sr_kernel_request library_request(sr_kernel_id kernel, sr_dtype t, const void *params, size_t bytes,
                                  bool bias) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &count);
    sr_kernel_request request;
    sr_kernel_request_init(&request, sr_device_get_properties(device_of_test())->kind, kernel, t,
                           params, bytes);
    for (int i = 0; i < count; i++)
        if (arguments[i].role == SR_ARG_OPT && !bias)
            request.dtype[i] = SR_DTYPE_COUNT;
    return request;
}

void library_check(sr_kernel_id kernel, sr_dtype t, const void *params, size_t bytes, bool bias) {
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &count);
    problem c = {.terms = 1};
    sr_kernel_request_init(&c.request, SR_DEVICE_CPU, kernel, t, params, bytes);
    for (int i = 0; i < count; i++) {
        c.arg[i] = (argument){.role = arguments[i].type == SR_ARG_T ? ACTIVATION : PARAMETER,
                              .output = sr_argument_is_result(arguments[i].role),
                              .count = sr_kernel_argument_count(&c.request, i)};
        if (arguments[i].role == SR_ARG_OPT && !bias) {
            c.arg[i] = (argument){.role = NONE};
            c.request.dtype[i] = SR_DTYPE_COUNT;
        }
    }
    check_problem(&c);
}
