// SPDX-License-Identifier: Apache-2.0
// Small pictures and data sets for tests of the data pipeline.
#ifndef SR_TESTS_UNIT_PICTURES_H
#define SR_TESTS_UNIT_PICTURES_H

#include <stddef.h>
#include <stdint.h>

typedef enum picture_color { PICTURE_RGB, PICTURE_GREY, PICTURE_CMYK } picture_color;

typedef struct picture_jpeg {
    picture_color color;
    int quality;   // 0: 90
    int subsample; // of chroma in both directions: 1 or 2; 0: 2
    int progressive;
    int orientation; // > 0: with an EXIF marker
} picture_jpeg;

// Smooth RGB pixels (0 <= v) that differ with 'number', [height, width, 3]; caller frees.
uint8_t *picture_make(int width, int height, uint32_t number);
// JPEG bytes of such a picture; caller frees with sr_free.
uint8_t *picture_encode(int width, int height, uint32_t number, const picture_jpeg *options,
                        size_t *bytes);

// A packed data set of JPEGs in a folder, with label i % 10. Sizes vary around width x height. With
// 'boxes': records of the detection schema, where sample i has i % 5 boxes.
void pictures_pack(const char *folder, int count, int width, int height, int boxes);
// The same without boxes, all of this size.
void pictures_pack_same(const char *folder, int count, int width, int height);
// The same with masks: class 1 where blue is high, class 0 where it is low (squares of 8 pixels).
// Every fourth picture is stored rotated (EXIF 6).
void pictures_pack_masks(const char *folder, int count, int width, int height);

// A data set to pack: pictures with classes, boxes or masks.
typedef enum pictures_kind { PICTURES_CLASSES, PICTURES_BOXES, PICTURES_MASKS } pictures_kind;
typedef struct pictures_set {
    char *folder; // as of test_folder_make
    pictures_kind kind;
    int count, width, height;
} pictures_set;
// Packs each into a new folder; removes the folders. Both return 0, as a group's set-up does.
int pictures_make_sets(const pictures_set *sets, size_t count);
int pictures_remove_sets(const pictures_set *sets, size_t count);

#endif
