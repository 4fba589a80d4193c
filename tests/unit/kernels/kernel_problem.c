// SPDX-License-Identifier: Apache-2.0
// The arrays of a kernel's problem (see kernel_problem.h).
#include "tests/unit/kernels/kernel_problem.h"

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/support/test_support.h"

static void *fill_random(sr_dtype dtype, int64_t count, uint32_t seed, double low, double high) {
    const test_array *a = array_random(dtype, count, seed, low, high);
    const size_t bytes = (size_t)count * sr_dtype_size(dtype);
    char *copy = sr_alloc(bytes + GUARD, "a test array");
    assert_non_null(copy);
    memcpy(copy, a->data, bytes);
    (void)arrays_free(NULL);
    return copy;
}

// The indices that maxpool2d of the same shape writes.
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

// Derived from the name, so that the numbers do not depend on the other kernels of the list.
static uint32_t kernel_seed(sr_kernel_id kernel) {
    const char *name = sr_kernel_name(kernel);
    return (uint32_t)sr_hash64(name, strlen(name));
}

// Rows of 'n' numbers in a random order.
static void *make_order(int64_t count, int64_t n, uint32_t seed) {
    int32_t *order = sr_alloc((size_t)count * sizeof *order + GUARD, "a test array");
    const test_array *draws = array_random(SR_F64, count, seed, 0, 1);
    assert_non_null(order);
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = i % n, other = i - k + (int64_t)(array_get(draws, i) * (double)(k + 1));
        order[i] = (int32_t)k;
        order[i] = order[other];
        order[other] = (int32_t)k;
    }
    (void)arrays_free(NULL);
    return order;
}

static void *make_input(const problem *c, int i) {
    const argument *a = &c->arg[i];
    const sr_dtype dtype = c->request.dtype[i];
    const uint32_t seed = kernel_seed(c->request.kernel) + (uint32_t)i;
    if (a->role == POSITIVE || a->role == POSITIVE_ACTIVATION)
        return fill_random(dtype, a->count, seed, 0.5, 1.5);
    if (a->role == BYTES)
        return fill_random(dtype, a->count, seed, 0, 256);
    if (a->role == INDEX)
        return make_index(c, a->count);
    if (a->role == NUMBERS) // conversion rounds towards zero
        return fill_random(dtype, a->count, seed, -1.9, a->bound + 0.9);
    if (a->role == ORDER)
        return make_order(a->count, (int64_t)a->bound, seed);
    if (a->role == KEY)
        return fill_random(dtype, a->count, seed, -2e9, 2e9);
    if (a->role == HYPER) {
        static const float eight[8] = {0.1f, 0.9f, 1e-4f, 1.0f, 0.5f, 0.1f, 0.0f, 0.0f};
        static const float sixteen[16] = {0.1f,  0.9f, 0.3f, 0.7f,  0.5f, 0.1f,
                                          0.99f, 0.2f, 0.8f, 0.01f, 1.0f};
        float *copy = fill_random(dtype, a->count, seed, 0, 1);
        memcpy(copy, a->count == 8 ? eight : sixteen, (size_t)a->count * sizeof *copy);
        return copy;
    }
    return fill_random(dtype, a->count, seed, -2, 2);
}

size_t bytes_of(const problem *c, int i) {
    return c->arg[i].role == NONE ? 0
                                  : (size_t)c->arg[i].count * sr_dtype_size(c->request.dtype[i]);
}

arrays make_inputs(const problem *c) {
    arrays inputs = {0};
    for (int i = 0; i < c->request.args; i++)
        if (c->arg[i].role != NONE && !c->arg[i].output)
            inputs.p[i] = make_input(c, i);
    return inputs;
}

bool is_result(const argument *a) {
    return a->output || a->updated;
}

void free_arrays(arrays *a) {
    for (int i = 0; i < MAX_ARGS; i++)
        sr_free(a->p[i]);
}

arrays copy_arrays(const problem *c, const arrays *inputs) {
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
