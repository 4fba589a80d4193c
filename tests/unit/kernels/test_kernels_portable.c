// SPDX-License-Identifier: Apache-2.0
// Portable numerics: only kernels of class "reference" are taken, which exist for every request.
// Convolutions and linear layers of other providers give the reference's bits for drawn shapes,
// with deep trees of sums, and with infinities and NaN; gelu gives them over its whole range.
#include <math.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/rng.h"
#include "tests/unit/kernels/cases/kernel_cases.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

// ---- choosing ----

static int own, shared; // requests that another class serves by default, and those none does

static bool has_own_class(const sr_kernel_request *request) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < providers[i]->count; k++) {
            const sr_kernel_entry *entry = &providers[i]->entries[k];
            if (entry->kernel == request->kernel && !sr_kernel_is_reference(entry) &&
                entry->supports(request))
                return true;
        }
    }
    return false;
}

// Called by the cases of kernel_cases.c.
void check_problem(const problem *c) {
    sr_prepared prepared;
    sr_kernels_use_portable(false);
    const sr_kernel_entry *fast = sr_kernel_find(&c->request);
    assert_non_null(fast);
    assert_int_equal(has_own_class(&c->request), !sr_kernel_is_reference(fast));
    *(sr_kernel_is_reference(fast) ? &shared : &own) += 1;
    sr_kernels_use_portable(true);
    const sr_kernel_entry *portable = sr_kernel_find(&c->request);
    assert_non_null(portable);
    assert_true(sr_kernel_is_reference(portable));
    assert_ok(sr_kernel_prepare(&c->request, &prepared));
    assert_true(sr_kernel_is_reference(prepared.entry));
    sr_prepared_release(&prepared);
    sr_kernels_use_portable(false);
}

static void test_only_the_reference_class_is_taken(void **state) {
    (void)state;
    size_t count;
    (void)sr_providers(&count);
    for (int kernel = 0; kernel < SR_KERNEL_COUNT; kernel++)
        if (kernel_cases[kernel] != NULL)
            kernel_cases[kernel]((sr_kernel_id)kernel);
    assert_true(shared > 0);
    assert_true(own > 0 || count == 1 || sr_cpu_features() == 0);
}

static bool any_request(const sr_kernel_request *request) {
    (void)request;
    return true;
}

static sr_status prepare_nothing(const sr_kernel_request *request, sr_prepared *out) {
    (void)request;
    out->stages = 1;
    return SR_OK;
}

// Kernels that an operator brings take part if they declare the class.
static void test_own_kernels_declare_the_class(void **state) {
    (void)state;
    sr_kernel_entry entry = {.struct_size = sizeof entry,
                             .abi = SR_KERNEL_ABI,
                             .kernel = SR_KERNEL_OWN,
                             .name = "own/test",
                             .provider = "own",
                             .numerics_class = "own-order",
                             .supports = any_request,
                             .prepare = prepare_nothing};
    const sr_kernel_request request = {.kernel = SR_KERNEL_OWN, .own = &entry, .own_count = 1};
    sr_prepared prepared;
    assert_ok(sr_kernel_prepare(&request, &prepared));
    sr_kernels_use_portable(true);
    assert_status(SR_E_UNSUPPORTED, sr_kernel_prepare(&request, &prepared));
    assert_non_null(strstr(sr_error_message(), "numerics.portable"));
    entry.numerics_class = SR_KERNEL_REFERENCE;
    assert_ok(sr_kernel_prepare(&request, &prepared));
    sr_kernels_use_portable(false);
}

// ---- bits ----

static void assert_same(const char *what, const test_array *got, const test_array *want) {
    for (int64_t i = 0; i < want->count; i++) {
        const double a = array_get(got, i), b = array_get(want, i);
        if (!(isnan(a) && isnan(b)) && !(a == b && signbit(a) == signbit(b)))
            fail_msg("%s: element %lld of %lld is %.9g, the reference has %.9g", what, (long long)i,
                     (long long)want->count, a, b);
    }
}

// Runs the entry of class "reference" of every provider; the last argument is the result.
static void compare(sr_kernel_id kernel, const void *params, size_t bytes, const char *what,
                    int count, test_array *const *args) {
    test_array *want = array_new(args[count - 1]->dtype, args[count - 1]->count);
    test_array *with[SR_KERNEL_MAX_ARGS];
    sr_kernel_request request = {.kernel = kernel, .args = count};
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    memcpy(request.params, params, bytes);
    for (int i = 0; i < count; i++) {
        with[i] = i < count - 1 ? args[i] : want;
        request.dtype[i] = args[i] != NULL ? args[i]->dtype : SR_DTYPE_COUNT;
    }
    assert_ok(kernel_try("reference", kernel, params, bytes, count, with));
    for (size_t i = 1; i < providers; i++) {
        if (sr_kernel_find_in(&request, provider[i]->name) == NULL)
            continue;
        assert_ok(kernel_try(provider[i]->name, kernel, params, bytes, count, args));
        assert_same(what, args[count - 1], want);
    }
}

static void compare_conv(const sr_conv_params *p, sr_dtype t, uint32_t seed, bool special) {
    char what[160];
    test_array *x = array_random(t, p->n * p->h * p->w * p->c, seed, -2, 2);
    test_array *w = array_random(SR_F32, p->k * p->c * p->r * p->s, seed + 1, -1, 1);
    test_array *bias = array_random(SR_F32, p->k, seed + 2, -1, 1);
    test_array *dy = array_random(t, p->n * p->p * p->q * p->k, seed + 3, -2, 2);
    if (special) {
        array_set(x, 0, (double)INFINITY);
        array_set(dy, dy->count - 1, (double)NAN);
        array_set(dy, 0, -(double)INFINITY);
        array_set(w, 0,
                  (double)INFINITY); // where a tap is outside of the picture it must not count
    }
    (void)snprintf(what, sizeof what, "%s %lldx%lldx%lldx%lld, %lld of %lldx%lld, stride %d %d",
                   sr_dtype_name(t), (long long)p->n, (long long)p->h, (long long)p->w,
                   (long long)p->c, (long long)p->k, (long long)p->r, (long long)p->s,
                   (int)p->stride_h, (int)p->stride_w);
    compare(SR_KERNEL_conv2d, p, sizeof *p, what, 4,
            (test_array *[]){x, w, seed % 2 ? bias : NULL, array_new(t, dy->count)});
    compare(SR_KERNEL_conv2d_dx, p, sizeof *p, what, 3,
            (test_array *[]){dy, w, array_new(t, x->count)});
    compare(SR_KERNEL_conv2d_dw, p, sizeof *p, what, 3,
            (test_array *[]){x, dy, array_new(SR_F32, w->count)});
    (void)arrays_free(NULL);
}

static int64_t outputs(int64_t size, int64_t window, int32_t stride, int32_t dilation,
                       int32_t pads) {
    return (size + pads - dilation * (window - 1) - 1) / stride + 1;
}

static int32_t small(sr_rng *rng, uint32_t most) {
    return 1 + (int32_t)sr_rng_below(rng, most);
}

static sr_conv_params draw(sr_rng *rng) {
    static const int64_t windows[] = {1, 2, 3, 3, 5};
    sr_conv_params p = {.n = small(rng, 6),
                        .h = small(rng, 12),
                        .w = small(rng, 40),
                        .c = small(rng, 80),
                        .k = small(rng, 140),
                        .r = windows[sr_rng_below(rng, 5)],
                        .s = windows[sr_rng_below(rng, 5)],
                        .stride_h = small(rng, 3),
                        .stride_w = small(rng, 2),
                        .pad_top = small(rng, 3) - 1,
                        .pad_left = small(rng, 3) - 1,
                        .pad_bottom = small(rng, 3) - 1,
                        .pad_right = small(rng, 3) - 1,
                        .dilation_h = small(rng, 2),
                        .dilation_w = small(rng, 2),
                        .groups = 1};
    p.h += p.dilation_h * (p.r - 1); // at least one output
    p.w += p.dilation_w * (p.s - 1);
    p.p = outputs(p.h, p.r, p.stride_h, p.dilation_h, p.pad_top + p.pad_bottom);
    p.q = outputs(p.w, p.s, p.stride_w, p.dilation_w, p.pad_left + p.pad_right);
    return p;
}

enum { DRAWN = 30, FEW_TERMS = 400000 };
static const sr_dtype types[] = {SR_F32, SR_BF16, SR_F16};

static void test_drawn_convolutions(void **state) {
    sr_rng rng;
    (void)state;
    sr_rng_init(&rng, 11, 0, 0, 0);
    sr_kernels_use_portable(true);
    for (uint32_t i = 0; i < DRAWN; i++) {
        sr_conv_params p = draw(&rng);
        while (p.n * p.p * p.q * p.k * p.c > FEW_TERMS && (p.n > 1 || p.c > 1)) {
            p.n = (p.n + 1) / 2;
            p.c = p.n > 1 ? p.c : (p.c + 1) / 2;
        }
        compare_conv(&p, types[i % 3], 16 * i, i % 4 == 3);
    }
    sr_kernels_use_portable(false);
}

// Long sums, whose trees have many levels: over pixels, over pixels in groups, and over channels.
static void test_deep_trees(void **state) {
    static const sr_conv_params shapes[] = {
        {40, 16, 16, 4, 12, 3, 3, 16, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0},
        {3, 60, 70, 3, 5, 2, 2, 59, 69, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0},
        {1, 3, 3, 700, 20, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0},
        {90, 2, 2, 40, 33, 1, 1, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 1, 0},
    };
    (void)state;
    sr_kernels_use_portable(true);
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        compare_conv(&shapes[i], types[i % 3], 1000 + 16 * i, false);
    sr_kernels_use_portable(false);
}

static void test_linear_layers(void **state) {
    static const sr_linear_params shapes[] = {
        {1, 1000, 3}, {300, 10, 7}, {33, 65, 129}, {97, 64, 64}};
    (void)state;
    sr_kernels_use_portable(true);
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const sr_linear_params *l = &shapes[i];
        const sr_dtype t = types[i % 3];
        test_array *x = array_random(t, l->n * l->c, i, -2, 2);
        test_array *w = array_random(SR_F32, l->k * l->c, i + 10, -1, 1);
        test_array *dy = array_random(t, l->n * l->k, i + 20, -2, 2);
        compare(
            SR_KERNEL_linear, l, sizeof *l, "linear", 4,
            (test_array *[]){x, w, array_random(SR_F32, l->k, i, -1, 1), array_new(t, dy->count)});
        compare(SR_KERNEL_linear_dx, l, sizeof *l, "linear_dx", 3,
                (test_array *[]){dy, w, array_new(t, x->count)});
        compare(SR_KERNEL_linear_dw, l, sizeof *l, "linear_dw", 3,
                (test_array *[]){x, dy, array_new(SR_F32, w->count)});
        (void)arrays_free(NULL);
    }
    sr_kernels_use_portable(false);
}

// The whole range of gelu: each piece of erf, where exp underflows, and special numbers.
static void test_gelu(void **state) {
    static const double special[] = {(double)INFINITY, -(double)INFINITY, (double)NAN, -0.0,
                                     0x1p-140,         -0x1p-126,         1e30,        -1e30};
    enum { SPECIALS = sizeof special / sizeof special[0], COUNT = 20000 };
    (void)state;
    sr_kernels_use_portable(true);
    for (int i = 0; i < 3; i++) {
        const sr_dtype t = types[i];
        const sr_count_params params = {COUNT};
        test_array *x = array_random(t, COUNT, 5, -16, 16), *dy = array_random(t, COUNT, 6, -2, 2);
        for (int k = 0; k < SPECIALS; k++)
            array_set(x, 7 * k, special[k]);
        compare(SR_KERNEL_gelu, &params, sizeof params, "gelu", 2,
                (test_array *[]){x, array_new(t, COUNT)});
        compare(SR_KERNEL_gelu_grad, &params, sizeof params, "gelu_grad", 3,
                (test_array *[]){x, dy, array_new(t, COUNT)});
        (void)arrays_free(NULL);
    }
    sr_kernels_use_portable(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_reference_class_is_taken),
        cmocka_unit_test(test_own_kernels_declare_the_class),
        cmocka_unit_test_teardown(test_drawn_convolutions, arrays_free),
        cmocka_unit_test_teardown(test_deep_trees, arrays_free),
        cmocka_unit_test_teardown(test_linear_layers, arrays_free),
        cmocka_unit_test_teardown(test_gelu, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
