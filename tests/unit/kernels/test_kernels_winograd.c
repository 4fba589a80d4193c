// SPDX-License-Identifier: Apache-2.0
// The Winograd convolutions, also on shapes for which the table would not choose them: prepared and
// run directly, compared with the reference in f64.
//
// Bounds. Transforms add and subtract values of a whole tile, so an error is relative to the
// largest sum of absolute values of terms nearby, not to that of the element itself (next to
// padding that may be far smaller). The added values are, in absolute value, up to 51 times that
// sum (|A^T| |G| |B^T| 1 over 9 terms). Their roundings have random signs and average over points
// and channels: 40 units of roundoff for one channel, plus one chain of sums over channels. A
// missing or wrong term is an error of about 2^24 units divided by the number of terms.
#include "tests/unit/support/test_support.h"

#include <math.h>

#include "kernels/base/cpuid.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/kernels/kernel_fixture.h"

typedef struct winograd_shape {
    int n, h, w, c, k, top, left, bottom, right, dilation_h, dilation_w;
} winograd_shape;

// Pictures of one pixel, and windows entirely in the padding; sizes around multiples of four, every
// padding and none, unequal padding, odd channels, one picture and several blocks. Dilation: phases
// of equal and of different sizes, of one row, and more than there are rows.
static const winograd_shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},     {3, 1, 1, 5, 3, 2, 2, 2, 2, 1, 1},
    {1, 3, 3, 17, 33, 0, 0, 0, 0, 1, 1},   {2, 3, 3, 32, 32, 1, 1, 1, 1, 1, 1},
    {5, 4, 5, 7, 16, 1, 1, 1, 1, 1, 1},    {1, 6, 9, 31, 1, 0, 0, 0, 0, 1, 1},
    {2, 7, 8, 33, 65, 2, 2, 2, 2, 1, 1},   {1, 9, 4, 40, 50, 0, 2, 1, 0, 1, 1},
    {1, 8, 13, 16, 97, 2, 0, 0, 1, 1, 1},  {13, 7, 7, 24, 36, 1, 1, 1, 1, 1, 1},
    {1, 33, 31, 9, 70, 1, 1, 1, 1, 1, 1},  {1, 5, 6, 8, 8, 3, 4, 3, 4, 1, 1},
    {5, 15, 15, 32, 64, 1, 1, 1, 1, 1, 1}, {4, 11, 15, 36, 70, 2, 2, 2, 2, 2, 2},
    {1, 9, 10, 17, 33, 2, 3, 2, 3, 2, 3},  {2, 7, 5, 33, 16, 0, 4, 0, 4, 1, 4},
    {1, 5, 6, 40, 32, 6, 6, 6, 6, 6, 6},   {1, 9, 8, 8, 36, 4, 0, 1, 0, 3, 2},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0], ENTRIES = 7, TYPES = 3 };

static const sr_dtype types[TYPES] = {SR_F32, SR_BF16, SR_F16};

static sr_conv_params params_of(const winograd_shape *s) {
    sr_conv_params p = {.n = s->n, .h = s->h, .w = s->w, .c = s->c, .k = s->k, .r = 3, .s = 3};
    p.stride_h = p.stride_w = p.groups = 1;
    p.dilation_h = s->dilation_h;
    p.dilation_w = s->dilation_w;
    p.p = s->h + s->top + s->bottom - 2 * p.dilation_h;
    p.q = s->w + s->left + s->right - 2 * p.dilation_w;
    p.pad_top = s->top;
    p.pad_left = s->left;
    p.pad_bottom = s->bottom;
    p.pad_right = s->right;
    return p;
}

// All Winograd entries of this build; skips the case if this processor supports none.
static int find_entries(const sr_kernel_entry **out) {
    int count = 0;
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    for (size_t i = 0; i < providers; i++) {
        for (size_t k = 0; k < provider[i]->count; k++) {
            const sr_kernel_entry *entry = &provider[i]->entries[k];
            if (strncmp(entry->numerics_class, "x86-winograd", strlen("x86-winograd")) != 0)
                continue;
            assert_true(count < ENTRIES);
            out[count++] = entry;
        }
    }
    if (count == 0 || (sr_cpu_features() & SR_CPU_AVX2) == 0)
        test_skip("this build or processor has no Winograd kernels");
    return count;
}

// ---- one convolution ----

typedef struct convolution {
    sr_conv_params p;
    sr_kernel_id kernel;
    int args, result;
    int64_t count[4];
    double terms; // of a sum
} convolution;

static convolution convolution_of(sr_kernel_id kernel, const sr_conv_params *p, bool bias) {
    const int64_t x = p->n * p->h * p->w * p->c, y = p->n * p->p * p->q * p->k;
    const int64_t w = p->k * p->c * 9;
    if (kernel == SR_KERNEL_conv2d)
        return (convolution){*p, kernel, 4, 3, {x, w, bias ? p->k : 0, y}, 9 * (double)p->c};
    if (kernel == SR_KERNEL_conv2d_dx)
        return (convolution){*p, kernel, 3, 2, {y, w, x}, 9 * (double)p->k};
    return (convolution){*p, kernel, 3, 2, {x, y, w}, (double)(p->n * p->p * p->q)};
}

static sr_dtype argument_type(const convolution *c, int i, sr_dtype t) {
    const bool weights = c->kernel == SR_KERNEL_conv2d_dw ? i == 2 : i == 1;
    const bool bias = c->kernel == SR_KERNEL_conv2d && i == 2;
    return weights || bias ? parameter_type(t) : t;
}

static void make_arrays(const convolution *c, sr_dtype t, test_array **a) {
    for (int i = 0; i < c->args; i++)
        a[i] = i == c->result ? array_new(argument_type(c, i, t), c->count[i])
               : c->count[i] == 0
                   ? NULL
                   : array_random(argument_type(c, i, t), c->count[i], (uint32_t)i + 7, -2, 2);
}

// The reference's result for the inputs (or their absolute values) in f64, weights rounded to t.
static test_array *expected(const convolution *c, sr_dtype t, test_array *const *a, bool absolute) {
    test_array *wide[4] = {NULL};
    for (int i = 0; i < c->args; i++) {
        if (a[i] == NULL)
            continue;
        wide[i] = array_new(SR_F64, c->count[i]);
        for (int64_t k = 0; i != c->result && k < c->count[i]; k++) {
            const bool weights = i == 1 && c->kernel != SR_KERNEL_conv2d_dw;
            const double value = weights ? round_to(t, array_get(a[i], k)) : array_get(a[i], k);
            array_set(wide[i], k, absolute ? fabs(value) : value);
        }
    }
    assert_ok(kernel_try("reference", c->kernel, &c->p, sizeof c->p, c->args, wide));
    return wide[c->result];
}

// Runs the entry: blocks in order, then backwards on scratch and workspace full of NaN.
static void run_entry(const sr_kernel_entry *entry, const convolution *c, test_array *const *a,
                      bool reverse) {
    sr_kernel_request request = {.kernel = c->kernel, .args = c->args};
    memcpy(request.params, &c->p, sizeof c->p);
    void *p[4] = {NULL};
    for (int i = 0; i < c->args; i++) {
        request.dtype[i] = a[i] != NULL ? a[i]->dtype : SR_DTYPE_COUNT;
        p[i] = a[i] != NULL ? a[i]->data : NULL;
    }
    sr_prepared prepared = {0};
    assert_ok(entry->prepare(&request, &prepared));
    void *workspace = sr_alloc(prepared.workspace, "test workspace");
    sr_worker worker = {.scratch = sr_alloc(prepared.scratch, "test scratch")};
    memset(workspace, 0xff, prepared.workspace);
    sr_kernel_args args = {p, request.params, prepared.state, workspace, 0};
    for (int s = 0; s < prepared.stages; s++) {
        args.block_rows = prepared.stage[s].block_rows;
        const int64_t blocks = prepared.stage[s].blocks;
        for (int64_t i = 0; i < blocks; i++) {
            memset(worker.scratch, 0xff, prepared.scratch);
            assert_ok(prepared.stage[s].run(&args, reverse ? blocks - 1 - i : i, &worker));
        }
    }
    sr_free(workspace);
    sr_free(worker.scratch);
    sr_prepared_release(&prepared);
}

static size_t bytes_of(const test_array *a) {
    return (size_t)a->count * sr_dtype_size(a->dtype);
}

// Checks one shape and returns the hash of the result.
static uint64_t check(const sr_kernel_entry *entry, const winograd_shape *s, sr_dtype t,
                      bool bias) {
    const sr_conv_params p = params_of(s);
    const convolution c = convolution_of(entry->kernel, &p, bias);
    test_array *a[4];
    char what[96];
    make_arrays(&c, t, a);
    const test_array *out = a[c.result];
    (void)snprintf(what, sizeof what, "%s n%d %dx%d %d->%d pad %d %d %d %d dilation %d %d",
                   entry->name, s->n, s->h, s->w, s->c, s->k, s->top, s->left, s->bottom, s->right,
                   s->dilation_h, s->dilation_w);
    run_entry(entry, &c, a, false);
    const uint64_t hash = sr_hash64_seed(out->data, bytes_of(out), 0);
    const test_array *want = expected(&c, t, a, false), *absolute = expected(&c, t, a, true);
    double magnitude = 0;
    for (int64_t i = 0; i < out->count; i++)
        magnitude = fmax(magnitude, array_get(absolute, i));
    for (int64_t i = 0; i < out->count; i++)
        assert_near(what, i, out->dtype, array_get(out, i), array_get(want, i), 40 + sqrt(c.terms),
                    magnitude);
    memset(out->data, 0xa5, bytes_of(out));
    run_entry(entry, &c, a, true);
    if (sr_hash64_seed(out->data, bytes_of(out), 0) != hash)
        fail_msg("%s depends on the order of blocks or on the contents of scratch", what);
    (void)arrays_free(NULL);
    return hash;
}

// Hashes of all shapes in both types.
static void check_all(const sr_kernel_entry *entry, uint64_t hashes[SHAPES][TYPES]) {
    for (int s = 0; s < SHAPES; s++)
        for (int t = 0; t < TYPES; t++)
            hashes[s][t] = check(entry, &shapes[s], types[t], (s + t) % 2 == 0);
}

// Entries of one class and kernel give the same bits.
static void compare_class(const sr_kernel_entry *const *entry, uint64_t (*hashes)[SHAPES][TYPES],
                          int e) {
    for (int other = 0; other < e; other++) {
        if (entry[other]->kernel != entry[e]->kernel ||
            strcmp(entry[other]->numerics_class, entry[e]->numerics_class) != 0)
            continue;
        for (int s = 0; s < SHAPES; s++)
            if (memcmp(hashes[other][s], hashes[e][s], sizeof hashes[e][s]) != 0)
                fail_msg("shape %d: %s and %s give different bits", s, entry[other]->name,
                         entry[e]->name);
    }
}

static void test_shapes(void **state) {
    static uint64_t wide[ENTRIES][SHAPES][TYPES], narrow[ENTRIES][SHAPES][TYPES];
    const sr_kernel_entry *entry[ENTRIES];
    (void)state;
    const int entries = find_entries(entry);
    for (int e = 0; e < entries; e++) {
        check_all(entry[e], wide[e]);
        compare_class(entry, wide, e);
    }
    if ((sr_cpu_features() & SR_CPU_AVX512) == 0) {
        print_message("NOT RUN: this processor has no AVX-512 to compare AVX2 with\n");
        return;
    }
    sr_cpu_restrict(SR_CPU_AVX2);
    for (int e = 0; e < entries; e++) {
        check_all(entry[e], narrow[e]);
        for (int s = 0; s < SHAPES; s++)
            if (memcmp(wide[e][s], narrow[e][s], sizeof wide[e][s]) != 0)
                fail_msg("%s, shape %d: AVX2 and AVX-512 give different bits", entry[e]->name, s);
    }
}

// ---- accuracy ----

typedef struct accuracy {
    double error, direct; // root mean square errors relative to that of the result
} accuracy;

// Adds the products of one picture, output pixel by output pixel, in fp32 to the existing sums.
static void add_directly(const convolution *c, int64_t n, const float *a, const float *b,
                         float *to) {
    const sr_conv_params *p = &c->p;
    const int64_t taps = p->r * p->s, filter = p->c * taps;
    for (int64_t i = 0; i < p->p * p->q * p->k * taps; i++) {
        const int64_t y = n * p->p * p->q * p->k + i / taps, k = i / taps % p->k;
        const int64_t h = i / taps / p->k / p->q + i % taps / p->s - p->pad_top;
        const int64_t v = i / taps / p->k % p->q + i % taps % p->s - p->pad_left;
        if (h < 0 || h >= p->h || v < 0 || v >= p->w)
            continue;
        const int64_t x = ((n * p->h + h) * p->w + v) * p->c, w = k * filter + i % taps;
        for (int64_t d = 0; d < p->c; d++) {
            if (c->kernel == SR_KERNEL_conv2d)
                to[y] += a[x + d] * b[w + d * taps];
            else if (c->kernel == SR_KERNEL_conv2d_dx)
                to[x + d] += a[y] * b[w + d * taps];
            else
                to[w + d * taps] += a[x + d] * b[y];
        }
    }
}

// Plain sums in fp32, each one a chain; for weights one per picture, and one over these.
static test_array *direct_sums(const convolution *c, test_array *const *a) {
    test_array *sum = array_new(SR_F32, c->count[c->result]);
    test_array *one = array_new(SR_F32, c->count[c->result]);
    for (int64_t n = 0; n < c->p.n; n++) {
        memset(one->data, 0, (size_t)one->count * sizeof(float));
        add_directly(c, n, a[0]->data, a[1]->data, one->data);
        for (int64_t i = 0; i < sum->count; i++)
            array_set(sum, i, (double)((float)array_get(sum, i) + (float)array_get(one, i)));
    }
    return sum;
}

// 'size' is the number of channels in a sum; for conv2d_dw, of pictures times 8.
static accuracy measure(const sr_kernel_entry *entry, int size) {
    const sr_kernel_id kernel = entry->kernel;
    const bool dw = kernel == SR_KERNEL_conv2d_dw;
    const winograd_shape s = {.n = dw ? size / 8 : 1,
                              .h = 8,
                              .w = 8,
                              .c = kernel == SR_KERNEL_conv2d ? size : 8,
                              .k = kernel == SR_KERNEL_conv2d_dx ? size : 8,
                              .top = 1,
                              .left = 1,
                              .bottom = 1,
                              .right = 1,
                              .dilation_h = 1,
                              .dilation_w = 1};
    const sr_conv_params p = params_of(&s);
    const convolution c = convolution_of(kernel, &p, false);
    test_array *a[4];
    make_arrays(&c, SR_F32, a);
    const test_array *want = expected(&c, SR_F32, a, false);
    const test_array *direct = direct_sums(&c, a);
    run_entry(entry, &c, a, false);
    double sum = 0, sum_direct = 0, squares = 0;
    for (int64_t i = 0; i < c.count[c.result]; i++) {
        const double w = array_get(want, i), e = array_get(a[c.result], i) - w;
        const double d = array_get(direct, i) - w;
        sum += e * e;
        sum_direct += d * d;
        squares += w * w;
    }
    (void)arrays_free(NULL);
    return (accuracy){sqrt(sum / squares), sqrt(sum_direct / squares)};
}

// The root mean square error stays below three millionths, and below five times that of plain sums
// in fp32 (twice, for sums over channels; plain sums add pixels in short sections): no more than
// another order of a plain sum would cause.
static void test_accuracy(void **state) {
    const sr_kernel_entry *entry[ENTRIES];
    (void)state;
    const int entries = find_entries(entry);
    for (int e = 0; e < entries; e++) {
        const char *what = entry[e]->kernel == SR_KERNEL_conv2d_dw ? "x 8 pixels" : "channels";
        for (int size = 64; size <= 512; size *= 8) {
            const accuracy a = measure(entry[e], size);
            print_message("%-30s %3d %s: error %.2e, direct fp32 %.2e\n", entry[e]->name, size,
                          what, a.error, a.direct);
            assert_true(a.error < 3e-6 && a.error < 5 * a.direct);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_accuracy, arrays_free),
        cmocka_unit_test_teardown(test_shapes, arrays_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
