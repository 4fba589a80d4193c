// SPDX-License-Identifier: Apache-2.0
// conv2d_dw by oneDNN's backward-weights primitive: for grouped convolutions, for bf16 on AMX, and
// for builds without the x86 provider (whose own kernel is faster elsewhere).
//
// Stage 0 computes a partial result for each group of images, in the primitive's layout. Stage 1
// adds them as a binary tree, in pieces. Stage 2 converts the sum to canonical OIHW.
//
// A 1x1 filter with a stride reads only some pixels of x. They are gathered here, and the primitive
// has no stride: for some numbers of channels, oneDNN 2.6 gathers them beyond the end of its
// scratchpad (8 to 16 channels in f32, 1 to 2 in bf16).
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cpu/onednn/onednn_internal.h"

#define PARTIAL_BYTES ((size_t)16 << 20) // of all groups together
#define PIECE 65536                      // floats

typedef struct dw_state {
    sr_conv_params p, asked; // of the primitive; of the request (differs if pixels are gathered)
    sr_dtype type;           // T
    bool gathers;
    bool copies;            // T is narrower than the arithmetic, which is f32
    int64_t images, groups; // images of a group (the last may have fewer), groups of images
    sr_onednn_primitive run[2];
    sr_onednn_cast widen_x[2], widen_dy[2];
    sr_onednn_primitive unpack;
    size_t partial; // bytes of one partial result
    size_t gathered, copy_x, copy_dy, scratchpad;
} dw_state;

static void dw_free(void *memory) {
    dw_state *s = memory;
    for (int i = 0; i < 2; i++) {
        sr_onednn_primitive_release(&s->run[i]);
        sr_onednn_cast_release(&s->widen_x[i]);
        sr_onednn_cast_release(&s->widen_dy[i]);
    }
    sr_onednn_primitive_release(&s->unpack);
    sr_free(s);
}

typedef struct dw_descs {
    dnnl_memory_desc_t x, dw, dy;
} dw_descs;

static sr_status describe(const dw_state *s, int64_t n, dnnl_format_tag_t weights, dw_descs *d) {
    const sr_conv_params *p = &s->p;
    const dnnl_data_type_t type = s->type != SR_F32 && !s->copies ? dnnl_bf16 : dnnl_f32;
    const dnnl_dims_t x = {n, p->c, p->h, p->w}, dy = {n, p->k, p->p, p->q};
    const dnnl_dims_t plain = {p->k, p->c, p->r, p->s};
    const dnnl_dims_t grouped = {p->groups, p->k / p->groups, p->c / p->groups, p->r, p->s};
    const bool many = p->groups > 1;
    SR_ONEDNN_TRY(dnnl_memory_desc_init_by_tag(&d->x, 4, x, type, dnnl_nhwc));
    SR_ONEDNN_TRY(dnnl_memory_desc_init_by_tag(&d->dy, 4, dy, type, dnnl_nhwc));
    SR_ONEDNN_TRY(dnnl_memory_desc_init_by_tag(&d->dw, many ? 5 : 4, many ? grouped : plain,
                                               dnnl_f32, weights));
    return SR_OK;
}

static sr_status primitive_desc(const dw_state *s, const dw_descs *d,
                                const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out) {
    const sr_conv_params *p = &s->p;
    const dnnl_dims_t strides = {p->stride_h, p->stride_w};
    const dnnl_dims_t dilates = {p->dilation_h - 1, p->dilation_w - 1};
    const dnnl_dims_t begin = {p->pad_top, p->pad_left};
    const dnnl_dims_t end = {
        (p->p - 1) * p->stride_h + (p->r - 1) * p->dilation_h + 1 - p->h - p->pad_top,
        (p->q - 1) * p->stride_w + (p->s - 1) * p->dilation_w + 1 - p->w - p->pad_left};
    dnnl_engine_t cpu = NULL;
    dnnl_convolution_desc_t forward, backward;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_memory_desc_t any = d->dw;
    any.data_type = d->x.data_type;
    any.format_kind = dnnl_format_kind_any;
    SR_TRY(sr_onednn_engine(&cpu));
    SR_ONEDNN_TRY(dnnl_dilated_convolution_forward_desc_init(
        &forward, dnnl_forward_training, dnnl_convolution_direct, &d->x, &any, NULL, &d->dy,
        strides, dilates, begin, end));
    SR_ONEDNN_TRY(dnnl_dilated_convolution_backward_weights_desc_init(
        &backward, dnnl_convolution_direct, &d->x, &d->dw, NULL, &d->dy, strides, dilates, begin,
        end));
    SR_ONEDNN_TRY(dnnl_primitive_desc_create(&hint, &forward, attr, cpu, NULL));
    const dnnl_status_t status = dnnl_primitive_desc_create(out, &backward, attr, cpu, hint);
    (void)dnnl_primitive_desc_destroy(hint);
    SR_ONEDNN_TRY(status);
    return SR_OK;
}

// run[which] for n images; the second one keeps the layout of the first.
static sr_status make_run(dw_state *s, int which, int64_t n, const_dnnl_primitive_attr_t attr) {
    static const int ids[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS};
    dw_descs d;
    dnnl_primitive_desc_t desc = NULL;
    SR_TRY(describe(s, n, dnnl_format_tag_any, &d));
    if (which > 0)
        d.dw = s->run[0].desc[2];
    SR_TRY(primitive_desc(s, &d, attr, &desc));
    SR_TRY(sr_onednn_primitive_init(&s->run[which], desc, ids, 3));
    if (s->run[which].scratchpad > s->scratchpad)
        s->scratchpad = s->run[which].scratchpad;
    if (!s->copies)
        return SR_OK;
    const sr_conv_params *p = &s->p;
    SR_TRY(sr_onednn_cast_init(&s->widen_x[which], s->type, SR_F32, n * p->h * p->w * p->c));
    return sr_onednn_cast_init(&s->widen_dy[which], s->type, SR_F32, n * p->p * p->q * p->k);
}

static int64_t rest_of(const dw_state *s) {
    return s->p.n - (s->groups - 1) * s->images;
}

static sr_status make_runs(dw_state *s, const_dnnl_primitive_attr_t attr) {
    SR_TRY(make_run(s, 0, s->images, attr));
    return rest_of(s) == s->images ? SR_OK : make_run(s, 1, rest_of(s), attr);
}

static void choose_groups(dw_state *s) {
    const sr_conv_params *p = &s->p;
    const size_t bytes = (size_t)(p->k * p->c / p->groups * p->r * p->s) * sizeof(float);
    int64_t groups = SR_ONEDNN_BLOCKS;
    while (groups > 1 && (groups > p->n || (size_t)groups * bytes > PARTIAL_BYTES))
        groups /= 2;
    s->images = (p->n + groups - 1) / groups;
    s->groups = (p->n + s->images - 1) / s->images;
}

// Chooses the parameters of the primitive.
static void choose_problem(dw_state *s, const sr_conv_params *asked) {
    s->p = s->asked = *asked;
    const bool strided = asked->stride_h > 1 || asked->stride_w > 1;
    const bool inside = asked->pad_top == 0 && asked->pad_left == 0 &&
                        (asked->p - 1) * asked->stride_h < asked->h &&
                        (asked->q - 1) * asked->stride_w < asked->w;
    s->gathers = asked->r == 1 && asked->s == 1 && strided && inside;
    if (s->gathers) {
        s->p.h = asked->p;
        s->p.w = asked->q;
        s->p.stride_h = s->p.stride_w = 1;
    }
}

static sr_status fill(dw_state *s, const sr_kernel_request *request) {
    const sr_conv_params *p = &s->p;
    choose_problem(s, (const void *)request->params);
    s->type = request->dtype[0];
    s->copies = sr_onednn_widens(s->type);
    choose_groups(s);
    dnnl_primitive_attr_t attr = NULL;
    SR_TRY(sr_onednn_attr(&attr));
    const sr_status status = make_runs(s, attr);
    (void)dnnl_primitive_attr_destroy(attr);
    SR_TRY(status);
    dw_descs d;
    SR_TRY(describe(s, 1, p->groups > 1 ? dnnl_goihw : dnnl_oihw, &d));
    SR_TRY(sr_onednn_reorder_init(&s->unpack, &s->run[0].desc[2], &d.dw));
    if (s->unpack.scratchpad > s->scratchpad)
        s->scratchpad = s->unpack.scratchpad;
    s->partial = sr_onednn_align(dnnl_memory_desc_get_size(&s->run[0].desc[2]));
    if (s->gathers)
        s->gathered =
            sr_onednn_align((size_t)(s->images * p->h * p->w * p->c) * sr_dtype_size(s->type));
    if (s->copies) {
        s->copy_x = sr_onednn_align((size_t)(s->images * p->h * p->w * p->c) * sizeof(float));
        s->copy_dy = sr_onednn_align((size_t)(s->images * p->p * p->q * p->k) * sizeof(float));
    }
    return SR_OK;
}

// The pixels of images that a strided 1x1 filter reads, one after the other.
static void gather(const dw_state *s, const char *x, int64_t images, char *out) {
    const sr_conv_params *a = &s->asked;
    const size_t pixel = (size_t)a->c * sr_dtype_size(s->type);
    for (int64_t n = 0; n < images; n++) {
        for (int64_t p = 0; p < a->p; p++) {
            const char *row = x + (size_t)((n * a->h + p * a->stride_h) * a->w) * pixel;
            for (int64_t q = 0; q < a->q; q++, out += pixel)
                memcpy(out, row + (size_t)(q * a->stride_w) * pixel, pixel);
        }
    }
}

static sr_status partial_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const dw_state *s = args->state;
    const sr_conv_params *p = &s->p;
    const int which = block == s->groups - 1 && s->run[1].primitive != NULL;
    const size_t size = sr_dtype_size(s->type);
    const int64_t first = block * s->images;
    char *scratch = (char *)worker->scratch + s->gathered;
    void *x = (char *)args->p[0] + (size_t)(first * s->asked.h * s->asked.w * p->c) * size;
    void *dy = (char *)args->p[1] + (size_t)(first * p->p * p->q * p->k) * size;
    if (s->gathers) {
        gather(s, x, block == s->groups - 1 ? rest_of(s) : s->images, worker->scratch);
        x = worker->scratch;
    }
    if (s->copies) {
        SR_TRY(sr_onednn_cast_run(&s->widen_x[which], x, scratch));
        SR_TRY(sr_onednn_cast_run(&s->widen_dy[which], dy, scratch + s->copy_x));
        x = scratch;
        dy = scratch + s->copy_x;
    }
    void *const data[] = {x, dy, (char *)args->workspace + (size_t)block * s->partial};
    return sr_onednn_run(&s->run[which], data, scratch + s->copy_x + s->copy_dy);
}

static sr_status tree_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const dw_state *s = args->state;
    const size_t begin = (size_t)block * PIECE, all = s->partial / sizeof(float);
    const size_t end = begin + PIECE < all ? begin + PIECE : all;
    for (int64_t step = 1; step < s->groups; step *= 2) {
        for (int64_t g = 0; g + step < s->groups; g += 2 * step) {
            float *restrict a = (float *)args->workspace + (size_t)g * all;
            const float *restrict b = a + (size_t)step * all;
            for (size_t i = begin; i < end; i++)
                a[i] += b[i];
        }
    }
    return SR_OK;
}

static sr_status unpack_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)block;
    const dw_state *s = args->state;
    void *const data[] = {args->workspace, args->p[2]};
    return sr_onednn_run(&s->unpack, data, worker->scratch);
}

sr_status sr_onednn_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out) {
    dw_state *s = sr_alloc(sizeof *s, "a oneDNN weight gradient");
    if (s == NULL)
        return SR_E_MEMORY;
    const int threads = sr_onednn_single_thread();
    const sr_status status = fill(s, request);
    sr_onednn_restore_threads(threads);
    if (status != SR_OK) {
        dw_free(s);
        return status;
    }
    out->state = s;
    out->state_free = dw_free;
    out->workspace = (size_t)s->groups * s->partial;
    out->scratch = s->gathered + s->copy_x + s->copy_dy + s->scratchpad;
    out->stages = 3;
    out->stage[0] = (sr_kernel_stage){.run = partial_block, .blocks = s->groups};
    out->stage[1] = (sr_kernel_stage){
        .run = tree_block, .blocks = (int64_t)((s->partial / sizeof(float) + PIECE - 1) / PIECE)};
    out->stage[2] = (sr_kernel_stage){.run = unpack_block, .blocks = 1};
    return SR_OK;
}
