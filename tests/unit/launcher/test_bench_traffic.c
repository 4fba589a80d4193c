// SPDX-License-Identifier: Apache-2.0
// The bytes that plans of steps for GPUs count (kernels/cuda/traffic.def) are those that kernels of
// the CUDA module load and store: counted on the software GPU, in the module whose kernels report
// their accesses. Nothing is timed.
//
// What a plan leaves out are sums of parts and factors of channels, which caches hold: each case
// says how many bytes these may be, always less than a quarter of the smallest pass. The numbers of
// launches are those of the plan.
#include "tests/unit/support/test_support.h"

#include "launcher/bench/bench_gpu_internal.h"
#include "tests/soft_gpu/soft_gpu.h"
#include "tests/unit/kernels/kernel_fixture.h"

// Arguments of a kernel with their shapes; those behind the inputs are outputs.
typedef struct problem {
    sr_kernel_id id;
    const void *params;
    size_t params_bytes;
    int inputs, args;
    test_array *array[SR_KERNEL_MAX_ARGS]; // NULL: absent
    sr_info info[SR_KERNEL_MAX_ARGS];
    double more_loaded, more_stored;       // bytes that the plan may leave out
    double neighbours[SR_KERNEL_MAX_ARGS]; // loads of an input for other results, from caches
} problem;

static const sr_gpu *gpu(void) {
    return sr_gpu_find("h100");
}

// ---- Problems ----

static void add(problem *p, sr_dtype dtype, int rank, const int64_t *dim) {
    sr_info *info = &p->info[p->args];
    *info = (sr_info){.dtype = dtype, .rank = (uint8_t)rank};
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= info->dim[d] = dim[d];
    p->array[p->args] = dtype == SR_U8 ? array_new(dtype, count)
                                       : array_random(dtype, count, (uint32_t)p->args + 1, 0.5, 1);
    p->args++;
}

static void add_absent(problem *p) {
    p->info[p->args++] = (sr_info){.dtype = SR_DTYPE_COUNT};
}

static void add_rows(problem *p, sr_dtype dtype, int64_t rows, int64_t channels) {
    add(p, dtype, 2, (const int64_t[]){rows, channels});
}

static void add_vectors(problem *p, int count, int64_t channels) {
    for (int i = 0; i < count; i++)
        add(p, SR_F32, 1, &channels);
}

// ---- The check ----

typedef struct traffic {
    double loaded, stored, launches;
} traffic;

static double bytes_of(const sr_info *info) {
    return info->dtype == SR_DTYPE_COUNT
               ? 0
               : (double)sr_info_count(info) * (double)sr_dtype_size(info->dtype);
}

static traffic plan(const problem *p, const char **class) {
    sr_plan_launch_view view = {
        .id = p->id, .params = p->params, .args = p->args, .inputs = p->inputs, .runs = 1};
    sr_gpu_kernel k = {.id = p->id, .dtype = p->info[0].dtype};
    memcpy(view.info, p->info, sizeof view.info);
    sr_gpu_serve(&view, 1, gpu(), &k);
    traffic out = {k.fixed / 2, k.fixed / 2, k.functions * k.repeats};
    for (int i = 0; i < p->args; i++) {
        const sr_gpu_use use = sr_gpu_passes(&view, gpu(), i, &k);
        out.loaded += (use.times + use.cached) * bytes_of(&p->info[i]);
        out.loaded += p->neighbours[i] * bytes_of(&p->info[i]);
        out.stored += i < p->inputs ? 0 : bytes_of(&p->info[i]);
    }
    *class = sr_gpu_class_name(k.numerics);
    return out;
}

static traffic now(void) {
    uint64_t loaded, stored;
    soft_gpu_traffic(&loaded, &stored);
    return (traffic){(double)loaded, (double)stored, (double)soft_gpu_count("launch")};
}

// Signs, of a bit for an element, are less than what is left out: their tests compare runs.
static double smallest_pass(const problem *p) {
    double least = bytes_of(&p->info[0]);
    for (int i = 0; i < p->args; i++)
        if (p->info[i].rank > 1 && p->info[i].dtype != SR_U8 && bytes_of(&p->info[i]) < least)
            least = bytes_of(&p->info[i]);
    return least;
}

static void check_bytes(const problem *p, const char *what, double got, double want, double more) {
    assert_true(more < smallest_pass(p) / 4);
    if (got < want || got > want + more)
        fail_msg("%s %s %.0f bytes; the plan has %.0f, and leaves out up to %.0f",
                 sr_kernel_name(p->id), what, got, want, more);
}

// What a run of a kernel of this class loads and stores.
static traffic run(const problem *p, const char *class) {
    const traffic before = now();
    assert_int_equal(kernel_try(class, p->id, p->params, p->params_bytes, p->args, p->array),
                     SR_OK);
    const traffic after = now();
    return (traffic){after.loaded - before.loaded, after.stored - before.stored,
                     after.launches - before.launches};
}

// Returns what it counts.
static traffic check(const problem *p, const char *expected_class) {
    const char *class;
    const traffic want = plan(p, &class);
    assert_string_equal(class, expected_class);
    const traffic got = run(p, class);
    check_bytes(p, "loads", got.loaded, want.loaded, p->more_loaded);
    check_bytes(p, "stores", got.stored, want.stored, p->more_stored);
    if (got.launches != want.launches) // both are whole numbers
        fail_msg("%s is %.0f launches, not %.0f", sr_kernel_name(p->id), got.launches,
                 want.launches);
    return got;
}

// ---- Cases ----

enum { ROWS = 1568, CHANNELS = 256 };
static const sr_batchnorm_params norm = {.rows = ROWS, .channels = CHANNELS, .eps = 1e-5};

// A unit of batch norm has 256 rows of 64 channels in 16 bits. Of each channel it stores two sums
// and loads them once or twice, and loads at most the seven numbers of a channel for each of its
// two turns: less than 18 floats.
static problem begin_norm(sr_kernel_id id, int inputs) {
    enum { UNITS = (ROWS + 255) / 256, FLOATS = 18 };
    return (problem){.id = id,
                     .params = &norm,
                     .params_bytes = sizeof norm,
                     .inputs = inputs,
                     .more_loaded = 4.0 * UNITS * FLOATS * CHANNELS,
                     .more_stored = 4.0 * UNITS * FLOATS * CHANNELS};
}

// The signs of all rows.
enum { SIGN_BYTES = ROWS * CHANNELS / 8 };

static void test_batchnorm_train_relu(void **state) {
    (void)state;
    traffic counted[2][2];
    for (int i = 0; i < 4; i++) {
        const int with_z = i / 2, with_signs = i % 2;
        problem p = begin_norm(SR_KERNEL_batchnorm_train_relu, 4);
        add_rows(&p, SR_BF16, ROWS, CHANNELS);
        if (with_z)
            add_rows(&p, SR_BF16, ROWS, CHANNELS);
        else
            add_absent(&p);
        add_vectors(&p, 2, CHANNELS);
        add_rows(&p, SR_BF16, ROWS, CHANNELS);
        add_vectors(&p, 2, CHANNELS);
        if (with_signs)
            add_rows(&p, SR_U8, ROWS, CHANNELS / 8);
        else
            add_absent(&p);
        counted[with_z][with_signs] = check(&p, "tensor");
    }
    for (int z = 0; z < 2; z++) {
        assert_true(counted[z][1].loaded == counted[z][0].loaded);
        assert_true(counted[z][1].stored == counted[z][0].stored + SIGN_BYTES);
    }
}

static void test_batchnorm_train_pair_relu(void **state) {
    (void)state;
    problem p = begin_norm(SR_KERNEL_batchnorm_train_pair_relu, 8);
    add_rows(&p, SR_BF16, ROWS, CHANNELS);
    add_rows(&p, SR_BF16, ROWS, CHANNELS);
    add_vectors(&p, 6, CHANNELS);
    add_rows(&p, SR_BF16, ROWS, CHANNELS);
    add_vectors(&p, 2, CHANNELS);
    add_rows(&p, SR_U8, ROWS, CHANNELS / 8);
    (void)check(&p, "tensor");
}

static void test_batchnorm_relu_grad(void **state) {
    (void)state;
    problem p = begin_norm(SR_KERNEL_batchnorm_relu_grad, 6);
    add_rows(&p, SR_F16, ROWS, CHANNELS);
    add_rows(&p, SR_F16, ROWS, CHANNELS);
    add_vectors(&p, 4, CHANNELS);
    add_rows(&p, SR_F16, ROWS, CHANNELS);
    add_vectors(&p, 2, CHANNELS);
    (void)check(&p, "tensor");
}

// Beside what batchnorm_grad loads, whose dy is read twice, as a is once and dz is once: b, signs.
static void test_batchnorm_add_relu_grad(void **state) {
    (void)state;
    problem p = begin_norm(SR_KERNEL_batchnorm_add_relu_grad, 7);
    add_rows(&p, SR_BF16, ROWS, CHANNELS);
    add_rows(&p, SR_U8, ROWS, CHANNELS / 8);
    add_rows(&p, SR_BF16, ROWS, CHANNELS);
    add_rows(&p, SR_BF16, ROWS, CHANNELS);
    add_vectors(&p, 3, CHANNELS);
    add_rows(&p, SR_BF16, ROWS, CHANNELS);
    add_rows(&p, SR_BF16, ROWS, CHANNELS);
    add_vectors(&p, 2, CHANNELS);
    const traffic joined = check(&p, "tensor");
    problem alone = begin_norm(SR_KERNEL_batchnorm_grad, 5);
    add_rows(&alone, SR_BF16, ROWS, CHANNELS);
    add_rows(&alone, SR_BF16, ROWS, CHANNELS);
    add_vectors(&alone, 3, CHANNELS);
    add_rows(&alone, SR_BF16, ROWS, CHANNELS);
    add_vectors(&alone, 2, CHANNELS);
    const traffic plain = check(&alone, "tensor");
    assert_true(joined.loaded == plain.loaded + bytes_of(&p.info[3]) + SIGN_BYTES);
}

enum { FEATURES = 384 };

// Without gamma and beta, which each row loads from caches.
static void test_groupnorm(void **state) {
    (void)state;
    const sr_groupnorm_params params = {
        .samples = ROWS, .pixels = 1, .channels = FEATURES, .groups = 1, .eps = 1e-5};
    problem p = {
        .id = SR_KERNEL_groupnorm, .params = &params, .params_bytes = sizeof params, .inputs = 3};
    add_rows(&p, SR_BF16, ROWS, FEATURES);
    add_absent(&p);
    add_absent(&p);
    add_rows(&p, SR_BF16, ROWS, FEATURES);
    add_vectors(&p, 2, ROWS);
    (void)check(&p, "tensor");
}

static void test_groupnorm_with_sums(void **state) {
    (void)state;
    const sr_groupnorm_params params = {
        .samples = ROWS, .pixels = 1, .channels = FEATURES, .groups = 1, .eps = 1e-5};
    const sr_add_groupnorm_params sum = {.norm = params};
    problem p = {
        .id = SR_KERNEL_add_groupnorm, .params = &sum, .params_bytes = sizeof sum, .inputs = 5};
    add_rows(&p, SR_BF16, ROWS, FEATURES);
    add_rows(&p, SR_BF16, ROWS, FEATURES);
    for (int i = 0; i < 3; i++)
        add_absent(&p);
    add_rows(&p, SR_BF16, ROWS, FEATURES);
    add_rows(&p, SR_BF16, ROWS, FEATURES);
    add_vectors(&p, 2, ROWS);
    check(&p, "tensor");
}

static void check_elements(sr_kernel_id id, int inputs, const char *class) {
    enum { ELEMENTS = 1000 };
    const sr_expression_params params = {.count = (int64_t)ELEMENTS * 10};
    problem p = {.id = id, .params = &params, .params_bytes = sizeof params, .inputs = inputs};
    for (int i = 0; i <= inputs; i++)
        add_rows(&p, SR_BF16, ELEMENTS, 10);
    (void)check(&p, class);
}

static void test_elements(void **state) {
    (void)state;
    check_elements(SR_KERNEL_gelu, 1, "tensor");
    check_elements(SR_KERNEL_gelu_grad, 2, "tensor");
    check_elements(SR_KERNEL_add, 2, "reference");
}

// Windows of 3 x 3 with stride 2, as in ResNet-50.
enum { SAMPLES = 2, SIDE = 56, HALF = SIDE / 2, WIDE = 64 };
static const sr_norm_pool_params windows = {.pool = {.n = SAMPLES,
                                                     .h = SIDE,
                                                     .w = SIDE,
                                                     .c = WIDE,
                                                     .p = HALF,
                                                     .q = HALF,
                                                     .window_h = 3,
                                                     .window_w = 3,
                                                     .stride_h = 2,
                                                     .stride_w = 2,
                                                     .pad_top = 1,
                                                     .pad_left = 1},
                                            .eps = 1e-5};
static const int64_t all_pixels[] = {SAMPLES, SIDE, SIDE, WIDE},
                     pooled[] = {SAMPLES, HALF, HALF, WIDE};
// Pairs of a pixel and a window that has it: along a side, all windows but the first have three.
static const double pairs = (3.0 * HALF - 1) * (3.0 * HALF - 1);

// 2 x 2 pixels are computed together from the four windows that have some of them, so a window is
// loaded for four such blocks.
static void test_maxpool2d_grad(void **state) {
    (void)state;
    problem p = {.id = SR_KERNEL_maxpool2d_grad,
                 .params = &windows.pool,
                 .params_bytes = sizeof windows.pool,
                 .inputs = 2,
                 .neighbours = {3, 3}};
    add(&p, SR_BF16, 4, pooled);
    add(&p, SR_U8, 4, pooled);
    add(&p, SR_BF16, 4, all_pixels);
    (void)check(&p, "reference");
}

// A unit of batch norm has 256 rows of 32 channels in f32, see begin_norm; without gamma and beta
// it loads at most 12 numbers of a channel.
static problem begin_pool(sr_kernel_id id, int inputs) {
    enum { UNITS = (SAMPLES * SIDE * SIDE + 255) / 256, FLOATS = 12 };
    return (problem){.id = id,
                     .params = &windows,
                     .params_bytes = sizeof windows,
                     .inputs = inputs,
                     .more_loaded = 4.0 * UNITS * FLOATS * WIDE,
                     .more_stored = 4.0 * UNITS * FLOATS * WIDE};
}

// For y, a pixel is loaded once for each window that has it.
static void test_batchnorm_train_relu_maxpool(void **state) {
    (void)state;
    problem p = begin_pool(SR_KERNEL_batchnorm_train_relu_maxpool, 3);
    add(&p, SR_F32, 4, all_pixels);
    add_absent(&p);
    add_absent(&p);
    add(&p, SR_F32, 4, pooled);
    add_vectors(&p, 2, WIDE);
    add(&p, SR_U8, 4, pooled);
    p.neighbours[0] = pairs / (SIDE * SIDE) - 1;
    (void)check(&p, "tensor");
}

// For the sums and for dx, a window is loaded once for each of its pixels.
static void test_batchnorm_relu_maxpool_grad(void **state) {
    (void)state;
    problem p = begin_pool(SR_KERNEL_batchnorm_relu_maxpool_grad, 7);
    add(&p, SR_F32, 4, all_pixels);
    add(&p, SR_F32, 4, pooled);
    add(&p, SR_U8, 4, pooled);
    add_absent(&p);
    add_absent(&p);
    add_vectors(&p, 2, WIDE);
    add(&p, SR_F32, 4, all_pixels);
    add_vectors(&p, 2, WIDE);
    p.neighbours[1] = p.neighbours[2] = 2 * (pairs / (HALF * HALF) - 1);
    (void)check(&p, "tensor");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_batchnorm_train_relu, arrays_free),
        cmocka_unit_test_teardown(test_batchnorm_train_pair_relu, arrays_free),
        cmocka_unit_test_teardown(test_batchnorm_relu_grad, arrays_free),
        cmocka_unit_test_teardown(test_batchnorm_add_relu_grad, arrays_free),
        cmocka_unit_test_teardown(test_groupnorm_with_sums, arrays_free),
        cmocka_unit_test_teardown(test_groupnorm, arrays_free),
        cmocka_unit_test_teardown(test_elements, arrays_free),
        cmocka_unit_test_teardown(test_maxpool2d_grad, arrays_free),
        cmocka_unit_test_teardown(test_batchnorm_train_relu_maxpool, arrays_free),
        cmocka_unit_test_teardown(test_batchnorm_relu_maxpool_grad, arrays_free)};
    return cmocka_run_group_tests_name("bench_traffic", tests, NULL, NULL);
}
