// SPDX-License-Identifier: Apache-2.0
// COCO's object annotations: one JSON object with the lists images, annotations and categories, in
// any order, read as a stream. It needs memory for the largest single annotation.
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
    const char *file_name;  // valid until the call returns
    uint32_t width, height; // 0: absent
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
    const char *reason;     // begins with its "line:column: "; valid until the call returns
} sr_coco_flaw;

// The source of the text and the callbacks for its contents. A failure of a callback ends the
// parsing; its message is prefixed with the position. A mistake in an image or annotation is passed
// to 'flaw', and parsing continues after it.
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

// SR_E_DATA "path:line:column: what is wrong" for invalid JSON, for JSON that is not COCO's, and
// for invalid categories, as they define the classes. The bare words NaN and Infinity, which are
// not JSON but are written by Python, are invalid in every field.
SR_NODISCARD sr_status sr_coco_read(const sr_coco_reading *reading);

typedef enum sr_coco_verdict {
    SR_COCO_NO = 0,
    SR_COCO_YES,
    SR_COCO_BROKEN, // begins as COCO's, but is invalid in the probed part
} sr_coco_verdict;

// Reads the first MiB: does the top object have a list of images or annotations?
sr_coco_verdict sr_coco_probe(const sr_coco_reading *reading);

#ifdef __cplusplus
}
#endif
#endif
