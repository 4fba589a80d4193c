// SPDX-License-Identifier: Apache-2.0
// Writes rasters as PNG (libspng), as JPEG (libjpeg-turbo), and as characters of a terminal.
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> // needs stdio.h and stddef.h before it
#include <spng.h>

#include "kernels/base/file.h"
#include "kernels/base/text.h"
#include "trainer/draw/raster.h"

enum { JPEG_QUALITY = 92 };

// -- PNG -------------------------------------------------------------------------------------

static sr_status encode_png(spng_ctx *context, const sr_raster *raster, const char *path) {
    struct spng_ihdr header = {.width = (uint32_t)raster->width,
                               .height = (uint32_t)raster->height,
                               .bit_depth = 8,
                               .color_type = SPNG_COLOR_TYPE_TRUECOLOR};
    size_t bytes = (size_t)raster->width * (size_t)raster->height * 3;
    int error = spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
    if (error == 0)
        error = spng_set_ihdr(context, &header);
    if (error == 0)
        error = spng_encode_image(context, raster->rgb, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    void *png = NULL;
    if (error == 0)
        png = spng_get_png_buffer(context, &bytes, &error);
    if (png == NULL)
        return SR_FAIL(SR_E_SYSTEM, "%s: cannot be encoded: %s", path, spng_strerror(error));
    sr_status status = sr_file_write_atomic(path, png, bytes);
    free(png); // libspng's own memory
    return status;
}

static sr_status write_png(const sr_raster *raster, const char *path) {
    spng_ctx *context = spng_ctx_new(SPNG_CTX_ENCODER);
    if (context == NULL)
        return SR_FAIL(SR_E_MEMORY, "%s: no memory for the PNG encoder", path);
    sr_status status = encode_png(context, raster, path);
    spng_ctx_free(context);
    return status;
}

// -- JPEG ------------------------------------------------------------------------------------

typedef struct jpeg_encoder {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    jmp_buf failed; // where libjpeg returns to after an error
    char message[JMSG_LENGTH_MAX];
    unsigned char *data; // libjpeg's own memory
    unsigned long bytes;
} jpeg_encoder;

static void on_error(j_common_ptr info) {
    jpeg_encoder *e = info->client_data;
    info->err->format_message(info, e->message);
    longjmp(e->failed, 1);
}

// False after an error, whose message is kept.
static bool encode_jpeg(jpeg_encoder *e, const sr_raster *raster) {
    if (setjmp(e->failed))
        return false;
    jpeg_create_compress(&e->info);
    jpeg_mem_dest(&e->info, &e->data, &e->bytes);
    e->info.image_width = (JDIMENSION)raster->width;
    e->info.image_height = (JDIMENSION)raster->height;
    e->info.input_components = 3;
    e->info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&e->info);
    jpeg_set_quality(&e->info, JPEG_QUALITY, TRUE);
    jpeg_start_compress(&e->info, TRUE);
    while (e->info.next_scanline < e->info.image_height) {
        JSAMPROW row = raster->rgb + (size_t)e->info.next_scanline * (size_t)raster->width * 3;
        (void)jpeg_write_scanlines(&e->info, &row, 1);
    }
    jpeg_finish_compress(&e->info);
    return true;
}

static sr_status write_jpeg(const sr_raster *raster, const char *path) {
    jpeg_encoder e = {.data = NULL};
    e.info.err = jpeg_std_error(&e.errors);
    e.info.client_data = &e;
    e.errors.error_exit = on_error;
    sr_status status = encode_jpeg(&e, raster)
                           ? sr_file_write_atomic(path, e.data, e.bytes)
                           : SR_FAIL(SR_E_SYSTEM, "%s: cannot be encoded: %s", path, e.message);
    jpeg_destroy_compress(&e.info);
    free(e.data);
    return status;
}

// -- by suffix -------------------------------------------------------------------------------

typedef sr_status (*writer)(const sr_raster *raster, const char *path);

static const struct {
    const char *suffix;
    writer write;
} formats[] = {{".png", write_png}, {".jpg", write_jpeg}, {".jpeg", write_jpeg}};

static sr_status find_writer(const char *path, writer *out) {
    const char *name = strrchr(path, '/'), *suffix = strrchr(name == NULL ? path : name, '.');
    *out = write_png;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
        if (sr_text_ends_with(path, formats[i].suffix)) {
            *out = formats[i].write;
            return SR_OK;
        }
    }
    if (suffix == NULL)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE, "%s: pictures are written as .png or .jpg, not as %s", path, suffix);
}

sr_status sr_raster_check_path(const char *path) {
    writer write;
    return find_writer(path, &write);
}

sr_status sr_raster_write(const sr_raster *raster, const char *path) {
    writer write;
    SR_TRY(find_writer(path, &write));
    return write(raster, path);
}

// -- terminal --------------------------------------------------------------------------------

sr_status sr_raster_print(const sr_raster *raster, int columns, FILE *out) {
    const int width = columns < raster->width ? columns : raster->width;
    int height = (int)((int64_t)raster->height * width / raster->width + 1) / 2 * 2;
    sr_raster small;
    height = height < 2 ? 2 : height;
    SR_TRY(sr_raster_create(width, height, &small));
    sr_raster_picture(&small, 0, 0, width, height, raster->rgb, raster->width, raster->height);
    for (int y = 0; y < height; y += 2) {
        for (int x = 0; x < width; ++x) {
            const uint8_t *a = small.rgb + 3 * ((ptrdiff_t)y * width + x);
            const uint8_t *b = a + 3 * (ptrdiff_t)width;
            (void)fprintf(out, "\x1b[38;2;%d;%d;%dm\x1b[48;2;%d;%d;%dm\xe2\x96\x80", a[0], a[1],
                          a[2], b[0], b[1], b[2]);
        }
        (void)fputs("\x1b[0m\n", out);
    }
    sr_raster_release(&small);
    return SR_OK;
}
