// SPDX-License-Identifier: Apache-2.0
// Digests of the data path: JPEGs of each kind at each scale, and each transform on samples with
// boxes, as the pipeline delivers them in its order.
#include "tests/numerics/numerics_digests.h"

#include "dataio/jpeg/decode.h"
#include "dataio/pipeline/data_numerics.h"
#include "dataio/pipeline/pipeline.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { WIDTH = 101, HEIGHT = 75, SIDE = 48, PICTURES = 24, BATCH = 8 };

static void print_row(const char *kind, const char *name, uint64_t hash) {
    printf("%s/%s data %016llx\n", kind, name, (unsigned long long)hash);
}

// ---- decoding ----

// The whole picture and a region, at every scale.
static uint64_t decode(const picture_jpeg *kind) {
    static const sr_region regions[] = {{0, 0, WIDTH, HEIGHT}, {19, 9, 50, 40}};
    sr_decoder *decoder;
    sr_encoded encoded = {0};
    int64_t width, height;
    uint64_t hash = 0;
    uint8_t *bytes = picture_encode(WIDTH, HEIGHT, 5, kind, &encoded.bytes);
    encoded.data = bytes;
    assert_ok(sr_decoder_create(&decoder));
    assert_ok(sr_decoder_open(decoder, &encoded, &width, &height));
    for (int scale = 1; scale <= sr_decoder_max_scale(decoder); scale *= 2) {
        for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++) {
            sr_pixels pixels;
            assert_ok(sr_decoder_read(decoder, &regions[i], scale, &pixels));
            hash = sr_hash64_seed(pixels.data,
                                  (size_t)(pixels.width * pixels.height * pixels.channels), hash);
        }
    }
    sr_decoder_free(decoder);
    sr_free(bytes);
    return hash;
}

static void print_decoding(void) {
    static const struct {
        const char *name;
        picture_jpeg kind;
    } kinds[] = {
        {"420", {.quality = 85}},
        {"444", {.subsample = 1}},
        {"grey", {.color = PICTURE_GREY}},
        {"cmyk", {.color = PICTURE_CMYK}},
        {"progressive", {.progressive = 1}},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        print_row("jpeg", kinds[i].name, decode(&kinds[i].kind));
}

// ---- augmentation ----

static uint64_t hash_slot(const sr_slot *slot, uint64_t hash) {
    for (int i = 0; i < slot->arrays; i++) {
        const sr_array *a = &slot->array[i];
        size_t bytes = sr_dtype_size(a->dtype);
        for (int k = 1; k < a->rank; k++)
            bytes *= (size_t)a->shape[k];
        hash = sr_hash64_seed(a->data, bytes * (size_t)a->count, hash);
    }
    return hash;
}

static uint64_t augment(const char *folder, const char *transform, const char *arguments) {
    const sr_transform_spec specs[] = {{transform, arguments}, {"resize", "stretch=true"}};
    const sr_pipeline_options options = {.dataset = folder,
                                         .split = "train",
                                         .transformer = "detect",
                                         .transforms = specs,
                                         .transform_count = 2,
                                         .image_height = SIDE,
                                         .image_width = SIDE,
                                         .order = SR_ORDER_EXAMPLES,
                                         .seed = 5,
                                         .batch = BATCH,
                                         .lanes = 1,
                                         .lane_end = 1,
                                         .steps = PICTURES / BATCH,
                                         .workers = 1,
                                         .threads = true};
    sr_pipeline *pipeline;
    uint64_t hash = 0;
    assert_ok(sr_pipeline_open(&options, &pipeline));
    for (bool end = false; !end;) {
        sr_slot slot;
        assert_ok(sr_pipeline_next(pipeline, &slot, &end));
        if (!end) {
            hash = hash_slot(&slot, hash);
            sr_pipeline_release(pipeline, &slot);
        }
    }
    sr_pipeline_close(pipeline);
    return hash;
}

// Arguments for transforms that draw little, or nothing, by default.
static const char *arguments_of(const char *transform) {
    static const char *const given[][2] = {
        {"color_jitter", "brightness=0.4 contrast=0.4 saturation=0.4 hue=0.2"},
        {"cutout", "size=20"},
        {"grayscale", "probability=0.5"},
        {"pad", "size=[7]"},
        {"pad_crop", "pad=9"},
        {"random_affine", "degrees=[-20, 20] scale=[0.5, 1.5] shear=[-9, 9, -3, 3]"},
        {"rotate", "degrees=[-40, 40]"},
        {"shear", "x=[-20, 20]"},
        {"translate", "x=0.3 y=0.2"},
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (strcmp(given[i][0], transform) == 0)
            return given[i][1];
    return NULL;
}

static void print_augmentation(void) {
    char folder[256];
    size_t count;
    const sr_transform *const *transforms = sr_transforms(&count);
    test_folder_make(folder);
    pictures_pack(folder, PICTURES, WIDTH, HEIGHT, 1);
    for (size_t i = 0; i < count; i++)
        print_row("transform", transforms[i]->name,
                  augment(folder, transforms[i]->name, arguments_of(transforms[i]->name)));
    test_folder_remove(folder);
}

void digests_of_data(void) {
    char text[SR_DATA_NUMERICS_TEXT];
    printf("[%s]\n", sr_data_numerics(text));
    print_decoding();
    print_augmentation();
}
