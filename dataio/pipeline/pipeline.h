// SPDX-License-Identifier: Apache-2.0
// The data pipeline of one rank: DataReader -> DataTransformer x N -> DataIterator, as processes.
//
// A *slot* is one lane of one step: named arrays in shared memory. Slots are delivered in the fixed
// order (step, lane) of this rank's lanes; their contents are a function of (seed, data, position)
// alone, never of workers, processes or ranks.
#ifndef SR_DATAIO_PIPELINE_H
#define SR_DATAIO_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dataio/pipeline/image_growth.h"
#include "dataio/record/dataset.h"
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sr_array_maker;
struct sr_transform_spec;
struct sr_transform_window;

#define SR_ARRAY_MAX_RANK 5   // dimensions of a slot's array
#define SR_SLOT_MAX_ARRAYS 16 // named arrays of a slot

// One named array of a slot. Dense arrays have shape[0] = samples of the lane. Ragged ones (boxes)
// have shape[0] = capacity for the whole lane, 'count' rows in use, and a companion dense i32 array
// "NAME.count" with the rows of each sample.
typedef struct sr_array {
    const char *name;
    sr_dtype dtype;
    int rank;
    int64_t shape[SR_ARRAY_MAX_RANK];
    int64_t count; // rows in use
    // 64-byte aligned. Pixels are in shared memory; everything else is the rank's own copy, which
    // no data process can change.
    void *data;
    const struct sr_array_maker *maker; // instead of data (trainer/engine/feed.h); NULL: none
} sr_array;

// One lane of one step. Borrowed from sr_pipeline_next until sr_pipeline_release.
typedef struct sr_slot {
    int64_t step;
    int lane;
    int64_t first_position; // global sample position of its first sample
    int64_t valid;          // samples that count (the tail of an evaluation is masked)
    int64_t height, width;  // of the only picture as it is stored (sr_slot_picture); 0: many
    int arrays;
    sr_array array[SR_SLOT_MAX_ARRAYS];
    void *internal;
} sr_slot;

// The array of a name, or NULL.
const sr_array *sr_slot_find(const sr_slot *slot, const char *name);
// The same; SR_E_ARGUMENT naming the slot's arrays if it has none of this name.
SR_NODISCARD sr_status sr_slot_get(const sr_slot *slot, const char *name, const sr_array **out);

// The order of samples.
typedef enum sr_data_order {
    SR_ORDER_SEQUENTIAL = 0, // as stored, in every epoch
    SR_ORDER_EXAMPLES,       // a fresh permutation of all examples every epoch
    SR_ORDER_CHUNKS,         // permuted chunks, one stream and shuffle buffer per lane
    SR_ORDER_ONCE,           // evaluation: as stored, every sample exactly once, masked tail
} sr_data_order;

// Picture 'sample' of a slot whose pictures have their own sizes, with its mask, as a slot of one
// sample: "image" u8 [1,H,W,3] and "mask" u8 [1,H',W']. SR_E_DATA for sizes that no slot can have.
SR_NODISCARD sr_status sr_slot_picture(const sr_slot *slot, int64_t sample, sr_slot *out);

// What happens when a sample is damaged.
typedef enum sr_on_corrupt {
    SR_CORRUPT_STOP = 0,
    SR_CORRUPT_SKIP, // up to skip_limit damaged samples are replaced by their successors; counted
} sr_on_corrupt;

// What to read, how to transform it, and which lanes to deliver.
typedef struct sr_pipeline_options {
    const char *dataset;     // folder with shards, or one shard
    const char *split;       // "train" or "val"
    const char *identity;    // that the split had when it was opened before; NULL: any
    const char *transformer; // "classify", "detect", "segment"; NULL: classify
    const struct sr_transform_spec *transforms;
    int transform_count;
    const struct sr_transform_window *windows; // of each transform, or NULL: all are always applied
    int64_t image_height, image_width;         // of the slot's images after all transforms
    // If not 0, pictures keep their own sizes (sr_slot_picture): the most pixels of one after all
    // transforms, and of its mask. That is as it is stored unless it follows the picture.
    int64_t whole_pixels, mask_pixels;
    bool mask_follows;
    sr_image_growth growth; // of square images; zero: all steps have this size
    sr_data_order order;
    uint64_t seed;
    int repeats;           // copies of each sample, in different lanes (sampler.h); 0: 1
    double balance;        // power of sr_class_draws; 0: every sample once an epoch
    const int32_t *labels; // with 'balance', the class of each sample; read when the pipeline opens
    int64_t batch;         // samples of a whole step over all lanes
    int lanes;
    int lane_begin, lane_end; // this rank's lanes
    int64_t position;         // samples consumed before the first step to deliver
    int64_t steps;            // steps to deliver; 0: endless (training), the whole split (eval)
    int workers;              // DataTransformer processes; 0: cores of this rank
    bool threads;             // stages as threads of this process (data.processes=0)
    int64_t memory;           // bytes for the rings; 0: 256 MiB
    int prefetch;             // slots ready ahead; 0: two steps' worth
    sr_on_corrupt on_corrupt;
    int64_t skip_limit;                 // distinct samples, however often they are drawn
    int64_t boxes_per_sample;           // capacity of ragged arrays; 0: 64
    double report_seconds, act_seconds; // deadlines of every wait; 0: 10, 120
} sr_pipeline_options;

// The arrays of a slot of 'samples' samples: names, types and shapes, in order, without data. Only
// the options that they depend on are read: transformer, image size, boxes_per_sample. SR_E_USAGE
// for an unknown transformer.
SR_NODISCARD sr_status sr_pipeline_describe(const sr_pipeline_options *options, int64_t samples,
                                            sr_slot *out);

// A running pipeline. One thread at a time.
typedef struct sr_pipeline sr_pipeline;

// Opens the data set and checks everything as sr_pipeline_open does, but starts nothing; *bytes:
// the shared memory that the pipeline would have.
SR_NODISCARD sr_status sr_pipeline_measure(const sr_pipeline_options *options, uint64_t *bytes);
// Opens the data set and starts the stages. SR_E_USAGE for inconsistent options; errors of
// sr_dataset_open. SR_E_DATA where the data set is not the one of 'identity'; the same from
// sr_pipeline_next where it was replaced and a process that was restarted would read another one.
SR_NODISCARD sr_status sr_pipeline_open(const sr_pipeline_options *options, sr_pipeline **out);
// Waits for the next slot in order. SR_E_DATA names shard, record and cause of a damaged sample.
// After the last slot, *out is zeroed and *end is true.
SR_NODISCARD sr_status sr_pipeline_next(sr_pipeline *pipeline, sr_slot *out, bool *end);
// Whether sr_pipeline_next has failed because of one damaged sample.
bool sr_pipeline_is_damaged(const sr_pipeline *pipeline);
// Whether sr_pipeline_next would give a slot at once.
bool sr_pipeline_is_ready(const sr_pipeline *pipeline);
// Releases the slot's memory. Slots may be released in any order.
void sr_pipeline_release(sr_pipeline *pipeline, sr_slot *slot);

#define SR_PIPELINE_MEMORIES 2 // pixels, which transformers write; copies of all other arrays

// The memory 'index' of those that the arrays of all its slots are in, for devices that copy faster
// from memory they know. Stays until the pipeline is closed. Returns its bytes, which may be 0.
size_t sr_pipeline_get_memory(const sr_pipeline *pipeline, int index, void **out);

// Counters since the pipeline was opened; times in nanoseconds.
typedef struct sr_pipeline_stats {
    int64_t samples, replaced, seeks, bytes_read, restarts;
    int64_t wait_ns;                                     // of sr_pipeline_next
    int64_t read_ns, decode_ns, augment_ns, assemble_ns; // busy time of the stages, summed
    double ring_fill[2]; // mean fill of reader->transformer and transformer->iterator, 0..1
} sr_pipeline_stats;
// A snapshot of the counters.
sr_pipeline_stats sr_pipeline_get_stats(const sr_pipeline *pipeline);

// The damaged samples that were replaced: their indices in the data set, in the order in which they
// were found, and the error of the last one. Borrowed until the next slot.
typedef struct sr_pipeline_damage {
    const int64_t *samples;
    size_t count;
    const char *last; // "SHARD record N: cause"; "": none
} sr_pipeline_damage;
// The damage found so far.
sr_pipeline_damage sr_pipeline_get_damage(const sr_pipeline *pipeline);

// A checksum of the delivered part of an epoch: the sum over its samples (modulo 2^64) of a hash of
// position, sample and the random draws of its transforms. The sums of several ranks can be added;
// the total is the same for any number of ranks, workers and processes.
typedef struct sr_pipeline_order {
    int64_t epoch, samples;
    uint64_t hash;
} sr_pipeline_order;
// The epochs delivered so far, in order. Borrowed until the next slot.
const sr_pipeline_order *sr_pipeline_get_order(const sr_pipeline *pipeline, size_t *count);

// Number of processes of a pipeline: reader, iterator, transformers.
int sr_pipeline_stage_count(const sr_pipeline *pipeline);
// Process 0 (reader), 1 (iterator), 2 ... (transformers); 0 where it is a thread or has ended.
pid_t sr_pipeline_stage_pid(const sr_pipeline *pipeline, int number);

// Ends the processes and frees all memory.
void sr_pipeline_close(sr_pipeline *pipeline);

// Entry point of a data process, which is the same executable started again. A program that opens a
// pipeline with processes must begin its main function with
//   if (argc > 1 && strcmp(argv[1], "--data-process") == 0)
//       return sr_data_process_main(argc, argv);
// Returns the process's exit code.
int sr_data_process_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
