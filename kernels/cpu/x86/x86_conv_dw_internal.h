// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution, or of a linear layer, with respect to its weights:
// dw[k,c,r,s] = sum over output pixels m of dy[m,k] x[pixel(m) + (r,s), c].
//
// A block owns a partial dw for a group of images and a range of output channels, stored as [output
// panel][input panel][tap][32][32]. It processes its images in passes of about a hundred output
// pixels. A pass copies dy and x into panels of 32 channels, x with room for the padding,
// contiguous and (from 16 bits) widened to f32. Then, for each pair of panels and each tap, a tile
// of 32 x 32 sums is computed over the pixels of the pass for which the tap is inside the picture,
// in parts that fit in registers, and added to the partial dw once. In panels, a tap is just an
// offset. With large dilation many taps are outside for most pixels, so this is much less than all.
// Panels fit in the first-level cache and avoid the cache-set conflicts of power-of-two channel
// strides (Goto and van de Geijn 2008 pack for the same reasons). Meanwhile the pass prefetches the
// data that the next pass packs, one line per pixel: in early layers memory access and arithmetic
// take equally long.
//
// With few channels (the first layer, patch embeddings) single taps would leave most of a panel
// empty. Then the R S C elements of the windows are divided into panels, as if each were a channel.
//
// Stage 1 adds the groups' partial results as a binary tree and writes canonical OIHW. Each sum is
// a chain of fused multiply-adds over the pixels of a pass in order, for every vector width.
//
// Not here: groups > 1 (oneDNN or the reference), AMX (x86_amx_internal.h).
#ifndef SR_KERNELS_CPU_X86_CONV_DW_INTERNAL_H
#define SR_KERNELS_CPU_X86_CONV_DW_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

// A tile of 32 x 32 sums is held in registers in parts: 11, 11 and 10 of its rows by two vectors;
// with AVX2, where a vector is two registers, six or five rows by one.
#if defined(__AVX512F__)
#define DW_PARTS 3
#define DW_PART_VECTORS 2
#else
#define DW_PARTS 6
#define DW_PART_VECTORS 1
#endif
#define DW_MAX_ROWS 11

// Source bytes of the next pass to prefetch, as two ranges. Prefetching beyond an end is harmless.
typedef struct dw_prefetch {
    const char *at, *end;
    const char *next, *last;
} dw_prefetch;

// Moves on to the second range.
SR_INLINE void dw_prefetch_rest(dw_prefetch *fetch) {
    if (fetch->at < fetch->end || fetch->next == fetch->last)
        return;
    fetch->at = fetch->next;
    fetch->end = fetch->last;
    fetch->next = fetch->last;
}

// One pass: the images, rows and pixels of a row that it processes, and its panels.
typedef struct dw_pass {
    int64_t image, row;      // first image, first output row
    int64_t images, rows, q; // how many
    int64_t pixels;
    bool first; // first pass of its block: results overwrite memory
    float *x, *dy;
} dw_pass;

// ---- packing ----

// Stores n < 32 elements, followed by zeros.
SR_INLINE void dw_store_first(float *to, const void *from, int64_t i, int64_t n, sr_dtype type) {
    const int a = (int)sr_x86_min(n, SR_ELEMENTS), b = (int)n - a;
    sr_v_store(to, sr_v_get(from, i, a, type));
    sr_v_store(to + SR_ELEMENTS, b > 0 ? sr_v_get(from, i + SR_ELEMENTS, b, type) : sr_v_zero());
}

// Packs the output panels o of dy for the pixels of the pass, from 'first' on: [panel][pixel][32].
SR_INLINE void dw_pack_dy(const sr_x86_dw *d, const void *dy, int64_t first, const dw_pass *pass,
                          sr_x86_range o, sr_dtype type) {
    const int64_t end = sr_x86_min(d->p.k, o.end * SR_X86_DW_SIDE);
    for (int64_t m = 0; m < pass->pixels; m++) {
        const int64_t from = (first + m) * d->p.k;
        float *to = pass->dy + m * SR_X86_DW_SIDE;
        int64_t c = o.begin * SR_X86_DW_SIDE;
        for (; c + SR_X86_DW_SIDE <= end; c += SR_X86_DW_SIDE) {
            sr_v_store(to, sr_v_get(dy, from + c, SR_ELEMENTS, type));
            sr_v_store(to + SR_ELEMENTS, sr_v_get(dy, from + c + SR_ELEMENTS, SR_ELEMENTS, type));
            to += sr_x86_dw_dy_panel(pass->pixels);
        }
        if (c < end)
            dw_store_first(to, dy, from + c, end - c, type);
    }
}

// Packs one pixel of input panel 'panel'.
SR_INLINE void dw_pack_pixel(const sr_x86_dw *d, const void *x, int64_t pixel, int64_t panel,
                             float *to, sr_dtype type) {
    const int64_t c = panel * SR_X86_DW_SIDE, i = pixel * d->p.c + c;
    if (c + SR_X86_DW_SIDE <= d->p.c) {
        sr_v_store(to, sr_v_get(x, i, SR_ELEMENTS, type));
        sr_v_store(to + SR_ELEMENTS, sr_v_get(x, i + SR_ELEMENTS, SR_ELEMENTS, type));
    } else {
        dw_store_first(to, x, i, d->p.c - c, type);
    }
}

// The positions i < count for which pixel i step + shift is one of 'size'.
SR_INLINE sr_x86_range dw_inside(int64_t count, int64_t step, int64_t shift, int64_t size) {
    const int64_t before = shift < 0 ? -shift : 0, left = size > shift ? size - shift : 0;
    const int64_t end = step == 1 ? left : sr_x86_ceil_div(left, step);
    return (sr_x86_range){step == 1 ? before : sr_x86_ceil_div(before, step),
                          sr_x86_min(count, end)};
}

// Packs one row of the picture; what is outside is never read.
SR_INLINE void dw_pack_row(const sr_x86_dw *d, const void *x, int64_t row_pixel, int64_t panel,
                           float *to, sr_dtype type) {
    const sr_x86_range inside = dw_inside(d->x_width, d->step_w, -d->p.pad_left, d->p.w);
    for (int64_t j = inside.begin; j < inside.end; j++)
        dw_pack_pixel(d, x, row_pixel + j * d->step_w - d->p.pad_left, panel,
                      to + j * SR_X86_DW_SIDE, type);
}

// Packs count <= 32 elements of a row of the picture from element i on, with zeros outside the row.
SR_INLINE void dw_pack_clipped(const void *x, int64_t row, int64_t width, int64_t i, int64_t count,
                               float *to, sr_dtype type) {
    for (int64_t j = 0; j < count; j++)
        to[j] = i + j < 0 || i + j >= width ? 0 : sr_x86_element(x, row + i + j, type);
}

// Packs a run of the windows of one output row: 'count' neighbouring elements of each, at offset
// 'shift' from the beginning of the window's row. 'row' is the first element of that row in x, or
// negative outside.
SR_INLINE void dw_pack_run(const sr_x86_dw *d, const void *x, int64_t row, int64_t shift,
                           int64_t count, float *to, sr_dtype type) {
    const int64_t width = d->p.w * d->p.c, step = d->p.stride_w * d->p.c;
    const int a = (int)sr_x86_min(count, SR_ELEMENTS);
    const int b = (int)sr_x86_min(count - a, SR_ELEMENTS);
    int64_t i = shift - d->p.pad_left * d->p.c;
    for (int64_t m = 0; m < d->p.q; m++, i += step, to += SR_X86_DW_SIDE) {
        if (row >= 0 && i >= 0 && i + count <= width) {
            sr_v_put(to, 0, sr_v_get(x, row + i, a, type), a, SR_F32);
            if (b > 0)
                sr_v_put(to, a, sr_v_get(x, row + i + a, b, type), b, SR_F32);
        } else {
            dw_pack_clipped(x, row, row < 0 ? 0 : width, i, count, to, type);
        }
    }
}

// Packs the elements of panel 'panel' of the windows of one output row, in runs of their rows.
SR_INLINE void dw_pack_windows(const sr_x86_dw *d, const void *x, int64_t image, int64_t row,
                               int64_t panel, float *to, sr_dtype type) {
    const sr_conv_params *p = &d->p;
    const int64_t run = p->s * p->c, begin = panel * SR_X86_DW_SIDE;
    const int64_t end = sr_x86_min(begin + SR_X86_DW_SIDE, p->r * run);
    if (end < begin + SR_X86_DW_SIDE)
        memset(to, 0, (size_t)d->row_floats * sizeof *to);
    for (int64_t e = begin, count; e < end; e += count) {
        const int64_t shift = e % run;
        const int64_t r = row * p->stride_h - p->pad_top + e / run * p->dilation_h;
        const int64_t from = r < 0 || r >= p->h ? -1 : (image * p->h + r) * p->w * p->c;
        count = sr_x86_min(run - shift, end - e);
        dw_pack_run(d, x, from, shift, count, to + e - begin, type);
    }
}

SR_INLINE void dw_pack_x(const sr_x86_dw *d, const void *x, const dw_pass *pass, int64_t panel,
                         sr_dtype type) {
    const sr_conv_params *p = &d->p;
    if (d->flat) {
        for (int64_t m = 0; m < pass->pixels; m++)
            dw_pack_pixel(d, x, pass->row + m, panel, pass->x + m * SR_X86_DW_SIDE, type);
        return;
    }
    if (d->merged) {
        for (int64_t n = 0; n < pass->images; n++)
            for (int64_t j = 0; j < pass->rows; j++)
                dw_pack_windows(d, x, pass->image + n, pass->row + j, panel,
                                pass->x + (n * d->x_height + j) * d->row_floats, type);
        return;
    }
    const int64_t height = (pass->rows - 1) * d->pitch_h + (p->r - 1) * p->dilation_h + 1;
    const int64_t first = pass->row * p->stride_h - p->pad_top;
    const sr_x86_range inside = dw_inside(height, d->step_h, first, p->h);
    for (int64_t n = 0; n < pass->images; n++)
        for (int64_t j = inside.begin; j < inside.end; j++)
            dw_pack_row(d, x, ((pass->image + n) * p->h + first + j * d->step_h) * p->w, panel,
                        pass->x + (n * d->x_height + j) * d->row_floats, type);
}

// ---- arithmetic ----

// A tap in a panel of x: its pixel for the first output pixel of the pass, and the rows and columns
// of outputs for which its pixel is inside the picture.
typedef struct dw_tap_of {
    const float *x;
    sr_x86_range rows, columns;
} dw_tap_of;

// A part of a tile, 'rows' x 16 'vectors': out += sum over the pass's pixels of dy (x) x, for one
// tap, whose columns of x begin at v0. 'pitch' is the distance of neighbouring pixels in the panel.
// 'rows' and 'vectors' are compile-time constants.
SR_INLINE void dw_part(const sr_x86_dw *d, const dw_pass *pass, const dw_tap_of *tap, int64_t v0,
                       int64_t pitch, const float *dy, float *out, dw_prefetch *fetch, int rows,
                       int vectors) {
    const int64_t image_floats = d->x_height * d->row_floats;
    const int64_t row_floats = d->pitch_h * d->row_floats;
    const int64_t line = fetch->at < fetch->end ? 64 : 0;
    const char *at = fetch->at;
    sr_vf sum[DW_MAX_ROWS][2];
    SR_UNROLL
    for (int i = 0; i < rows; i++)
        SR_UNROLL
    for (int v = 0; v < vectors; v++)
        sum[i][v] = sr_v_zero();
    for (int64_t n = 0; n < pass->images; n++) {
        for (int64_t r = tap->rows.begin; r < tap->rows.end; r++) {
            const int64_t m0 = tap->columns.begin;
            const float *from = tap->x + v0 + n * image_floats + r * row_floats + m0 * pitch;
            const float *g0 = dy + ((n * pass->rows + r) * pass->q + m0) * SR_X86_DW_SIDE;
            for (int64_t m = m0; m < tap->columns.end; m++) {
                _mm_prefetch(at, _MM_HINT_T1);
                sr_vf in[2];
                SR_UNROLL
                for (int v = 0; v < vectors; v++)
                    in[v] = sr_v_load(from + v * SR_ELEMENTS);
                SR_UNROLL
                for (int i = 0; i < rows; i++) {
                    const sr_vf g = sr_v_set(g0[i]);
                    SR_UNROLL
                    for (int v = 0; v < vectors; v++)
                        sum[i][v] = sr_v_fma(g, in[v], sum[i][v]);
                }
                at += line;
                from += pitch;
                g0 += SR_X86_DW_SIDE;
            }
        }
    }
    fetch->at = at;
    dw_prefetch_rest(fetch);
    SR_UNROLL
    for (int i = 0; i < rows; i++) {
        SR_UNROLL
        for (int v = 0; v < vectors; v++) {
            float *to = out + i * SR_X86_DW_SIDE + v * SR_ELEMENTS;
            const sr_vf before = pass->first ? sr_v_zero() : sr_v_load(to);
            sr_v_store(to, sr_v_add(before, sum[i][v]));
        }
    }
}

// The parts of a tile that contain any of its 'outputs' and 'inputs'; parts that are only padding
// are skipped.
SR_INLINE void dw_tile(const sr_x86_dw *d, const dw_pass *pass, const dw_tap_of *tap, int64_t pitch,
                       const float *dy, float *out, int64_t outputs, int64_t inputs,
                       dw_prefetch *fetch) {
    for (int v = 0; v < inputs; v += DW_PART_VECTORS * SR_ELEMENTS) {
        int row = 0;
        SR_UNROLL
        for (int part = 0; part < DW_PARTS; part++) {
            const int rows = (SR_X86_DW_SIDE - row + DW_PARTS - 1 - part) / (DW_PARTS - part);
            const bool narrow = DW_PART_VECTORS > 1 && inputs - v <= SR_ELEMENTS;
            float *to = out + row * SR_X86_DW_SIDE + v;
            if (row < outputs && narrow) // no early exit, so that 'row' is a constant
                dw_part(d, pass, tap, v, pitch, dy + row, to, fetch, rows, 1);
            if (row < outputs && !narrow)
                dw_part(d, pass, tap, v, pitch, dy + row, to, fetch, rows, DW_PART_VECTORS);
            row += rows;
        }
    }
}

static void dw_tap(const sr_x86_dw *d, const dw_pass *pass, const dw_tap_of *tap, const float *dy,
                   float *out, int64_t outputs, int64_t inputs, dw_prefetch *fetch) {
    const int64_t pitch = d->pitch_w * SR_X86_DW_SIDE;
    if (pitch == SR_X86_DW_SIDE) // a constant makes addressing free
        dw_tile(d, pass, tap, SR_X86_DW_SIDE, dy, out, outputs, inputs, fetch);
    else
        dw_tile(d, pass, tap, pitch, dy, out, outputs, inputs, fetch);
}

SR_INLINE dw_tap_of dw_tap_at(const sr_x86_dw *d, const dw_pass *pass, int64_t tap) {
    const sr_conv_params *p = &d->p;
    if (d->flat || d->merged)
        return (dw_tap_of){pass->x, {0, pass->rows}, {0, pass->q}};
    const int64_t r = tap / p->s * p->dilation_h, s = tap % p->s * p->dilation_w;
    return (dw_tap_of){
        pass->x + r * d->row_floats + s * SR_X86_DW_SIDE,
        dw_inside(pass->rows, p->stride_h, pass->row * p->stride_h + r - p->pad_top, p->h),
        dw_inside(pass->q, p->stride_w, s - p->pad_left, p->w)};
}

SR_INLINE void dw_multiply(const sr_x86_dw *d, const dw_pass *pass, sr_x86_range o,
                           int64_t in_panel, float *partial, dw_prefetch *fetch) {
    const int64_t elements = d->merged ? d->p.r * d->p.s * d->p.c : d->p.c;
    const int64_t inputs = sr_x86_min(elements - in_panel * SR_X86_DW_SIDE, SR_X86_DW_SIDE);
    for (int64_t panel = o.begin; panel < o.end; panel++) {
        const int64_t outputs = sr_x86_min(d->p.k - panel * SR_X86_DW_SIDE, SR_X86_DW_SIDE);
        const float *dy = pass->dy + (panel - o.begin) * sr_x86_dw_dy_panel(pass->pixels);
        float *tile = partial + (panel * d->in_panels + in_panel) * d->tile_floats;
        for (int64_t tap = 0; tap < d->taps; tap++, tile += SR_X86_DW_SIDE * SR_X86_DW_SIDE) {
            const dw_tap_of at = dw_tap_at(d, pass, tap);
            dw_tap(d, pass, &at, dy, tile, outputs, inputs, fetch);
        }
    }
}

// ---- passes ----

// The source data of the next pass. A unit is an output row, or a pixel if 'flat'.
SR_INLINE dw_prefetch dw_following(const sr_x86_dw *d, const dw_pass *pass, const char *x,
                                   const char *dy, sr_dtype type) {
    const sr_conv_params *p = &d->p;
    const int64_t size = sr_x86_bytes(type), in = p->h * p->w * p->c * size;
    const int64_t out = p->p * p->q * p->k * size;
    const int64_t units = d->flat ? p->h * p->w : p->p; // of one picture
    const int64_t count = d->flat ? pass->pixels : pass->images * pass->rows;
    const int64_t begin = (d->flat ? pass->row : pass->image * p->p + pass->row) + count;
    const int64_t end = sr_x86_min(begin + count, p->n * units);
    if (begin >= end)
        return (dw_prefetch){x, x, x, x};
    dw_prefetch f = {x + begin * in / units, x + end * in / units, dy + begin * out / units,
                     dy + end * out / units};
    if (d->ranges > 1) // other ranges' blocks read most of dy; pictures are small
        f.next = f.last;
    return f;
}

SR_INLINE void dw_run_pass(const sr_x86_dw *d, const sr_kernel_args *args, dw_pass *pass,
                           sr_x86_range o, float *partial, sr_dtype type) {
    const void *x = args->p[0], *dy = args->p[1];
    const int64_t row = pass->image * d->p.p + pass->row;
    dw_pack_dy(d, dy, d->flat ? pass->row : row * d->p.q, pass, o, type);
    dw_prefetch fetch = dw_following(d, pass, x, dy, type);
    for (int64_t panel = 0; panel < d->in_panels; panel++) {
        dw_pack_x(d, x, pass, panel, type);
        dw_multiply(d, pass, o, panel, partial, &fetch);
    }
    pass->first = false;
}

SR_INLINE void dw_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                        sr_dtype type) {
    const sr_x86_dw *d = args->state;
    const sr_conv_params *p = &d->p;
    const sr_x86_range o = sr_x86_share(d->out_panels, block % d->ranges, d->ranges);
    const int64_t group = block / d->ranges;
    const sr_x86_range units = sr_x86_share(d->units, group, d->groups);
    float *partial = (float *)args->workspace + group * d->partial_floats;
    dw_pass pass = {.images = 1, .rows = 1, .first = true, .dy = worker->scratch};
    pass.x = pass.dy + sr_x86_ceil_div(d->dy_floats, 16) * 16;
    if (d->flat) {
        const int64_t end = sr_x86_min(units.end * d->unit_pixels, p->n * p->h * p->w);
        for (pass.row = units.begin * d->unit_pixels; pass.row < end; pass.row += pass.pixels) {
            pass.q = pass.pixels = sr_x86_min(d->rows, end - pass.row);
            dw_run_pass(d, args, &pass, o, partial, type);
        }
        return;
    }
    pass.q = p->q;
    for (pass.image = units.begin; pass.image < units.end; pass.image += pass.images) {
        pass.images = sr_x86_min(d->images, units.end - pass.image);
        for (pass.row = 0; pass.row < p->p; pass.row += pass.rows) {
            pass.rows = sr_x86_min(d->rows, p->p - pass.row);
            pass.pixels = pass.images * pass.rows * p->q;
            dw_run_pass(d, args, &pass, o, partial, type);
        }
    }
}

SR_X86_TYPED(conv_dw, dw_block(args, block, worker, type))

// ---- stage 1: one output panel ----

// Row i of the panel: dw[k][c][tap] for one k.
SR_INLINE void dw_unpack(const sr_x86_dw *d, const float *tiles, int64_t i, float *to) {
    const float *row = tiles + i * SR_X86_DW_SIDE;
    for (int64_t panel = 0; panel < d->in_panels; panel++, row += d->tile_floats) {
        const int64_t channels = sr_x86_min(SR_X86_DW_SIDE, d->p.c - panel * SR_X86_DW_SIDE);
        if (d->taps == 1)
            memcpy(to, row, (size_t)channels * sizeof *to);
        for (int64_t c = 0; d->taps > 1 && c < channels; c += SR_ELEMENTS)
            sr_v_put_taps(row + c, SR_X86_DW_SIDE * SR_X86_DW_SIDE, d->taps,
                          (int)sr_x86_min(SR_ELEMENTS, channels - c), to + c * d->taps);
        to += channels * d->taps;
    }
}

// The same for merged panels, whose columns are [R][S][C], or [S][C] for each of R taps.
SR_INLINE void dw_unpack_merged(const sr_x86_dw *d, const float *tiles, int64_t i, float *to) {
    const float *row = tiles + i * SR_X86_DW_SIDE;
    const bool taps = d->taps > 1;
    for (int64_t c = 0; c < d->p.c; c++) {
        for (int64_t r = 0; r < d->p.r; r++) {
            for (int64_t s = 0; s < d->p.s; s++) {
                const int64_t column = ((taps ? 0 : r) * d->p.s + s) * d->p.c + c;
                const int64_t tile = (taps ? r : 0) * SR_X86_DW_SIDE * SR_X86_DW_SIDE;
                *to++ =
                    row[column / SR_X86_DW_SIDE * d->tile_floats + tile + column % SR_X86_DW_SIDE];
            }
        }
    }
}

static sr_status conv_dw_join(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    (void)worker;
    const sr_x86_dw *d = args->state;
    const int64_t count = d->in_panels * d->tile_floats;
    float *tiles = (float *)args->workspace + block * count;
    for (int64_t step = 1; step < d->groups; step *= 2) {
        for (int64_t g = 0; g + step < d->groups; g += 2 * step) {
            float *a = tiles + g * d->partial_floats;
            const float *b = tiles + (g + step) * d->partial_floats;
            for (int64_t i = 0; i < count; i += SR_ELEMENTS)
                sr_v_store(a + i, sr_v_add(sr_v_load(a + i), sr_v_load(b + i)));
        }
    }
    const int64_t rows = sr_x86_min(SR_X86_DW_SIDE, d->p.k - block * SR_X86_DW_SIDE);
    float *dw = (float *)args->p[2] + block * SR_X86_DW_SIDE * d->p.c * d->p.r * d->p.s;
    for (int64_t i = 0; i < rows; i++, dw += d->p.c * d->p.r * d->p.s) {
        if (d->merged)
            dw_unpack_merged(d, tiles, i, dw);
        else
            dw_unpack(d, tiles, i, dw);
    }
    return SR_OK;
}

#endif
