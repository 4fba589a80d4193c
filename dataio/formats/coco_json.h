// SPDX-License-Identifier: Apache-2.0
// COCO's object annotations: one JSON object with the lists images, annotations and categories, in
// any order, read as a stream. Memory is that of the largest single annotation.
#ifndef SR_DATAIO_COCO_JSON_H
#define SR_DATAIO_COCO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataio/import/annotations.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_coco_image {
    int64_t id;
    const char *file_name;  // until the call returns
    uint32_t width, height; // 0: not told
} sr_coco_image;

typedef struct sr_coco_annotation {
    int64_t image, category;
    sr_annotation object; // its label and file are unset; number: the annotation's id, or -1
} sr_coco_annotation;

// An image or annotation that cannot be used.
typedef struct sr_coco_flaw {
    bool annotation;        // else an image
    bool has_id, has_image; // which ids were read
    int64_t id, image;      // of itself; of an annotation's image
    const char *file_name;  // of an image; "" where it was not read
    const char *reason;     // begins with its "line:column: "; until the call returns
} sr_coco_flaw;

// Where the text comes from and where its parts go. A failure of a call ends the reading; its
// message gets the place in front. What is wrong inside of an image or annotation goes to 'flaw',
// and the reading goes on behind it.
typedef struct sr_coco_reading {
    const char *path; // for messages
    uint64_t bytes;   // of the whole text
    void *user;
    sr_status (*read)(void *user, uint64_t offset, void *out, size_t bytes);
    sr_status (*image)(void *user, const sr_coco_image *image);
    sr_status (*annotation)(void *user, const sr_coco_annotation *annotation);
    sr_status (*category)(void *user, int64_t id, const char *name);
    sr_status (*flaw)(void *user, const sr_coco_flaw *flaw);
} sr_coco_reading;

// SR_E_DATA "path:line:column: what is wrong" for broken JSON, for JSON that is not COCO's, and for
// categories that are wrong, as they decide the classes. The bare words NaN and Infinity, which are
// no JSON but are written by Python, are numbers that no field takes.
SR_NODISCARD sr_status sr_coco_read(const sr_coco_reading *reading);

typedef enum sr_coco_verdict {
    SR_COCO_NO = 0,
    SR_COCO_YES,
    SR_COCO_BROKEN, // begins as COCO's, but cannot be read so far
} sr_coco_verdict;

// Looks at the first MiB: has the top object a list of images or annotations?
sr_coco_verdict sr_coco_probe(const sr_coco_reading *reading);

#ifdef __cplusplus
}
#endif
#endif
