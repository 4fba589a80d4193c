// SPDX-License-Identifier: Apache-2.0
// The arrays of a kernel's problem (see kernel_problem.h).
#include "tests/unit/kernels/kernel_problem.h"

#include <math.h>

#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "kernels/base/pixel_move.h"
#include "kernels/base/rng.h"
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

// Where numbers in [-2, 2) are above 0; bits behind those of a row are set.
static void *make_signs(const problem *c, int64_t count, uint32_t seed) {
    const sr_batchnorm_params *p = (const void *)c->request.params;
    const test_array *y = array_random(c->request.dtype[0], p->rows * p->channels, seed, -2, 2);
    uint8_t *signs = sr_alloc((size_t)count + GUARD, "a test array");
    assert_non_null(signs);
    memset(signs, 0xff, (size_t)count);
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t row = i / p->channels, channel = i % p->channels;
        if (!(array_get(y, i) > 0))
            signs[row * SR_SIGN_BYTES(p->channels) + channel / 8] &= (uint8_t) ~(1U << channel % 8);
    }
    (void)arrays_free(NULL);
    return signs;
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

static void set_numbers(float *to, int64_t count) {
    static const float eight[8] = {0.1f, 0.9f, 1e-4f, 1.0f, 0.5f, 0.1f, 0.0f, 0.0f};
    static const float sixteen[16] = {0.1f,  0.9f, 0.3f, 0.7f,  0.5f, 0.1f,
                                      0.99f, 0.2f, 0.8f, 0.01f, 1.0f};
    memcpy(to, count == 8 ? eight : sixteen, (size_t)count * sizeof *to);
}

static float *make_numbers(int64_t count, uint32_t seed) {
    float *numbers = fill_random(SR_F32, count, seed, 0, 1);
    set_numbers(numbers, count);
    return numbers;
}

// Rows, of which each has another first number; a map, in which every third segment has no row and
// the others have theirs in reverse; and pieces, which leave gaps: short ones, and the longest at
// the end. Segment i has piece i.
static void *make_table(const problem *c, int64_t words, uint32_t seed) {
    const sr_update_params *p = (const void *)c->request.params;
    const int64_t rows = p->map_at / SR_UPDATE_ROW;
    float *table = fill_random(SR_F32, words, seed, 0, 1);
    int64_t begin = p->first;
    for (int64_t i = 0; i < rows; i++) {
        set_numbers(table + i * SR_UPDATE_ROW, SR_UPDATE_ROW);
        table[i * SR_UPDATE_ROW] = 0.1f + 0.05f * (float)i;
    }
    for (int64_t i = 0; i < p->pieces; i++) {
        const int64_t left = p->first + p->count - begin;
        const int32_t row = i % 3 == 2 ? -1 : (int32_t)((p->pieces - 1 - i) % rows);
        const sr_update_piece piece = {.begin = begin,
                                       .count = i + 1 < p->pieces ? 1 + (int32_t)(i * i) * 37
                                                                  : (int32_t)left,
                                       .segment = (int32_t)i};
        assert_in_range(piece.count, 1, SR_UPDATE_PIECE);
        memcpy(table + p->map_at + i, &row, sizeof row);
        memcpy(table + p->pieces_at + i * 4, &piece, sizeof piece);
        begin += (piece.count + 16) / 16 * 16;
    }
    return table;
}

// Parts of all sizes, shown from outside of them, too; every eighth move is of a picture or a part
// that does not exist.
static void *make_moves(const problem *c, int64_t numbers, uint32_t seed) {
    const sr_move_params *p = (const void *)c->request.params;
    sr_pixel_move *moves = sr_alloc((size_t)numbers * sizeof(int32_t) + GUARD, "a test array");
    sr_rng rng;
    assert_non_null(moves);
    sr_rng_init(&rng, seed, 0, 0, 0);
    for (int64_t i = 0; i < p->count; i++) {
        const int32_t h = (int32_t)p->h, w = (int32_t)p->w;
        sr_pixel_move *m = &moves[i];
        m->picture = (int32_t)sr_rng_below(&rng, (uint32_t)p->n);
        m->left = (int32_t)sr_rng_below(&rng, (uint32_t)w);
        m->top = (int32_t)sr_rng_below(&rng, (uint32_t)h);
        m->right = m->left + 1 + (int32_t)sr_rng_below(&rng, (uint32_t)(w - m->left));
        m->bottom = m->top + 1 + (int32_t)sr_rng_below(&rng, (uint32_t)(h - m->top));
        m->x0 = (int32_t)sr_rng_below(&rng, 3 * (uint32_t)w) - w;
        m->y0 = (int32_t)sr_rng_below(&rng, 3 * (uint32_t)h) - h;
        m->look = sr_rng_below(&rng, 2) | sr_rng_below(&rng, 3) << 1 | sr_rng_u32(&rng) << 8;
        if (i % 8 == 7)
            *(i % 16 == 7 ? &m->picture : &m->right) = (int32_t)(i % 16 == 7 ? p->n : w + 1);
    }
    return moves;
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
    if (a->role == SIGNS)
        return make_signs(c, a->count, seed);
    if (a->role == NUMBERS) // conversion rounds towards zero
        return fill_random(dtype, a->count, seed, -1.9, a->bound + 0.9);
    if (a->role == ORDER)
        return make_order(a->count, (int64_t)a->bound, seed);
    if (a->role == MOVES)
        return make_moves(c, a->count, seed);
    if (a->role == KEY)
        return fill_random(dtype, a->count, seed, -2e9, 2e9);
    if (a->role == HYPER)
        return make_numbers(a->count, seed);
    if (a->role == TABLE)
        return make_table(c, a->count, seed);
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
    return a->role != NONE && (a->output || a->updated);
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

// ---- Results ----

void check_guards(const problem *c, const arrays *a, const char *name) {
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

void assert_same_bits(const problem *c, const arrays *a, const arrays *b, const char *name,
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

static double largest(sr_dtype dtype, const void *data, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(value(dtype, data, i)));
    return most;
}

void assert_close(const problem *c, const arrays *got, const arrays *want, const arrays *magnitude,
                  const sr_kernel_entry *entry) {
    const double terms = 8 + 2 * sqrt(c->terms);
    const bool spread = strstr(entry->numerics_class, "winograd") != NULL ||
                        strstr(entry->numerics_class, "attention") != NULL;
    for (int i = 0; i < c->request.args; i++) {
        const sr_dtype dtype = c->request.dtype[i];
        if (!is_result(&c->arg[i]) || c->arg[i].role == SIGNS) // which norm_relu.c checks
            continue;
        const double bound = spread ? fmax(largest(dtype, magnitude->p[i], c->arg[i].count),
                                           largest(dtype, want->p[i], c->arg[i].count))
                                    : c->arg[i].bound;
        for (int64_t k = 0; k < c->arg[i].count; k++) {
            const double w = value(dtype, want->p[i], k);
            const double m = bound > 0 ? bound : fabs(value(dtype, magnitude->p[i], k));
            // two results that are nearly equal may round to neighbours in T, 2 roundoffs apart
            const bool narrow = dtype == SR_BF16 || dtype == SR_F16;
            const double rounded = fabs(w) + 2 * c->arg[i].inner;
            assert_near(entry->name, k, dtype, value(dtype, got->p[i], k), w, terms,
                        m + (narrow ? 0x1p24 * unit_roundoff(dtype) * rounded / terms : 0));
        }
    }
}

void make_absolute(const problem *c, arrays *a) {
    for (int i = 0; i < c->request.args; i++) {
        if (c->arg[i].role == TABLE) // has bits of integers
            continue;
        for (int64_t k = 0; a->p[i] != NULL && !c->arg[i].output && k < c->arg[i].count; k++) {
            test_array view = {c->request.dtype[i], c->arg[i].count, a->p[i]};
            if (sr_dtype_is_float(view.dtype))
                array_set(&view, k, fabs(array_get(&view, k)));
        }
    }
}
