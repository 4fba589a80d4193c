// SPDX-License-Identifier: Apache-2.0
// JPEG for storage: probing, lossless transcoding, encoding, and the index of rows.
//
// Transcoding reads the quantised coefficients and writes them with another entropy coding, like
// jpegtran; it reads every bit of the source, so damage is detected. libjpeg reports errors through
// error_exit (which must not return: longjmp) and warnings through emit_message (treated as
// errors). Source: libjpeg-turbo 2.1 libjpeg.txt, "Really raw data: DCT coefficients"; T.81 for
// markers. Decoding to pixels is in decode_jpeg.c.
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "dataio/image/picture_internal.h"
#include "dataio/jpeg/exif.h"
#include "kernels/base/memory.h"

struct picture_jpeg {
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_destination_mgr destination;
    picture_bytes *target;
    jmp_buf escape;
    sr_status status; // set where the failure is not libjpeg's
    char message[JMSG_LENGTH_MAX];
    bool in_made, out_made;
};

// -- libjpeg's callbacks -----------------------------------------------------------------------

static _Noreturn void stop(picture_jpeg *jpeg, sr_status status) {
    jpeg->status = status;
    longjmp(jpeg->escape, 1);
}

static _Noreturn void on_error(j_common_ptr info) {
    picture_jpeg *jpeg = info->client_data;
    if (info->err->msg_code == JERR_NO_BACKING_STORE) // it would need memory beyond the limit
        stop(jpeg, SR_FAIL(SR_E_LIMIT, "JPEG: decoding needs more than %ld MiB of memory",
                           SR_PICTURE_MAX_MEMORY >> 20));
    jpeg->errors.format_message(info, jpeg->message);
    longjmp(jpeg->escape, 1);
}

static void on_message(j_common_ptr info, int level) {
    if (level < 0)
        on_error(info);
}

static void on_progress(j_common_ptr info) {
    picture_jpeg *jpeg = info->client_data;
    if (info->is_decompressor && jpeg->in.input_scan_number > SR_PICTURE_MAX_SCANS)
        stop(jpeg, SR_FAIL(SR_E_LIMIT, "JPEG: more than %d scans", SR_PICTURE_MAX_SCANS));
}

static void make_room(picture_jpeg *jpeg, size_t used, size_t need) {
    picture_bytes *target = jpeg->target;
    sr_status status = sr_grow(&target->data, &target->capacity, need, 1, "JPEG stream");
    if (status != SR_OK)
        stop(jpeg, status);
    jpeg->destination.next_output_byte = (JOCTET *)target->data + used;
    jpeg->destination.free_in_buffer = target->capacity - used;
}

static void on_start(j_compress_ptr info) {
    make_room(info->client_data, 0, 4096);
}

static boolean on_full(j_compress_ptr info) {
    picture_jpeg *jpeg = info->client_data;
    size_t used = jpeg->target->capacity;
    make_room(jpeg, used, 2 * used);
    return TRUE;
}

static void on_end(j_compress_ptr info) {
    picture_jpeg *jpeg = info->client_data;
    jpeg->target->bytes = jpeg->target->capacity - jpeg->destination.free_in_buffer;
}

// -- life --------------------------------------------------------------------------------------

static void make_objects(picture_jpeg *jpeg) {
    jpeg_create_decompress(&jpeg->in);
    jpeg->in_made = true;
    jpeg_create_compress(&jpeg->out);
    jpeg->out_made = true;
    jpeg->in.mem->max_memory_to_use = SR_PICTURE_MAX_MEMORY;
    jpeg->out.mem->max_memory_to_use = SR_PICTURE_MAX_MEMORY;
    jpeg->in.progress = &jpeg->progress;
    jpeg_save_markers(&jpeg->in, JPEG_APP0 + 1, 0xffff);
    jpeg->out.dest = &jpeg->destination;
}

sr_status sr_picture_jpeg_create(picture_jpeg **out) {
    picture_jpeg *jpeg = sr_alloc(sizeof *jpeg, "JPEG transcoder");
    if (jpeg == NULL)
        return SR_E_MEMORY;
    jpeg->in.err = jpeg_std_error(&jpeg->errors);
    jpeg->out.err = &jpeg->errors;
    jpeg->in.client_data = jpeg->out.client_data = jpeg;
    jpeg->errors.error_exit = on_error;
    jpeg->errors.emit_message = on_message;
    jpeg->progress.progress_monitor = on_progress;
    jpeg->destination.init_destination = on_start;
    jpeg->destination.empty_output_buffer = on_full;
    jpeg->destination.term_destination = on_end;
    if (setjmp(jpeg->escape) != 0) {
        sr_status status = SR_FAIL(SR_E_MEMORY, "JPEG transcoder: %s", jpeg->message);
        sr_picture_jpeg_free(jpeg);
        return status;
    }
    make_objects(jpeg);
    *out = jpeg;
    return SR_OK;
}

void sr_picture_jpeg_free(picture_jpeg *jpeg) {
    if (jpeg == NULL)
        return;
    if (jpeg->in_made)
        jpeg_destroy_decompress(&jpeg->in);
    if (jpeg->out_made)
        jpeg_destroy_compress(&jpeg->out);
    sr_free(jpeg);
}

// -- calls with an error handler ---------------------------------------------------------------

typedef struct jpeg_job {
    const uint8_t *data;
    size_t bytes;
    int segments;
    jpeg_facts facts;
    // encoding only
    int64_t width, height;
    int channels, quality;
    bool subsample;
} jpeg_job;

static sr_status run(picture_jpeg *jpeg, jpeg_job *j, void (*work)(picture_jpeg *, jpeg_job *)) {
    jpeg->status = SR_OK;
    if (setjmp(jpeg->escape) != 0) {
        sr_status status = jpeg->status;
        if (status == SR_OK)
            status = SR_FAIL(SR_E_DATA, "JPEG: %s", jpeg->message);
        jpeg_abort_decompress(&jpeg->in);
        jpeg_abort_compress(&jpeg->out);
        return status;
    }
    work(jpeg, j);
    jpeg_abort_decompress(&jpeg->in);
    jpeg_abort_compress(&jpeg->out);
    return SR_OK;
}

static int find_orientation(const struct jpeg_decompress_struct *in) {
    for (jpeg_saved_marker_ptr m = in->marker_list; m != NULL; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && sr_exif_of_marker(m->data, m->data_length) != 1)
            return sr_exif_of_marker(m->data, m->data_length);
    return 1;
}

static void read_header(picture_jpeg *jpeg, jpeg_job *j) {
    struct jpeg_decompress_struct *in = &jpeg->in;
    jpeg_mem_src(in, j->data, j->bytes);
    (void)jpeg_read_header(in, TRUE);
    int64_t width = in->image_width, height = in->image_height;
    if (width * height > SR_PICTURE_MAX_PIXELS)
        stop(jpeg, SR_FAIL(SR_E_LIMIT, "JPEG: %lld x %lld is over the limit of %lld Mpx",
                           (long long)width, (long long)height,
                           (long long)(SR_PICTURE_MAX_PIXELS >> 20)));
    bool cmyk = in->jpeg_color_space == JCS_CMYK || in->jpeg_color_space == JCS_YCCK;
    if (!cmyk && in->jpeg_color_space != JCS_GRAYSCALE && in->jpeg_color_space != JCS_YCbCr &&
        in->jpeg_color_space != JCS_RGB)
        stop(jpeg, SR_FAIL(SR_E_DATA, "JPEG: %d components in an unknown colour space",
                           in->num_components));
    j->facts = (jpeg_facts){.width = width,
                            .height = height,
                            .components = in->num_components,
                            .orientation = find_orientation(in),
                            .progressive = in->progressive_mode,
                            .cmyk = cmyk};
}

sr_status sr_picture_jpeg_probe(picture_jpeg *jpeg, const uint8_t *data, size_t bytes,
                                jpeg_facts *out) {
    jpeg_job j = {.data = data, .bytes = bytes};
    SR_TRY(run(jpeg, &j, read_header));
    *out = j.facts;
    return SR_OK;
}

// MCUs per segment: a row of MCUs is divided into the largest number of equal segments, at most
// 'segments'.
static unsigned interval_of(const struct jpeg_compress_struct *out, int segments) {
    unsigned most = 1;
    for (int c = 0; c < out->num_components && out->num_components > 1; c++)
        if ((unsigned)out->comp_info[c].h_samp_factor > most)
            most = (unsigned)out->comp_info[c].h_samp_factor;
    const unsigned columns = (out->image_width + DCTSIZE * most - 1) / (DCTSIZE * most);
    unsigned parts = (unsigned)segments;
    while (parts > 1 && columns % parts != 0)
        parts--;
    return parts > 0 ? columns / parts : 0;
}

static void transcode(picture_jpeg *jpeg, jpeg_job *j) {
    read_header(jpeg, j);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&jpeg->in);
    if (jpeg->target == NULL)
        return;
    jpeg_copy_critical_parameters(&jpeg->in, &jpeg->out);
    jpeg->out.optimize_coding = TRUE;
    jpeg->out.arith_code = FALSE;
    jpeg->out.restart_interval = interval_of(&jpeg->out, j->segments);
    jpeg_write_coefficients(&jpeg->out, coefficients);
    jpeg_finish_compress(&jpeg->out);
    (void)jpeg_finish_decompress(&jpeg->in);
}

sr_status sr_picture_jpeg_transcode(picture_jpeg *jpeg, const uint8_t *data, size_t bytes,
                                    int segments, picture_bytes *out) {
    jpeg_job j = {.data = data, .bytes = bytes, .segments = segments};
    jpeg->target = out;
    return run(jpeg, &j, transcode);
}

static void encode(picture_jpeg *jpeg, jpeg_job *j) {
    struct jpeg_compress_struct *out = &jpeg->out;
    out->image_width = (JDIMENSION)j->width;
    out->image_height = (JDIMENSION)j->height;
    out->input_components = j->channels;
    out->in_color_space = j->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(out);
    jpeg_set_quality(out, j->quality, TRUE);
    if (!j->subsample)
        out->comp_info[0].h_samp_factor = out->comp_info[0].v_samp_factor = 1;
    out->optimize_coding = TRUE;
    out->dct_method = JDCT_ISLOW;
    out->restart_interval = interval_of(out, j->segments);
    jpeg_start_compress(out, TRUE);
    size_t stride = (size_t)(j->width * j->channels);
    while (out->next_scanline < out->image_height) {
        union { // libjpeg's type of input rows is not const
            const uint8_t *in;
            JSAMPROW row;
        } line = {.in = j->data + stride * out->next_scanline};
        (void)jpeg_write_scanlines(out, &line.row, 1);
    }
    jpeg_finish_compress(out);
}

sr_status sr_picture_jpeg_encode(picture_jpeg *jpeg, const uint8_t *pixels, int64_t width,
                                 int64_t height, int channels, int quality, bool subsample,
                                 int segments, picture_bytes *out) {
    jpeg_job j = {.data = pixels,
                  .segments = segments,
                  .width = width,
                  .height = height,
                  .channels = channels,
                  .quality = quality,
                  .subsample = subsample};
    jpeg->target = out;
    return run(jpeg, &j, encode);
}

// -- the index of rows -------------------------------------------------------------------------

// Offset of the entropy-coded data of the first scan; 0 when there is none.
static size_t find_scan(const uint8_t *data, size_t bytes) {
    size_t at = 2;
    while (at + 4 <= bytes && data[at] == 0xff) {
        size_t length = 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
        if (length > bytes - at)
            return 0;
        bool scan = data[at + 1] == 0xda;
        at += length;
        if (scan)
            return at;
    }
    return 0;
}

static sr_status add_offset(picture_bytes *out, size_t offset) {
    SR_TRY(sr_grow(&out->data, &out->capacity, out->bytes + 4, 1, "row index"));
    uint8_t *at = (uint8_t *)out->data + out->bytes;
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(offset >> 8 * i);
    out->bytes += 4;
    return SR_OK;
}

sr_status sr_picture_jpeg_index(const uint8_t *data, size_t bytes, picture_bytes *out) {
    size_t at = find_scan(data, bytes);
    out->bytes = 0;
    if (at == 0)
        return SR_FAIL(SR_E_INTERNAL, "JPEG: the stream just written has no scan");
    SR_TRY(add_offset(out, at));
    while (at + 1 < bytes) {
        const uint8_t *found = memchr(data + at, 0xff, bytes - 1 - at);
        if (found == NULL)
            break;
        at = (size_t)(found - data);
        uint8_t marker = data[at + 1];
        if (marker == 0xd9)
            return add_offset(out, at);
        at += 2;
        if (marker >= 0xd0 && marker <= 0xd7)
            SR_TRY(add_offset(out, at));
        else if (marker != 0)
            break;
    }
    return SR_FAIL(SR_E_INTERNAL, "JPEG: the stream just written has no end marker");
}
