// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution with respect to its weights:
// dw[k,c,r,s] = sum over output pixels m of dy[m,k] x[pixel(m) + (r,s), c].
//
// A block owns a partial dw for a group of images and a range of output channels, stored as
// [output panel][input panel][tap][8][32]. It walks over its images in passes of about 192 output
// pixels. A pass copies dy into panels of 8 channels and x into panels of 32 channels with its halo
// of zeros, both contiguous and (from bf16) widened to f32; then for each pair of panels and each
// tap a tile of 8 x 32 sums stays in registers while it runs over all pixels of the pass, and is
// added to the partial dw once. Panels make every tap a mere offset and avoid the cache-set
// conflicts of power-of-two channel strides (Goto and van de Geijn 2008 pack for the same reasons).
// While it computes, a pass prefetches what the next one will pack: on early layers memory and
// arithmetic take equally long.
//
// With few channels (the first layer) the S C neighbouring floats of a row are the lanes.
//
// Stage 1 adds the groups' partial results as a binary tree and writes canonical OIHW. Each sum is
// a chain of fused multiply-adds over the pixels of a pass in order, whatever the vector width.
//
// Not here: groups > 1 (oneDNN or the reference), AMX.
#ifndef SR_KERNELS_CPU_X86_CONV_DW_INTERNAL_H
#define SR_KERNELS_CPU_X86_CONV_DW_INTERNAL_H

#include "kernels/cpu/x86_internal.h"
#include "kernels/cpu/x86_vector_internal.h"

// Registers hold 8 x 2 vectors of sums with AVX-512, 4 x 1 (of two registers each) with AVX2.
#if defined(__AVX512F__)
#define DW_TILE_OUT 8
#define DW_TILE_VECTORS 2
#else
#define DW_TILE_OUT 4
#define DW_TILE_VECTORS 1
#endif

// Source bytes of the next pass, fetched one line per pixel.
typedef struct dw_prefetch {
    const char *at, *end;    // what is left of the range in progress
    const char *next, *last; // the range after it
} dw_prefetch;

// One pass: images, rows and pixels of a row that it computes, and its panels.
typedef struct dw_pass {
    int64_t image, row;      // first image, first output row
    int64_t images, rows, q; // how many
    int64_t pixels;
    bool first; // of its block: results replace what is in memory
    float *x, *dy;
} dw_pass;

static inline sr_x86_range dw_share(int64_t count, int64_t part, int64_t parts) {
    return (sr_x86_range){count * part / parts, count * (part + 1) / parts};
}

// ---- packing ----

// 'count' pixels of dy from 'first' on, to the places from 'at' on: [panel of o][pixel][8].
SR_INLINE void dw_pack_dy(const sr_x86_dw *d, const void *dy, int64_t first, int64_t at,
                          int64_t count, const dw_pass *pass, sr_x86_range o, bool half) {
    const int64_t k = d->p.k, panel_floats = sr_x86_dw_dy_panel(pass->pixels);
    const int64_t begin = o.begin * SR_X86_DW_OUT, end = sr_x86_min(k, o.end * SR_X86_DW_OUT);
    for (int64_t m = 0; m < count; m++) {
        const int64_t from = (first + m) * k;
        float *to = pass->dy + (at + m) * SR_X86_DW_OUT;
        int64_t c = begin;
        for (; c + SR_LANES <= end; c += SR_LANES, to += 2 * panel_floats) // two panels a vector
            sr_v_store_halves(to, to + panel_floats, sr_v_get(dy, from + c, SR_LANES, half));
        if (c < end) {
            float lanes[SR_LANES];
            sr_v_store(lanes, sr_v_get(dy, from + c, (int)(end - c), half));
            memcpy(to, lanes, SR_X86_DW_OUT * sizeof *to);
            if (end - c > SR_X86_DW_OUT)
                memcpy(to + panel_floats, lanes + SR_X86_DW_OUT, SR_X86_DW_OUT * sizeof *to);
        }
    }
}

// One pixel of input panel 'panel'.
SR_INLINE void dw_pack_pixel(const sr_x86_dw *d, const void *x, int64_t pixel, int64_t panel,
                             float *to, bool half) {
    const int64_t c = panel * SR_X86_DW_IN, i = pixel * d->p.c + c;
    const int n = (int)sr_x86_min(SR_X86_DW_IN, d->p.c - c);
    if (n == SR_X86_DW_IN) {
        sr_v_store(to, sr_v_get(x, i, SR_LANES, half));
        sr_v_store(to + SR_LANES, sr_v_get(x, i + SR_LANES, SR_LANES, half));
    } else if (n > SR_LANES) {
        sr_v_store(to, sr_v_get(x, i, SR_LANES, half));
        sr_v_store(to + SR_LANES, sr_v_get(x, i + SR_LANES, n - SR_LANES, half));
    } else {
        sr_v_store(to, sr_v_get(x, i, n, half));
        sr_v_store(to + SR_LANES, sr_v_zero());
    }
}

// One row of the picture, from column 'first' on, zeros outside.
SR_INLINE void dw_pack_row(const sr_x86_dw *d, const void *x, int64_t row_pixel, int64_t panel,
                           float *to, bool half) {
    for (int64_t j = 0; j < d->x_width; j++, to += SR_X86_DW_IN) {
        const int64_t column = j * d->step_w - d->p.pad_left;
        if (column >= 0 && column < d->p.w)
            dw_pack_pixel(d, x, row_pixel + column, panel, to, half);
        else
            memset(to, 0, SR_X86_DW_IN * sizeof *to);
    }
}

// The same with all channels of a pixel side by side.
SR_INLINE void dw_pack_merged_row(const sr_x86_dw *d, const void *x, int64_t row_pixel, float *to,
                                  bool half) {
    const int64_t c = d->p.c, columns = d->x_width;
    const int64_t left = sr_x86_min(d->p.pad_left, columns);
    const int64_t inside = sr_x86_min(d->p.w, columns - left) * c;
    memset(to, 0, (size_t)d->row_floats * sizeof *to);
    for (int64_t i = 0; i < inside; i += SR_LANES) {
        const int n = (int)sr_x86_min(SR_LANES, inside - i);
        const sr_vf v = sr_v_get(x, row_pixel * c + i, n, half);
        sr_v_put(to, left * c + i, v, n, false);
    }
}

SR_INLINE void dw_pack_x(const sr_x86_dw *d, const void *x, const dw_pass *pass, int64_t panel,
                         bool half) {
    const sr_conv_params *p = &d->p;
    if (d->flat) {
        for (int64_t m = 0; m < pass->pixels; m++)
            dw_pack_pixel(d, x, pass->row + m, panel, pass->x + m * SR_X86_DW_IN, half);
        return;
    }
    const int64_t height = (pass->rows - 1) * d->pitch_h + (p->r - 1) * p->dilation_h + 1;
    for (int64_t n = 0; n < pass->images; n++) {
        for (int64_t j = 0; j < height; j++) {
            const int64_t row = pass->row * p->stride_h + j * d->step_h - p->pad_top;
            float *to = pass->x + (n * d->x_height + j) * d->row_floats;
            const int64_t pixel = ((pass->image + n) * p->h + row) * p->w;
            if (row < 0 || row >= p->h)
                memset(to, 0, (size_t)d->row_floats * sizeof *to);
            else if (d->merged)
                dw_pack_merged_row(d, x, pixel, to, half);
            else
                dw_pack_row(d, x, pixel, panel, to, half);
        }
    }
}

// ---- arithmetic ----

// out[8][32] += sum over the pass's pixels of dy (x) x, for one tap. 'pitch' is the distance of
// neighbouring pixels in the panel.
SR_INLINE void dw_tile(const sr_x86_dw *d, const dw_pass *pass, const float *x, int64_t pitch,
                       const float *dy, float *out, dw_prefetch *fetch) {
    const int64_t image_floats = d->x_height * d->row_floats;
    const int64_t row_floats = d->pitch_h * d->row_floats;
    const char *at = fetch->at;
    sr_vf sum[DW_TILE_OUT][DW_TILE_VECTORS];
    SR_UNROLL
    for (int i = 0; i < DW_TILE_OUT; i++)
        SR_UNROLL
    for (int v = 0; v < DW_TILE_VECTORS; v++)
        sum[i][v] = sr_v_zero();
    for (int64_t n = 0; n < pass->images; n++) {
        for (int64_t r = 0; r < pass->rows; r++) {
            const float *from = x + n * image_floats + r * row_floats;
            for (int64_t m = 0; m < pass->q; m++) {
                sr_vf in[DW_TILE_VECTORS];
                SR_UNROLL
                for (int v = 0; v < DW_TILE_VECTORS; v++)
                    in[v] = sr_v_load(from + v * SR_LANES);
                SR_UNROLL
                for (int i = 0; i < DW_TILE_OUT; i++) {
                    const sr_vf g = sr_v_set(dy[i]);
                    SR_UNROLL
                    for (int v = 0; v < DW_TILE_VECTORS; v++)
                        sum[i][v] = sr_v_fma(g, in[v], sum[i][v]);
                }
                _mm_prefetch(at, _MM_HINT_T1);
                at = at < fetch->end ? at + 64 : at;
                from += pitch;
                dy += SR_X86_DW_OUT;
            }
        }
    }
    SR_UNROLL
    for (int i = 0; i < DW_TILE_OUT; i++) {
        SR_UNROLL
        for (int v = 0; v < DW_TILE_VECTORS; v++) {
            float *to = out + i * SR_X86_DW_IN + v * SR_LANES;
            const sr_vf before = pass->first ? sr_v_zero() : sr_v_load(to);
            sr_v_store(to, sr_v_add(before, sum[i][v]));
        }
    }
    if (at >= fetch->end) {
        at = fetch->next;
        fetch->end = fetch->last;
        fetch->next = fetch->last;
    }
    fetch->at = at;
}

SR_INLINE void dw_tap(const sr_x86_dw *d, const dw_pass *pass, const float *x, const float *dy,
                      float *out, dw_prefetch *fetch) {
    const int64_t pitch = d->pitch_w * d->pixel_floats;
    for (int i = 0; i < SR_X86_DW_OUT; i += DW_TILE_OUT) {
        for (int v = 0; v < SR_X86_DW_IN; v += DW_TILE_VECTORS * SR_LANES) {
            float *to = out + i * SR_X86_DW_IN + v;
            if (pitch == SR_X86_DW_IN) // a constant, so that addressing is free
                dw_tile(d, pass, x + v, SR_X86_DW_IN, dy + i, to, fetch);
            else
                dw_tile(d, pass, x + v, pitch, dy + i, to, fetch);
        }
    }
}

// Floats from a panel's first pixel to where tap number 'tap' begins.
SR_INLINE int64_t dw_tap_offset(const sr_x86_dw *d, int64_t tap) {
    const int64_t r = d->merged ? tap : tap / d->p.s, s = d->merged ? 0 : tap % d->p.s;
    return r * d->p.dilation_h * d->row_floats + s * d->p.dilation_w * d->pixel_floats;
}

static void dw_multiply(const sr_x86_dw *d, const dw_pass *pass, sr_x86_range o, int64_t in_panel,
                        float *partial, dw_prefetch *fetch) {
    for (int64_t panel = o.begin; panel < o.end; panel++) {
        const float *dy = pass->dy + (panel - o.begin) * sr_x86_dw_dy_panel(pass->pixels);
        float *tile = partial + (panel * d->in_panels + in_panel) * d->tile_floats;
        for (int64_t tap = 0; tap < d->taps; tap++)
            dw_tap(d, pass, pass->x + dw_tap_offset(d, tap), dy,
                   tile + tap * SR_X86_DW_OUT * SR_X86_DW_IN, fetch);
    }
}

// ---- passes ----

// What the pass after this one reads. A unit is an output row, or a pixel where 'flat'.
SR_INLINE dw_prefetch dw_following(const sr_x86_dw *d, const dw_pass *pass, const char *x,
                                   const char *dy, int64_t last_image, bool half) {
    const sr_conv_params *p = &d->p;
    const int64_t size = half ? 2 : 4, in = p->h * p->w * p->c * size;
    const int64_t out = p->p * p->q * p->k * size;
    const int64_t units = d->flat ? p->h * p->w : p->p; // of one picture
    const int64_t count = d->flat ? pass->pixels : pass->images * pass->rows;
    const int64_t begin = (d->flat ? pass->row : pass->image * p->p + pass->row) + count;
    const int64_t end = sr_x86_min(begin + count, last_image * units);
    if (begin >= end)
        return (dw_prefetch){x, x, x, x};
    dw_prefetch f = {x + begin * in / units, x + end * in / units, dy + begin * out / units,
                     dy + end * out / units};
    if (d->ranges > 1) // the other ranges' blocks read most of dy; the pictures are small then
        f.next = f.last = f.end;
    return f;
}

SR_INLINE void dw_run_pass(const sr_x86_dw *d, const sr_kernel_args *args, const dw_pass *pass,
                           sr_x86_range o, int64_t last_image, float *partial, bool half) {
    const sr_conv_params *p = &d->p;
    const void *x = args->p[0], *dy = args->p[1];
    const int64_t per_image = d->flat ? pass->pixels : pass->rows * p->q;
    for (int64_t n = 0; n < pass->images; n++) {
        const int64_t row = (pass->image + n) * p->p + pass->row;
        dw_pack_dy(d, dy, d->flat ? pass->row : row * p->q, n * per_image, per_image, pass, o,
                   half);
    }
    dw_prefetch fetch = dw_following(d, pass, x, dy, last_image, half);
    for (int64_t panel = 0; panel < d->in_panels; panel++) {
        dw_pack_x(d, x, pass, panel, half);
        dw_multiply(d, pass, o, panel, partial, &fetch);
    }
}

SR_INLINE void dw_block(const sr_kernel_args *args, int64_t block, sr_worker *worker, bool half) {
    const sr_x86_dw *d = args->state;
    const sr_conv_params *p = &d->p;
    const sr_x86_range o = dw_share(d->out_panels, block % d->ranges, d->ranges);
    const int64_t group = block / d->ranges;
    const sr_x86_range images = dw_share(p->n, group, d->groups);
    float *partial = (float *)args->workspace + group * d->partial_floats;
    dw_pass pass = {.images = 1, .rows = 1, .first = true, .dy = worker->scratch};
    pass.x = pass.dy + sr_x86_ceil_div(d->dy_floats, 16) * 16;
    if (d->flat) {
        const int64_t end = images.end * p->h * p->w;
        for (pass.row = images.begin * p->h * p->w; pass.row < end; pass.row += pass.pixels) {
            pass.q = pass.pixels = sr_x86_min(d->rows, end - pass.row);
            dw_run_pass(d, args, &pass, o, images.end, partial, half);
            pass.first = false;
        }
        return;
    }
    pass.q = p->q;
    for (pass.image = images.begin; pass.image < images.end; pass.image += pass.images) {
        pass.images = sr_x86_min(d->images, images.end - pass.image);
        for (pass.row = 0; pass.row < p->p; pass.row += pass.rows) {
            pass.rows = sr_x86_min(d->rows, p->p - pass.row);
            pass.pixels = pass.images * pass.rows * p->q;
            dw_run_pass(d, args, &pass, o, images.end, partial, half);
            pass.first = false;
        }
    }
}

static sr_status conv_dw_f32(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    dw_block(args, block, worker, false);
    return SR_OK;
}
static sr_status conv_dw_bf16(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    dw_block(args, block, worker, true);
    return SR_OK;
}

// ---- stage 1: one output panel ----

// Row i of the panel: dw[k][c][tap] for one k.
SR_INLINE void dw_unpack(const sr_x86_dw *d, const float *tiles, int64_t i, float *to) {
    const float *row = tiles + i * SR_X86_DW_IN;
    for (int64_t panel = 0; panel < d->in_panels; panel++, row += d->tile_floats) {
        const int64_t channels = sr_x86_min(SR_X86_DW_IN, d->p.c - panel * SR_X86_DW_IN);
        if (d->taps == 1) {
            memcpy(to, row, (size_t)channels * sizeof *to);
            to += channels;
            continue;
        }
        for (int64_t c = 0; c < channels; c++)
            for (int64_t tap = 0; tap < d->taps; tap++)
                *to++ = row[tap * SR_X86_DW_OUT * SR_X86_DW_IN + c];
    }
}

// The same of a merged panel: lanes are [S][C], taps are rows.
SR_INLINE void dw_unpack_merged(const sr_x86_dw *d, const float *tiles, int64_t i, float *to) {
    const float *row = tiles + i * SR_X86_DW_IN;
    for (int64_t c = 0; c < d->p.c; c++)
        for (int64_t r = 0; r < d->p.r; r++)
            for (int64_t s = 0; s < d->p.s; s++)
                *to++ = row[r * SR_X86_DW_OUT * SR_X86_DW_IN + s * d->p.c + c];
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
            for (int64_t i = 0; i < count; i += SR_LANES)
                sr_v_store(a + i, sr_v_add(sr_v_load(a + i), sr_v_load(b + i)));
        }
    }
    const int64_t rows = sr_x86_min(SR_X86_DW_OUT, d->p.k - block * SR_X86_DW_OUT);
    float *dw = (float *)args->p[2] + block * SR_X86_DW_OUT * d->p.c * d->p.r * d->p.s;
    for (int64_t i = 0; i < rows; i++, dw += d->p.c * d->p.r * d->p.s) {
        if (d->merged)
            dw_unpack_merged(d, tiles, i, dw);
        else
            dw_unpack(d, tiles, i, dw);
    }
    return SR_OK;
}

#endif
