// SPDX-License-Identifier: Apache-2.0
// The kernels of expression_list.def: one interpreter of their programs. And sum_to, the sum over
// the repeats of a broadcast tensor, which gradients of formulas need.
//
// Blocks stream over the output and the inputs of its shape, so that formulas take part in chains
// (graph/pass_chain.c). An output may be an input of its shape: a chunk is read before it is
// written.
#include <math.h>
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"
#include "kernels/expression.h"

// Elements that an opcode processes at a time: a stack of eight is 8 KiB of f32.
#define CHUNK 256
#define GRANULE 64   // of blocks
#define SUM_BLOCK 64 // results of a block of sum_to
#define SUM_LEAVES 8 // leaves of sum_to that are formed side by side

// A walk over the output, together with the position in one input.
typedef struct walk {
    int64_t at[SR_EXPRESSION_DIMS];
    int64_t step[SR_EXPRESSION_DIMS]; // of the input; 0 where it is repeated
    int64_t offset;                   // in the input
} walk;

static walk walk_from(const sr_expression_params *p, int input, int64_t first) {
    walk w = {.offset = 0};
    int64_t stride = 1;
    for (int d = p->dims - 1; d >= 0; d--) {
        const bool repeated = p->repeated[input] >> d & 1;
        w.at[d] = first % p->dim[d];
        first /= p->dim[d];
        w.step[d] = repeated ? 0 : stride;
        stride *= repeated ? 1 : p->dim[d];
        w.offset += w.at[d] * w.step[d];
    }
    return w;
}

// 'run' elements on, at most to the end of the last dimension.
static void walk_on(walk *w, const sr_expression_params *p, int64_t run) {
    int d = p->dims - 1;
    w->at[d] += run;
    w->offset += run * w->step[d];
    while (d > 0 && w->at[d] == p->dim[d]) {
        w->offset -= w->at[d] * w->step[d];
        w->at[d] = 0;
        d--;
        w->at[d]++;
        w->offset += w->step[d];
    }
}

// The places in x of sum_to that one element of y was repeated to.
typedef struct repeats {
    int64_t at[SR_EXPRESSION_DIMS];
    int64_t step[SR_EXPRESSION_DIMS]; // of x
    int64_t offset;
} repeats;

static repeats repeats_of(const sr_expression_params *p, int64_t element) {
    repeats r = {.offset = 0};
    int64_t stride = 1;
    for (int d = p->dims - 1; d >= 0; d--) {
        r.step[d] = stride;
        stride *= p->dim[d];
        if (p->repeated[0] >> d & 1)
            continue;
        r.offset += element % p->dim[d] * r.step[d];
        element /= p->dim[d];
    }
    return r;
}

// The next one along the first 'dims' dimensions; false after the last.
static bool repeats_next(repeats *r, const sr_expression_params *p, int dims) {
    for (int d = dims - 1; d >= 0; d--) {
        if (!(p->repeated[0] >> d & 1))
            continue;
        r->offset += r->step[d];
        if (++r->at[d] < p->dim[d])
            return true;
        r->offset -= r->at[d] * r->step[d];
        r->at[d] = 0;
    }
    return false;
}

// The same sums, of as few dimensions as possible.
static sr_expression_params joined_dims(const sr_expression_params *p) {
    sr_expression_params joined = {.count = p->count};
    for (int d = 0; d < p->dims; d++) {
        const int last = joined.dims - 1;
        const unsigned repeated = p->repeated[0] >> d & 1u;
        if (p->dim[d] == 1)
            continue;
        if (last >= 0 && (joined.repeated[0] >> last & 1u) == repeated) {
            joined.dim[last] *= p->dim[d];
            continue;
        }
        joined.repeated[0] |= (uint8_t)(repeated << joined.dims);
        joined.dim[joined.dims++] = p->dim[d];
    }
    if (joined.dims == 0)
        joined.dim[joined.dims++] = p->count;
    return joined;
}

// Levels of the tree of each sum.
static int64_t sum_levels(const sr_expression_params *p) {
    const int64_t terms = p->count / sr_input_elements(p, 0);
    return sr_reference_levels(sr_blocks_of(terms, SR_REFERENCE_TERMS));
}

static bool is_push(uint8_t code) {
    return code != SR_CODE_END && code < SR_CODE_ADD;
}

// Whether a comparison follows that only decides what is picked, "LT s t PICK": one loop then.
static bool is_compared_pick(const uint8_t *code) {
    return (*code == SR_CODE_LT || *code == SR_CODE_GT) && is_push(code[1]) && is_push(code[2]) &&
           code[3] == SR_CODE_PICK;
}

// Whether the output can be written while inputs are read, and the last opcode is not a push.
static bool is_apart(const sr_kernel_args *args, const sr_expression *e) {
    bool apart = !is_push(e->code[0]) || e->code[1] != SR_CODE_END;
    for (int i = 0; i < e->inputs; i++)
        apart = apart && args->p[i] != args->p[e->inputs];
    return apart;
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_expression.inc"
#include "kernels/cpu/reference/reference_typed.inc"

static sr_status prepare(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(expression);
    const sr_expression_params *p = (const void *)request->params;
    sr_kernel_stage *stage = &out->stage[0];
    uint32_t touches;
    stage->streams = sr_expression_streams(request, &touches);
    stage->leaves = ~(stage->streams | touches);
    stage->run = variants[sr_kernel_activation(request)];
    stage->rows = p->count;
    stage->block_rows = SR_REFERENCE_BLOCK;
    stage->granule = GRANULE;
    stage->blocks = sr_blocks_of(p->count, SR_REFERENCE_BLOCK);
    out->stages = 1;
    out->state = (void *)(uintptr_t)sr_expression_of(request->kernel); // static: never freed
    return SR_OK;
}

#define SR_EXPRESSION(name, ...)                                                                   \
    sr_status sr_reference_prepare_##name(const sr_kernel_request *request, sr_prepared *out) {    \
        return prepare(request, out);                                                              \
    }
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

sr_status sr_reference_prepare_sum_to(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(sum_to);
    const sr_expression_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]],
                 sr_blocks_of(sr_input_elements(p, 0), SUM_BLOCK));
    out->scratch =
        (size_t)((1 + sum_levels(p)) * SUM_BLOCK) * sr_accumulator_size(request->dtype[0]);
    return SR_OK;
}
