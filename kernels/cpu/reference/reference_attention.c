// SPDX-License-Identifier: Apache-2.0
// Reference multi-head attention (Vaswani et al. 2017) and its gradients. The scores of one query
// are in scratch at a time, and gradients compute them again from log sum exp (Dao et al. 2022), so
// no array grows with queries times keys.
//
// Sums over the depth, keys, queries and batches are those of reference_sum.inc. Nothing but the
// results is rounded to T.
#include <string.h>

#include "kernels/base/math.h"
#include "kernels/cpu/reference/reference_internal.h"

#define TOKENS SR_REFERENCE_TERMS // queries or keys of one block

// Levels of the tree of the sums of 'terms' terms.
static int64_t levels_of(int64_t terms) {
    return sr_reference_levels(sr_blocks_of(terms, SR_REFERENCE_TERMS));
}

// Numbers of the scratch of a tree.
static int64_t tree_numbers(int64_t terms, int64_t width) {
    return (1 + levels_of(terms)) * width;
}

// The block of a head: 'tokens' of its queries or keys.
typedef struct head_block {
    int64_t batch, head;
    sr_block_range tokens;
} head_block;

static head_block head_block_of(int64_t block, int64_t tokens, int64_t heads) {
    const int64_t blocks = sr_blocks_of(tokens, TOKENS), number = block / blocks;
    return (head_block){number / heads, number % heads,
                        sr_block_range_of(block % blocks, TOKENS, tokens)};
}

static int64_t head_blocks(int64_t batches, int64_t tokens, int64_t heads) {
    return batches * heads * sr_blocks_of(tokens, TOKENS);
}

#define SR_TYPED_BODY "kernels/cpu/reference/reference_attention.inc"
#include "kernels/cpu/reference/reference_typed.inc"

static void want_scratch(const sr_kernel_request *request, int64_t numbers, sr_prepared *out) {
    const size_t bytes = (size_t)numbers * sr_accumulator_size(request->dtype[0]);
    out->scratch = bytes > out->scratch ? bytes : out->scratch;
}

sr_status sr_reference_prepare_attention(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(attention);
    const sr_attention_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]], head_blocks(p->batches, p->queries, p->heads));
    want_scratch(request, p->keys + tree_numbers(p->keys, p->depth), out);
    return SR_OK;
}

sr_status sr_reference_prepare_attention_grad(const sr_kernel_request *request, sr_prepared *out) {
    static const sr_kernel_fn queries[] = SR_REFERENCE_TYPES(attention_dq),
                              keys[] = SR_REFERENCE_TYPES(attention_dkv);
    const sr_attention_params *p = (const void *)request->params;
    const sr_dtype dtype = request->dtype[0];
    sr_add_stage(out, queries[dtype], head_blocks(p->batches, p->queries, p->heads));
    want_scratch(request, tree_numbers(p->keys, p->depth), out);
    sr_add_stage(out, keys[dtype], head_blocks(p->batches, p->keys, p->heads));
    want_scratch(request, 2 * tree_numbers(p->queries, TOKENS * p->depth), out);
    return SR_OK;
}

sr_status sr_reference_prepare_attention_bias_grad(const sr_kernel_request *request,
                                                   sr_prepared *out) {
    static const sr_kernel_fn variants[] = SR_REFERENCE_TYPES(attention_dbias);
    const sr_attention_params *p = (const void *)request->params;
    sr_add_stage(out, variants[request->dtype[0]], head_blocks(p->biases, p->queries, p->heads));
    want_scratch(request, tree_numbers(p->batches / p->biases, p->keys), out);
    return SR_OK;
}
