// SPDX-License-Identifier: Apache-2.0
// The overhead of an operator: a chain of operators on sixteen numbers, so that the arithmetic is
// negligible, is recorded, found in the plan cache and replayed many times.
//
// Recording is the call in model code. Finding the plan is the canonical form, its hash and the
// comparison, which is all of compilation in an unchanged step. Replaying is the executor's loop on
// one thread; a bare loop over the same kernels measures their part of it. What a replay costs
// without any operator, the way to the executor's thread and back, is measured by a program that
// has none. The best step counts, as other processes may be using the machine.
#include "graph/context.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"
#include "launcher/bench/bench_op_internal.h"

enum { STEPS = 200, COMPILES = 8, ELEMENTS = 16 };

typedef struct chain {
    int operators;
    sr_context *context;
    sr_executor *executor;
    sr_tensor w;
    int64_t record_ns, find_ns, replay_ns, compile_ns; // of the best step
    uint64_t allocations;
} chain;

static void keep_best(int64_t *best, int64_t begin, int64_t end) {
    if (*best == 0 || end - begin < *best)
        *best = end - begin;
}

static sr_status take_step(chain *c, bool counted) {
    static const sr_run run = {0};
    const uint64_t before = sr_memory_get_stats().allocations;
    sr_plan *plan;
    sr_context_begin_step(c->context);
    const int64_t begin = sr_clock_ns();
    sr_target target = {.tensor = c->w};
    for (int i = 0; i < c->operators; i += 2)
        target.tensor = sr_add(sr_relu(target.tensor), c->w);
    const int64_t recorded = sr_clock_ns();
    SR_TRY(sr_compile(c->context, &target, 1, &plan));
    const int64_t found = sr_clock_ns();
    SR_TRY(sr_executor_begin(c->executor, plan, &run));
    SR_TRY(sr_executor_wait(c->executor));
    const int64_t replayed = sr_clock_ns();
    if (!counted)
        return SR_OK;
    keep_best(&c->record_ns, begin, recorded);
    keep_best(&c->find_ns, recorded, found);
    keep_best(&c->replay_ns, found, replayed);
    c->allocations += sr_memory_get_stats().allocations - before;
    return SR_OK;
}

static sr_status create(chain *c) {
    static const sr_info sixteen = {.dtype = SR_F32, .rank = 1, .dim = {ELEMENTS}};
    static const float ones[ELEMENTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const sr_context_options options = {.device = "cpu", .threads = 1};
    SR_TRY(sr_context_create(&options, &c->context));
    SR_TRY(sr_executor_create(sr_context_device(c->context), 1, &c->executor));
    c->w = sr_variable(c->context, "w", &sixteen, ones);
    return SR_OK;
}

static void destroy(chain *c) {
    sr_executor_free(c->executor);
    sr_context_free(c->context);
}

// In turns, so that what else the machine does hits both.
static sr_status measure(chain *c, chain *empty) {
    SR_TRY(create(c));
    SR_TRY(create(empty));
    for (int step = -2; step < STEPS; step++) { // two to compile and to warm the caches
        SR_TRY(take_step(empty, step >= 0));
        SR_TRY(take_step(c, step >= 0));
    }
    return SR_OK;
}

// The same kernels, called one after the other in a bare loop.
static sr_status run_bare(int operators, const sr_prepared *relu, const sr_prepared *add,
                          int64_t *best) {
    static _Alignas(64) float x[ELEMENTS], y[ELEMENTS], z[ELEMENTS];
    const sr_expression_params params = {.count = ELEMENTS};
    void *const of_relu[] = {x, y}, *const of_add[] = {y, z, x};
    const sr_kernel_args relu_args = {of_relu, &params, relu->state, NULL,
                                      relu->stage[0].block_rows};
    const sr_kernel_args add_args = {of_add, &params, add->state, NULL, add->stage[0].block_rows};
    sr_worker worker = {0};
    for (int step = 0; step < STEPS; step++) {
        const int64_t begin = sr_clock_ns();
        for (int i = 0; i < operators; i += 2) {
            SR_TRY(relu->stage[0].run(&relu_args, 0, &worker));
            SR_TRY(add->stage[0].run(&add_args, 0, &worker));
        }
        keep_best(best, begin, sr_clock_ns());
    }
    return SR_OK;
}

static sr_status measure_kernels(int operators, int64_t *best) {
    const sr_expression_params params = {.count = ELEMENTS};
    sr_kernel_request relu_request, add_request;
    sr_prepared relu = {0}, add = {0};
    sr_kernel_request_init(&relu_request, SR_DEVICE_CPU, SR_KERNEL_relu, SR_F32, &params,
                           sizeof params);
    sr_kernel_request_init(&add_request, SR_DEVICE_CPU, SR_KERNEL_add, SR_F32, &params,
                           sizeof params);
    SR_TRY(sr_kernel_prepare(&relu_request, &relu));
    sr_status status = sr_kernel_prepare(&add_request, &add);
    if (status == SR_OK)
        status = run_bare(operators, &relu, &add, best);
    sr_prepared_release(&add);
    sr_prepared_release(&relu);
    return status;
}

// A chain of another length is another program, which has to be compiled.
static sr_status measure_compile(chain *c) {
    for (int i = 1; i <= COMPILES; i++) {
        sr_plan *plan;
        sr_context_begin_step(c->context);
        sr_target target = {.tensor = c->w};
        for (int k = 0; k < c->operators + i; k++)
            target.tensor = k % 2 ? sr_add(target.tensor, c->w) : sr_relu(target.tensor);
        const uint64_t before = sr_context_get_stats(c->context).compile_ns;
        SR_TRY(sr_compile(c->context, &target, 1, &plan));
        keep_best(&c->compile_ns, (int64_t)before,
                  (int64_t)sr_context_get_stats(c->context).compile_ns);
    }
    return SR_OK;
}

sr_status sr_bench_overhead_measure(int operators, sr_bench_overhead *out) {
    chain c = {.operators = operators}, empty = {.operators = 0};
    sr_status status = measure(&c, &empty);
    if (status == SR_OK)
        status = measure_compile(&c);
    int64_t kernel_ns = 0;
    if (status == SR_OK)
        status = measure_kernels(operators, &kernel_ns);
    destroy(&c);
    destroy(&empty);
    if (status != SR_OK)
        return status;
    *out = (sr_bench_overhead){.operators = operators,
                               .record_ns = (double)c.record_ns / operators,
                               .find_ns = (double)c.find_ns / operators,
                               .start_ns = (double)empty.replay_ns,
                               .replay_ns = (double)(c.replay_ns - empty.replay_ns) / operators,
                               .kernel_ns = (double)kernel_ns / operators,
                               .compile_ns = (double)c.compile_ns / operators,
                               .allocations = c.allocations};
    return SR_OK;
}
