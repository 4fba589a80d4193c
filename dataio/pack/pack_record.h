// SPDX-License-Identifier: Apache-2.0
// Makes one record from one sample of a source: the work of a thread of packing.
#ifndef SR_DATAIO_PACK_RECORD_H
#define SR_DATAIO_PACK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/formats/layout.h"
#include "dataio/formats/outline_mask.h"
#include "dataio/formats/rle.h"
#include "dataio/image/picture.h"
#include "dataio/pack/pack.h"
#include "dataio/record/protocol.h"
#include "dataio/record/record.h"
#include "dataio/record/zstd_frame.h"

#ifdef __cplusplus
extern "C" {
#endif

// What all workers share, read-only.
typedef struct sr_pack_job {
    sr_pack_options options;
    const sr_source *source;
    const sr_layout *layout;
    const sr_type *protocol; // of finished records
} sr_pack_job;

// The working memory of one thread; zero-initialised except 'pictures'.
typedef struct sr_pack_worker {
    sr_picture_worker *pictures;
    sr_annotation_reader annotations;
    sr_rle rle;
    sr_zstd zstd;
    void *mask_file, *mask, *small_mask, *mask_frame; // of a picture with a mask
    size_t mask_file_capacity, mask_capacity, small_mask_capacity, mask_frame_capacity;
    sr_outline_mask outlines;
    sr_arena objects; // memory of the objects of one picture
} sr_pack_worker;

// A sample that is being packed. Buffers are reused for the next one.
typedef struct sr_pack_sample {
    uint32_t file; // index into layout->files
    bool sampled;  // its pixels are added to the normalisation hints
    void *source;
    size_t source_capacity;
    sr_record_writer record;
    const void *data; // the record: in 'record', or in 'source' if it is copied unchanged
    size_t bytes;
    sr_channel_sums sums;
    unsigned flags; // SR_PICTURE_IS_*
    int classes;    // 1 + largest id of the mask
    uint32_t objects, degenerate;
    sr_kept_error error;
} sr_pack_sample;

SR_NODISCARD sr_status sr_pack_worker_init(sr_pack_worker *worker);
void sr_pack_worker_release(sr_pack_worker *worker);
void sr_pack_sample_release(sr_pack_sample *sample);
// Makes the record of the sample.
SR_NODISCARD sr_status sr_pack_record_make(const sr_pack_job *job, sr_pack_worker *worker,
                                           sr_pack_sample *sample);
// Checks whether that would succeed, at less cost; for a mask it also sets sample->classes.
SR_NODISCARD sr_status sr_pack_record_check(const sr_pack_job *job, sr_pack_worker *worker,
                                            sr_pack_sample *sample);

#ifdef __cplusplus
}
#endif
#endif
