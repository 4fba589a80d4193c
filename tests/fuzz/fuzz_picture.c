// SPDX-License-Identifier: Apache-2.0
// Fuzzes the way from arbitrary pictures to stored ones and back to pixels. What packing accepts
// must decode, have the reported size, and give the same bits for a region with its row index as
// without.
#include <stdlib.h>
#include <string.h>

#include "dataio/image/picture.h"
#include "dataio/jpeg/decode.h"
#include "dataio/jpeg/exif.h"
#include "kernels/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_PIXELS 1000000 // larger ones only cost time

static void require(bool fine) {
    if (!fine)
        abort();
}

static const uint8_t *pixel(const sr_pixels *p, int64_t x, int64_t y) {
    require(x >= p->x && y >= p->y && x < p->x + p->width && y < p->y + p->height);
    return p->data + 3 * ((y - p->y) * p->width + x - p->x);
}

static void check_stored(const sr_sample *stored, sr_decoder *whole, sr_decoder *part) {
    sr_encoded indexed = sr_encoded_of(stored), plain = indexed;
    plain.segments = NULL;
    int64_t width, height;
    sr_pixels all, some;
    require(sr_decoder_open(whole, &plain, &width, &height) == SR_OK);
    bool turned = stored->orientation >= 5;
    require(width == (turned ? stored->height : stored->width));
    require(height == (turned ? stored->width : stored->height));
    if (width * height > MOST_PIXELS)
        return;
    sr_region everything = {.width = width, .height = height};
    if (sr_decoder_read(whole, &everything, 1, &all) != SR_OK)
        return; // coefficients were copied losslessly, but the decoder warns of them
    sr_region r = {
        .x = width / 3, .y = height / 2, .width = 1 + width / 4, .height = 1 + height / 5};
    require(sr_decoder_open(part, &indexed, &width, &height) == SR_OK);
    require(sr_decoder_read(part, &r, 1, &some) == SR_OK);
    for (int64_t y = r.y; y < r.y + r.height; y++)
        for (int64_t x = r.x; x < r.x + r.width; x++)
            require(memcmp(pixel(&all, x, y), pixel(&some, x, y), 3) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sr_picture_worker *worker;
    sr_decoder *whole, *part;
    sr_sample stored = {0};
    unsigned flags;
    int orientation = sr_exif_orientation(data, size);
    require(orientation >= 1 && orientation <= 8);
    require(sr_picture_worker_create(&worker) == SR_OK);
    require(sr_decoder_create(&whole) == SR_OK);
    require(sr_decoder_create(&part) == SR_OK);
    sr_status checked = sr_picture_check(worker, data, size);
    sr_status status = sr_picture_normalise(worker, data, size,
                                            &(sr_picture_options){.max_side = 0}, &stored, &flags);
    require(status != SR_OK || checked == SR_OK);
    require(status != SR_E_INTERNAL);
    if (status == SR_OK)
        check_stored(&stored, whole, part);
    sr_decoder_free(whole);
    sr_decoder_free(part);
    sr_picture_worker_free(worker);
    return 0;
}
