// SPDX-License-Identifier: Apache-2.0
// The built-in decoder for a region of a baseline JPEG (see jpeg_region_internal.h).
//
//   entropy-coded data -> coefficients of a row of MCUs -> samples of each component -> RGB
//
// Only MCUs that overlap the region, or that its chroma interpolation needs, are stored and
// transformed. MCUs before them are decoded but not stored; with a row index, decoding begins in
// each row at the segment that contains the first required MCU. Data after the last one is not
// read.
#include "dataio/jpeg/jpeg_region_internal.h"

#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/memory.h"

typedef struct range {
    int64_t begin, end;
} range;

// Samples of a component at the decoded scale, of all blocks of the region's MCUs.
typedef struct sample_plane {
    int side;              // of a block
    int64_t width, height; // of the whole component
    sr_pixel_buffer buffer;
    uint8_t *first; // sample (x, y)
    int64_t x, y, stride;
} sample_plane;

// A read position in the stream. With a row index there are two, on consecutive rows.
typedef struct track {
    sr_pixel_buffer plain;        // the segment's data without stuffed zeros
    sr_pixel_buffer coefficients; // of a row of MCUs
    size_t coefficient_bytes;
    int64_t segment, next, end; // MCUs: the next one, and where the segment ends
    size_t source;              // offset in the file of the next segment
} track;

struct sr_jpeg_region {
    const sr_jpeg_set *set;
    sr_decode_times *times;
    sr_encoded encoded;
    sr_jpeg_stream stream;
    int64_t width, height;         // of the picture at the decoded scale
    int64_t mcu_width, mcu_height; // at this scale
    int h, v;                      // pixels per chroma sample
    range columns, rows;           // of MCUs
    sample_plane planes[SR_JPEG_COMPONENTS];
    sr_pixel_buffer mixed, chroma[2]; // rows of chroma during upsampling
    track tracks[SR_JPEG_RUNS];
    sr_jpeg_run runs[SR_JPEG_RUNS]; // of the tracks
};

sr_status sr_jpeg_region_create(const sr_jpeg_set *set, sr_decode_times *times,
                                sr_jpeg_region **out) {
    sr_jpeg_region *d = sr_alloc(sizeof *d, "JPEG decoder");
    if (!d)
        return SR_E_MEMORY;
    d->set = set;
    d->times = times;
    *out = d;
    return SR_OK;
}

void sr_jpeg_region_free(sr_jpeg_region *d) {
    if (!d)
        return;
    for (int c = 0; c < SR_JPEG_COMPONENTS; c++)
        sr_pixel_buffer_release(&d->planes[c].buffer);
    for (int i = 0; i < SR_JPEG_RUNS; i++) {
        sr_pixel_buffer_release(&d->tracks[i].plain);
        sr_pixel_buffer_release(&d->tracks[i].coefficients);
    }
    sr_pixel_buffer_release(&d->mixed);
    sr_pixel_buffer_release(&d->chroma[0]);
    sr_pixel_buffer_release(&d->chroma[1]);
    sr_free(d);
}

bool sr_jpeg_region_open(sr_jpeg_region *d, const sr_encoded *encoded, int64_t *width,
                         int64_t *height, int *orientation) {
    d->encoded = *encoded;
    if (!sr_jpeg_stream_read(&d->stream, encoded->data, encoded->bytes))
        return false;
    *width = d->stream.width;
    *height = d->stream.height;
    *orientation = d->stream.orientation;
    return true;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// ---- Segments ----

// Copies entropy-coded data up to the next marker, without the stuffed zeros after 0xff. Returns
// the offset of the marker, or SIZE_MAX where there is none.
static size_t unstuff(const uint8_t *data, size_t at, size_t bytes, uint8_t *to, size_t *count) {
    uint8_t *begin = to;
    for (;;) {
        const uint8_t *mark = memchr(data + at, SR_JPEG_MARK, bytes - at);
        if (!mark || (size_t)(mark - data) + 1 >= bytes)
            return SIZE_MAX;
        const size_t run = (size_t)(mark - data) - at;
        memcpy(to, data + at, run);
        to += run;
        at += run;
        if (data[at + 1] != SR_JPEG_STUFFED) {
            *count = (size_t)(to - begin);
            return at;
        }
        *to++ = SR_JPEG_MARK;
        at += 2;
    }
}

// Begins a segment, at offset 'from', on track i.
static sr_status begin_segment(sr_jpeg_region *d, int i, int64_t segment, size_t from, bool *done) {
    const sr_jpeg_stream *s = &d->stream;
    track *t = &d->tracks[i];
    const int64_t all = s->columns * s->rows;
    size_t count = 0;
    SR_TRY(sr_pixel_buffer_fit(&t->plain, s->bytes - from + SR_JPEG_BITS_SLACK));
    uint8_t *plain = t->plain.data;
    const size_t marker = unstuff(s->data, from, s->bytes, plain, &count);
    t->segment = segment;
    t->next = segment * s->restart;
    t->end = s->restart > 0 ? smaller(t->next + s->restart, all) : all;
    const int expected = t->end == all ? SR_JPEG_EOI : SR_JPEG_RST0 + (int)(segment & 7);
    *done = marker != SIZE_MAX && s->data[marker + 1] == expected;
    if (!*done)
        return SR_OK;
    t->source = marker + 2;
    memset(plain + count, 0, SR_JPEG_BITS_SLACK);
    d->runs[i].bits = (sr_jpeg_bits){.begin = plain, .next = plain, .end = plain + count};
    memset(d->runs[i].dc, 0, sizeof d->runs[i].dc);
    return SR_OK;
}

// Whether only padding bits remain at the end of a segment.
static bool ends_well(const sr_jpeg_bits *bits) {
    const int64_t used = 8 * (bits->next - bits->begin) - bits->count;
    const int64_t left = 8 * (bits->end - bits->begin) - used;
    return left >= 0 && left < 8;
}

// Reads 'count' MCUs on each of the first 'tracks' tracks, continuing with the next segments.
// Segments of two tracks have equal length and the same progress.
static sr_status read_mcus(sr_jpeg_region *d, int tracks, int64_t count, bool store, bool *done) {
    *done = true;
    while (count > 0) {
        for (int i = 0; i < tracks; i++) {
            const track *t = &d->tracks[i];
            if (t->next == t->end)
                SR_TRY(begin_segment(d, i, t->segment + 1, t->source, done));
            if (!*done)
                return SR_OK;
        }
        const int64_t n = smaller(count, d->tracks[0].end - d->tracks[0].next);
        *done = d->set->read_mcus(&d->stream, d->runs, tracks, n, d->set->group, store);
        count -= n;
        for (int i = 0; i < tracks && *done; i++) {
            track *t = &d->tracks[i];
            t->next += n;
            *done = t->next < t->end || ends_well(&d->runs[i].bits);
        }
        if (!*done)
            return SR_OK;
    }
    return SR_OK;
}

// Whether the row index, where there is one, has an offset for each segment and the end.
static bool index_fits(const sr_jpeg_region *d) {
    const sr_jpeg_stream *s = &d->stream;
    if (!d->encoded.segments)
        return true;
    if (s->restart == 0)
        return false;
    const int64_t segments = sr_jpeg_ceil_div(s->columns * s->rows, s->restart);
    return d->encoded.segment_count == (size_t)segments + 1;
}

// Begins the segment that contains an MCU, by the row index.
static sr_status find_segment(sr_jpeg_region *d, int i, int64_t mcu, bool *done) {
    const int64_t segment = mcu / d->stream.restart;
    const size_t from = sr_jpeg_segment(&d->encoded, segment);
    *done = from >= d->stream.scan && from < d->stream.bytes;
    return *done ? begin_segment(d, i, segment, from, done) : SR_OK;
}

// Positions the tracks at the region's first MCU in this row and the next.
static sr_status go_to(sr_jpeg_region *d, int tracks, int64_t row, bool *done) {
    *done = true;
    for (int i = 0; i < tracks && *done && d->encoded.segments; i++) {
        const int64_t mcu = (row + i) * d->stream.columns + d->columns.begin;
        if (tracks > 1 || mcu >= d->tracks[i].end)
            SR_TRY(find_segment(d, i, mcu, done));
    }
    const int64_t ahead = row * d->stream.columns + d->columns.begin - d->tracks[0].next;
    return *done && ahead > 0 ? read_mcus(d, tracks, ahead, false, done) : SR_OK;
}

// ---- Coefficients and samples ----

// The MCUs that contain the region and the adjacent chroma.
static range mcus_of(int64_t begin, int64_t end, int64_t side, int64_t factor, int64_t all) {
    const int64_t beside = factor > 1 ? factor : 0;
    return (range){larger(begin - beside, 0) / side,
                   smaller(sr_jpeg_ceil_div(end + beside, side), all)};
}

// Number of groups in a row of blocks of the region.
static int64_t groups_of(const sr_jpeg_region *d, int c) {
    const int64_t blocks = (d->columns.end - d->columns.begin) * d->stream.component[c].h;
    return sr_jpeg_ceil_div(blocks, d->set->group);
}

static sr_status fit_planes(sr_jpeg_region *d) {
    const sr_jpeg_stream *s = &d->stream;
    const int64_t rows = d->rows.end - d->rows.begin;
    for (int c = 0; c < s->components; c++) {
        const sr_jpeg_component *component = &s->component[c];
        sample_plane *p = &d->planes[c];
        p->stride = groups_of(d, c) * d->set->group * p->side + 2 * SR_JPEG_ROW_SLACK;
        p->x = d->columns.begin * component->h * p->side;
        p->y = d->rows.begin * component->v * p->side;
        SR_TRY(sr_pixel_buffer_fit(&p->buffer,
                                   (size_t)(p->stride * (rows * component->v * p->side + 1))));
        p->first = p->buffer.data + SR_JPEG_ROW_SLACK;
    }
    return SR_OK;
}

// Makes room for the coefficients of a row of MCUs on track i.
static sr_status fit_target(sr_jpeg_region *d, int i) {
    size_t offset[SR_JPEG_COMPONENTS][2] = {{0}}, total = 0;
    const size_t group = (size_t)d->set->group * SR_JPEG_BLOCK * sizeof(int16_t);
    sr_pixel_buffer *buffer = &d->tracks[i].coefficients;
    for (int c = 0; c < d->stream.components; c++) {
        for (int v = 0; v < d->stream.component[c].v; v++) {
            offset[c][v] = total;
            total += (size_t)groups_of(d, c) * group;
        }
    }
    SR_TRY(sr_pixel_buffer_fit(buffer, total));
    for (int c = 0; c < d->stream.components; c++)
        for (int v = 0; v < d->stream.component[c].v; v++)
            d->runs[i].target.row[c][v] = (int16_t *)(void *)(buffer->data + offset[c][v]);
    d->tracks[i].coefficient_bytes = total;
    return SR_OK;
}

static void transform_row(sr_jpeg_region *d, const sr_jpeg_target *target, int64_t row) {
    for (int c = 0; c < d->stream.components; c++) {
        const sr_jpeg_component *component = &d->stream.component[c];
        const sample_plane *p = &d->planes[c];
        for (int v = 0; v < component->v; v++) {
            const int64_t y = ((row - d->rows.begin) * component->v + v) * p->side;
            d->set->transform(target->row[c][v], groups_of(d, c), d->stream.quant[component->quant],
                              p->side, p->first + y * p->stride, p->stride);
        }
    }
}

// Nanoseconds since *since, which becomes the current time.
static int64_t lap(int64_t *since) {
    const int64_t now = sr_clock_ns(), elapsed = now - *since;
    *since = now;
    return elapsed;
}

// Reads the coefficients of 'tracks' rows of MCUs from 'row' on.
static sr_status read_rows(sr_jpeg_region *d, int tracks, int64_t row, bool *done) {
    SR_TRY(go_to(d, tracks, row, done));
    for (int i = 0; i < tracks && *done; i++) {
        memset(d->tracks[i].coefficients.data, 0, d->tracks[i].coefficient_bytes);
        d->runs[i].target.column = 0;
    }
    return *done ? read_mcus(d, tracks, d->columns.end - d->columns.begin, true, done) : SR_OK;
}

static sr_status read_planes(sr_jpeg_region *d, bool *done) {
    // Two tracks need segments that begin with rows.
    const bool paired =
        d->encoded.segments && d->stream.restart > 0 && d->stream.columns % d->stream.restart == 0;
    int64_t since = sr_clock_ns();
    SR_TRY(fit_planes(d));
    for (int i = 0; i < SR_JPEG_RUNS; i++)
        SR_TRY(fit_target(d, i));
    d->tracks[0].next = d->tracks[0].end = 0;
    *done = index_fits(d);
    if (*done && !d->encoded.segments)
        SR_TRY(begin_segment(d, 0, 0, d->stream.scan, done));
    for (int64_t row = d->rows.begin; row < d->rows.end && *done;) {
        const int tracks = paired && row + 1 < d->rows.end ? 2 : 1;
        SR_TRY(read_rows(d, tracks, row, done));
        if (!*done)
            return SR_OK;
        d->times->entropy += lap(&since);
        for (int i = 0; i < tracks; i++)
            transform_row(d, &d->runs[i].target, row++);
        d->times->transform += lap(&since);
    }
    return SR_OK;
}

// ---- Pixels ----

// Sample (x, y), with y clamped to the component.
static const uint8_t *sample(const sr_jpeg_region *d, int c, int64_t x, int64_t y) {
    const sample_plane *p = &d->planes[c];
    y = smaller(larger(y, 0), p->height - 1);
    return p->first + (y - p->y) * p->stride + (x - p->x);
}

// Upsamples a row of chroma that has half the columns of luma.
static void spread_chroma(sr_jpeg_region *d, int c, int64_t y, range columns, uint8_t *out) {
    const bool tall = d->v == 2;
    // One more sample on each side; the last one is repeated at the picture's border.
    const range need = {columns.begin / 2 - 1, (columns.end + 1) / 2 + 1};
    const range have = {larger(need.begin, 0), smaller(need.end, d->planes[c].width)};
    const int64_t n = have.end - have.begin, beyond = y % 2 ? 1 : -1;
    int16_t *const mixed = (int16_t *)(void *)(d->mixed.data + SR_JPEG_ROW_SLACK);
    int16_t *const to = mixed + (have.begin - need.begin);
    if (tall) {
        d->set->mix_rows(sample(d, c, have.begin, y / 2), sample(d, c, have.begin, y / 2 + beyond),
                         n, to);
    } else {
        const uint8_t *from = sample(d, c, have.begin, y);
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
    }
    if (need.begin < have.begin)
        mixed[0] = to[0];
    if (need.end > have.end)
        to[n] = to[n - 1];
    d->set->spread_row(mixed + 1, need.end - need.begin - 2, tall ? 8 : 1, tall ? 7 : 2,
                       tall ? 4 : 2, out);
}

// A row of chroma at the resolution of luma, from columns.begin on.
static const uint8_t *make_chroma(sr_jpeg_region *d, int c, int64_t y, range columns) {
    uint8_t *row = d->chroma[c - 1].data;
    if (d->h == 2)
        spread_chroma(d, c, y, columns, row);
    else if (d->v == 2)
        d->set->blend_rows(sample(d, c, columns.begin, y / 2),
                           sample(d, c, columns.begin, y / 2 + (y % 2 ? 1 : -1)),
                           columns.end - columns.begin, y % 2 ? 2 : 1, row);
    else
        return sample(d, c, columns.begin, y);
    return row;
}

static sr_status fit_rows(sr_jpeg_region *d, int64_t width) {
    const size_t row = (size_t)width + 2 * SR_JPEG_ROW_SLACK;
    SR_TRY(sr_pixel_buffer_fit(&d->mixed, sizeof(int16_t) * row));
    SR_TRY(sr_pixel_buffer_fit(&d->chroma[0], row));
    return sr_pixel_buffer_fit(&d->chroma[1], row);
}

static sr_status make_pixels(sr_jpeg_region *d, range columns, range rows, sr_pixel_buffer *buffer,
                             sr_pixels *out) {
    const int64_t width = columns.end - columns.begin, height = rows.end - rows.begin;
    SR_TRY(sr_pixel_buffer_fit(buffer, (size_t)(3 * width * height) + SR_JPEG_ROW_SLACK));
    SR_TRY(fit_rows(d, width));
    uint8_t *to = buffer->data;
    for (int64_t y = rows.begin; y < rows.end; y++, to += 3 * width) {
        const uint8_t *cb = NULL, *cr = NULL;
        if (d->stream.components > 1) {
            cb = make_chroma(d, 1, y, columns);
            cr = make_chroma(d, 2, y, columns);
        }
        d->set->colour_row(sample(d, 0, columns.begin, y), cb, cr, width, to);
    }
    *out = (sr_pixels){.data = buffer->data,
                       .width = width,
                       .height = height,
                       .x = columns.begin,
                       .y = rows.begin,
                       .channels = 3};
    return SR_OK;
}

// Computes sizes at this scale. Subsampled chroma is reduced less, like in libjpeg-turbo. False
// where libjpeg-turbo would repeat samples instead of interpolating.
static bool set_scale(sr_jpeg_region *d, int scale) {
    const sr_jpeg_stream *s = &d->stream;
    const sr_jpeg_component *luma = &s->component[0];
    const int side = SR_JPEG_SIDE / scale;
    const int chroma = scale > 1 && luma->h == 2 && luma->v == 2 ? 2 * side : side;
    for (int c = 0; c < s->components; c++) {
        sample_plane *p = &d->planes[c];
        p->side = c == 0 ? side : chroma;
        p->width = sr_jpeg_ceil_div(s->width * s->component[c].h * p->side, luma->h * SR_JPEG_SIDE);
        p->height =
            sr_jpeg_ceil_div(s->height * s->component[c].v * p->side, luma->v * SR_JPEG_SIDE);
    }
    d->width = sr_jpeg_ceil_div(s->width, scale);
    d->height = sr_jpeg_ceil_div(s->height, scale);
    d->mcu_width = s->mcu_width / scale;
    d->mcu_height = s->mcu_height / scale;
    d->h = luma->h * side / chroma;
    d->v = luma->v * side / chroma;
    const bool equal = s->components == 1 || (d->h == 1 && d->v == 1);
    return equal || (side > 1 && (d->h == 1 || d->planes[1].width > 2));
}

sr_status sr_jpeg_region_read(sr_jpeg_region *d, const sr_region *region, int scale,
                              sr_pixel_buffer *buffer, sr_pixels *out, bool *done) {
    *done = set_scale(d, scale);
    if (!*done)
        return SR_OK;
    // Pairs of pixels share chroma samples: begin at an even column.
    const range columns = {region->x / scale / d->h * d->h,
                           smaller(sr_jpeg_ceil_div(region->x + region->width, scale), d->width)};
    const range rows = {region->y / scale,
                        smaller(sr_jpeg_ceil_div(region->y + region->height, scale), d->height)};
    d->columns = mcus_of(columns.begin, columns.end, d->mcu_width, d->h, d->stream.columns);
    d->rows = mcus_of(rows.begin, rows.end, d->mcu_height, d->v, d->stream.rows);
    SR_TRY(read_planes(d, done));
    if (!*done)
        return SR_OK;
    const int64_t begin = sr_clock_ns();
    SR_TRY(make_pixels(d, columns, rows, buffer, out));
    d->times->colour += sr_clock_ns() - begin;
    return SR_OK;
}
