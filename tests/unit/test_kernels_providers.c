// SPDX-License-Identifier: Apache-2.0
// Every entry of every provider but the reference, against the reference kernel of the same
// request, and the same bits for every order of blocks and every team.
//
// A case is a kernel with its parameters and the arrays that these imply. Kernels of numerics class
// "reference" must give the reference's bits. Others may differ by
//     roundoff(T) |want| + (8 + 2 sqrt(terms)) 2^-24 magnitude
// where 'magnitude' is the result of the reference kernel on the absolute values of the inputs (the
// sum of the absolute values of all terms), or a stated bound: sums of n rounded terms in any order
// differ by a few sqrt(n) roundings of that sum (Higham 2002, 4.2 and 2.8), and one missing or
// wrong term is far larger. T bf16 rounds once more, at the end. Winograd convolutions add and
// subtract values of whole tiles: for them 'magnitude' is the largest of the array.
//
// What operators say about memory in place (sr_op.in_place, which the compiler believes) is tried
// on every entry of their kernels, the reference included, on all problems where the sizes agree.
//
// An entry whose kernel has no case fails the test; so does one that no case reaches, unless this
// processor lacks what it needs (AMX).
#include "tests/unit/test_support.h"

#include <math.h>

#include "graph/op.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "tests/unit/kernel_fixture.h"

enum { MAX_ARGS = 8, MAX_TEAM = 3, GUARD = 64 };

// How an argument is made, or what it is.
typedef enum arg_role {
    NONE = 0, // absent
    ACTIVATION,
    PARAMETER, // f32
    POSITIVE,  // f32 in [0.5, 1.5)
    BYTES,     // u8
    KEY,       // i32
    HYPER,     // f32[8] of an optimiser
    INDEX,     // u8 from the reference maxpool2d of the same shape
    OTHER,     // the other one of f32 and bf16
} arg_role;

typedef struct argument {
    arg_role role;
    bool output;  // written
    bool updated; // read and written
    int64_t count;
    double bound; // magnitude of an output; 0: by the reference on absolute values
} argument;

typedef struct problem {
    sr_kernel_request request;
    argument arg[MAX_ARGS];
    double terms; // of the longest sum
} problem;

// ---- arrays ----

static void *fill_random(sr_dtype dtype, int64_t count, uint32_t seed, double low, double high) {
    const test_array *a = array_random(dtype, count, seed, low, high);
    const size_t bytes = (size_t)count * sr_dtype_size(dtype);
    char *copy = sr_alloc(bytes + GUARD, "a test array");
    assert_non_null(copy);
    memcpy(copy, a->data, bytes);
    (void)arrays_free(NULL);
    return copy;
}

// What maxpool2d of the same shape writes.
static void *make_index(const problem *c, int64_t count) {
    const sr_pool_params *p = (const void *)c->request.params;
    sr_kernel_request request = c->request;
    request.kernel = SR_KERNEL_maxpool2d;
    request.args = 3;
    request.dtype[0] = request.dtype[1] = SR_F32;
    request.dtype[2] = SR_U8;
    sr_prepared prepared = {0};
    assert_ok(sr_kernel_find_in(&request, "reference")->prepare(&request, &prepared));
    void *scratch = sr_alloc(prepared.scratch, "test scratch");
    void *x = fill_random(SR_F32, p->n * p->h * p->w * p->c, 1, -2, 2);
    void *y = sr_alloc((size_t)count * sizeof(float), "a test array");
    void *index = sr_alloc((size_t)count + GUARD, "a test array");
    assert_ok(sr_prepared_run(&prepared, &request, (void *[]){x, y, index}, NULL, scratch));
    sr_free(x);
    sr_free(y);
    sr_free(scratch);
    sr_prepared_release(&prepared);
    return index;
}

static void *make_input(const problem *c, int i) {
    const argument *a = &c->arg[i];
    const sr_dtype dtype = c->request.dtype[i];
    const uint32_t seed = 100u * (uint32_t)c->request.kernel + (uint32_t)i;
    if (a->role == POSITIVE)
        return fill_random(dtype, a->count, seed, 0.5, 1.5);
    if (a->role == BYTES)
        return fill_random(dtype, a->count, seed, 0, 256);
    if (a->role == INDEX)
        return make_index(c, a->count);
    if (a->role == KEY)
        return fill_random(dtype, a->count, seed, -2e9, 2e9);
    if (a->role == HYPER) {
        static const float hyper[8] = {0.1f, 0.9f, 1e-4f, 1.0f, 0.5f, 0.1f, 0.0f, 0.0f};
        float *copy = fill_random(dtype, a->count, seed, 0, 1);
        memcpy(copy, hyper, sizeof hyper);
        return copy;
    }
    return fill_random(dtype, a->count, seed, -2, 2);
}

static size_t bytes_of(const problem *c, int i) {
    return c->arg[i].role == NONE ? 0
                                  : (size_t)c->arg[i].count * sr_dtype_size(c->request.dtype[i]);
}

typedef struct arrays {
    void *p[MAX_ARGS];
} arrays;

static void free_arrays(arrays *a) {
    for (int i = 0; i < MAX_ARGS; i++)
        sr_free(a->p[i]);
}

// Copies of the inputs, outputs filled with rubbish; a guard after each that must stay.
static arrays copy_arrays(const problem *c, const arrays *inputs) {
    arrays out = {0};
    for (int i = 0; i < c->request.args; i++) {
        const size_t bytes = bytes_of(c, i);
        if (c->arg[i].role == NONE)
            continue;
        out.p[i] = sr_alloc(bytes + GUARD, "a test array");
        assert_non_null(out.p[i]);
        if (inputs->p[i] != NULL)
            memcpy(out.p[i], inputs->p[i], bytes);
        else
            memset(out.p[i], 0xa5, bytes);
        memset((char *)out.p[i] + bytes, 0x5a, GUARD);
    }
    return out;
}

static void check_guards(const problem *c, const arrays *a, const char *name) {
    for (int i = 0; i < c->request.args; i++)
        for (size_t k = 0; a->p[i] != NULL && k < GUARD; k++)
            if (((const unsigned char *)a->p[i])[bytes_of(c, i) + k] != 0x5a)
                fail_msg("%s writes past the end of argument %d", name, i);
}

static double value(sr_dtype dtype, const void *data, int64_t i) {
    const union {
        const void *in;
        void *out;
    } view = {.in = data};
    const test_array a = {dtype, i + 1, view.out};
    return array_get(&a, i);
}

// ---- running ----

typedef struct run {
    const sr_prepared *prepared;
    const sr_kernel_args *args;
    sr_kernel_stage stage;
    void *scratch[MAX_TEAM];
    bool reverse;
    sr_status status[MAX_TEAM];
} run;

static void run_item(void *user, int64_t item, int worker) {
    run *r = user;
    sr_worker w = {.index = worker, .scratch = r->scratch[worker]};
    const int64_t block = r->reverse ? r->stage.blocks - 1 - item : item;
    memset(w.scratch, 0xff, r->prepared->scratch); // NaN
    if (r->status[worker] == SR_OK)
        r->status[worker] = r->stage.run(r->args, block, &w);
}

static void init_thread(void *user, int worker) {
    (void)user, (void)worker;
    sr_kernels_thread_init();
}

// Runs on a team of 'threads'; blocks backwards where 'reverse'.
static void run_team(const problem *c, const sr_prepared *prepared, const arrays *a, int threads,
                     bool reverse) {
    sr_pool *pool;
    assert_ok(sr_pool_create(threads, init_thread, NULL, &pool));
    char *workspace = sr_alloc(prepared->workspace, "a test workspace");
    assert_non_null(workspace);
    memset(workspace, 0xff, prepared->workspace);
    const sr_kernel_args args = {a->p, c->request.params, prepared->state, workspace};
    run r = {.prepared = prepared, .args = &args, .reverse = reverse};
    for (int i = 0; i < threads; i++)
        r.scratch[i] = sr_alloc(prepared->scratch, "test scratch");
    for (int s = 0; s < prepared->stages; s++) {
        r.stage = prepared->stage[s];
        sr_pool_run(pool, r.stage.blocks, run_item, &r);
    }
    for (int i = 0; i < threads; i++) {
        assert_int_equal(SR_OK, r.status[i]);
        sr_free(r.scratch[i]);
    }
    sr_free(workspace);
    sr_pool_free(pool);
}

static arrays run_entry(const problem *c, const sr_prepared *prepared, const arrays *inputs,
                        int threads, bool reverse) {
    arrays a = copy_arrays(c, inputs);
    run_team(c, prepared, &a, threads, reverse);
    check_guards(c, &a, prepared->entry->name);
    return a;
}

static sr_prepared prepare(const problem *c, const sr_kernel_entry *entry) {
    sr_prepared prepared = {0};
    assert_ok(entry->prepare(&c->request, &prepared));
    prepared.entry = entry;
    return prepared;
}

static bool is_result(const argument *a) {
    return a->output || a->updated;
}

static void assert_same_bits(const problem *c, const arrays *a, const arrays *b, const char *name,
                             const char *what) {
    for (int i = 0; i < c->request.args; i++) {
        if (!is_result(&c->arg[i]) || a->p[i] == NULL || b->p[i] == NULL ||
            memcmp(a->p[i], b->p[i], bytes_of(c, i)) == 0)
            continue;
        const sr_dtype dtype = c->request.dtype[i];
        for (int64_t k = 0; k < c->arg[i].count; k++) {
            if (memcmp((char *)a->p[i] + (size_t)k * sr_dtype_size(dtype),
                       (char *)b->p[i] + (size_t)k * sr_dtype_size(dtype),
                       sr_dtype_size(dtype)) != 0)
                fail_msg("%s: argument %d [%lld of %lld] is %.9g, not %.9g: %s", name, i,
                         (long long)k, (long long)c->arg[i].count, value(dtype, a->p[i], k),
                         value(dtype, b->p[i], k), what);
        }
    }
}

// ---- comparing ----

static double largest(sr_dtype dtype, const void *data, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(value(dtype, data, i)));
    return most;
}

static void assert_close(const problem *c, const arrays *got, const arrays *want,
                         const arrays *magnitude, const sr_kernel_entry *entry) {
    const double terms = 8 + 2 * sqrt(c->terms);
    const bool tiles = strcmp(entry->numerics_class, "x86-winograd-f32") == 0;
    for (int i = 0; i < c->request.args; i++) {
        const sr_dtype dtype = c->request.dtype[i];
        if (!is_result(&c->arg[i]))
            continue;
        const double bound =
            tiles ? largest(dtype, magnitude->p[i], c->arg[i].count) : c->arg[i].bound;
        for (int64_t k = 0; k < c->arg[i].count; k++) {
            const double w = value(dtype, want->p[i], k);
            const double m = bound > 0 ? bound : fabs(value(dtype, magnitude->p[i], k));
            // two results that are nearly equal may round to neighbours in T
            assert_near(entry->name, k, dtype, value(dtype, got->p[i], k), w, terms,
                        m + (dtype == SR_BF16 ? 0x1p16 * fabs(w) / terms : 0));
        }
    }
}

static void make_absolute(const problem *c, arrays *a) {
    for (int i = 0; i < c->request.args; i++) {
        for (int64_t k = 0; a->p[i] != NULL && !c->arg[i].output && k < c->arg[i].count; k++) {
            test_array view = {c->request.dtype[i], c->arg[i].count, a->p[i]};
            if (view.dtype == SR_F32 || view.dtype == SR_BF16)
                array_set(&view, k, fabs(array_get(&view, k)));
        }
    }
}

static const sr_kernel_entry *reference_of(const problem *c) {
    const sr_kernel_entry *entry = sr_kernel_find_in(&c->request, "reference");
    assert_non_null(entry);
    return entry;
}

// Bits of sr_op.in_place that were tried on more than one block.
static uint32_t in_place_tried[SR_KERNEL_COUNT];

static void try_in_place(const problem *c, const sr_prepared *prepared, const arrays *inputs,
                         const arrays *expected, int in, int out) {
    for (int threads = 1; threads <= MAX_TEAM; threads += MAX_TEAM - 1) {
        arrays a = copy_arrays(c, inputs);
        void *kept = a.p[out];
        a.p[out] = a.p[in];
        run_team(c, prepared, &a, threads, threads == 1);
        assert_same_bits(c, &a, expected, prepared->entry->name, "in place differs");
        a.p[out] = kept;
        free_arrays(&a);
    }
}

static void check_in_place(const problem *c, const sr_prepared *prepared, const arrays *inputs,
                           const arrays *expected) {
    const sr_op *op = sr_op_find(sr_kernel_name(c->request.kernel));
    for (int bit = 0; op != NULL && bit < 32; bit++) {
        const int in = bit % 8, out = op->inputs + bit / 8;
        if (!(op->in_place >> bit & 1) || bytes_of(c, in) != bytes_of(c, out))
            continue;
        try_in_place(c, prepared, inputs, expected, in, out);
        for (int s = 0; s < prepared->stages; s++)
            if (prepared->stage[s].blocks > 1)
                in_place_tried[c->request.kernel] |= 1u << bit;
    }
}

// One entry on one problem.
static void check_entry(const problem *c, const sr_kernel_entry *entry, const arrays *inputs,
                        const arrays *want, const arrays *magnitude) {
    sr_prepared prepared = prepare(c, entry);
    arrays got = run_entry(c, &prepared, inputs, 1, false);
    if (strcmp(entry->numerics_class, "reference") == 0)
        assert_same_bits(c, &got, want, entry->name, "not the reference's bits");
    else
        assert_close(c, &got, want, magnitude, entry);
    for (int threads = 1; threads <= MAX_TEAM; threads++) {
        arrays again = run_entry(c, &prepared, inputs, threads, threads != 2);
        assert_same_bits(c, &again, &got, entry->name, "depends on team or order of blocks");
        free_arrays(&again);
    }
    check_in_place(c, &prepared, inputs, &got);
    free_arrays(&got);
    sr_prepared_release(&prepared);
}

enum { MAX_ENTRIES = 128 };
static const sr_kernel_entry *reached[MAX_ENTRIES];
static int reached_count;

static void note_reached(const sr_kernel_entry *entry) {
    for (int i = 0; i < reached_count; i++)
        if (reached[i] == entry)
            return;
    assert_true(reached_count < MAX_ENTRIES);
    reached[reached_count++] = entry;
}

static void check_problem(const problem *c) {
    arrays inputs = {0};
    for (int i = 0; i < c->request.args; i++)
        if (c->arg[i].role != NONE && !c->arg[i].output)
            inputs.p[i] = make_input(c, i);
    sr_prepared reference = prepare(c, reference_of(c));
    arrays want = run_entry(c, &reference, &inputs, 1, false);
    check_in_place(c, &reference, &inputs, &want);
    arrays absolute = copy_arrays(c, &inputs);
    make_absolute(c, &absolute);
    arrays magnitude = run_entry(c, &reference, &absolute, 1, false);
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    for (size_t i = 0; i < providers; i++) {
        for (size_t k = 0; k < provider[i]->count; k++) {
            const sr_kernel_entry *entry = &provider[i]->entries[k];
            if (entry->kernel != c->request.kernel || strcmp(entry->provider, "reference") == 0 ||
                !entry->supports(&c->request))
                continue;
            note_reached(entry);
            check_entry(c, entry, &inputs, &want, &magnitude);
        }
    }
    free_arrays(&inputs);
    free_arrays(&want);
    free_arrays(&absolute);
    free_arrays(&magnitude);
    sr_prepared_release(&reference);
}

// ---- problems ----

static problem problem_of(sr_kernel_id kernel, int args, const void *params, size_t bytes) {
    problem c = {.request = {.kernel = kernel, .args = args}, .terms = 1};
    memcpy(c.request.params, params, bytes);
    return c;
}

static sr_dtype dtype_of(arg_role role, sr_dtype t) {
    switch (role) {
    case ACTIVATION:
        return t;
    case PARAMETER:
    case POSITIVE:
    case HYPER:
        return SR_F32;
    case BYTES:
    case INDEX:
        return SR_U8;
    case KEY:
        return SR_I32;
    case OTHER:
        return t == SR_F32 ? SR_BF16 : SR_F32;
    case NONE:
        break;
    }
    return SR_DTYPE_COUNT;
}

static void set(problem *c, int i, arg_role role, sr_dtype t, int64_t count) {
    c->arg[i].role = role;
    c->arg[i].count = count;
    c->request.dtype[i] = dtype_of(role, t);
}

static void set_output(problem *c, int i, arg_role role, sr_dtype t, int64_t count) {
    set(c, i, role, t, count);
    c->arg[i].output = true;
}

static const sr_dtype types[] = {SR_F32, SR_BF16};

// Elementwise: inputs of these roles, one output, n elements.
static void elementwise(sr_kernel_id kernel, int inputs, const arg_role *roles, double bound) {
    static const int64_t counts[] = {1, 15, 16, 65, 3000, 65536 + 37};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        for (int t = 0; t < 2; t++) {
            const sr_scale_params params = {counts[k], -0.3, 0.7};
            problem c = problem_of(kernel, inputs + 1, &params, sizeof params);
            for (int i = 0; i < inputs; i++)
                set(&c, i, roles[i], types[t], roles[i] == POSITIVE ? 1 : counts[k]);
            set_output(&c, inputs, ACTIVATION, types[t], counts[k]);
            c.arg[inputs].bound = bound;
            check_problem(&c);
        }
    }
}

static void case_unary(sr_kernel_id kernel) {
    elementwise(kernel, 1, (const arg_role[]){ACTIVATION}, 0);
}
static void case_binary(sr_kernel_id kernel) {
    elementwise(kernel, 2, (const arg_role[]){ACTIVATION, ACTIVATION}, 0);
}
static void case_gelu(sr_kernel_id kernel) {
    elementwise(kernel, 1, (const arg_role[]){ACTIVATION}, 2);
}
static void case_gelu_grad(sr_kernel_id kernel) {
    elementwise(kernel, 2, (const arg_role[]){ACTIVATION, ACTIVATION}, 4);
}
static void case_scale_by(sr_kernel_id kernel) {
    elementwise(kernel, 2, (const arg_role[]){ACTIVATION, POSITIVE}, 0);
}
static void case_fill_by(sr_kernel_id kernel) {
    elementwise(kernel, 1, (const arg_role[]){POSITIVE}, 0);
}
static void case_cast(sr_kernel_id kernel) {
    elementwise(kernel, 1, (const arg_role[]){OTHER}, 0);
}

static void case_normalize(sr_kernel_id kernel) {
    for (int64_t channels = 1; channels <= SR_NORMALIZE_MAX_CHANNELS; channels++) {
        for (int t = 0; t < 2; t++) {
            const sr_normalize_params params = {
                channels == 3 ? 22001 : 21, channels, {123, 116, 103, 7}, {0.017f, 0.018f, 2, 3}};
            problem c = problem_of(kernel, 2, &params, sizeof params);
            set(&c, 0, BYTES, types[t], params.rows * channels);
            set_output(&c, 1, ACTIVATION, types[t], params.rows * channels);
            check_problem(&c);
        }
    }
}

static void case_dropout(sr_kernel_id kernel) {
    static const double rates[] = {0, 0.1, 0.5, 0.999};
    for (int k = 0; k < 4; k++) {
        for (int t = 0; t < 2; t++) {
            const sr_dropout_params params = {k == 1 ? 66001 : 130 + k, rates[k], 77, 0};
            problem c = problem_of(kernel, 3, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], params.count);
            set(&c, 1, KEY, types[t], 4);
            set_output(&c, 2, ACTIVATION, types[t], params.count);
            check_problem(&c);
        }
    }
}

static void case_reduce_sum(sr_kernel_id kernel) {
    static const int64_t counts[] = {1, 17, 1024, 65536, 200003};
    for (int k = 0; k < 5; k++) {
        for (int t = 0; t < 2; t++) {
            const sr_count_params params = {counts[k]};
            problem c = problem_of(kernel, 2, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], counts[k]);
            set_output(&c, 1, PARAMETER, types[t], 1);
            c.terms = (double)counts[k];
            check_problem(&c);
        }
    }
}

static void case_sgd(sr_kernel_id kernel) {
    const sr_count_params params = {65536 + 19};
    problem c = problem_of(kernel, 4, &params, sizeof params);
    for (int i = 0; i < 3; i++)
        set(&c, i, PARAMETER, SR_F32, params.count);
    set(&c, 3, HYPER, SR_F32, 8);
    c.arg[0].updated = c.arg[1].updated = true;
    check_problem(&c);
}

static void case_ema(sr_kernel_id kernel) {
    const sr_count_params params = {65536 + 19};
    problem c = problem_of(kernel, 3, &params, sizeof params);
    set(&c, 0, PARAMETER, SR_F32, params.count);
    set(&c, 1, PARAMETER, SR_F32, params.count);
    set(&c, 2, HYPER, SR_F32, 8);
    c.arg[0].updated = true;
    check_problem(&c);
}

// Rows and channels, odd and large enough for several blocks.
static const int64_t row_shapes[][2] = {{1, 1},    {7, 3},     {50, 16},
                                        {333, 37}, {2100, 64}, {90, 1040}};

static void case_rows(sr_kernel_id kernel) {
    for (int k = 0; k < 6; k++) {
        for (int t = 0; t < 2; t++) {
            const sr_rows_params params = {row_shapes[k][0], row_shapes[k][1]};
            const int64_t count = params.rows * params.channels;
            const bool sum = kernel == SR_KERNEL_channel_sum;
            problem c = problem_of(kernel, sum ? 2 : 3, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], count);
            if (sum) {
                set_output(&c, 1, PARAMETER, types[t], params.channels);
                c.terms = (double)params.rows;
            } else {
                set(&c, 1, PARAMETER, types[t], params.channels);
                set_output(&c, 2, ACTIVATION, types[t], count);
            }
            check_problem(&c);
        }
    }
}

// x in [-2, 2): |x - mean| <= 4, 1 / std <= 1 / sqrt(eps) for one row, about 1 otherwise.
static void batchnorm(sr_kernel_id kernel, int shape, bool affine, sr_dtype t) {
    const sr_batchnorm_params params = {row_shapes[shape][0], row_shapes[shape][1], 1e-2};
    const int64_t n = params.rows * params.channels, channels = params.channels;
    const arg_role parameter = affine ? PARAMETER : NONE;
    const bool train = kernel == SR_KERNEL_batchnorm_train;
    const bool gradient = kernel == SR_KERNEL_batchnorm_grad;
    problem c = problem_of(kernel, gradient ? 8 : 6, &params, sizeof params);
    c.terms = (double)params.rows;
    set(&c, 0, ACTIVATION, t, n);
    if (gradient) {
        set(&c, 1, ACTIVATION, t, n);
        set(&c, 2, parameter, t, channels);
        set(&c, 3, PARAMETER, t, channels);
        set(&c, 4, POSITIVE, t, channels);
        set_output(&c, 5, ACTIVATION, t, n);
        set_output(&c, 6, PARAMETER, t, channels);
        set_output(&c, 7, PARAMETER, t, channels);
        c.arg[5].bound = 60; // dy and xhat dgamma / M, each over std
        c.arg[6].bound = 12 * (double)params.rows;
        c.arg[7].bound = 2 * (double)params.rows;
    } else {
        set(&c, 1, parameter, t, channels);
        set(&c, 2, parameter, t, channels);
        if (train) {
            set_output(&c, 3, ACTIVATION, t, n);
            set_output(&c, 4, PARAMETER, t, channels);
            set_output(&c, 5, PARAMETER, t, channels);
            c.arg[4].bound = 2;
            c.arg[5].bound = 16;
        } else {
            set(&c, 3, PARAMETER, t, channels);
            set(&c, 4, POSITIVE, t, channels);
            set_output(&c, 5, ACTIVATION, t, n);
        }
        c.arg[train ? 3 : 5].bound = 100;
    }
    check_problem(&c);
}

static void case_batchnorm(sr_kernel_id kernel) {
    for (int shape = 0; shape < 6; shape++)
        for (int t = 0; t < 2; t++)
            batchnorm(kernel, shape, shape % 2 == t, types[t]);
}

static void pool(sr_kernel_id kernel, sr_pool_params p, sr_dtype t) {
    const int64_t in = p.n * p.h * p.w * p.c, out = p.n * p.p * p.q * p.c;
    const bool index = kernel == SR_KERNEL_maxpool2d || kernel == SR_KERNEL_maxpool2d_grad;
    const bool gradient = kernel == SR_KERNEL_maxpool2d_grad || kernel == SR_KERNEL_avgpool2d_grad;
    problem c = problem_of(kernel, index ? 3 : 2, &p, sizeof p);
    set(&c, 0, ACTIVATION, t, gradient ? out : in);
    if (kernel == SR_KERNEL_maxpool2d) {
        set_output(&c, 1, ACTIVATION, t, out);
        set_output(&c, 2, BYTES, t, out);
    } else if (index) {
        set(&c, 1, INDEX, t, out);
        set_output(&c, 2, ACTIVATION, t, in);
    } else {
        set_output(&c, 1, ACTIVATION, t, gradient ? in : out);
    }
    check_problem(&c);
}

static void case_pool(sr_kernel_id kernel) {
    static const sr_pool_params shapes[] = {
        {2, 9, 11, 5, 4, 5, 3, 3, 2, 2, 0, 0, 0, 0},
        {2, 8, 8, 16, 4, 4, 2, 2, 2, 2, 0, 0, 0, 0},
        {1, 5, 5, 67, 1, 1, 5, 5, 5, 5, 0, 0, 0, 0},
        {3, 12, 7, 32, 12, 7, 3, 3, 1, 1, 1, 1, 1, 1},
        {2, 40, 40, 48, 20, 20, 3, 3, 2, 2, 1, 1, 1, 1},
    };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < 2; t++) {
            sr_pool_params p;
            memcpy(&p, &shapes[k], sizeof p);
            pool(kernel, p, types[t]);
        }
    }
}

typedef struct conv_shape {
    int n, h, w, c, k, r, s, stride, pad, dilation, groups;
} conv_shape;

static const conv_shape conv_shapes[] = {
    {1, 5, 6, 3, 8, 3, 3, 1, 1, 1, 1},      {9, 7, 7, 32, 48, 3, 3, 1, 1, 1, 1},
    {4, 9, 8, 16, 24, 1, 1, 1, 0, 1, 1},    {5, 9, 8, 33, 17, 1, 1, 2, 0, 1, 1},
    {3, 11, 9, 16, 16, 3, 3, 2, 1, 1, 1},   {2, 23, 21, 3, 16, 7, 7, 2, 3, 1, 1},
    {2, 12, 12, 24, 10, 3, 3, 1, 2, 2, 1},  {2, 8, 8, 32, 32, 3, 3, 1, 1, 1, 4},
    {2, 8, 8, 32, 32, 3, 3, 1, 1, 1, 32},   {2, 10, 10, 7, 5, 2, 3, 1, 0, 1, 1},
    {2, 28, 14, 64, 64, 3, 3, 1, 1, 1, 1},  {1, 15, 15, 4, 8, 5, 5, 3, 2, 1, 1},
    {8, 14, 14, 32, 128, 1, 1, 1, 0, 1, 1}, {2, 7, 7, 16, 512, 1, 1, 1, 0, 1, 1},
    {25, 7, 7, 24, 40, 3, 3, 1, 1, 1, 1},   {2, 31, 30, 33, 72, 3, 3, 1, 0, 1, 1},
    {24, 8, 8, 129, 130, 3, 3, 1, 1, 1, 1},
};

static sr_conv_params conv_params(const conv_shape *s) {
    sr_conv_params p = {
        .n = s->n, .h = s->h, .w = s->w, .c = s->c, .k = s->k, .r = s->r, .s = s->s};
    p.stride_h = p.stride_w = s->stride;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = s->pad;
    p.dilation_h = p.dilation_w = s->dilation;
    p.groups = s->groups;
    p.p = (s->h + 2 * s->pad - s->dilation * (s->r - 1) - 1) / s->stride + 1;
    p.q = (s->w + 2 * s->pad - s->dilation * (s->s - 1) - 1) / s->stride + 1;
    return p;
}

static void conv(sr_kernel_id kernel, const conv_shape *shape, sr_dtype t, bool bias) {
    const sr_conv_params p = conv_params(shape);
    const int64_t x = p.n * p.h * p.w * p.c, y = p.n * p.p * p.q * p.k;
    const int64_t w = p.k * p.c / p.groups * p.r * p.s;
    const double window = (double)(p.r * p.s);
    problem c = problem_of(kernel, kernel == SR_KERNEL_conv2d ? 4 : 3, &p, sizeof p);
    if (kernel == SR_KERNEL_conv2d) {
        set(&c, 0, ACTIVATION, t, x);
        set(&c, 1, PARAMETER, t, w);
        set(&c, 2, bias ? PARAMETER : NONE, t, p.k);
        set_output(&c, 3, ACTIVATION, t, y);
        c.terms = window * (double)(p.c / p.groups);
    } else if (kernel == SR_KERNEL_conv2d_dx) {
        set(&c, 0, ACTIVATION, t, y);
        set(&c, 1, PARAMETER, t, w);
        set_output(&c, 2, ACTIVATION, t, x);
        c.terms = window * (double)(p.k / p.groups);
    } else {
        set(&c, 0, ACTIVATION, t, x);
        set(&c, 1, ACTIVATION, t, y);
        set_output(&c, 2, PARAMETER, t, w);
        c.terms = (double)(p.n * p.p * p.q);
    }
    check_problem(&c);
}

static void case_conv(sr_kernel_id kernel) {
    for (size_t k = 0; k < sizeof conv_shapes / sizeof conv_shapes[0]; k++)
        for (int t = 0; t < 2; t++)
            conv(kernel, &conv_shapes[k], types[t], (k + (size_t)t) % 2 == 0);
}

static void case_linear(sr_kernel_id kernel) {
    static const sr_linear_params shapes[] = {{1, 1, 1}, {5, 33, 10}, {17, 200, 300}, {3, 64, 128}};
    for (int k = 0; k < 4; k++) {
        for (int t = 0; t < 2; t++) {
            const sr_linear_params p = shapes[k];
            const bool forward = kernel == SR_KERNEL_linear,
                       weights = kernel == SR_KERNEL_linear_dw;
            problem c = problem_of(kernel, forward ? 4 : 3, &p, sizeof p);
            set(&c, 0, ACTIVATION, types[t], p.n * (kernel == SR_KERNEL_linear_dx ? p.k : p.c));
            if (weights)
                set(&c, 1, ACTIVATION, types[t], p.n * p.k);
            else
                set(&c, 1, PARAMETER, types[t], p.k * p.c);
            if (forward) {
                set(&c, 2, k % 2 ? PARAMETER : NONE, types[t], p.k);
                set_output(&c, 3, ACTIVATION, types[t], p.n * p.k);
            } else if (weights) {
                set_output(&c, 2, PARAMETER, types[t], p.k * p.c);
            } else {
                set_output(&c, 2, ACTIVATION, types[t], p.n * p.c);
            }
            c.terms = (double)(forward ? p.c : weights ? p.n : p.k);
            check_problem(&c);
        }
    }
}

// ---- the table ----

static void (*const cases[SR_KERNEL_COUNT])(sr_kernel_id) = {
    [SR_KERNEL_conv2d] = case_conv,
    [SR_KERNEL_conv2d_dx] = case_conv,
    [SR_KERNEL_conv2d_dw] = case_conv,
    [SR_KERNEL_linear] = case_linear,
    [SR_KERNEL_linear_dx] = case_linear,
    [SR_KERNEL_linear_dw] = case_linear,
    [SR_KERNEL_bias_add] = case_rows,
    [SR_KERNEL_channel_sum] = case_rows,
    [SR_KERNEL_batchnorm_train] = case_batchnorm,
    [SR_KERNEL_batchnorm_grad] = case_batchnorm,
    [SR_KERNEL_batchnorm_infer] = case_batchnorm,
    [SR_KERNEL_relu] = case_unary,
    [SR_KERNEL_relu_grad] = case_binary,
    [SR_KERNEL_gelu] = case_gelu,
    [SR_KERNEL_gelu_grad] = case_gelu_grad,
    [SR_KERNEL_leaky_relu] = case_unary,
    [SR_KERNEL_leaky_relu_grad] = case_binary,
    [SR_KERNEL_tanh] = case_unary,
    [SR_KERNEL_tanh_grad] = case_binary,
    [SR_KERNEL_sigmoid] = case_unary,
    [SR_KERNEL_sigmoid_grad] = case_binary,
    [SR_KERNEL_softplus] = case_unary,
    [SR_KERNEL_add] = case_binary,
    [SR_KERNEL_sub] = case_binary,
    [SR_KERNEL_mul] = case_binary,
    [SR_KERNEL_scale] = case_unary,
    [SR_KERNEL_scale_by] = case_scale_by,
    [SR_KERNEL_fill_by] = case_fill_by,
    [SR_KERNEL_cast] = case_cast,
    [SR_KERNEL_normalize] = case_normalize,
    [SR_KERNEL_dropout] = case_dropout,
    [SR_KERNEL_maxpool2d] = case_pool,
    [SR_KERNEL_maxpool2d_grad] = case_pool,
    [SR_KERNEL_avgpool2d] = case_pool,
    [SR_KERNEL_avgpool2d_grad] = case_pool,
    [SR_KERNEL_reduce_sum] = case_reduce_sum,
    [SR_KERNEL_sgd] = case_sgd,
    [SR_KERNEL_ema] = case_ema,
};

static void test_entries_against_reference(void **state) {
    (void)state;
    for (int kernel = 0; kernel < SR_KERNEL_COUNT; kernel++)
        if (cases[kernel] != NULL)
            cases[kernel]((sr_kernel_id)kernel);
}

static bool was_reached(const sr_kernel_entry *entry) {
    for (int i = 0; i < reached_count; i++)
        if (reached[i] == entry)
            return true;
    return false;
}

// Runs after the cases.
static void test_every_in_place_bit_was_tried(void **state) {
    (void)state;
    for (int kernel = 0; kernel < SR_KERNEL_COUNT; kernel++) {
        const char *name = sr_kernel_name((sr_kernel_id)kernel);
        const sr_op *op = sr_op_find(name);
        assert_non_null(op);
        if (op->in_place & ~in_place_tried[kernel])
            fail_msg("%s: in_place is %x, but no case of several blocks tries %x of it", name,
                     op->in_place, op->in_place & ~in_place_tried[kernel]);
    }
}

// Runs last.
static void test_every_entry_has_a_case(void **state) {
    (void)state;
    const bool amx = (sr_cpu_features() & SR_CPU_AMX_BF16) != 0;
    const bool vectors = (sr_cpu_features() & SR_CPU_AVX2) != 0;
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    for (size_t i = 0; i < providers; i++) {
        for (size_t k = 0; k < provider[i]->count; k++) {
            const sr_kernel_entry *entry = &provider[i]->entries[k];
            if (strcmp(entry->provider, "reference") == 0 || was_reached(entry))
                continue;
            if (vectors && (amx || strstr(entry->name, "amx") == NULL))
                fail_msg("%s (%s) has no case here", entry->name, entry->numerics_class);
            print_message("NOT RUN: %s: this processor lacks what it needs\n", entry->name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_entries_against_reference, arrays_free),
        cmocka_unit_test(test_every_in_place_bit_was_tried),
        cmocka_unit_test(test_every_entry_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
