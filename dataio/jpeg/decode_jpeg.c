// SPDX-License-Identifier: Apache-2.0
// Decodes a region of a JPEG: baseline JPEGs by the built-in decoder (jpeg_region.c), others by
// libjpeg-turbo.
//
// With libjpeg-turbo, rows before the region are skipped and rows after it not read; columns are
// cropped at MCU borders; smaller targets scale in the inverse DCT by 1/2, 1/4 or 1/8 (the other
// ratios have no SIMD code and are slower than full size). A margin around the region keeps the
// library's chroma interpolation away from the crop's borders, so that the result does not depend
// on them. Source: libjpeg-turbo 2.1 libjpeg.txt and jpeglib.h. Its documentation requires callers
// to treat warnings as fatal and to set limits; this file does. TurboJPEG's tj3 calls are not in
// Debian 12.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "dataio/jpeg/decode_internal.h"
#include "dataio/jpeg/exif.h"
#include "dataio/jpeg/jpeg_region_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/memory.h"

#define MARGIN 2 // pixels; fancy upsampling reads one chroma sample on each side
#define MEMORY_LIMIT (512L << 20)
#define ROWS_AT_ONCE 16

struct sr_jpeg {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    sr_encoded encoded;
    sr_decode_times *times;
    sr_jpeg_region *builtin;
    bool use_builtin;    // 'builtin' can decode the open picture
    bool header_read;    // libjpeg-turbo has read the whole picture's header and nothing else since
    int64_t rows_before; // rows of pixels above an extract
    int mcu_height;
    int64_t row_segments; // restart segments per row of MCUs; 0: not a whole number
    sr_pixel_buffer extract;
};

static _Noreturn void on_error(j_common_ptr info) {
    sr_jpeg *jpeg = info->client_data;
    if (info->err->msg_code == JERR_NO_BACKING_STORE)
        snprintf(jpeg->message, sizeof jpeg->message, "needs more than %ld MiB of memory",
                 MEMORY_LIMIT >> 20);
    else
        jpeg->errors.format_message(info, jpeg->message);
    longjmp(jpeg->escape, 1);
}

static void on_message(j_common_ptr info, int level) {
    sr_jpeg *jpeg = info->client_data;
    if (level >= 0)
        return; // trace
    if (jpeg->errors.num_warnings++ == 0)
        jpeg->errors.format_message(info, jpeg->message);
}

static void on_progress(j_common_ptr info) {
    sr_jpeg *jpeg = info->client_data;
    const int64_t scans = jpeg->info.input_scan_number;
    const int64_t pixels = (int64_t)jpeg->info.image_width * jpeg->info.image_height;
    if (scans <= SR_DECODE_MAX_SCANS && scans * pixels <= SR_DECODE_MAX_WORK)
        return;
    if (scans > SR_DECODE_MAX_SCANS)
        snprintf(jpeg->message, sizeof jpeg->message, "more than %d scans", SR_DECODE_MAX_SCANS);
    else
        snprintf(jpeg->message, sizeof jpeg->message, "more than %d scans of %lld pixels",
                 (int)scans - 1, (long long)pixels);
    longjmp(jpeg->escape, 1);
}

sr_status sr_jpeg_create(sr_decode_times *times, sr_jpeg **out) {
    sr_jpeg *jpeg = sr_alloc(sizeof *jpeg, "JPEG decoder");
    if (!jpeg)
        return SR_E_MEMORY;
    const sr_jpeg_set *sets[SR_JPEG_MOST_SETS];
    const int count = sr_jpeg_sets(sets);
    const sr_status made = sr_jpeg_region_create(sets[count - 1], times, &jpeg->builtin);
    if (made != SR_OK) {
        sr_free(jpeg);
        return made;
    }
    jpeg->times = times;
    jpeg->info.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = on_error;
    jpeg->errors.emit_message = on_message;
    jpeg->info.client_data = jpeg;
    jpeg->progress.progress_monitor = on_progress;
    if (setjmp(jpeg->escape) != 0) {
        sr_status status = SR_FAIL(SR_E_MEMORY, "JPEG decoder: %s", jpeg->message);
        sr_jpeg_region_free(jpeg->builtin);
        sr_free(jpeg);
        return status;
    }
    jpeg_create_decompress(&jpeg->info);
    jpeg->info.progress = &jpeg->progress;
    jpeg->info.mem->max_memory_to_use = MEMORY_LIMIT;
    jpeg_save_markers(&jpeg->info, JPEG_APP0 + 1, 0xffff);
    *out = jpeg;
    return SR_OK;
}

void sr_jpeg_free(sr_jpeg *jpeg) {
    if (!jpeg)
        return;
    jpeg_destroy_decompress(&jpeg->info);
    sr_jpeg_region_free(jpeg->builtin);
    sr_pixel_buffer_release(&jpeg->extract);
    sr_free(jpeg);
}

// Functions below that may longjmp are called after their caller has set jpeg->escape.
static void read_header(sr_jpeg *jpeg, const uint8_t *data, size_t bytes) {
    jpeg_mem_src(&jpeg->info, data, bytes);
    (void)jpeg_read_header(&jpeg->info, TRUE);
}

static sr_status begin(sr_jpeg *jpeg, const uint8_t *data, size_t bytes) {
    jpeg_abort_decompress(&jpeg->info);
    jpeg->errors.num_warnings = 0;
    jpeg->header_read = false;
    jpeg->rows_before = 0;
    if (setjmp(jpeg->escape) != 0)
        return SR_FAIL(SR_E_DATA, "JPEG: %s", jpeg->message);
    read_header(jpeg, data, bytes);
    return SR_OK;
}

static sr_status begin_whole(sr_jpeg *jpeg) {
    struct jpeg_decompress_struct *info = &jpeg->info;
    SR_TRY(begin(jpeg, jpeg->encoded.data, jpeg->encoded.bytes));
    jpeg->header_read = true;
    // A scan of one component has MCUs of one block, whatever the sampling factors say.
    bool single = info->num_components == 1;
    jpeg->mcu_height = DCTSIZE * (single ? 1 : info->max_v_samp_factor);
    unsigned width = DCTSIZE * (single ? 1u : (unsigned)info->max_h_samp_factor);
    const unsigned columns = (info->image_width + width - 1) / width;
    jpeg->row_segments = 0;
    if (info->restart_interval > 0 && columns % info->restart_interval == 0)
        jpeg->row_segments = columns / info->restart_interval;
    return SR_OK;
}

sr_status sr_jpeg_open(sr_jpeg *jpeg, const sr_encoded *encoded, int64_t *width, int64_t *height,
                       int *orientation) {
    jpeg->encoded = *encoded;
    jpeg->header_read = false;
    jpeg->use_builtin = sr_jpeg_region_open(jpeg->builtin, encoded, width, height, orientation);
    if (jpeg->use_builtin)
        return SR_OK;
    SR_TRY(begin_whole(jpeg));
    *width = jpeg->info.image_width;
    *height = jpeg->info.image_height;
    *orientation = 1;
    for (jpeg_saved_marker_ptr m = jpeg->info.marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && *orientation == 1)
            *orientation = sr_exif_of_marker(m->data, m->data_length);
    return SR_OK;
}

// Rows or columns of the region at the decoded scale, with margins.
typedef struct span {
    int64_t begin, end;
} span;

static span scaled_span(int64_t begin, int64_t size, int scale, int64_t limit) {
    span s = {begin / scale - MARGIN, (begin + size + scale - 1) / scale + MARGIN};
    if (s.begin < 0)
        s.begin = 0;
    if (s.end > limit)
        s.end = limit;
    return s;
}

typedef struct region_job {
    sr_jpeg *jpeg;
    const sr_region *region;
    int scale;
    sr_pixel_buffer *buffer;
    sr_pixels *out;
    sr_status status;
} region_job;

// Rows of the region in the picture being decoded, which may be an extract of the whole one.
static span rows_of(const region_job *j) {
    const struct jpeg_decompress_struct *info = &j->jpeg->info;
    int64_t above = j->jpeg->rows_before;
    return scaled_span(j->region->y - above, j->region->height, j->scale, info->output_height);
}

static void read_rows(region_job *j, span rows, size_t row_bytes) {
    struct jpeg_decompress_struct *info = &j->jpeg->info;
    if (rows.begin > 0)
        (void)jpeg_skip_scanlines(info, (JDIMENSION)rows.begin);
    int64_t done = 0, count = rows.end - rows.begin;
    while (done < count) {
        JSAMPROW pointers[ROWS_AT_ONCE];
        int64_t n = count - done < ROWS_AT_ONCE ? count - done : ROWS_AT_ONCE;
        for (int64_t i = 0; i < n; i++)
            pointers[i] = j->buffer->data + (size_t)(done + i) * row_bytes;
        JDIMENSION got = jpeg_read_scanlines(info, pointers, (JDIMENSION)n);
        done += got;
    }
}

static void decode(region_job *j) {
    struct jpeg_decompress_struct *info = &j->jpeg->info;
    bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    info->scale_num = 1;
    info->scale_denom = (unsigned)j->scale;
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    (void)jpeg_start_decompress(info);
    const sr_region *r = j->region;
    span rows = rows_of(j);
    span cols = scaled_span(r->x, r->width, j->scale, info->output_width);
    JDIMENSION x = (JDIMENSION)cols.begin, width = (JDIMENSION)(cols.end - cols.begin);
    if (width < info->output_width)
        jpeg_crop_scanline(info, &x, &width);
    size_t row_bytes = (size_t)info->output_width * (cmyk ? 4 : 3);
    int64_t height = rows.end - rows.begin;
    j->status = sr_pixel_buffer_fit(j->buffer, row_bytes * (size_t)height);
    if (j->status != SR_OK)
        return;
    read_rows(j, rows, row_bytes);
    *j->out = (sr_pixels){.data = j->buffer->data,
                          .width = info->output_width,
                          .height = height,
                          .x = x,
                          .y = rows.begin + j->jpeg->rows_before / j->scale,
                          .channels = cmyk ? 4 : 3};
}

// Converts CMYK to RGB in place. Adobe stores inverted inks, so 255 is no ink.
static void cmyk_to_rgb(uint8_t *data, int64_t pixels, bool inverted) {
    for (int64_t i = 0; i < pixels; i++) {
        const uint8_t *in = data + 4 * i;
        unsigned k = inverted ? in[3] : 255u - in[3];
        for (int c = 0; c < 3; c++) {
            unsigned v = (inverted ? in[c] : 255u - in[c]) * k;
            data[3 * i + c] = (uint8_t)((v + 127) / 255);
        }
    }
}

static sr_status run(region_job *j) {
    if (setjmp(j->jpeg->escape) != 0)
        return SR_FAIL(SR_E_DATA, "JPEG: %s", j->jpeg->message);
    decode(j);
    return j->status;
}

// Restarts with an extract of the rows of MCUs that the region needs: those of its margin, and one
// more on each side, because the library extrapolates beyond the extract.
static sr_status begin_extract(sr_jpeg *jpeg, const sr_region *region, int scale) {
    int64_t height = jpeg->info.image_height, mcu = jpeg->mcu_height;
    int64_t all = (height + mcu - 1) / mcu, margin = (int64_t)MARGIN * scale;
    int64_t first = (region->y - margin) / mcu - 1;
    int64_t last = (region->y + region->height + margin + scale - 1) / mcu + 2;
    first = first > 0 ? first : 0;
    last = last < all ? last : all;
    if (last - first == all)
        return SR_OK;
    sr_jpeg_row_range range = {.first = first,
                               .rows = last - first,
                               .row_segments = jpeg->row_segments,
                               .mcu_height = mcu,
                               .height = height};
    size_t bytes;
    SR_TRY(sr_jpeg_extract_rows(&jpeg->encoded, &range, &jpeg->extract, &bytes));
    unsigned width = jpeg->info.image_width;
    SR_TRY(begin(jpeg, jpeg->extract.data, bytes));
    // In a maliciously crafted file the library and the search for the height may have found
    // different frame headers, but callers rely on the size of the whole picture.
    int64_t bottom = last * mcu < height ? last * mcu : height;
    if (jpeg->info.image_width != width || jpeg->info.image_height != bottom - first * mcu)
        return SR_FAIL(SR_E_DATA, "the picture has two frame headers; pack it again");
    jpeg->rows_before = first * mcu;
    return SR_OK;
}

static sr_status read_by_library(sr_jpeg *jpeg, const sr_region *region, int scale,
                                 sr_pixel_buffer *buffer, sr_pixels *out) {
    // A second region of the same picture needs the header again.
    if (!jpeg->header_read)
        SR_TRY(begin_whole(jpeg));
    if (jpeg->encoded.segments && jpeg->row_segments > 0)
        SR_TRY(begin_extract(jpeg, region, scale));
    jpeg->header_read = false;
    region_job j = {.jpeg = jpeg, .region = region, .scale = scale, .buffer = buffer, .out = out};
    SR_TRY(run(&j));
    if (jpeg->errors.num_warnings > 0)
        return SR_FAIL(SR_E_DATA, "JPEG: %s", jpeg->message);
    if (out->channels == 4) {
        cmyk_to_rgb(buffer->data, out->width * out->height, jpeg->info.saw_Adobe_marker);
        out->channels = 3;
    }
    return SR_OK;
}

sr_status sr_jpeg_read(sr_jpeg *jpeg, const sr_region *region, int scale, sr_pixel_buffer *buffer,
                       sr_pixels *out) {
    bool done = false;
    if (jpeg->use_builtin)
        SR_TRY(sr_jpeg_region_read(jpeg->builtin, region, scale, buffer, out, &done));
    if (done)
        return SR_OK;
    const int64_t begin = sr_clock_ns();
    const sr_status status = read_by_library(jpeg, region, scale, buffer, out);
    jpeg->times->library += sr_clock_ns() - begin;
    return status;
}
