// SPDX-License-Identifier: Apache-2.0
// Inspection of packed data: is it intact, what does it contain.
#ifndef SR_DATAIO_INSPECT_H
#define SR_DATAIO_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/record/container.h"
#include "dataio/record/dataset.h"
#include "dataio/record/record.h"
#include "dataio/record/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether the path is packed data of some container (container.h): by content, or by names where
// that is damaged.
bool sr_inspect_is(const char *path);
// The splits of a data set folder, or that of a single shard.
SR_NODISCARD sr_status sr_inspect_splits(const char *path, sr_split_list *out);
// Checks every byte of a shard, or of all splits of a folder, and that they are complete. Damage is
// reported through the callback; the status is an error only where data could not be read.
SR_NODISCARD sr_status sr_inspect_verify(const char *path, sr_damage_fn damage, void *user,
                                         sr_verify_result *result);

typedef struct sr_split_stat {
    int64_t records;
    int files;
    uint64_t bytes; // of the files
    int class_count;
    int64_t *class_records; // [class_count], by label
    double mean[3], std[3]; // of R, G, B / 255; all 0 where nothing could be decoded
    bool has_mean;
    // of pictures with boxes or masks
    bool has_boxes, has_masks;
    int64_t looked_at; // records used for the following counts: all, or evenly spaced ones
    int64_t boxes, difficult;
    int64_t small, large; // boxes whose area is below 32 x 32, at least 96 x 96 (COCO's sizes)
    double sides[5];      // minimum, quartiles and maximum of the square roots of the boxes' areas
    int64_t *class_boxes; // [class_count]
    // of masks; arrays are [class_count]
    uint64_t pixels, ignored, *class_pixels; // ignored: without a class
    int64_t *class_pictures;                 // pictures with the class
    double *class_weights; // median frequency balancing; 0: a class that no picture has
} sr_split_stat;

// A class's frequency is its share of the pixels with a class of the pictures that have it; its
// weight is the median of all frequencies divided by it (Eigen and Fergus, arXiv:1411.4734).
//
// Mean and deviation are those found when packing, else those of up to 256 evenly spaced samples.
SR_NODISCARD sr_status sr_inspect_stat(sr_dataset *dataset, sr_split_stat *out);
void sr_split_stat_release(sr_split_stat *stat);

// The picture of a record of any schema, valid until the next read; *objects is set for records
// with boxes.
SR_NODISCARD sr_status sr_inspect_read(sr_dataset *dataset, int64_t index, sr_sample *picture,
                                       sr_detection *objects, bool *has_objects);

#ifdef __cplusplus
}
#endif
#endif
