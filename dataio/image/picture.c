// SPDX-License-Identifier: Apache-2.0
// Converts a picture for storage (rules in picture.h).
//
// Detects the type by content, checks the limits, then transcodes, keeps or re-encodes. Pixels for
// re-encoding come from the decoder that training uses, so packing and training agree on colours.
#include "dataio/image/picture.h"

#include <string.h>
#include <strings.h>

#include "dataio/image/picture_internal.h"
#include "dataio/image/resample.h"
#include "dataio/jpeg/decode.h"
#include "dataio/record/zstd_frame.h"
#include "kernels/base/memory.h"

#define CMYK_QUALITY 95
#define DEFAULT_QUALITY 90

struct sr_picture_worker {
    sr_picture_options options; // for the current picture
    picture_jpeg *jpeg;
    sr_decoder *decoder;
    sr_resampler *resampler;
    picture_bytes stream, index, pixels, planes;
    sr_zstd zstd;
    int64_t source_width, source_height; // of the last picture
};

// -- kinds -------------------------------------------------------------------------------------

static const struct {
    size_t offset, bytes;
    const char *magic, *name;
    sr_picture_kind kind;
} kinds[] = {
    {0, 3, "\xff\xd8\xff", "JPEG", SR_PICTURE_JPEG},
    {0, 8, "\x89PNG\r\n\x1a\n", "PNG", SR_PICTURE_PNG},
    {0, 6, "GIF87a", "GIF", SR_PICTURE_OTHER},
    {0, 6, "GIF89a", "GIF", SR_PICTURE_OTHER},
    {8, 4, "WEBP", "WebP", SR_PICTURE_OTHER},
    {0, 4, "II*\0", "TIFF", SR_PICTURE_OTHER},
    {0, 4, "MM\0*", "TIFF", SR_PICTURE_OTHER},
    {4, 8, "ftypavif", "AVIF", SR_PICTURE_OTHER},
    {4, 8, "ftypheic", "HEIC", SR_PICTURE_OTHER},
    {4, 8, "ftypmif1", "HEIF", SR_PICTURE_OTHER},
    {4, 8, "ftypheix", "HEIC", SR_PICTURE_OTHER},
    {4, 8, "jP  \r\n\x87\n", "JPEG 2000", SR_PICTURE_OTHER},
    {4, 8, "JXL \r\n\x87\n", "JPEG XL", SR_PICTURE_OTHER},
};

sr_picture_kind sr_picture_sniff(const uint8_t *start, size_t bytes, const char **name) {
    const char *ignored;
    if (name == NULL)
        name = &ignored;
    *name = "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (bytes >= kinds[i].offset + kinds[i].bytes &&
            memcmp(start + kinds[i].offset, kinds[i].magic, kinds[i].bytes) == 0) {
            *name = kinds[i].name;
            return kinds[i].kind;
        }
    }
    // "BM" alone is ambiguous: the two reserved numbers must be 0.
    if (bytes >= 10 && memcmp(start, "BM", 2) == 0 && memcmp(start + 6, "\0\0\0\0", 4) == 0) {
        *name = "BMP";
        return SR_PICTURE_OTHER;
    }
    return SR_PICTURE_NONE;
}

bool sr_picture_named(const char *name) {
    static const char *const endings[] = {".jpg",  ".jpeg", ".jpe",  ".jfif", ".png", ".gif",
                                          ".bmp",  ".webp", ".tiff", ".tif",  ".ppm", ".pgm",
                                          ".heic", ".avif", ".jp2",  ".jxl"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

// -- life --------------------------------------------------------------------------------------

sr_status sr_picture_worker_create(sr_picture_worker **out) {
    sr_picture_worker *worker = sr_alloc(sizeof *worker, "picture worker");
    if (worker == NULL)
        return SR_E_MEMORY;
    sr_status status = sr_picture_jpeg_create(&worker->jpeg);
    if (status == SR_OK)
        status = sr_decoder_create(&worker->decoder);
    if (status == SR_OK)
        status = sr_resampler_create(&worker->resampler);
    if (status != SR_OK) {
        sr_picture_worker_free(worker);
        return status;
    }
    *out = worker;
    return SR_OK;
}

void sr_picture_worker_free(sr_picture_worker *worker) {
    if (worker == NULL)
        return;
    sr_picture_jpeg_free(worker->jpeg);
    sr_decoder_free(worker->decoder);
    sr_resampler_free(worker->resampler);
    sr_free(worker->stream.data);
    sr_free(worker->index.data);
    sr_free(worker->pixels.data);
    sr_free(worker->planes.data);
    sr_zstd_release(&worker->zstd);
    sr_free(worker);
}

// -- encoding again ----------------------------------------------------------------------------

static int64_t shorter_side(const sr_sample *picture) {
    return picture->width < picture->height ? picture->width : picture->height;
}

// RGB of a stored picture, not turned, reduced by a power of two that leaves the shorter side at
// least 'side' (0: full size).
static sr_status read_pixels(sr_picture_worker *worker, const sr_sample *picture, int64_t side,
                             sr_pixels *out) {
    sr_encoded encoded = sr_encoded_of(picture);
    encoded.orientation = 1;
    int64_t width, height;
    SR_TRY(sr_decoder_open(worker->decoder, &encoded, &width, &height));
    int64_t shorter = width < height ? width : height;
    int scale = sr_decoder_max_scale(worker->decoder);
    while (scale > 1 && (side == 0 || shorter / scale < side))
        scale /= 2;
    sr_region all = {.width = width, .height = height};
    return sr_decoder_read(worker->decoder, &all, scale, out);
}

static sr_status fit_pixels(sr_picture_worker *worker, size_t bytes) {
    worker->pixels.bytes = bytes;
    return sr_grow(&worker->pixels.data, &worker->pixels.capacity, bytes, 1, "pixels");
}

// Segments per row of MCUs of the picture's stream; 0: no index.
static int segments_of(const sr_picture_worker *worker, const sr_sample *picture) {
    const int wanted = worker->options.segments;
    if (wanted == SR_PICTURE_NO_INDEX || shorter_side(picture) < SR_PICTURE_INDEX_SIDE)
        return 0;
    return wanted > 0 ? wanted : 1;
}

// Encodes worker->pixels (RGB; for a grey picture one of the equal channels) as out's new stream.
static sr_status encode_pixels(sr_picture_worker *worker, sr_sample *out, int quality,
                               bool subsample) {
    uint8_t *rgb = worker->pixels.data;
    int channels = out->channels == 1 ? 1 : 3;
    size_t pixels = (size_t)(out->width * out->height);
    for (size_t i = 0; channels == 1 && i < pixels; i++)
        rgb[i] = rgb[3 * i];
    SR_TRY(sr_picture_jpeg_encode(worker->jpeg, rgb, out->width, out->height, channels, quality,
                                  subsample, segments_of(worker, out), &worker->stream));
    out->data = worker->stream.data;
    out->bytes = worker->stream.bytes;
    out->encoded = true;
    out->channels = channels;
    return SR_OK;
}

// Resizes the picture's shorter side to 'side', into worker->pixels.
static sr_status shrink(sr_picture_worker *worker, int64_t side, sr_sample *out) {
    sr_pixels in;
    SR_TRY(read_pixels(worker, out, side, &in));
    int64_t shorter = shorter_side(out);
    int64_t width = (out->width * side + shorter / 2) / shorter;
    int64_t height = (out->height * side + shorter / 2) / shorter;
    SR_TRY(fit_pixels(worker, (size_t)(width * height) * 3));
    sr_resize job = {.width = (double)in.width,
                     .height = (double)in.height,
                     .output_width = width,
                     .output_height = height,
                     .window = {.width = width, .height = height}};
    SR_TRY(sr_resample(worker->resampler, &in, &job, worker->pixels.data));
    out->width = width;
    out->height = height;
    return SR_OK;
}

// Decodes the picture into worker->pixels.
static sr_status copy_pixels(sr_picture_worker *worker, const sr_sample *picture) {
    sr_pixels in;
    SR_TRY(read_pixels(worker, picture, 0, &in));
    SR_TRY(fit_pixels(worker, (size_t)(in.width * in.height) * 3));
    memcpy(worker->pixels.data, in.data, worker->pixels.bytes);
    return SR_OK;
}

static sr_status convert_cmyk(sr_picture_worker *worker, sr_sample *out) {
    SR_TRY(copy_pixels(worker, out));
    out->channels = 3;
    return encode_pixels(worker, out, CMYK_QUALITY, false);
}

// Stores 'pixels', raw or as a zstd frame.
static sr_status store_pixels(sr_picture_worker *worker, const void *pixels, int64_t channels,
                              sr_sample *out) {
    out->data = pixels;
    out->bytes = (size_t)(out->height * out->width * channels);
    out->encoded = false;
    out->channels = channels;
    if (!worker->options.zstd)
        return SR_OK;
    SR_TRY(sr_zstd_compress(&worker->zstd, pixels, out->bytes, &worker->stream.data,
                            &worker->stream.capacity, &worker->stream.bytes));
    out->data = worker->stream.data;
    out->bytes = worker->stream.bytes;
    out->zstd = true;
    return SR_OK;
}

// Resizes the picture or stores it as pixels, according to the options.
static sr_status convert(sr_picture_worker *worker, sr_sample *out, unsigned *flags) {
    const sr_picture_options *o = &worker->options;
    const bool smaller = o->max_side > 0 && shorter_side(out) > o->max_side;
    if (smaller) {
        SR_TRY(shrink(worker, o->max_side, out));
        *flags |= SR_PICTURE_WAS_RESIZED;
    } else if (o->raw) {
        SR_TRY(copy_pixels(worker, out));
    }
    if (smaller && !o->raw)
        return encode_pixels(worker, out, o->quality ? o->quality : DEFAULT_QUALITY, true);
    return o->raw ? store_pixels(worker, worker->pixels.data, 3, out) : SR_OK;
}

// -- one picture -------------------------------------------------------------------------------

static sr_status normalise_jpeg(sr_picture_worker *worker, const uint8_t *data, size_t bytes,
                                sr_sample *out, unsigned *flags) {
    jpeg_facts facts;
    SR_TRY(sr_picture_jpeg_probe(worker->jpeg, data, bytes, &facts));
    *out = (sr_sample){.data = data,
                       .bytes = bytes,
                       .encoded = true,
                       .height = facts.height,
                       .width = facts.width,
                       .channels = facts.components,
                       .orientation = facts.orientation};
    *flags |= (facts.progressive ? (unsigned)SR_PICTURE_IS_PROGRESSIVE : 0u) |
              (facts.components == 1 ? (unsigned)SR_PICTURE_IS_GREY : 0u) |
              (facts.cmyk ? (unsigned)SR_PICTURE_IS_CMYK : 0u);
    // Also for CMYK, where the stream is discarded: transcoding checks the whole source.
    SR_TRY(sr_picture_jpeg_transcode(worker->jpeg, data, bytes, segments_of(worker, out),
                                     &worker->stream));
    if (facts.cmyk)
        return convert_cmyk(worker, out);
    out->data = worker->stream.data;
    out->bytes = worker->stream.bytes;
    return SR_OK;
}

static sr_status add_index(sr_picture_worker *worker, sr_sample *out) {
    if (segments_of(worker, out) == 0 || !out->encoded ||
        sr_picture_sniff(out->data, out->bytes, NULL) != SR_PICTURE_JPEG)
        return SR_OK;
    SR_TRY(sr_picture_jpeg_index(out->data, out->bytes, &worker->index));
    out->segments = worker->index.data;
    out->segment_count = worker->index.bytes / 4;
    return SR_OK;
}

static sr_status refuse_kind(const uint8_t *data, size_t bytes) {
    const char *name;
    if (bytes == 0)
        return SR_FAIL(SR_E_DATA, "empty file");
    if (sr_picture_sniff(data, bytes, &name) == SR_PICTURE_OTHER)
        return SR_FAIL(SR_E_DATA, "%s is not supported; convert it to JPEG or PNG", name);
    return SR_FAIL(SR_E_DATA, "not a picture: its content is neither JPEG nor PNG");
}

static sr_status check_length(size_t bytes) {
    if (bytes <= SR_PICTURE_MAX_BYTES)
        return SR_OK;
    return SR_FAIL(SR_E_LIMIT, "%zu MiB, over the limit of %llu MiB", bytes >> 20,
                   (unsigned long long)(SR_PICTURE_MAX_BYTES >> 20));
}

sr_status sr_picture_check(sr_picture_worker *worker, const uint8_t *data, size_t bytes) {
    sr_sample sample = {0};
    unsigned flags = 0;
    SR_TRY(check_length(bytes));
    sr_picture_kind kind = sr_picture_sniff(data, bytes, NULL);
    if (kind == SR_PICTURE_JPEG)
        return sr_picture_jpeg_transcode(worker->jpeg, data, bytes, 0, NULL);
    if (kind == SR_PICTURE_PNG)
        return sr_picture_png(data, bytes, &worker->pixels, &worker->stream, &sample, &flags);
    return refuse_kind(data, bytes);
}

sr_status sr_picture_normalise(sr_picture_worker *worker, const uint8_t *data, size_t bytes,
                               const sr_picture_options *options, sr_sample *out, unsigned *flags) {
    sr_sample sample = {.orientation = 1};
    unsigned met = 0;
    worker->options = *options;
    SR_TRY(check_length(bytes));
    sr_picture_kind kind = sr_picture_sniff(data, bytes, NULL);
    if (kind == SR_PICTURE_JPEG)
        SR_TRY(normalise_jpeg(worker, data, bytes, &sample, &met));
    else if (kind == SR_PICTURE_PNG)
        SR_TRY(sr_picture_png(data, bytes, &worker->pixels, &worker->stream, &sample, &met));
    else
        return refuse_kind(data, bytes);
    worker->source_width = sample.width;
    worker->source_height = sample.height;
    SR_TRY(convert(worker, &sample, &met));
    SR_TRY(add_index(worker, &sample));
    if (sample.orientation > 1)
        met |= SR_PICTURE_IS_ORIENTED;
    sample.label = out->label;
    sample.name = out->name;
    sample.name_bytes = out->name_bytes;
    *out = sample;
    *flags = met;
    return SR_OK;
}

void sr_picture_source_size(const sr_picture_worker *worker, int64_t *width, int64_t *height) {
    *width = worker->source_width;
    *height = worker->source_height;
}

// [channels, height, width] -> [height, width, channels], into worker->planes.
static sr_status interleave(sr_picture_worker *worker, const uint8_t *data, size_t pixels,
                            size_t channels) {
    SR_TRY(sr_grow(&worker->planes.data, &worker->planes.capacity, pixels * channels, 1, "pixels"));
    uint8_t *out = worker->planes.data;
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < channels; c++)
            *out++ = data[c * pixels + i];
    return SR_OK;
}

sr_status sr_picture_normalise_pixels(sr_picture_worker *worker, const uint8_t *data,
                                      int64_t height, int64_t width, int64_t channels, bool planes,
                                      const sr_picture_options *options, sr_sample *out,
                                      unsigned *flags) {
    worker->options = *options;
    worker->source_width = width;
    worker->source_height = height;
    *flags = 0;
    if (planes && channels > 1) {
        SR_TRY(interleave(worker, data, (size_t)(height * width), (size_t)channels));
        data = worker->planes.data;
    }
    sr_sample sample = {.data = data,
                        .bytes = (size_t)(height * width * channels),
                        .height = height,
                        .width = width,
                        .channels = channels,
                        .orientation = 1,
                        .label = out->label,
                        .name = out->name,
                        .name_bytes = out->name_bytes};
    const void *pixels = data;
    if (options->max_side > 0 && shorter_side(&sample) > options->max_side) {
        SR_TRY(shrink(worker, options->max_side, &sample));
        *flags |= SR_PICTURE_WAS_RESIZED;
        pixels = worker->pixels.data; // of three channels
        channels = 3;
    }
    SR_TRY(store_pixels(worker, pixels, channels, &sample));
    *out = sample;
    return SR_OK;
}

sr_status sr_picture_sum(sr_picture_worker *worker, const sr_sample *picture,
                         sr_channel_sums *sums) {
    sr_pixels pixels;
    SR_TRY(read_pixels(worker, picture, 0, &pixels));
    sr_channel_sums_add_rgb(sums, pixels.data, (uint64_t)(pixels.width * pixels.height));
    return SR_OK;
}
