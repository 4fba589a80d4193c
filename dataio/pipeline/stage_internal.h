// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline share: the layout of their memory and the rules for writing to it.
//
//   reader --ring per transformer--> transformer w --rows--> slot <--assembles-- iterator --> rank
//
// All work is assigned by number, so nothing is decided at run time:
// - the rank's slots are numbered 0, 1, ... in order (step, lane); slot s uses slot buffer s %
//   slots;
// - a slot's samples are divided into blocks of 'block' samples; block t of all blocks belongs to
//   transformer t % workers, whose ring carries its samples in order.
// Hence the counters are the complete state. The reader has sent sum(published) samples; the k-th
// sample of a transformer's ring has a fixed slot and row; a slot is complete when each transformer
// has consumed its share of the blocks up to it. A killed process is replaced by one that continues
// from the counters. A transformer updates "consumed" only after its rows are written, and writes
// only to a slot that is free for it, so repeating work is harmless.
//
// What decides the work and the rights of a process (the plan with the data set's path, the damage
// policy, the transforms) is memory that no process can write once the rank has sealed it. The rest
// is written by all of them, among them decoders of untrusted pictures: who reads it copies a value
// once (sr_shared_read), checks the copy, and uses the copy.
#ifndef SR_DATAIO_STAGE_INTERNAL_H
#define SR_DATAIO_STAGE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/pipeline/ring_internal.h"
#include "dataio/pipeline/sampler.h"
#include "dataio/pipeline/sandbox.h"
#include "dataio/pipeline/transformer.h"

#define SR_STAGE_MAGIC UINT64_C(0x31617461642d7273) // "sr-data1"
#define SR_STAGE_PLAN_FD 3                          // descriptors of a data process
#define SR_STAGE_WORK_FD 4
#define SR_STAGE_MAX_WORKERS 256
#define SR_STAGE_MAX_SAMPLES (INT64_C(1) << 24) // of a slot: products of sizes cannot overflow
#define SR_STAGE_ALIGN UINT64_C(64)             // of everything in the shared memory

typedef enum sr_stage_kind {
    SR_STAGE_READER = 0,
    SR_STAGE_ITERATOR,
    SR_STAGE_TRANSFORMER, // the first of 'workers'
} sr_stage_kind;

typedef enum sr_activity {
    SR_ACTIVITY_STARTING = 0,
    SR_ACTIVITY_READING,
    SR_ACTIVITY_DECODING,
    SR_ACTIVITY_ASSEMBLING,
    SR_ACTIVITY_WAITING_ROOM,    // reader: for room in a ring
    SR_ACTIVITY_WAITING_RECORDS, // transformer: for the reader
    SR_ACTIVITY_WAITING_SLOT,    // transformer: for the caller to release a slot
    SR_ACTIVITY_WAITING_ROWS,    // iterator: for transformers
    SR_ACTIVITY_DONE,
} sr_activity;

typedef struct sr_stage_error {
    _Atomic int32_t status; // an sr_status; written last. SR_OK with a message: a replaced sample
    int64_t sample;         // whose name the rank prepends to the message; -1: none
    char where[60];
    char message[768];
} sr_stage_error;

// The state that a stage reports; written by that stage only.
typedef struct sr_stage_state {
    _Alignas(64) _Atomic int32_t activity;
    _Atomic int64_t sample;              // sample (iterator: slot) in progress
    _Atomic int64_t first_ns, second_ns; // reader: reading; transformer: decode, augment; iterator
    _Atomic int64_t bytes, seeks;
    sr_stage_error error; // failure that does not concern a sample only: the stage has ended
} sr_stage_state;

// The state of one sample in a slot; written by its transformer.
typedef struct sr_row_state {
    int64_t replaced; // 1 + the damaged sample that another one replaced; 0: none
    int64_t counts[SR_SLOT_MAX_ARRAYS];
    int64_t epoch;
    uint64_t order; // hash of position, sample and draws
} sr_row_state;

// At the beginning of a slot buffer.
typedef struct sr_slot_header {
    _Alignas(64) _Atomic uint64_t free_for; // number of the slot that may be written to it
    sr_stage_error error; // of the first damaged sample, by the iterator; SR_OK if replaced
} sr_slot_header;

// The layout of a slot buffer, as offsets in bytes from its beginning.
typedef struct sr_slot_layout {
    uint64_t bytes;
    uint64_t array[SR_SLOT_MAX_ARRAYS];     // assembled arrays
    uint64_t count[SR_SLOT_MAX_ARRAYS];     // companion "NAME.count" of ragged ones; else 0
    uint64_t staged[SR_SLOT_MAX_ARRAYS];    // rows before assembly; 0 for in-place arrays
    uint64_t row_bytes[SR_SLOT_MAX_ARRAYS]; // of the largest pictures
    uint64_t states, errors;                // sr_row_state per sample, sr_stage_error per block
} sr_slot_layout;

// The memory layout and the work of the stages, at the beginning of the sealed memory; the tables
// that it refers to follow. Every process checks it against the sizes of both memories.
typedef struct sr_stage_plan {
    uint64_t magic;
    int32_t parent; // process that owns the pipeline
    int32_t workers;
    int64_t slots, total;   // slot buffers; slots to deliver (INT64_MAX: endless)
    int64_t samples, block; // per slot; per block, a divisor of 'samples'
    int32_t foreign;        // foreign records in the bundle of each sample; 0: no bundles
    int64_t count;          // samples of the data set
    int64_t chunk, buffer;  // of the sampler
    int32_t beyond_memory;  // not 0: the data set is larger than the available memory
    // Offsets in the shared memory.
    uint64_t rings, ring_bytes; // ring 0, bytes of each
    uint64_t slot_buffers;      // slot buffer 0
    // Offsets in the sealed memory.
    uint64_t windows;                // the transforms' windows
    uint64_t strings, strings_bytes; // the options' strings
    uint64_t classes, classes_bytes; // class names, each with its terminator
    int64_t class_count;
    uint64_t members; // the samples of each class (class_members_internal.h)
    sr_slot_layout layout;
    sr_pipeline_options options; // pointers are NULL; the strings are stored in fixed order
    sr_dataset_stamp stamp;      // of the split that the rank has opened
    // Of both memories in this process; set in copies only.
    const uint8_t *sealed;
    uint8_t *base;
} sr_stage_plan;

// The memory of a pipeline's stages.
typedef struct sr_stage_memory {
    sr_shared_memory plan; // sealed: no process can write it
    sr_shared_memory work; // written by all stages
} sr_stage_memory;

// At the beginning of the shared memory.
typedef struct sr_stage_header {
    _Alignas(64) _Atomic uint32_t stop;
    _Alignas(64) _Atomic uint64_t ready; // slots assembled
    sr_bell ready_bell;
    _Alignas(64) sr_bell free_bell;
    sr_stage_state states[]; // reader, iterator, transformers
} sr_stage_header;

// How a reader accesses the disk, for tests. NULL: it reads the data set and takes turns with the
// other readers of this host.
typedef struct sr_reader_disk {
    sr_status (*read)(void *user, sr_dataset *dataset, int64_t sample, const void **data,
                      size_t *bytes);
    void (*take_turn)(void *user);
    void (*give_turn)(void *user);
    void *user;
} sr_reader_disk;

// One stage's view. One thread.
typedef struct sr_stage {
    sr_stage_plan plan;      // checked
    sr_stage_header *header; // shared
    sr_stage_state *state;
    int number;                  // sr_stage_kind, transformers from SR_STAGE_TRANSFORMER on
    bool own_process;            // may be sandboxed
    bool memory_limited;         // by the sandbox
    int64_t blamed;              // sample that the reported failure concerns; -1: none
    int parent_pidfd;            // -1 in threads mode
    sr_pipeline_options options; // with valid pointers
    sr_transform_spec *transforms;
    const char **classes;
    sr_dataset *dataset;
    const sr_reader_disk *disk;
    // Arrays of the slot that sr_stage_shape was called for, and bytes of their rows; image size in
    // 'options', too.
    const struct sr_transformer *transformer;
    int arrays;
    sr_array_spec array[SR_SLOT_MAX_ARRAYS];
    uint64_t row_bytes[SR_SLOT_MAX_ARRAYS];
} sr_stage;

// The size of the shared memory for these options (already checked).
SR_NODISCARD sr_status sr_stage_measure(const sr_pipeline_options *options, sr_dataset *dataset,
                                        uint64_t *bytes);
// How the samples of a plan are drawn, but for their classes.
sr_sampler_options sr_stage_draws(const sr_stage_plan *plan);
// The same for options that would be planned.
SR_NODISCARD sr_status sr_stage_plan_draws(const sr_pipeline_options *options,
                                           const sr_dataset *dataset, sr_sampler_options *out);
// Creates and fills the memory for these options (already checked).
SR_NODISCARD sr_status sr_stage_create(const sr_pipeline_options *options, sr_dataset *dataset,
                                       sr_stage_memory *out);
void sr_stage_memory_release(sr_stage_memory *memory);
// Creates a stage's view of the memory, which must outlive it. The view must be released even after
// a failure. SR_E_ARGUMENT when it is no memory of sr_stage_create or its plan exceeds the memory.
SR_NODISCARD sr_status sr_stage_init(sr_stage *stage, const sr_stage_memory *memory, int number);
void sr_stage_release(sr_stage *stage);
// The data set, opened on first use. Not available in a sandbox of SR_SANDBOX_COMPUTE. SR_E_DATA
// where it is not the one that the rank has opened.
SR_NODISCARD sr_status sr_stage_dataset(sr_stage *stage, sr_dataset **out);
// Sandboxes the process of this stage with these rights. No effect on a stage that is a thread.
SR_NODISCARD sr_status sr_stage_sandbox(sr_stage *stage, sr_sandbox_rights rights);

// Bytes of a row of an array.
uint64_t sr_stage_row_bytes(const sr_array_spec *spec);
// Number of strings of the options in the sealed memory: data set, split, transformer, then name
// and arguments of each transform.
int sr_stage_string_count(const sr_pipeline_options *options);
sr_ring *sr_stage_ring(const sr_stage_plan *plan, int worker);
uint64_t sr_stage_ring_capacity(const sr_stage_plan *plan);
sr_slot_header *sr_stage_slot(const sr_stage_plan *plan, int64_t slot);
void *sr_stage_at(const sr_slot_header *header, uint64_t offset);
// Position of a slot's first sample, and its step and lane.
int64_t sr_stage_position(const sr_stage_plan *plan, int64_t slot, int64_t *step, int *lane);
// Sets this view's arrays to the size that a slot's pictures have; at first it is the largest.
void sr_stage_shape(sr_stage *stage, int64_t slot);
const char *sr_stage_name(int number, char *out); // "transformer 2"; out of 32 bytes

void sr_stage_activity(sr_stage *stage, sr_activity activity, int64_t sample);
// Waits until the bell differs from 'seen', or for a while. False when the stage should end: the
// pipeline is closed or its process has ended.
bool sr_stage_wait(sr_stage *stage, sr_bell *bell, uint32_t seen);
bool sr_stage_stopped(const sr_stage *stage);

// The error for shared memory with contents that no stage writes. SR_E_PEER.
SR_NODISCARD static inline sr_status sr_stage_corrupted(const char *what) {
    return SR_FAIL(SR_E_PEER,
                   "the shared memory of the data processes was overwritten by one of them (%s); "
                   "run with data.processes=0 under a debugger",
                   what);
}

// Stores the thread's error. 'sample': whose name the rank prepends to the message, or -1.
void sr_stage_error_set(sr_stage_error *error, sr_status status, int64_t sample);
// Copies an error out of shared memory and makes it one that a stage can have written: a known
// status (SR_E_PEER if it is not), and texts that end and have no control characters.
void sr_stage_error_read(const sr_stage_error *shared, sr_stage_error *out);
// The message of a copy, prefixed with the sample's name if 'dataset' is not NULL. 'out' has 1200
// bytes.
const char *sr_stage_error_text(const sr_stage_error *error, const sr_dataset *dataset, char *out);
// Makes an error in shared memory that of this thread; SR_OK if there is none.
sr_status sr_stage_error_adopt(const sr_stage_error *shared, const sr_dataset *dataset);
// Whether a failure concerns one sample only.
bool sr_stage_is_sample_error(sr_status status);
// The same for the failure to read one: it does not if the data set has changed.
bool sr_stage_is_damage(const sr_stage *stage, sr_status status);

// The three stages: run until the work is done or the stage should end.
SR_NODISCARD sr_status sr_reader_run(sr_stage *stage);
SR_NODISCARD sr_status sr_transformer_run(sr_stage *stage);
SR_NODISCARD sr_status sr_iterator_run(sr_stage *stage);
// Runs one of them by the stage's number and stores a failure in its state.
void sr_stage_run(sr_stage *stage);

// Starts the stages as processes or threads and restarts processes that die. Used by the pipeline's
// thread only.
typedef struct sr_supervisor sr_supervisor;
SR_NODISCARD sr_status sr_supervisor_start(const sr_stage_memory *memory, bool threads,
                                           sr_supervisor **out);
// Replaces dead processes. SR_E_PEER when one dies repeatedly at the same sample; the error of a
// stage that failed.
SR_NODISCARD sr_status sr_supervisor_check(sr_supervisor *supervisor, sr_dataset *dataset);
int64_t sr_supervisor_restarts(const sr_supervisor *supervisor);
// Process id of a stage; 0 with threads or after its end.
pid_t sr_supervisor_pid(const sr_supervisor *supervisor, int number);
void sr_supervisor_stop(sr_supervisor *supervisor);

#endif
