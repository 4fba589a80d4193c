// SPDX-License-Identifier: Apache-2.0
// conv2d and conv2d_dx by oneDNN.
//
// Three forms of one task, "images in, packed weights, images out":
//   forward    y = conv(x, w)
//   mirrored   dx of a convolution with stride 1 is the convolution of dy with the weights, their
//              channels exchanged and their taps reversed; of a strided 1x1, the same on the grid
//              of outputs, spread over a dx of zeros. oneDNN's forward kernels are up to twice as
//              fast as its gradient kernels on NHWC (measured: 110-130 against 60-110 GFLOP/s).
//   gradient   oneDNN's own backward-data primitive, for everything else.
//
// Stage 0 packs the weights into the primitive's layout, in pieces of output channels (of the
// canonical weights) and, mirrored, tap by tap. Stage 1 runs blocks of images. Where T is narrower
// than the arithmetic (f16, and bf16 without AMX), the weights are rounded to T on the way, and a
// block widens a few images at a time, so that their f32 copies stay in cache.
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/cpu/onednn/onednn_internal.h"

// Size of the f32 copies of the images of one call: about a second-level cache.
#define COPY_BYTES (INT64_C(3) << 20)

typedef enum conv_form { FORWARD, MIRRORED, GRADIENT } conv_form;

typedef struct conv_images {
    int64_t h, w, c;
    int64_t count; // elements of one image
} conv_images;

typedef struct conv_state {
    sr_conv_params p; // of the request
    conv_form form;
    sr_dtype type;       // T
    bool copies;         // T is narrower than the arithmetic, which is f32
    bool spread;         // outputs are written to every stride-th pixel of a larger image of zeros
    conv_images in, out; // as the primitive sees them
    int64_t final_count; // elements of one image of the result (more than out.count with 'spread')
    int64_t step;        // images of one call
    int64_t calls;       // of the whole batch; the last one may have fewer images
    int64_t calls_per_block;
    sr_onednn_primitive run[2]; // 'step' images, and the rest where it differs
    sr_onednn_cast widen[2], narrow[2];
    // weights
    dnnl_memory_desc_t packed;
    size_t packed_bytes;
    int64_t pieces, piece_k;  // pieces of output channels of w, channels of each
    sr_onednn_primitive pack; // one piece, or one tap of a piece
    sr_onednn_cast round_down, round_up;
    size_t copy_in, copy_out, copy_weights; // bytes in the worker's scratch
    size_t scratchpad;
} conv_state;

static void conv_free(void *memory) {
    conv_state *s = memory;
    sr_onednn_primitive_release(&s->pack);
    for (int i = 0; i < 2; i++) {
        sr_onednn_primitive_release(&s->run[i]);
        sr_onednn_cast_release(&s->widen[i]);
        sr_onednn_cast_release(&s->narrow[i]);
    }
    sr_onednn_cast_release(&s->round_down);
    sr_onednn_cast_release(&s->round_up);
    sr_free(s);
}

// ---- shapes ----

static conv_images images_of(int64_t h, int64_t w, int64_t c) {
    return (conv_images){h, w, c, h * w * c};
}

static bool reaches_inside(const sr_conv_params *p) {
    const int64_t reach_h = (p->r - 1) * p->dilation_h, reach_w = (p->s - 1) * p->dilation_w;
    return p->pad_top <= reach_h && p->pad_bottom <= reach_h && p->pad_left <= reach_w &&
           p->pad_right <= reach_w;
}

static bool is_pointwise(const sr_conv_params *p) {
    return p->r == 1 && p->s == 1 && p->pad_top == 0 && p->pad_left == 0;
}

static void choose_form(conv_state *s, bool gradient) {
    const sr_conv_params *p = &s->p;
    const conv_images x = images_of(p->h, p->w, p->c), y = images_of(p->p, p->q, p->k);
    s->in = gradient ? y : x;
    s->out = gradient ? x : y;
    s->form = gradient ? GRADIENT : FORWARD;
    const bool dense = p->stride_h == 1 && p->stride_w == 1;
    if (gradient && dense && reaches_inside(p))
        s->form = MIRRORED;
    if (gradient && !dense && is_pointwise(p)) {
        s->form = MIRRORED;
        s->spread = true;
        s->out = images_of(p->p, p->q, p->c);
    }
    s->final_count = gradient ? x.count : y.count;
}

// Chooses the largest number of images per call whose f32 copies fit, and divides the batch.
static void choose_calls(conv_state *s) {
    const int64_t n = s->p.n, block = (n + SR_ONEDNN_BLOCKS - 1) / SR_ONEDNN_BLOCKS;
    s->step = block;
    const int64_t bytes = (s->in.count + s->out.count) * (int64_t)sizeof(float);
    if (s->copies || s->spread) {
        const int64_t fit = COPY_BYTES / bytes;
        s->step = fit < 1 ? 1 : fit < block ? fit : block;
    }
    s->calls = (n + s->step - 1) / s->step;
    s->calls_per_block = block / s->step;
}

// ---- descriptors ----

static sr_status image_desc(dnnl_memory_desc_t *desc, int64_t n, conv_images i,
                            dnnl_data_type_t type) {
    const dnnl_dims_t dims = {n, i.c, i.h, i.w};
    SR_ONEDNN_TRY(dnnl_memory_desc_init_by_tag(desc, 4, dims, type, dnnl_nhwc));
    return SR_OK;
}

// Logical weights of the primitive: [G,] O, I, R, S.
static int weight_dims(const conv_state *s, int64_t *dims) {
    const sr_conv_params *p = &s->p;
    const int64_t k = p->k / p->groups, c = p->c / p->groups;
    int n = 0;
    if (p->groups > 1)
        dims[n++] = p->groups;
    dims[n++] = s->form == MIRRORED ? c : k;
    dims[n++] = s->form == MIRRORED ? k : c;
    dims[n++] = p->r;
    dims[n++] = p->s;
    return n;
}

typedef struct conv_geometry {
    dnnl_dims_t strides, dilates, pad_begin, pad_end;
} conv_geometry;

static conv_geometry geometry_of(const conv_state *s) {
    const sr_conv_params *p = &s->p;
    conv_geometry g = {.strides = {p->stride_h, p->stride_w},
                       .dilates = {p->dilation_h - 1, p->dilation_w - 1},
                       .pad_begin = {p->pad_top, p->pad_left},
                       .pad_end = {p->pad_bottom, p->pad_right}};
    // Outputs that the floor of the division cuts off see padding that is not there.
    const int64_t in_h = (p->p - 1) * p->stride_h + (p->r - 1) * p->dilation_h + 1;
    const int64_t in_w = (p->q - 1) * p->stride_w + (p->s - 1) * p->dilation_w + 1;
    g.pad_end[0] = in_h - p->h - p->pad_top;
    g.pad_end[1] = in_w - p->w - p->pad_left;
    if (s->form == MIRRORED) {
        g.strides[0] = g.strides[1] = 1;
        const int64_t reach[] = {(p->r - 1) * p->dilation_h, (p->s - 1) * p->dilation_w};
        const int64_t begin[] = {p->pad_top, p->pad_left}, end[] = {p->pad_bottom, p->pad_right};
        for (int i = 0; i < 2; i++) {
            g.pad_begin[i] = s->spread ? 0 : reach[i] - begin[i];
            g.pad_end[i] = s->spread ? 0 : reach[i] - end[i];
        }
    }
    return g;
}

static dnnl_data_type_t arithmetic_type(const conv_state *s) {
    return s->type != SR_F32 && !s->copies ? dnnl_bf16 : dnnl_f32;
}

typedef struct conv_descs {
    dnnl_memory_desc_t in, weights, bias, out;
} conv_descs;

static sr_status forward_desc(const conv_state *s, const conv_descs *d, bool bias,
                              const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out) {
    const conv_geometry g = geometry_of(s);
    dnnl_engine_t cpu = NULL;
    dnnl_convolution_desc_t conv;
    SR_TRY(sr_onednn_engine(&cpu));
    SR_ONEDNN_TRY(dnnl_dilated_convolution_forward_desc_init(
        &conv, dnnl_forward_training, dnnl_convolution_direct, &d->in, &d->weights,
        bias ? &d->bias : NULL, &d->out, g.strides, g.dilates, g.pad_begin, g.pad_end));
    SR_ONEDNN_TRY(dnnl_primitive_desc_create(out, &conv, attr, cpu, NULL));
    return SR_OK;
}

// d->in is dy, d->out dx.
static sr_status gradient_desc(const conv_state *s, const conv_descs *d,
                               const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out) {
    const conv_geometry g = geometry_of(s);
    dnnl_engine_t cpu = NULL;
    dnnl_convolution_desc_t conv;
    conv_descs hint_descs = *d;
    hint_descs.in = d->out;
    hint_descs.out = d->in;
    dnnl_primitive_desc_t hint = NULL;
    SR_TRY(sr_onednn_engine(&cpu));
    SR_ONEDNN_TRY(dnnl_dilated_convolution_backward_data_desc_init(
        &conv, dnnl_convolution_direct, &d->out, &d->weights, &d->in, g.strides, g.dilates,
        g.pad_begin, g.pad_end));
    SR_TRY(forward_desc(s, &hint_descs, false, attr, &hint));
    const dnnl_status_t status = dnnl_primitive_desc_create(out, &conv, attr, cpu, hint);
    (void)dnnl_primitive_desc_destroy(hint);
    SR_ONEDNN_TRY(status);
    return SR_OK;
}

// run[which] for n images. The first one chooses the layout of the weights, the second uses it,
// too.
static sr_status make_run(conv_state *s, int which, int64_t n, bool bias,
                          const_dnnl_primitive_attr_t attr) {
    const dnnl_data_type_t type = arithmetic_type(s);
    conv_descs d;
    dnnl_dims_t dims;
    const int rank = weight_dims(s, dims);
    const dnnl_dims_t bias_dims = {s->out.c};
    SR_TRY(image_desc(&d.in, n, s->in, type));
    SR_TRY(image_desc(&d.out, n, s->out, type));
    SR_ONEDNN_TRY(dnnl_memory_desc_init_by_tag(&d.weights, rank, dims, type, dnnl_format_tag_any));
    SR_ONEDNN_TRY(dnnl_memory_desc_init_by_tag(&d.bias, 1, bias_dims, dnnl_f32, dnnl_a));
    if (which > 0)
        d.weights = s->packed;
    dnnl_primitive_desc_t desc = NULL;
    static const int forward_ids[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    static const int gradient_ids[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    if (s->form == GRADIENT) {
        SR_TRY(gradient_desc(s, &d, attr, &desc));
        SR_TRY(sr_onednn_primitive_init(&s->run[which], desc, gradient_ids, 3));
    } else {
        SR_TRY(forward_desc(s, &d, bias, attr, &desc));
        SR_TRY(sr_onednn_primitive_init(&s->run[which], desc, forward_ids, bias ? 4 : 3));
    }
    s->packed = s->run[which].desc[1];
    s->packed_bytes = dnnl_memory_desc_get_size(&s->packed);
    if (s->run[which].scratchpad > s->scratchpad)
        s->scratchpad = s->run[which].scratchpad;
    return SR_OK;
}

static sr_status make_runs(conv_state *s, bool bias) {
    dnnl_primitive_attr_t attr = NULL;
    SR_TRY(sr_onednn_attr(&attr));
    const int64_t rest = s->p.n - (s->calls - 1) * s->step;
    sr_status status = make_run(s, 0, s->step, bias, attr);
    if (status == SR_OK && rest != s->step)
        status = make_run(s, 1, rest, bias, attr);
    (void)dnnl_primitive_attr_destroy(attr);
    if (status != SR_OK || !s->copies)
        return status;
    const int64_t images[] = {s->step, rest};
    for (int i = 0; i < (rest == s->step ? 1 : 2); i++) {
        SR_TRY(sr_onednn_cast_init(&s->widen[i], s->type, SR_F32, images[i] * s->in.count));
        SR_TRY(sr_onednn_cast_init(&s->narrow[i], SR_F32, s->type, images[i] * s->out.count));
    }
    return SR_OK;
}

// ---- packing of weights ----

// The part of the packed weights that a piece (and, mirrored, one tap of it) fills. The offset in
// bytes is separate, so that one reorder primitive serves all pieces.
static dnnl_status_t packed_part(const conv_state *s, int64_t piece, int64_t r, int64_t t,
                                 dnnl_memory_desc_t *part, size_t *offset) {
    const bool mirrored = s->form == MIRRORED;
    dnnl_dims_t dims, offsets = {0};
    const int rank = weight_dims(s, dims);
    const int k_axis = rank - 4 + (mirrored ? 1 : 0);
    if (s->p.groups == 1) {
        dims[k_axis] = s->piece_k;
        offsets[k_axis] = piece * s->piece_k;
    }
    if (mirrored) {
        dims[rank - 2] = dims[rank - 1] = 1;
        offsets[rank - 2] = s->p.r - 1 - r;
        offsets[rank - 1] = s->p.s - 1 - t;
    }
    const dnnl_status_t status = dnnl_memory_desc_init_submemory(part, &s->packed, dims, offsets);
    if (status == dnnl_success) {
        *offset = (size_t)part->offset0 * (arithmetic_type(s) == dnnl_bf16 ? 2 : 4);
        part->offset0 = 0;
    }
    return status;
}

// Canonical weights of a piece (one tap of it, mirrored) as the primitive's logical O, I, R, S.
static sr_status canonical_part(const conv_state *s, dnnl_memory_desc_t *part) {
    const sr_conv_params *p = &s->p;
    const bool mirrored = s->form == MIRRORED;
    const int64_t taps = p->r * p->s, c = p->c / p->groups, k = p->k / p->groups;
    dnnl_dims_t dims, strides = {k * c * taps};
    const int rank = weight_dims(s, dims), o = rank - 4;
    if (p->groups == 1)
        dims[o + (mirrored ? 1 : 0)] = s->piece_k;
    strides[o] = mirrored ? taps : c * taps;
    strides[o + 1] = mirrored ? c * taps : taps;
    strides[o + 2] = p->s;
    strides[o + 3] = 1;
    if (mirrored)
        dims[o + 2] = dims[o + 3] = 1;
    SR_ONEDNN_TRY(dnnl_memory_desc_init_by_strides(part, rank, dims, dnnl_f32, strides));
    return SR_OK;
}

// Whether all pieces have the same layout, so that one primitive serves them: blocks of output
// channels (16 to 64, also 48) must not be divided, and the last one must not be padded.
static bool pieces_possible(conv_state *s, int64_t pieces) {
    s->pieces = pieces;
    s->piece_k = s->p.k / pieces;
    dnnl_memory_desc_t first, last;
    size_t offset;
    return s->p.k % pieces == 0 && packed_part(s, 0, 0, 0, &first, &offset) == dnnl_success &&
           packed_part(s, pieces - 1, 0, 0, &last, &offset) == dnnl_success &&
           dnnl_memory_desc_equal(&first, &last) != 0;
}

static sr_status make_pack(conv_state *s) {
    const sr_conv_params *p = &s->p;
    int64_t pieces = p->groups == 1 ? SR_ONEDNN_BLOCKS : 1;
    while (pieces > 1 && !pieces_possible(s, pieces))
        pieces /= 2;
    s->pieces = pieces;
    s->piece_k = p->k / pieces;
    dnnl_memory_desc_t from, to;
    size_t offset;
    SR_TRY(canonical_part(s, &from));
    SR_ONEDNN_TRY(packed_part(s, 0, 0, 0, &to, &offset));
    SR_TRY(sr_onednn_reorder_init(&s->pack, &from, &to));
    if (s->pack.scratchpad > s->scratchpad)
        s->scratchpad = s->pack.scratchpad;
    if (!s->copies)
        return SR_OK;
    const int64_t count = s->piece_k * p->c / p->groups * p->r * p->s;
    s->copy_weights = sr_onednn_align((size_t)count * sizeof(float));
    SR_TRY(sr_onednn_cast_init(&s->round_down, SR_F32, s->type, count));
    return sr_onednn_cast_init(&s->round_up, s->type, SR_F32, count);
}

static sr_status pack_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const conv_state *s = args->state;
    const sr_conv_params *p = &s->p;
    const int64_t piece = s->piece_k * p->c / p->groups * p->r * p->s;
    float *from = (float *)args->p[1] + block * piece;
    char *scratchpad = worker->scratch;
    if (s->copies) { // rounded to T, then wide again
        float *wide = worker->scratch;
        char *narrow = (char *)worker->scratch + s->copy_weights;
        SR_TRY(sr_onednn_cast_run(&s->round_down, from, narrow));
        SR_TRY(sr_onednn_cast_run(&s->round_up, narrow, wide));
        from = wide;
        scratchpad = narrow + s->copy_weights;
    }
    const int64_t taps_r = s->form == MIRRORED ? p->r : 1, taps_s = s->form == MIRRORED ? p->s : 1;
    for (int64_t r = 0; r < taps_r; r++) {
        for (int64_t t = 0; t < taps_s; t++) {
            dnnl_memory_desc_t part;
            size_t offset;
            SR_ONEDNN_TRY(packed_part(s, block, r, t, &part, &offset));
            void *const data[] = {from + r * p->s + t, (char *)args->workspace + offset};
            SR_TRY(sr_onednn_run(&s->pack, data, scratchpad));
        }
    }
    return SR_OK;
}

// ---- images ----

// Copies the pixels of n small images to every stride-th pixel of n large ones, with zeros
// elsewhere. Pixels of outputs that lie on padding are left out.
static void spread_images(const conv_state *s, int64_t n, const char *from, char *to) {
    const sr_conv_params *p = &s->p;
    const size_t pixel = (size_t)p->c * sr_dtype_size(s->type);
    for (int64_t i = 0; i < n; i++, from += (size_t)(p->p * p->q) * pixel) {
        for (int64_t h = 0; h < p->h; h++) {
            const bool used = h % p->stride_h == 0 && h / p->stride_h < p->p;
            const char *row = from + (size_t)(h / p->stride_h * p->q) * pixel;
            for (int64_t w = 0; w < p->w; w++, to += pixel) {
                if (used && w % p->stride_w == 0 && w / p->stride_w < p->q)
                    memcpy(to, row + (size_t)(w / p->stride_w) * pixel, pixel);
                else
                    memset(to, 0, pixel);
            }
        }
    }
}

typedef struct conv_buffers {
    char *in, *out, *result; // what the primitive reads and writes; the result in T
    char *scratchpad;
} conv_buffers;

// One call: 'call' counts over the batch.
static sr_status run_call(const sr_kernel_args *args, int64_t call, sr_worker *worker, void *in,
                          void *out, void *bias) {
    const conv_state *s = args->state;
    const int64_t first = call * s->step;
    const int64_t n = first + s->step <= s->p.n ? s->step : s->p.n - first;
    const int which = s->run[1].primitive != NULL && n != s->step;
    const size_t size = sr_dtype_size(s->type);
    char *scratch = worker->scratch;
    conv_buffers b = {.in = (char *)in + (size_t)(first * s->in.count) * size,
                      .result = (char *)out + (size_t)(first * s->final_count) * size,
                      .scratchpad = scratch ? scratch + s->copy_in + 2 * s->copy_out : NULL};
    char *target = s->spread ? scratch + s->copy_in + s->copy_out : b.result;
    b.out = target;
    if (s->copies) {
        SR_TRY(sr_onednn_cast_run(&s->widen[which], b.in, scratch));
        b.in = scratch;
        b.out = scratch + s->copy_in;
    }
    void *const data[] = {b.in, args->workspace, b.out, bias};
    SR_TRY(sr_onednn_run(&s->run[which], data, b.scratchpad));
    if (s->copies)
        SR_TRY(sr_onednn_cast_run(&s->narrow[which], b.out, target));
    if (s->spread)
        spread_images(s, n, target, b.result);
    return SR_OK;
}

static sr_status run_block(const sr_kernel_args *args, int64_t block, sr_worker *worker, void *in,
                           void *out, void *bias) {
    const conv_state *s = args->state;
    const int64_t begin = block * s->calls_per_block;
    for (int64_t call = begin; call < begin + s->calls_per_block && call < s->calls; call++)
        SR_TRY(run_call(args, call, worker, in, out, bias));
    return SR_OK;
}

static sr_status forward_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return run_block(args, block, worker, args->p[0], args->p[3], args->p[2]);
}

static sr_status dx_block(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    return run_block(args, block, worker, args->p[0], args->p[2], NULL);
}

// ---- prepare ----

static sr_status fill(conv_state *s, const sr_kernel_request *request, bool gradient, bool bias) {
    memcpy(&s->p, request->params, sizeof s->p);
    s->type = request->dtype[0];
    s->copies = sr_onednn_widens(s->type);
    choose_form(s, gradient);
    choose_calls(s);
    SR_TRY(make_runs(s, bias));
    SR_TRY(make_pack(s));
    if (s->copies)
        s->copy_in = sr_onednn_align((size_t)(s->step * s->in.count) * sizeof(float));
    if (s->copies || s->spread)
        s->copy_out = sr_onednn_align((size_t)(s->step * s->out.count) * sizeof(float));
    return SR_OK;
}

static sr_status prepare(const sr_kernel_request *request, bool gradient, bool bias,
                         sr_prepared *out) {
    conv_state *s = sr_alloc(sizeof *s, "a oneDNN convolution");
    if (s == NULL)
        return SR_E_MEMORY;
    const int threads = sr_onednn_single_thread();
    const sr_status status = fill(s, request, gradient, bias);
    sr_onednn_restore_threads(threads);
    if (status != SR_OK) {
        conv_free(s);
        return status;
    }
    const size_t copies = s->copy_in + 2 * s->copy_out, weights = 2 * s->copy_weights;
    out->state = s;
    out->state_free = conv_free;
    out->workspace = s->packed_bytes;
    out->scratch = (copies > weights ? copies : weights) + s->scratchpad;
    out->stages = 2;
    out->stage[0] = (sr_kernel_stage){.run = pack_block, .blocks = s->pieces};
    out->stage[0].leaves = ~(1u << 1); // the weights
    out->stage[1] =
        (sr_kernel_stage){.run = gradient ? dx_block : forward_block,
                          .blocks = (s->calls + s->calls_per_block - 1) / s->calls_per_block};
    return SR_OK;
}

sr_status sr_onednn_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(request, false, request->dtype[2] != SR_DTYPE_COUNT, out);
}

sr_status sr_onednn_prepare_conv2d_dx(const sr_kernel_request *request, sr_prepared *out) {
    return prepare(request, true, false, out);
}
