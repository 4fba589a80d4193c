// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline share: the map of their memory and the rules of who writes what.
//
//   reader --ring per transformer--> transformer w --rows--> slot <--assembles-- iterator --> rank
//
// Everything is numbered, so that no assignment is ever decided at run time:
// - the rank's slots are numbered 0, 1, ... in order (step, lane); slot s lies in place s % slots;
// - a slot's samples are cut into blocks of 'block' samples; block t of all blocks belongs to
//   transformer t % workers, whose ring carries its samples in order.
// Hence the counters say all there is to know. The reader has dealt sum(published) samples; the
// k-th sample of a transformer's ring has a fixed slot and place; a slot is complete when each
// transformer has consumed its share of the blocks up to there. A process that is killed is
// replaced by one that reads the counters and goes on. A transformer publishes "consumed" only
// after its rows are written, and may write only into a slot that is free for it, so redoing work
// is harmless.
#ifndef SR_DATAIO_STAGE_INTERNAL_H
#define SR_DATAIO_STAGE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/pipeline/ring_internal.h"
#include "dataio/pipeline/sandbox.h"
#include "dataio/pipeline/transformer.h"

#define SR_STAGE_MAGIC UINT64_C(0x31617461642d7273) // "sr-data1"
#define SR_STAGE_FD 3                               // of the shared memory in a data process
#define SR_STAGE_MAX_WORKERS 256

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
    _Atomic int32_t
        status;     // an sr_status; written last. SR_OK with a message: went on all the same
    int64_t sample; // whose name belongs before the message, which the rank knows; -1: none
    char where[60];
    char message[768];
} sr_stage_error;

// One stage's report; it alone writes here.
typedef struct sr_stage_state {
    _Alignas(64) _Atomic int32_t activity;
    _Atomic int64_t sample;              // what it is busy with
    _Atomic int64_t first_ns, second_ns; // reader: reading; transformer: decode, augment; iterator
    _Atomic int64_t bytes, seeks;
    sr_stage_error error; // failure that is not a sample's: the stage has ended
} sr_stage_state;

// Of each sample in a slot; written by its transformer.
typedef struct sr_row_state {
    int64_t replaced; // 1 + the damaged sample whose place another one took; 0: none
    int64_t counts[SR_SLOT_MAX_ARRAYS];
    int64_t epoch;
    uint64_t order; // hash of position, sample and draws
} sr_row_state;

typedef struct sr_slot_header {
    _Alignas(64) _Atomic uint64_t free_for; // number of the slot that may be written here
    int64_t replaced;                       // samples
    int64_t counts[SR_SLOT_MAX_ARRAYS];
    sr_stage_error error; // of the first damaged sample, by the iterator; replaced: SR_OK
} sr_slot_header;

// Where things of one place lie, in bytes from its begin.
typedef struct sr_slot_layout {
    uint64_t bytes;
    uint64_t array[SR_SLOT_MAX_ARRAYS];  // finished arrays
    uint64_t count[SR_SLOT_MAX_ARRAYS];  // companion "NAME.count" of ragged ones; else 0
    uint64_t staged[SR_SLOT_MAX_ARRAYS]; // rows before assembly; in-place ones: 0
    uint64_t row_bytes[SR_SLOT_MAX_ARRAYS];
    uint64_t states, errors; // sr_row_state per sample, sr_stage_error per block
} sr_slot_layout;

// The layout and what the stages work on. Written once before any stage starts; every process takes
// its own copy and checks it against the length of the memory, so that one that writes astray (a
// decoder, over a hostile picture) cannot lead another out of bounds.
typedef struct sr_stage_plan {
    uint64_t magic;
    int32_t parent; // process that owns the pipeline
    int32_t workers;
    int64_t slots, total;            // places; slots to deliver (INT64_MAX: for ever)
    int64_t samples, block;          // of a slot; of a block, divides samples
    int32_t foreign;                 // records of the slot that go along with each
    int64_t count;                   // samples of the data set
    int64_t chunk, buffer;           // of the sampler
    int32_t beyond_memory;           // not 0: the data set is larger than what memory there is
    uint64_t rings, ring_bytes;      // offset of ring 0, bytes of each
    uint64_t slot_buffers;           // offset of place 0
    uint64_t strings, strings_bytes; // offset and bytes of the options' strings
    uint64_t classes, classes_bytes; // of the class names, each with its terminator
    int64_t class_count;
    sr_slot_layout layout;
    sr_pipeline_options options; // pointers are meaningless; strings follow in fixed order
    uint8_t *base;               // of the memory in this process; in copies only
} sr_stage_plan;

// At the begin of the shared memory.
typedef struct sr_stage_header {
    sr_stage_plan plan;
    _Alignas(64) _Atomic uint32_t stop;
    _Alignas(64) _Atomic uint64_t ready; // slots assembled
    sr_bell ready_bell;
    _Alignas(64) sr_bell free_bell;
    sr_stage_state states[]; // reader, iterator, transformers
} sr_stage_header;

// What a reader reads with, for tests; NULL: the data set, and turns with the readers of this host.
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
    sr_stage_header *header; // shared; its plan is not looked at again
    sr_stage_state *state;
    int number;                  // sr_stage_kind, transformers from SR_STAGE_TRANSFORMER on
    bool own_process;            // so that walls may be put up around it
    bool memory_limited;         // by them
    int64_t blamed;              // sample at which it failed, for what it reports; -1: none
    int parent_pidfd;            // -1 in threads mode
    sr_pipeline_options options; // with good pointers
    sr_transform_spec *transforms;
    char *strings; // that the options point to
    const char **classes;
    char *class_text; // that they point to
    sr_dataset *dataset;
    const sr_reader_disk *disk;
    int arrays;
    sr_array_spec array[SR_SLOT_MAX_ARRAYS];
} sr_stage;

// Creates and fills the shared memory for these options (already checked).
SR_NODISCARD sr_status sr_stage_create(const sr_pipeline_options *options, sr_dataset *dataset,
                                       sr_shared_memory *out);
// A stage's view of it, to be released also after a failure; SR_E_ARGUMENT when it is not ours, or
// its plan leads outside of it.
SR_NODISCARD sr_status sr_stage_init(sr_stage *stage, const sr_shared_memory *memory, int number);
void sr_stage_release(sr_stage *stage);
// The data set, opened on first use. Behind the walls of SR_SANDBOX_COMPUTE it cannot be had.
SR_NODISCARD sr_status sr_stage_dataset(sr_stage *stage, sr_dataset **out);
// Closes the process of this stage in: from here on it opens nothing but what the rights say. A
// stage that is a thread goes on as it is.
SR_NODISCARD sr_status sr_stage_sandbox(sr_stage *stage, sr_sandbox_rights rights);

sr_ring *sr_stage_ring(const sr_stage_plan *plan, int worker);
uint64_t sr_stage_ring_capacity(const sr_stage_plan *plan);
sr_slot_header *sr_stage_slot(const sr_stage_plan *plan, int64_t slot);
void *sr_stage_at(const sr_slot_header *header, uint64_t offset);
// Position of a slot's first sample, and its step and lane.
int64_t sr_stage_position(const sr_stage_plan *plan, int64_t slot, int64_t *step, int *lane);
const char *sr_stage_name(int number, char *out); // "transformer 2"; out of 32 bytes

void sr_stage_activity(sr_stage *stage, sr_activity activity, int64_t sample);
// Waits for the bell to differ from 'seen'. False when the stage shall end: the pipeline is closed
// or its process is gone.
bool sr_stage_wait(sr_stage *stage, sr_bell *bell, uint32_t seen);
bool sr_stage_stopped(const sr_stage *stage);

// Rows of each array of an assembled slot; SR_E_PEER where those that it says it has are not there.
SR_NODISCARD sr_status sr_stage_check_slot(const sr_stage *stage, const sr_slot_header *header,
                                           int64_t counts[SR_SLOT_MAX_ARRAYS]);

// What all see when shared memory does not hold what only a stage of ours writes there.
SR_NODISCARD sr_status sr_stage_corrupted(const char *what);
// The thread's error; 'sample': whose name the rank shall put before it, or -1.
void sr_stage_error_set(sr_stage_error *error, sr_status status, int64_t sample);
// Its message with the sample's name, as far as 'dataset' (or NULL) knows it; out of 1200 bytes.
const char *sr_stage_error_text(const sr_stage_error *error, const sr_dataset *dataset, char *out);
sr_status sr_stage_error_adopt(const sr_stage_error *error, const sr_dataset *dataset);
// Whether a failure concerns one sample only.
bool sr_stage_is_sample_error(sr_status status);

// The three stages: run until the work is done or the stage shall end.
SR_NODISCARD sr_status sr_reader_run(sr_stage *stage);
SR_NODISCARD sr_status sr_transformer_run(sr_stage *stage);
SR_NODISCARD sr_status sr_iterator_run(sr_stage *stage);
// Any of them, by the stage's number; a failure goes into its state.
void sr_stage_run(sr_stage *stage);

// Keeps the stages alive, as processes or threads. Used by the pipeline's thread only.
typedef struct sr_supervisor sr_supervisor;
SR_NODISCARD sr_status sr_supervisor_start(const sr_shared_memory *memory, bool threads,
                                           sr_supervisor **out);
// Replaces processes that died. SR_E_PEER when one dies again and again at the same sample, or the
// failure that a stage reported.
SR_NODISCARD sr_status sr_supervisor_check(sr_supervisor *supervisor, sr_dataset *dataset);
int64_t sr_supervisor_restarts(const sr_supervisor *supervisor);
// Process of a stage, for tests; 0 with threads or after its end.
pid_t sr_supervisor_pid(const sr_supervisor *supervisor, int number);
void sr_supervisor_stop(sr_supervisor *supervisor);

#endif
