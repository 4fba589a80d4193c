// SPDX-License-Identifier: Apache-2.0
// Every entry of every provider for CPUs but the reference, compared with the reference kernel of
// the same request, and the same bits for every order of blocks and every team.
//
// The problems are those of kernel_cases.c. Kernels of numerics class "reference" must give the
// reference's bits, others results within the bounds of assert_close (kernel_problem.h).
//
// Variants of an entry, and entries of one class, give the same bits: the chooser may take any of
// them.
//
// What operators declare about memory in place (sr_op.in_place, which the compiler relies on) is
// tried on every entry of their kernels, including the reference, on all problems where the sizes
// agree. What stages declare about the rows of their blocks is tried with memory that has only
// these rows.
//
// An entry whose kernel has no case fails the test; so does one that no case reaches, unless this
// processor lacks a feature that it needs (AMX).
#include "tests/unit/support/test_support.h"

#include "graph/op.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/chooser_internal.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/kernel_problem.h"

enum { MAX_TEAM = 3 };

// ---- running ----

typedef struct team_run {
    const sr_prepared *prepared;
    const sr_kernel_args *args;
    sr_kernel_stage stage;
    void *scratch[MAX_TEAM];
    bool reverse;
    sr_status status[MAX_TEAM];
} team_run;

static void run_item(void *user, int64_t item, int worker) {
    team_run *r = user;
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

// A team of so many threads, which stays.
static sr_pool *team_of(int threads) {
    static sr_pool *teams[MAX_TEAM];
    sr_pool **team = &teams[threads - 1];
    if (!*team)
        assert_ok(sr_pool_create(threads, init_thread, NULL, team));
    return *team;
}

// Runs on a team of 'threads'; with 'reverse', the blocks run backwards.
static void run_team(const problem *c, const sr_prepared *prepared, const arrays *a, int threads,
                     bool reverse) {
    sr_pool *pool = team_of(threads);
    char *workspace = sr_alloc(prepared->workspace, "a test workspace");
    assert_non_null(workspace);
    memset(workspace, 0xff, prepared->workspace);
    sr_kernel_args args = {a->p, c->request.params, prepared->state, workspace, 0};
    team_run r = {.prepared = prepared, .args = &args, .reverse = reverse};
    for (int i = 0; i < threads; i++)
        r.scratch[i] = sr_alloc(prepared->scratch, "test scratch");
    for (int s = 0; s < prepared->stages; s++) {
        r.stage = prepared->stage[s];
        args.block_rows = r.stage.block_rows;
        sr_pool_run(pool, r.stage.blocks, run_item, &r);
    }
    for (int i = 0; i < threads; i++) {
        assert_int_equal(SR_OK, r.status[i]);
        sr_free(r.scratch[i]);
    }
    sr_free(workspace);
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

static const sr_kernel_entry *reference_of(const problem *c) {
    const sr_kernel_entry *entry = sr_kernel_find_in(&c->request, "reference");
    assert_non_null(entry);
    return entry;
}

// Bits of sr_op.in_place that were tried with more than one block.
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

// ---- walking ----

// Rows [first, first + count) of argument i, in bytes.
typedef struct byte_range {
    size_t begin, bytes;
} byte_range;

static byte_range range_of(const problem *c, const sr_kernel_stage *stage, int i, int64_t first,
                           int64_t count) {
    const size_t row = bytes_of(c, i) / (size_t)stage->rows;
    assert_int_equal(bytes_of(c, i), row * (size_t)stage->rows);
    return (byte_range){(size_t)first * row, (size_t)count * row};
}

static void check_rest(const char *memory, size_t bytes, byte_range own, const char *name,
                       int number) {
    for (size_t k = 0; k < bytes; k++)
        if ((k < own.begin || k >= own.begin + own.bytes) && memory[k] != (char)0xff)
            fail_msg("%s: argument %d: a block writes byte %zu outside of its rows", name, number,
                     k);
}

// Runs one block with memory that has only its own rows: NaN elsewhere, and without the arguments
// that it does not use.
static void walk_block(const problem *c, const sr_prepared *prepared, int s, int64_t block,
                       sr_kernel_args *args, const arrays *a, sr_worker *worker) {
    const sr_kernel_stage *stage = &prepared->stage[s];
    const int64_t first = block * args->block_rows;
    const int64_t rest = stage->rows - first;
    const int64_t count = rest < args->block_rows ? rest : args->block_rows;
    void *p[MAX_ARGS] = {NULL};
    for (int i = 0; i < c->request.args; i++) {
        p[i] = stage->leaves >> i & 1 ? NULL : a->p[i];
        if (!(stage->streams >> i & 1) || a->p[i] == NULL)
            continue;
        const byte_range own = range_of(c, stage, i, first, count);
        p[i] = sr_alloc(bytes_of(c, i), "a test array");
        assert_non_null(p[i]);
        memset(p[i], 0xff, bytes_of(c, i));
        memcpy((char *)p[i] + own.begin, (char *)a->p[i] + own.begin, own.bytes);
    }
    args->p = p;
    assert_ok(stage->run(args, block, worker));
    for (int i = 0; i < c->request.args; i++) {
        if (!(stage->streams >> i & 1) || a->p[i] == NULL)
            continue;
        const byte_range own = range_of(c, stage, i, first, count);
        check_rest(p[i], bytes_of(c, i), own, prepared->entry->name, i);
        memcpy((char *)a->p[i] + own.begin, (char *)p[i] + own.begin, own.bytes);
        sr_free(p[i]);
    }
}

enum { WALKS = 5 }; // approximate number of blocks, where the caller may choose

static bool walks[SR_KERNEL_COUNT];

// What a stage declares about rows and arguments (sr_kernel_stage) is true, and blocks of another
// size give the same bits where it allows them.
static void check_walk(const problem *c, const sr_prepared *prepared, const arrays *inputs,
                       const arrays *expected) {
    arrays a = copy_arrays(c, inputs);
    char *workspace = sr_alloc(prepared->workspace, "a test workspace");
    sr_worker worker = {.scratch = sr_alloc(prepared->scratch, "test scratch")};
    assert_true(workspace != NULL && worker.scratch != NULL);
    sr_kernel_args args = {NULL, c->request.params, prepared->state, workspace, 0};
    for (int s = 0; s < prepared->stages; s++) {
        const sr_kernel_stage *stage = &prepared->stage[s];
        args.block_rows = stage->block_rows;
        int64_t blocks = stage->blocks;
        if (stage->streams && stage->granule) {
            args.block_rows = (stage->rows / stage->granule / WALKS + 1) * stage->granule;
            blocks = (stage->rows + args.block_rows - 1) / args.block_rows;
        }
        walks[c->request.kernel] = walks[c->request.kernel] || (stage->streams && blocks > 1);
        for (int64_t block = blocks; block-- > 0;)
            walk_block(c, prepared, s, block, &args, &a, &worker);
    }
    assert_same_bits(c, &a, expected, prepared->entry->name, "walking over it differs");
    free_arrays(&a);
    sr_free(workspace);
    sr_free(worker.scratch);
}

// What listings show of an entry is true if it serves any request.
static void check_listing(const problem *c, const sr_kernel_entry *entry) {
    assert_int_equal(0, entry->needs & ~sr_cpu_features());
    assert_non_null(entry->dtypes);
    for (int i = 0; i < c->request.args; i++)
        if (c->arg[i].role == ACTIVATION)
            assert_non_null(strstr(entry->dtypes, sr_dtype_name(c->request.dtype[i])));
}

enum { MAX_ENTRIES = 256, MAX_VARIANTS = 32 };
static const sr_kernel_entry *reached[MAX_ENTRIES];
static int reached_count;
static bool variant_reached[MAX_ENTRIES][MAX_VARIANTS];

// The index of the entry in 'reached', where it is added the first time.
static int index_of(const sr_kernel_entry *entry) {
    for (int i = 0; i < reached_count; i++)
        if (reached[i] == entry)
            return i;
    assert_true(reached_count < MAX_ENTRIES);
    reached[reached_count] = entry;
    return reached_count++;
}

static void check_same(const problem *c, sr_prepared *prepared, const arrays *inputs,
                       const arrays *expected, const char *what) {
    for (int threads = 1; threads <= MAX_TEAM; threads += MAX_TEAM - 1) {
        arrays a = run_entry(c, prepared, inputs, threads, threads == 1);
        assert_same_bits(c, &a, expected, prepared->entry->name, what);
        free_arrays(&a);
    }
    check_in_place(c, prepared, inputs, expected);
    check_walk(c, prepared, inputs, expected);
    sr_prepared_release(prepared);
}

// A variant gives the bits of the default, or reports that it does not support the shape.
static void check_variant(const problem *c, const sr_kernel_entry *entry, int variant,
                          const arrays *inputs, const arrays *expected) {
    sr_prepared prepared;
    assert_true(variant < MAX_VARIANTS);
    const sr_status status = sr_kernel_prepare_as(&c->request, entry, variant, &prepared);
    if (status == SR_E_UNSUPPORTED)
        return;
    assert_ok(status);
    variant_reached[index_of(entry)][variant] = true;
    check_same(c, &prepared, inputs, expected, sr_kernel_variant(entry, variant));
}

// The other entries of the class give the same bits.
static void check_class(const problem *c, const sr_kernel_entry *entry, const arrays *inputs,
                        const arrays *expected) {
    sr_chooser_candidate candidates[SR_CHOOSER_MAX_CANDIDATES];
    const int count = sr_chooser_candidates(&c->request, entry, candidates);
    assert_true(count < SR_CHOOSER_MAX_CANDIDATES);
    for (int i = 0; i < count; i++) {
        if (candidates[i].entry == entry || candidates[i].variant > 0)
            continue;
        sr_prepared prepared;
        assert_ok(sr_kernel_prepare_as(&c->request, candidates[i].entry, 0, &prepared));
        check_same(c, &prepared, inputs, expected, "other bits than an entry of its class");
    }
}

// One entry on one problem.
static void check_entry(const problem *c, const sr_kernel_entry *entry, const arrays *inputs,
                        const arrays *want, const arrays *magnitude) {
    check_listing(c, entry);
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
    check_walk(c, &prepared, inputs, &got);
    for (int v = 1; sr_kernel_variant(entry, v) != NULL; v++)
        check_variant(c, entry, v, inputs, &got);
    check_class(c, entry, inputs, &got);
    free_arrays(&got);
    sr_prepared_release(&prepared);
}

// The list has the true sizes of arguments and what the kernel does with them.
static void check_arguments(const problem *c) {
    int args;
    const sr_kernel_argument *listed = sr_kernel_arguments(c->request.kernel, &args);
    assert_int_equal(args, c->request.args);
    assert_true(sr_kernel_fits(&c->request));
    for (int i = 0; i < args; i++) {
        const bool present = c->arg[i].role != NONE;
        assert_int_equal(present ? c->arg[i].count : 0, sr_kernel_argument_count(&c->request, i));
        assert_int_equal(c->arg[i].output, sr_argument_is_result(listed[i].role));
        assert_int_equal(c->arg[i].updated, listed[i].role == SR_ARG_UPD);
        assert_true(present || listed[i].role == SR_ARG_OPT || listed[i].role == SR_ARG_OPT_OUT);
    }
}

void check_problem(const problem *c) {
    arrays inputs = make_inputs(c);
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
            if (!sr_provider_is_for(provider[i], SR_DEVICE_CPU) ||
                entry->kernel != c->request.kernel || strcmp(entry->provider, "reference") == 0 ||
                !entry->supports(&c->request))
                continue;
            (void)index_of(entry);
            check_entry(c, entry, &inputs, &want, &magnitude);
        }
    }
    check_arguments(c);
    free_arrays(&inputs);
    free_arrays(&want);
    free_arrays(&absolute);
    free_arrays(&magnitude);
    sr_prepared_release(&reference);
}

static void test_entries_against_reference(void **state) {
    (void)state;
    for (int kernel = 0; kernel < SR_KERNEL_COUNT; kernel++)
        if (kernel_cases[kernel] != NULL)
            kernel_cases[kernel]((sr_kernel_id)kernel);
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
        // Kernels of an update alone have no operator.
        if (op && op->in_place & ~in_place_tried[kernel])
            fail_msg("%s: in_place is %x, but no case of several blocks tries %x of it", name,
                     op->in_place, op->in_place & ~in_place_tried[kernel]);
    }
}

// Runs after the cases: the kernels that chains consist of (graph/pass_chain.c) run by rows.
static void test_chains_have_stages_that_walk(void **state) {
    (void)state;
    static const sr_kernel_id wanted[] = {SR_KERNEL_add,
                                          SR_KERNEL_relu,
                                          SR_KERNEL_relu_grad,
                                          SR_KERNEL_batchnorm_train,
                                          SR_KERNEL_batchnorm_grad,
                                          SR_KERNEL_batchnorm_infer,
                                          SR_KERNEL_batchnorm_moments,
                                          SR_KERNEL_batchnorm_sums,
                                          SR_KERNEL_batchnorm_dx};
    const sr_kernel_request relu = {.kernel = SR_KERNEL_relu, .args = 2, .dtype = {SR_F32, SR_F32}};
    if (sr_kernel_find_in(&relu, "x86") == NULL)
        test_skip("built without the x86 kernels");
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!walks[wanted[i]])
            fail_msg("no case walks over rows in %s", sr_kernel_name(wanted[i]));
}

// Runs after the cases.
static void test_every_variant_was_tried(void **state) {
    (void)state;
    for (int i = 0; i < reached_count; i++)
        for (int v = 1; sr_kernel_variant(reached[i], v) != NULL; v++)
            if (!variant_reached[i][v])
                fail_msg("no case has variant %s of %s", sr_kernel_variant(reached[i], v),
                         reached[i]->name);
}

// Runs last.
static void test_every_entry_has_a_case(void **state) {
    (void)state;
    const uint32_t features = sr_cpu_features();
    size_t providers;
    const sr_provider *const *provider = sr_providers(&providers);
    for (size_t i = 0; i < providers; i++) {
        for (size_t k = 0; k < provider[i]->count; k++) {
            const sr_kernel_entry *entry = &provider[i]->entries[k];
            if (!sr_provider_is_for(provider[i], SR_DEVICE_CPU) ||
                strcmp(entry->provider, "reference") == 0 || was_reached(entry))
                continue;
            if ((features & SR_CPU_AVX2) != 0 && (features & entry->needs) == entry->needs)
                fail_msg("%s (%s) has no case here", entry->name, entry->numerics_class);
            print_message("NOT RUN: %s: this processor lacks what it needs\n", entry->name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_entries_against_reference, arrays_free),
        cmocka_unit_test(test_chains_have_stages_that_walk),
        cmocka_unit_test(test_every_in_place_bit_was_tried),
        cmocka_unit_test(test_every_variant_was_tried),
        cmocka_unit_test(test_every_entry_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
