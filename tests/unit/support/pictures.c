// SPDX-License-Identifier: Apache-2.0
// See pictures.h.
#include "tests/unit/support/pictures.h"

#include "tests/unit/support/test_support.h"

#include <jpeglib.h>

#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "dataio/record/zstd_frame.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"

uint8_t *picture_make(int width, int height, uint32_t number) {
    uint8_t *p = sr_alloc((size_t)(width * height) * 3, "picture");
    sr_rng4 r = sr_philox(77, number, 0, 0, 0);
    int a = (int)(r.v[0] % 200) + 20, b = (int)(r.v[1] % 7) + 1, c = (int)(r.v[2] % 5) + 1;
    for (int i = 0; i < width * height; i++) {
        int x = i % width, y = i / width;
        uint8_t *q = p + 3 * (size_t)i;
        int ramp = (x * b + y * c) % 512;
        q[0] = (uint8_t)(ramp < 256 ? ramp : 511 - ramp);
        q[1] = (uint8_t)((a + x * 255 / width) / 2);
        q[2] = (uint8_t)(((x / 8 + y / 8) % 2) * 120 + a / 2);
    }
    return p;
}

static void write_exif(struct jpeg_compress_struct *info, int orientation) {
    JOCTET exif[] = {'E', 'x', 'i', 'f',  0,    0, 'M', 'M', 0, 42, 0, 0, 0,
                     8,   0,   1,   0x01, 0x12, 0, 3,   0,   0, 0,  1, 0, (JOCTET)orientation,
                     0,   0,   0,   0,    0,    0};
    jpeg_write_marker(info, JPEG_APP0 + 1, exif, sizeof exif);
}

static void setup(struct jpeg_compress_struct *info, const picture_jpeg *o) {
    info->input_components = o->color == PICTURE_GREY ? 1 : o->color == PICTURE_CMYK ? 4 : 3;
    info->in_color_space = o->color == PICTURE_GREY   ? JCS_GRAYSCALE
                           : o->color == PICTURE_CMYK ? JCS_CMYK
                                                      : JCS_RGB;
    jpeg_set_defaults(info);
    jpeg_set_quality(info, o->quality ? o->quality : 90, TRUE);
    if (o->color == PICTURE_RGB)
        info->comp_info[0].h_samp_factor = info->comp_info[0].v_samp_factor =
            o->subsample ? o->subsample : 2;
    if (o->progressive)
        jpeg_simple_progression(info);
    jpeg_start_compress(info, TRUE);
    if (o->orientation > 0)
        write_exif(info, o->orientation);
}

uint8_t *picture_encode(int width, int height, uint32_t number, const picture_jpeg *options,
                        size_t *bytes) {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long size = 0;
    uint8_t *pixels = picture_make(width, height, number);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &out, &size);
    info.image_width = (JDIMENSION)width;
    info.image_height = (JDIMENSION)height;
    setup(&info, options);
    uint8_t *line = sr_alloc((size_t)width * 4, "line");
    for (int y = 0; y < height; y++) {
        const uint8_t *from = pixels + 3 * (size_t)(y * width);
        for (int x = 0; x < width; x++)
            for (int c = 0; c < info.input_components; c++)
                line[x * info.input_components + c] = c < 3 ? from[3 * x + c] : 200;
        (void)jpeg_write_scanlines(&info, &line, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    uint8_t *copy = sr_alloc(size, "JPEG");
    memcpy(copy, out, size);
    *bytes = size;
    free(out);
    sr_free(line);
    sr_free(pixels);
    return copy;
}

static void write_boxes(sr_record_writer *writer, const sr_sample *sample, int i) {
    sr_object objects[4];
    const char *const names[] = {"cat", "dog"};
    int n = i % 5;
    for (int k = 0; k < n; k++) {
        objects[k] = (sr_object){.name = names[k % 2],
                                 .name_bytes = 3,
                                 .label = k < 2 ? k % 2 : -1, // the others have only a name
                                 .xmin = 2 + 3 * k,
                                 .ymin = 3 + 2 * k,
                                 .xmax = 12 + 3 * k,
                                 .ymax = 14 + 2 * k};
    }
    assert_ok(sr_detection_write(writer, sample, objects, (size_t)n));
}

static void pack(const char *folder, int count, int width, int height, int boxes, int varying) {
    static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    static const char *const animals[] = {"cat", "dog"};
    sr_writer_options options = {.folder = folder,
                                 .classes = boxes ? animals : digits,
                                 .class_count = boxes ? 2 : 10,
                                 .protocol = boxes ? SR_DETECTION_PROTOCOL : NULL,
                                 .target_bytes = 64 << 10};
    sr_writer *writer;
    sr_record_writer record = {0};
    assert_ok(sr_writer_open(&options, &writer));
    for (int i = 0; i < count; i++) {
        picture_jpeg jpeg = {.color = i % 11 == 3 ? PICTURE_GREY : PICTURE_RGB};
        int w = width + (varying ? i % 3 : 0), h = height + (varying ? i % 5 : 0);
        size_t bytes;
        uint8_t *data = picture_encode(w, h, (uint32_t)i, &jpeg, &bytes);
        char name[32];
        int n = snprintf(name, sizeof name, "picture-%d.jpg", i);
        sr_sample sample = {.data = data,
                            .bytes = bytes,
                            .encoded = true,
                            .height = h,
                            .width = w,
                            .channels = 3,
                            .label = i % 10,
                            .orientation = 1,
                            .name = name,
                            .name_bytes = (size_t)n};
        if (boxes)
            write_boxes(&record, &sample, i);
        else
            assert_ok(sr_sample_write(&record, &sample));
        assert_ok(sr_writer_append(writer, record.data, record.bytes));
        sr_free(data);
    }
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
}

void pictures_pack(const char *folder, int count, int width, int height, int boxes) {
    pack(folder, count, width, height, boxes, !boxes);
}

void pictures_pack_same(const char *folder, int count, int width, int height) {
    pack(folder, count, width, height, 0, 0);
}

// The squares of picture_make.
static size_t make_mask(sr_zstd *zstd, int width, int height, void **frame, size_t *capacity) {
    size_t bytes;
    const size_t pixels = (size_t)width * (size_t)height;
    uint8_t *mask = sr_alloc(pixels, "mask");
    for (int i = 0; i < width * height; i++)
        mask[i] = (uint8_t)((i % width / 8 + i / width / 8) % 2);
    assert_ok(sr_zstd_compress(zstd, mask, pixels, frame, capacity, &bytes));
    sr_free(mask);
    return bytes;
}

void pictures_pack_masks(const char *folder, int count, int width, int height) {
    static const char *const classes[] = {"low", "high"};
    const sr_writer_options options = {.folder = folder,
                                       .classes = classes,
                                       .class_count = 2,
                                       .protocol = SR_SEGMENTATION_PROTOCOL,
                                       .target_bytes = 64 << 10};
    sr_writer *writer;
    sr_record_writer record = {0};
    sr_zstd zstd = {0};
    void *frame = NULL;
    size_t capacity = 0;
    assert_ok(sr_writer_open(&options, &writer));
    for (int i = 0; i < count; i++) {
        size_t bytes;
        uint8_t *data = picture_encode(width, height, (uint32_t)i, &(picture_jpeg){0}, &bytes);
        const size_t mask_bytes = make_mask(&zstd, width, height, &frame, &capacity);
        const sr_sample sample = {.data = data,
                                  .bytes = bytes,
                                  .encoded = true,
                                  .height = height,
                                  .width = width,
                                  .channels = 3,
                                  .label = -1,
                                  .orientation = i % 4 == 3 ? 6 : 1,
                                  .mask = frame,
                                  .mask_bytes = mask_bytes};
        assert_ok(sr_sample_write(&record, &sample));
        assert_ok(sr_writer_append(writer, record.data, record.bytes));
        sr_free(data);
    }
    assert_ok(sr_writer_close(writer));
    sr_record_writer_release(&record);
    sr_zstd_release(&zstd);
    sr_free(frame);
}

int pictures_make_sets(const pictures_set *sets, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const pictures_set *s = &sets[i];
        test_folder_make(s->folder);
        if (s->kind == PICTURES_MASKS)
            pictures_pack_masks(s->folder, s->count, s->width, s->height);
        else
            pictures_pack(s->folder, s->count, s->width, s->height, s->kind == PICTURES_BOXES);
    }
    return 0;
}

int pictures_remove_sets(const pictures_set *sets, size_t count) {
    for (size_t i = 0; i < count; i++)
        test_folder_remove(sets[i].folder);
    return 0;
}
