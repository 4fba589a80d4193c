// SPDX-License-Identifier: Apache-2.0
// Passes of the compiler on networks: chains of stages (graph/pass_chain.c) form, cheap values are
// recomputed (graph/pass_recompute.c) and operators joined (graph/pass_fuse.c, pass_prologue.c)
// where they should, and random networks give the same bits with all passes and with none.
#include "tests/unit/support/test_support.h"

#include "autograd/gradients.h"
#include "graph/context.h"
#include "graph/ops.h"
#include "graph/plan_view.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/hash.h"
#include "kernels/base/rng.h"
#include "kernels/base/text.h"
#include "kernels/kernel.h"

enum {
    IMAGES = 8,
    SIDE = 8,
    CHANNELS = 128, // two blocks of rows for a sum
    ROWS = IMAGES * SIDE * SIDE,
    ELEMENTS = ROWS * CHANNELS,
    WEIGHTS = CHANNELS * CHANNELS,
    GRAPHS = 100,
    NODES = 14,
    TARGETS = 3,
    LAYERS = 24,
};

static float picture[ELEMENTS], filter[WEIGHTS], vector[CHANNELS];

static void fill(float *out, int count, uint32_t seed, float scale) {
    sr_rng rng;
    sr_rng_init(&rng, seed, 0, 0, 0);
    for (int i = 0; i < count; i++)
        out[i] = scale * ((float)(sr_rng_u32(&rng) >> 8) * 0x1p-23f - 1.0f);
}

typedef struct pass_network {
    sr_context *context;
    sr_tensor x, w, gamma, beta;
    uint64_t hash; // of everything delivered
    int delivered;
} pass_network;

static void begin_on(pass_network *n, const char *device, int optimize, sr_dtype dtype) {
    const sr_info image = {.dtype = dtype, .rank = 4, .dim = {IMAGES, SIDE, SIDE, CHANNELS}};
    const sr_info weights = {.dtype = SR_F32, .rank = 4, .dim = {CHANNELS, CHANNELS, 1, 1}};
    const sr_info channels = {.dtype = SR_F32, .rank = 1, .dim = {CHANNELS}};
    const sr_info full = {.dtype = SR_F32, .rank = 4, .dim = {IMAGES, SIDE, SIDE, CHANNELS}};
    const sr_context_options options = {.device = device, .threads = 2, .optimize = optimize};
    *n = (pass_network){.hash = 1};
    assert_ok(sr_context_create(&options, &n->context));
    sr_context_set_recomputing(n->context, true);
    n->w = sr_variable(n->context, "w", &weights, filter);
    n->gamma = sr_variable(n->context, "gamma", &channels, vector);
    n->beta = sr_variable(n->context, "beta", &channels, vector);
    n->x = sr_constant(n->context, &full, picture);
    if (dtype != SR_F32)
        n->x = sr_cast(n->x, image.dtype);
}

static void begin(pass_network *n, int optimize, sr_dtype dtype) {
    begin_on(n, NULL, optimize, dtype);
}

static sr_status sink(void *user, int index, sr_address data, size_t bytes, sr_stream *stream) {
    pass_network *n = user;
    void *host = sr_alloc(bytes, "a target");
    SR_TRY(sr_stream_download(stream, host, data, bytes));
    SR_TRY(sr_stream_wait(stream));
    // Targets are delivered in any order, so their hashes are added.
    n->hash += sr_hash64_seed(host, bytes, (uint64_t)index + 1);
    sr_free(host);
    n->delivered++;
    return SR_OK;
}

// Runs what was recorded; the plan is valid until the end of the context.
static sr_plan *run(pass_network *n, const sr_target *targets, int count) {
    sr_plan *plan = NULL;
    sr_executor *e;
    const sr_run replay = {.sink = sink, .user = n};
    assert_ok(sr_compile(n->context, targets, count, &plan));
    assert_ok(sr_executor_create(sr_context_device(n->context), 2, &e));
    assert_ok(sr_executor_begin(e, plan, &replay));
    assert_ok(sr_executor_wait(e));
    sr_executor_free(e);
    assert_int_equal(n->delivered, count);
    return plan;
}

// ---- The chains of a residual network ----

// With the statistics of the batch, or of a group of lanes.
static sr_batchnorm_out norm(const pass_network *n, sr_tensor x, bool group) {
    return group ? sr_batchnorm_group(x, n->gamma, n->beta, 1e-5, 1)
                 : sr_batchnorm_train(x, n->gamma, n->beta, 1e-5);
}

static void record_block(pass_network *n, bool group, sr_target targets[2]) {
    const sr_conv2d_opts pointwise = {0};
    sr_tensor variables[2] = {n->w, n->gamma}, grads[2];
    const sr_batchnorm_out first = norm(n, sr_conv2d(n->x, n->w, pointwise), group);
    const sr_tensor running = sr_scale(first.var, 0.5, 0.25); // not part of the chain
    const sr_tensor h = sr_relu(first.y);
    const sr_batchnorm_out second = norm(n, sr_conv2d(h, n->w, pointwise), group);
    const sr_tensor loss = sr_reduce_sum(sr_relu(sr_add(second.y, n->x)));
    sr_gradients(loss, SR_NONE, variables, 2, grads);
    targets[0] = (sr_target){.tensor = grads[0], .after = n->w};
    targets[1] = (sr_target){.tensor = running};
}

static void expect_chains(bool group, const char *const *chains, size_t count) {
    pass_network n;
    sr_target targets[2];
    sr_text text;
    sr_text_init(&text);
    begin_on(&n, "cpu", 0, SR_F32); // other devices run kernels one by one
    record_block(&n, group, targets);
    assert_ok(sr_plan_text(run(&n, targets, 2), &text));
    for (size_t i = 0; i < count; i++)
        if (!strstr(text.data, chains[i]))
            fail_msg("no step runs%s\n%s", chains[i], text.data);
    sr_text_release(&text);
    sr_context_free(n.context);
}

static void test_a_residual_block_has_its_chains(void **state) {
    (void)state;
    static const char *const batch[] = {
        " conv2d/x86-gemm:1 batchnorm_train/x86:0\n",
        " batchnorm_train/x86:2 relu/x86 conv2d/x86-gemm:1 batchnorm_train/x86:0\n",
        " batchnorm_train/x86:2 add/x86 relu/x86",
        "relu_grad/x86 batchnorm_grad/x86:0\n",
    };
    static const char *const group[] = {
        " conv2d/x86-gemm:1 batchnorm_moments/x86:0\n",
        " batchnorm_infer/x86:1 relu/x86 conv2d/x86-gemm:1 batchnorm_moments/x86:0\n",
        " batchnorm_infer/x86:1 add/x86 relu/x86",
        "relu_grad/x86 batchnorm_sums/x86:0\n",
    };
    const sr_kernel_request relu = {.kernel = SR_KERNEL_relu, .args = 2, .dtype = {SR_F32, SR_F32}};
    if (sr_kernel_find_in(&relu, "x86") == NULL || (sr_cpu_features() & SR_CPU_AVX512) == 0)
        test_skip("this build or processor has no kernels with AVX-512");
    expect_chains(false, batch, sizeof batch / sizeof batch[0]);
    expect_chains(true, group, sizeof group / sizeof group[0]);
}

// ---- Chains of large layers ----

enum { WIDE = 1024, WIDE_ROWS = 800 };

// Units that fit in a cache would have 32 rows here, too few for the weights of both layers. Linear
// layers stream over rows where processors have AVX-512; elsewhere they take part in no chain.
static void test_large_layers_share_no_chain(void **state) {
    (void)state;
    const sr_info rows = {.dtype = SR_F32, .rank = 2, .dim = {WIDE_ROWS, WIDE}};
    const sr_info weights = {.dtype = SR_F32, .rank = 2, .dim = {WIDE, WIDE}};
    pass_network n;
    sr_text text;
    sr_text_init(&text);
    begin_on(&n, "cpu", 0, SR_F32); // other devices run kernels one by one
    const sr_tensor w = sr_variable(n.context, "wide", &weights, NULL);
    const sr_tensor x = sr_input(n.context, 0, &rows);
    sr_tensor y = sr_linear(sr_relu(sr_linear(x, w, SR_NONE)), w, SR_NONE);
    const sr_target target = {.tensor = y};
    sr_plan *plan;
    assert_ok(sr_compile(n.context, &target, 1, &plan));
    assert_ok(sr_plan_text(plan, &text));
    // the stage of each that multiplies, after another one that packs weights
    const char *stage = strstr(text.data, "linear/x86-gemm:1") ? "linear/x86-gemm:1" : "linear/";
    const char *first = strstr(text.data, stage);
    assert_non_null(first);
    const char *end = strchr(first, '\n'), *second = strstr(first + 1, stage);
    assert_non_null(end);
    assert_non_null(second);
    assert_true(second > end);
    sr_text_release(&text);
    sr_context_free(n.context);
}

// ---- Chains of formulas ----

// Formulas run in the chains of their neighbours, also where an input is repeated, and their bits
// are those of formulas that run alone.
static uint64_t run_formulas(int optimize, sr_text *text) {
    pass_network n;
    sr_tensor grads[2];
    begin_on(&n, "cpu", optimize, SR_F32); // other devices run kernels one by one
    const sr_tensor curve = sr_tanh_op(n.x), product = sr_mul(n.x, n.gamma);
    const sr_tensor y = sr_sigmoid(sr_add(product, curve));
    sr_gradients(sr_reduce_sum(sr_square(y)), SR_NONE, (sr_tensor[]){n.gamma, n.x}, 2, grads);
    const sr_target targets[2] = {{.tensor = grads[0]}, {.tensor = grads[1]}};
    assert_ok(sr_plan_text(run(&n, targets, 2), text));
    sr_context_free(n.context);
    return n.hash;
}

static void test_formulas_take_part_in_chains(void **state) {
    (void)state;
    sr_text text;
    sr_text_init(&text);
    const uint64_t alone = run_formulas(-1, &text);
    sr_text_clear(&text);
    assert_int_equal(alone, run_formulas(0, &text));
    if (!strstr(text.data, " tanh/x86 mul/x86 add/") &&
        !strstr(text.data, " tanh/reference mul/reference add/"))
        fail_msg("no step runs the formulas together\n%s", text.data);
    sr_text_release(&text);
}

// ---- Recomputed values ----

static sr_tensor deep_gradient(pass_network *n, bool group) {
    sr_tensor grad, h = n->x;
    for (int layer = 0; layer < LAYERS; layer++) {
        const sr_tensor y = sr_conv2d(h, n->w, (sr_conv2d_opts){0});
        h = sr_relu(norm(n, y, group).y);
    }
    sr_gradients(sr_reduce_sum(h), SR_NONE, &n->w, 1, &grad);
    return grad;
}

static size_t planned_peak(int optimize, bool group, sr_text *text) {
    pass_network n;
    begin(&n, optimize, SR_F32);
    const sr_tensor grad = deep_gradient(&n, group);
    sr_plan *plan = run(&n, &(sr_target){.tensor = grad, .after = n.w}, 1);
    assert_ok(sr_plan_text(plan, text));
    const size_t peak = sr_plan_live_bound_bytes(plan);
    sr_context_free(n.context);
    return peak;
}

// A program that is compiled twice, with and without.
static void test_a_context_says_whether(void **state) {
    (void)state;
    size_t peaks[3];
    pass_network n;
    begin(&n, 0, SR_F32);
    const sr_tensor grad = deep_gradient(&n, false);
    for (int i = 0; i < 3; i++) {
        sr_plan *plan;
        sr_context_set_recomputing(n.context, i == 1);
        assert_ok(sr_compile(n.context, &(sr_target){.tensor = grad, .after = n.w}, 1, &plan));
        peaks[i] = sr_plan_live_bound_bytes(plan);
    }
    assert_true(peaks[1] < peaks[0]);
    assert_true(peaks[2] == peaks[0]);
    assert_int_equal(sr_context_get_stats(n.context).plans_compiled, 2);
    sr_context_free(n.context);
}

static void test_activations_are_computed_again(void **state) {
    (void)state;
    sr_text text;
    sr_text_init(&text);
    const size_t peak = planned_peak(0, false, &text);
    // Outputs of convolutions are kept; without the pass, those of relu too.
    const size_t all = (2 * LAYERS + 1) * sizeof picture;
    assert_non_null(strstr(text.data, "batchnorm_infer"));
    assert_true((double)peak < 0.95 * (double)all);
    sr_text_clear(&text);
    (void)planned_peak(-1, false, &text);
    assert_null(strstr(text.data, "batchnorm_infer"));
    assert_true((double)planned_peak(0, true, &text) < 0.95 * (double)all);
    assert_true((double)planned_peak(-1, true, &text) >= 0.95 * (double)all);
    sr_text_release(&text);
}

// Values that no derivative rule reads, between their definition and one late use; the operator
// that recomputes them has fewer outputs than the one that defined them.
static sr_tensor shortcuts_gradient(pass_network *n) {
    sr_tensor grad, h = n->x, shortcuts[4];
    for (int i = 0; i < 4; i++) {
        h = sr_conv2d(h, n->w, (sr_conv2d_opts){0});
        shortcuts[i] = sr_batchnorm_train(h, n->gamma, n->beta, 1e-5).y;
    }
    for (int i = 0; i < 4; i++)
        h = sr_add(h, shortcuts[i]);
    sr_gradients(sr_reduce_sum(sr_mul(h, h)), SR_NONE, &n->w, 1, &grad);
    return grad;
}

static void test_a_run_computes_again(void **state) {
    (void)state;
    static float gradient[2][WEIGHTS];
    for (int i = 0; i < 2; i++) {
        pass_network n;
        begin(&n, -i, SR_F32);
        sr_read_later(shortcuts_gradient(&n), gradient[i], sizeof gradient[i]);
        assert_ok(sr_context_run(n.context));
        sr_context_free(n.context);
    }
    assert_memory_equal(gradient[0], gradient[1], sizeof gradient[0]);
}

// ---- Random networks ----

// Adds one value, computed from the existing ones.
static sr_tensor grow(pass_network *n, const sr_tensor *have, int count, sr_rng *rng) {
    const sr_tensor a = have[sr_rng_below(rng, (uint32_t)count)];
    const sr_tensor b = have[count - 1];
    switch (sr_rng_below(rng, 10)) {
    case 0:
        return sr_add(a, b);
    case 1:
        return sr_mul(a, b);
    case 2:
        return sr_relu(b);
    case 3:
        return sr_scale(b, 0.5, 0.125);
    case 4:
        return sr_gelu(b);
    case 5:
        return sr_sub(b, a);
    case 6:
        return sr_conv2d(b, n->w, (sr_conv2d_opts){0});
    case 7:
        return sr_leaky_relu(b, 0.1);
    case 8:
        return sr_batchnorm_group(b, n->gamma, n->beta, 1e-3, 1).y;
    default:
        return sr_batchnorm_train(b, n->gamma, n->beta, 1e-3).y;
    }
}

static uint64_t random_network(uint32_t seed, int optimize, sr_dtype dtype) {
    pass_network n;
    sr_rng rng;
    sr_tensor have[NODES + 1], variables[2], grads[2];
    begin(&n, optimize, dtype);
    sr_rng_init(&rng, seed, 1, 0, 0);
    have[0] = n.x;
    for (int i = 0; i < NODES; i++)
        have[i + 1] = grow(&n, have, i + 1, &rng);
    const sr_tensor last = sr_batchnorm_train(have[NODES], n.gamma, n.beta, 1e-3).y;
    const sr_tensor loss = sr_reduce_sum(sr_mul(last, sr_conv2d(n.x, n.w, (sr_conv2d_opts){0})));
    variables[0] = n.w;
    variables[1] = n.gamma;
    sr_gradients(loss, SR_NONE, variables, 2, grads);
    const sr_target targets[TARGETS] = {
        {.tensor = have[NODES / 2]}, {.tensor = grads[0], .after = n.w}, {.tensor = grads[1]}};
    (void)run(&n, targets, TARGETS);
    sr_context_free(n.context);
    return n.hash;
}

// relu(h + conv(h)) and its gradient, on a device that runs launches one by one; the sum may be a
// target, too. Returns the bits of what is delivered.
static uint64_t run_sums(const char *device, int optimize, sr_dtype dtype, bool target,
                         sr_text *text) {
    const sr_conv2d_opts pointwise = {0};
    pass_network n;
    sr_target targets[2];
    begin_on(&n, device, optimize, dtype);
    const sr_tensor h = sr_relu(sr_conv2d(n.x, n.w, pointwise));
    const sr_tensor sum = sr_add(sr_conv2d(h, n.w, pointwise), h);
    sr_tensor gradient;
    sr_gradients(sr_reduce_sum(sr_relu(sum)), SR_NONE, &n.w, 1, &gradient);
    targets[0] = (sr_target){.tensor = gradient};
    targets[1] = (sr_target){.tensor = sum};
    assert_ok(sr_plan_text(run(&n, targets, target ? 2 : 1), text));
    sr_context_free(n.context);
    return n.hash;
}

static void test_sums_are_joined_with_relu(void **state) {
    (void)state;
    static const sr_dtype dtypes[] = {SR_F32, SR_BF16, SR_F16};
    sr_text text, plain;
    sr_text_init(&text);
    sr_text_init(&plain);
    for (int i = 0; i < 3; i++) {
        for (int target = 0; target < 2; target++) {
            sr_text_clear(&text);
            assert_true(run_sums("cpu-async", 0, dtypes[i], target, &text) ==
                        run_sums("cpu-async", -1, dtypes[i], target, &plain));
            assert_true((strstr(text.data, " add_relu/") != NULL) == !target);
            assert_non_null(strstr(text.data, " add_relu_grad/"));
        }
    }
    assert_null(strstr(plain.data, " add_relu"));
    sr_text_clear(&text);
    (void)run_sums("cpu", 0, SR_F32, false, &text); // which has chains
    assert_null(strstr(text.data, " add_relu"));
    sr_text_release(&text);
    sr_text_release(&plain);
}

// Launches of operators of this name that write so many results.
static int count_writers(const sr_plan *plan, const char *op, int results) {
    int count = 0;
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view v;
        int present = 0;
        sr_plan_get_launch(plan, i, &v);
        for (int k = v.inputs; k < v.args; k++)
            present += v.info[k].dtype != SR_DTYPE_COUNT;
        count += strcmp(v.op, op) == 0 && present == results;
    }
    return count;
}

static int with_signs, without_signs; // batch norms with ReLU in the plan of 'run_blocks'

// Blocks of a residual network, all but the first one with a convolution and a batch norm in their
// shortcuts, in the third one with the same eps, and the gradients; with statistics of the batch,
// or given ones.
static uint64_t run_blocks(const char *device, int optimize, sr_dtype dtype, bool trains,
                           int blocks, sr_text *text) {
    const sr_conv2d_opts pointwise = {0};
    pass_network n;
    sr_target targets[3];
    sr_tensor variables[2], grads[2], h;
    begin_on(&n, device, optimize, dtype);
    h = n.x;
    for (int block = 0; block < blocks; block++) {
        sr_tensor branch = h, shortcut = h;
        for (int i = 0; i < 2; i++) {
            branch = sr_conv2d(i == 0 ? branch : sr_relu(branch), n.w, pointwise);
            branch = trains ? sr_batchnorm_train(branch, n.gamma, n.beta, 1e-5).y
                            : sr_batchnorm_infer(branch, n.gamma, SR_NONE, n.beta, n.gamma, 2);
        }
        if (block > 0)
            shortcut = sr_batchnorm_train(sr_conv2d(h, n.w, pointwise), SR_NONE, n.beta,
                                          block == 2 ? 1e-5 : 1e-3)
                           .y;
        h = sr_relu(block == 0 ? sr_add(shortcut, branch) : sr_add(branch, shortcut));
    }
    variables[0] = n.w;
    variables[1] = n.gamma;
    const sr_tensor loss = sr_reduce_sum(sr_mul(h, n.x));
    sr_gradients(loss, SR_NONE, variables, 2, grads);
    targets[0] = (sr_target){.tensor = grads[0], .after = n.w};
    targets[1] = (sr_target){.tensor = grads[1]};
    targets[2] = (sr_target){.tensor = h};
    const sr_plan *plan = run(&n, targets, 3);
    with_signs = count_writers(plan, "batchnorm_train_relu", 4) +
                 count_writers(plan, "batchnorm_train_pair_relu", 4) +
                 count_writers(plan, "batchnorm_infer_relu", 2);
    without_signs = count_writers(plan, "batchnorm_train_relu", 3) +
                    count_writers(plan, "batchnorm_infer_relu", 1);
    assert_ok(sr_plan_text(plan, text));
    sr_context_free(n.context);
    return n.hash;
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

// All of them with portable numerics, where batch norm and both together are of one class.
static void test_batchnorm_is_joined_with_relu(void **state) {
    (void)state;
    static const sr_dtype dtypes[] = {SR_F32, SR_BF16, SR_F16};
    sr_text text, plain;
    sr_text_init(&text);
    sr_text_init(&plain);
    sr_kernels_use_portable(true);
    for (int i = 0; i < 3; i++) {
        for (int trains = 0; trains < 2; trains++) {
            sr_text_clear(&text);
            const uint64_t alone = run_blocks("cpu-async", -1, dtypes[i], trains, 3, &plain);
            assert_true(run_blocks("cpu-async", 0, dtypes[i], trains, 3, &text) == alone);
            assert_true(count_of(text.data, trains ? " batchnorm_train_relu/"
                                                   : " batchnorm_infer_relu/") >= 3);
            assert_int_equal(count_of(text.data, " batchnorm_train_pair_relu/"), trains);
            assert_int_equal(count_of(text.data, " batchnorm_moments/"), trains);
            assert_int_equal(count_of(text.data, " batchnorm_relu_grad/"), trains ? 3 : 0);
            assert_int_equal(count_of(text.data, " batchnorm_add_relu_grad/"), trains ? 3 : 2);
            assert_int_equal(with_signs, trains ? 3 : 2);
            assert_true(without_signs >= 2);
            assert_null(strstr(text.data, " relu/"));
            if (trains)
                assert_null(strstr(text.data, " relu_grad/"));
        }
    }
    assert_null(strstr(plain.data, "_relu"));
    sr_text_clear(&text);
    (void)run_blocks("cpu", 0, SR_F32, true, 2, &text); // which has chains
    assert_null(strstr(text.data, " batchnorm_train_relu/"));
    sr_kernels_use_portable(false);
    sr_text_release(&text);
    sr_text_release(&plain);
}

static bool takes_all(const sr_kernel_request *request) {
    (void)request;
    return true;
}
static bool takes_none(const sr_kernel_request *request) {
    (void)request;
    return false;
}

typedef struct prologue_run {
    const char *device;
    bool (*takes)(const sr_kernel_request *request); // NULL: as the device has them
    int optimize;
    bool recomputes, trains;
    bool reads; // y of the first batch norm is a target
    int stride; // of the second convolution
    int layers;
} prologue_run;

// Convolutions of 1x1, each of batch norm with ReLU of the one before, and gradients in training.
static uint64_t run_prologues(const prologue_run *r, sr_dtype dtype, sr_text *text) {
    pass_network n;
    sr_target targets[4];
    sr_tensor variables[2], grads[2], first = SR_NONE;
    begin_on(&n, r->device, r->optimize, dtype);
    sr_context_set_recomputing(n.context, r->recomputes);
    if (r->takes)
        sr_context_set_prologues(n.context, r->takes);
    sr_tensor h = sr_conv2d(n.x, n.w, (sr_conv2d_opts){0});
    for (int i = 0; i < r->layers; i++) {
        const sr_tensor norm = r->trains
                                   ? sr_batchnorm_train(h, n.gamma, n.beta, 1e-5).y
                                   : sr_batchnorm_infer(h, n.gamma, SR_NONE, n.beta, n.gamma, 2);
        const sr_tensor y = sr_relu(norm);
        first = i == 0 ? y : first;
        h = sr_conv2d_bias(y, n.w, i == 0 ? n.beta : SR_NONE,
                           (sr_conv2d_opts){.stride = i == 1 ? r->stride : 1});
    }
    int count = 0;
    targets[count++] = (sr_target){.tensor = h};
    if (r->reads)
        targets[count++] = (sr_target){.tensor = first};
    if (r->trains) {
        variables[0] = n.w;
        variables[1] = n.gamma;
        sr_gradients(sr_reduce_sum(sr_mul(h, h)), SR_NONE, variables, 2, grads);
        targets[count++] = (sr_target){.tensor = grads[0], .after = n.w};
        targets[count++] = (sr_target){.tensor = grads[1]};
    }
    sr_text_clear(text);
    assert_ok(sr_plan_text(run(&n, targets, count), text));
    sr_context_free(n.context);
    return n.hash;
}

// With portable numerics a product has the bits that it has alone, as long as lines of the picture
// fill leaves of sums.
static void test_products_take_prologues(void **state) {
    (void)state;
    static const sr_dtype dtypes[] = {SR_F32, SR_BF16, SR_F16};
    sr_text text, plain;
    sr_text_init(&text);
    sr_text_init(&plain);
    sr_kernels_use_portable(true);
    static const prologue_run runs[] = {
        {.trains = true, .layers = 1},
        {.trains = true, .layers = 4, .recomputes = true},
        {.trains = true, .layers = 2, .reads = true},
        {.layers = 2, .reads = true},
    };
    for (int i = 0; i < 4; i++) {
        prologue_run r = runs[i];
        const int layers = r.layers;
        r.device = "cpu-async";
        r.takes = takes_none;
        r.stride = 1;
        const uint64_t want = run_prologues(&r, dtypes[i % 3], &plain);
        r.takes = takes_all;
        assert_true(run_prologues(&r, dtypes[i % 3], &text) == want);
        assert_int_equal(count_of(text.data, " batchnorm_relu_linear/"), layers);
        assert_int_equal(count_of(text.data, " batchnorm_relu_linear_dw/"), r.trains ? layers : 0);
        assert_int_equal(count_of(text.data, " batchnorm_moments/"),
                         r.trains ? layers - r.reads : 0);
        assert_int_equal(count_of(text.data, " batchnorm_train_relu/"), r.trains && r.reads);
        assert_int_equal(count_of(text.data, " batchnorm_infer_relu/"), !r.trains);
        assert_null(strstr(plain.data, "_linear"));
        if (r.recomputes)
            assert_non_null(strstr(plain.data, " batchnorm_infer_relu/"));
    }
    prologue_run r = {"cpu-async", takes_all, 0, false, true, false, 2, 2}; // a sample of the rows
    (void)run_prologues(&r, SR_F32, &text);
    assert_int_equal(count_of(text.data, " batchnorm_relu_linear/"), 1);
    assert_int_equal(count_of(text.data, " batchnorm_train_relu/"), 1);
    sr_kernels_use_portable(false);
    sr_text_release(&text);
    sr_text_release(&plain);
}

// On a device that has such kernels, they do not depend on what else reads what they normalise.
static void test_prologues_are_chosen_by_shape(void **state) {
    (void)state;
    const char *device = getenv("SERRIED_TEST_DEVICE");
    sr_text text;
    uint64_t hash[2];
    if (!device || strncmp(device, "cuda", 4) != 0) {
        test_skip("this device has no product that normalises");
        return;
    }
    sr_text_init(&text);
    for (int i = 0; i < 2; i++) {
        const prologue_run r = {device, NULL, 0, i, true, false, 1, 4};
        hash[i] = run_prologues(&r, SR_BF16, &text);
        assert_int_equal(count_of(text.data, " batchnorm_relu_linear/mma"), 4);
        assert_int_equal(count_of(text.data, " batchnorm_relu_linear_dw/mma"), 4);
        assert_int_equal(count_of(text.data, " batchnorm_moments/tensor"), 4);
    }
    assert_true(hash[0] == hash[1]);
    const prologue_run full = {device, NULL, 0, false, true, false, 1, 1};
    (void)run_prologues(&full, SR_F32, &text);
    assert_null(strstr(text.data, "_linear"));
    sr_text_release(&text);
}

// Blocks of a transformer without attention: sums with branches, some of which drop_path scales, in
// front of layer norms, and their gradients. The sum of the last block is a target, too.
enum { BLOCKS = 3 };

static uint64_t run_norms(const char *device, int optimize, sr_dtype dtype, sr_text *text) {
    static const int32_t numbers[4] = {7, 0, 3, 1};
    const sr_info four = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    const sr_conv2d_opts pointwise = {0};
    pass_network n;
    sr_target targets[4];
    sr_tensor variables[3], grads[3];
    begin_on(&n, device, optimize, dtype);
    const sr_tensor key = sr_constant(n.context, &four, numbers);
    sr_tensor h = sr_conv2d(n.x, n.w, pointwise);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        sr_tensor branch = sr_layer_norm(h, n.gamma, n.beta, 1e-5);
        branch = sr_conv2d(branch, n.w, pointwise);
        if (block > 0)
            branch = sr_drop_path(branch, key, 0.3, block);
        h = block == 2 ? sr_add(branch, h) : sr_add(h, branch);
    }
    const sr_tensor y = sr_layer_norm(h, n.gamma, SR_NONE, 1e-5);
    variables[0] = n.w;
    variables[1] = n.gamma;
    variables[2] = n.beta;
    sr_gradients(sr_reduce_sum(sr_mul(y, n.x)), SR_NONE, variables, 3, grads);
    for (int i = 0; i < 3; i++)
        targets[i] = (sr_target){.tensor = grads[i]};
    targets[3] = (sr_target){.tensor = h};
    assert_ok(sr_plan_text(run(&n, targets, 4), text));
    sr_context_free(n.context);
    return n.hash;
}

static void test_norms_are_joined_with_sums(void **state) {
    (void)state;
    static const sr_dtype dtypes[] = {SR_F32, SR_BF16, SR_F16};
    sr_text text, plain;
    sr_text_init(&text);
    sr_text_init(&plain);
    for (int portable = 0; portable < 2; portable++) {
        sr_kernels_use_portable(portable);
        for (int i = 0; i < 3; i++) {
            sr_text_clear(&text);
            assert_true(run_norms("cpu-async", 0, dtypes[i], &text) ==
                        run_norms("cpu-async", -1, dtypes[i], &plain));
            assert_int_equal(count_of(text.data, " add_groupnorm/"), BLOCKS);
            assert_int_equal(count_of(text.data, " groupnorm/"), 1);
            assert_int_equal(count_of(text.data, " drop_path/"), BLOCKS - 1); // backward
            assert_int_equal(count_of(text.data, " groupnorm_add_grad/"), BLOCKS);
            assert_int_equal(count_of(text.data, " groupnorm_grad/"), 1);
        }
    }
    sr_kernels_use_portable(false);
    // the test's device, in its fastest class
    assert_true(run_norms(NULL, 0, SR_BF16, &text) == run_norms(NULL, -1, SR_BF16, &plain));
    assert_null(strstr(plain.data, "add_groupnorm"));
    assert_null(strstr(plain.data, "groupnorm_add"));
    sr_text_clear(&text);
    (void)run_norms("cpu", 0, SR_F32, &text); // which has chains
    assert_null(strstr(text.data, "add_groupnorm"));
    assert_null(strstr(text.data, "groupnorm_add"));
    sr_text_release(&text);
    sr_text_release(&plain);
}

// What is not joined: a sum of other shapes, a branch or a sum that something else reads before.
static void test_other_norms_are_left(void **state) {
    (void)state;
    static const int32_t numbers[4] = {7, 0, 3, 1};
    const sr_info four = {.dtype = SR_I32, .rank = 1, .dim = {4}};
    pass_network n;
    sr_text text;
    sr_text_init(&text);
    begin_on(&n, "cpu-async", 0, SR_F32);
    const sr_tensor key = sr_constant(n.context, &four, numbers);
    const sr_tensor repeated = sr_layer_norm(sr_add(n.x, n.gamma), n.gamma, n.beta, 1e-5);
    const sr_tensor branch = sr_drop_path(n.x, key, 0.3, 1);
    const sr_tensor joined = sr_layer_norm(sr_add(n.x, branch), n.gamma, n.beta, 1e-5);
    const sr_tensor sum = sr_add(n.x, repeated), square = sr_mul(sum, sum);
    const sr_tensor later = sr_layer_norm(sum, n.gamma, n.beta, 1e-5);
    const sr_target targets[] = {{.tensor = repeated},
                                 {.tensor = branch},
                                 {.tensor = joined},
                                 {.tensor = square},
                                 {.tensor = later}};
    assert_ok(sr_plan_text(run(&n, targets, 5), &text));
    assert_int_equal(count_of(text.data, " groupnorm/"), 2);
    assert_int_equal(count_of(text.data, " add/"), 2);
    assert_int_equal(count_of(text.data, " drop_path/"), 1);
    assert_int_equal(count_of(text.data, " add_groupnorm/"), 1);
    sr_text_release(&text);
    sr_context_free(n.context);
}

// Block ends that are computed again, for the gradients of weights and for their signs.
static void test_joined_values_are_computed_again(void **state) {
    (void)state;
    enum { ENDS = 12 };
    sr_text text;
    sr_text_init(&text);
    sr_kernels_use_portable(true);
    const uint64_t alone = run_blocks("cpu-async", -1, SR_F32, true, ENDS, &text);
    sr_text_clear(&text);
    assert_true(run_blocks("cpu-async", 0, SR_F32, true, ENDS, &text) == alone);
    assert_true(count_of(text.data, " batchnorm_infer_relu/") > 0);
    assert_int_equal(count_of(text.data, " batchnorm_add_relu_grad/"), ENDS);
    assert_int_equal(with_signs, ENDS);
    sr_kernels_use_portable(false);
    sr_text_release(&text);
}

// Values that are read step by step, with what the next ones need in memory.
static uint64_t read_block(int optimize) {
    enum { READ = 3 };
    static float values[ELEMENTS];
    pass_network n;
    sr_tensor grads[2];
    uint64_t hash = 1;
    begin_on(&n, "cpu-async", optimize, SR_F32);
    const sr_tensor x = sr_conv2d(n.x, n.w, (sr_conv2d_opts){0});
    const sr_tensor inner = sr_relu(sr_batchnorm_train(x, n.gamma, n.beta, 1e-5).y);
    const sr_tensor y = sr_conv2d(inner, n.w, (sr_conv2d_opts){0});
    const sr_tensor end = sr_relu(sr_add(sr_batchnorm_train(y, n.gamma, n.beta, 1e-5).y, n.x));
    const sr_tensor variables[2] = {n.w, n.gamma}, loss = sr_reduce_sum(sr_mul(end, n.x));
    assert_ok(sr_read(loss, values, sizeof *values));
    hash = sr_hash64_seed(values, sizeof *values, hash);
    sr_gradients(loss, SR_NONE, variables, 2, grads);
    const sr_tensor read[READ] = {grads[0], end, grads[1]};
    static const int counts[READ] = {WEIGHTS, ELEMENTS, CHANNELS};
    for (int i = 0; i < READ; i++) {
        assert_ok(sr_read(read[i], values, (size_t)counts[i] * sizeof *values));
        hash = sr_hash64_seed(values, (size_t)counts[i] * sizeof *values, hash);
    }
    sr_context_free(n.context);
    return hash;
}

static void test_joined_values_are_read(void **state) {
    (void)state;
    sr_kernels_use_portable(true);
    assert_true(read_block(0) == read_block(-1));
    sr_kernels_use_portable(false);
}

static void test_random_networks_keep_their_bits(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        const sr_dtype dtype = seed % 3 == 2 ? SR_BF16 : SR_F32;
        if (random_network(seed, 0, dtype) != random_network(seed, -1, dtype))
            fail_msg("network %u in %s: passes change its bits", seed, sr_dtype_name(dtype));
    }
}

int main(void) {
    fill(picture, ELEMENTS, 1, 1.0f);
    fill(filter, WEIGHTS, 2, 0.1f);
    fill(vector, CHANNELS, 3, 1.0f);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_residual_block_has_its_chains),
        cmocka_unit_test(test_large_layers_share_no_chain),
        cmocka_unit_test(test_formulas_take_part_in_chains),
        cmocka_unit_test(test_a_context_says_whether),
        cmocka_unit_test(test_activations_are_computed_again),
        cmocka_unit_test(test_a_run_computes_again),
        cmocka_unit_test(test_sums_are_joined_with_relu),
        cmocka_unit_test(test_batchnorm_is_joined_with_relu),
        cmocka_unit_test(test_products_take_prologues),
        cmocka_unit_test(test_prologues_are_chosen_by_shape),
        cmocka_unit_test(test_norms_are_joined_with_sums),
        cmocka_unit_test(test_other_norms_are_left),
        cmocka_unit_test(test_joined_values_are_computed_again),
        cmocka_unit_test(test_joined_values_are_read),
        cmocka_unit_test(test_random_networks_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
