// SPDX-License-Identifier: Apache-2.0
// Decoding with libjpeg-turbo, strictly (library_jpeg.h).
#include "tests/unit/support/library_jpeg.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

#include "kernels/base/memory.h"

typedef struct library {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    uint8_t *pixels;
    bool whole;
} library;

static _Noreturn void on_error(j_common_ptr info) {
    longjmp(((library *)info->client_data)->escape, 1);
}

static void on_message(j_common_ptr info, int level) {
    if (level < 0)
        on_error(info);
}

static void run(library *l, const void *data, size_t bytes, int scale) {
    jpeg_mem_src(&l->info, data, bytes);
    (void)jpeg_read_header(&l->info, TRUE);
    l->info.out_color_space = JCS_RGB;
    l->info.scale_denom = (unsigned)scale;
    (void)jpeg_start_decompress(&l->info);
    const size_t row = (size_t)l->info.output_width * 3;
    l->pixels = sr_alloc(row * l->info.output_height, "pixels");
    while (l->pixels && l->info.output_scanline < l->info.output_height) {
        JSAMPROW pointer = l->pixels + l->info.output_scanline * row;
        (void)jpeg_read_scanlines(&l->info, &pointer, 1);
    }
    (void)jpeg_finish_decompress(&l->info);
    l->whole = true;
}

uint8_t *library_jpeg(const void *data, size_t bytes, int scale, int64_t *width, int64_t *height) {
    library *l =
        sr_alloc(sizeof *l, "library"); // not automatic: it changes between setjmp and longjmp
    if (!l)
        return NULL;
    l->info.err = jpeg_std_error(&l->errors);
    l->errors.error_exit = on_error;
    l->errors.emit_message = on_message;
    l->info.client_data = l;
    jpeg_create_decompress(&l->info);
    if (setjmp(l->escape) == 0)
        run(l, data, bytes, scale);
    uint8_t *pixels = l->pixels;
    *width = l->info.output_width;
    *height = l->info.output_height;
    if (!l->whole) {
        sr_free(pixels);
        pixels = NULL;
    }
    jpeg_destroy_decompress(&l->info);
    sr_free(l);
    return pixels;
}
