// SPDX-License-Identifier: Apache-2.0
// Stores: the writing side of containers. The writer (shard.h) checks records and counts what a
// header says; a store puts the bytes where its container has them.
//
// A store is a descriptor in its own file and one line in store_list.def. What it writes appears by
// one last rename or does not exist, and is a function of records and options alone.
#ifndef SR_DATAIO_STORE_INTERNAL_H
#define SR_DATAIO_STORE_INTERNAL_H

#include "dataio/record/protocol.h"
#include "dataio/record/shard_internal.h"

#define SR_STORE_ABI 1

typedef struct sr_store {
    uint32_t struct_size, abi;
    const char *name, *help; // name: of the container, as `pack --format` has it
    size_t state_bytes;      // of writer->state, zeroed at the start
    bool one_file;           // a split is one part, of any size
    // SR_E_EXISTS where the folder has this split, or the shard that comes first, already.
    sr_status (*refuse)(const sr_writer *writer);
    // A part begins; sets writer->at to the offset of its first record.
    sr_status (*begin)(sr_writer *writer);
    sr_status (*append)(sr_writer *writer, const void *record, size_t bytes);
    // The part is complete: header, entries and sums of the writer are those of all its records.
    sr_status (*end)(sr_writer *writer, bool last);
    // Removes what a part that was begun has written.
    void (*abort)(sr_writer *writer);
    // Removes all that a store of this kind has left of a split, readable or not; NULL where that
    // is no folder of its own.
    sr_status (*sweep)(const char *folder);
} sr_store;

struct sr_writer {
    sr_arena arena; // names, protocol
    sr_text meta;
    const sr_type *protocol;
    char *folder; // of the data set
    uint64_t target;
    const sr_store *store;
    void *state;         // the store's
    shard_header header; // of the part that is being written
    uint64_t *class_records;

    bool open;        // a part is
    sr_status broken; // of the first failed write; nothing is finished after it
    uint64_t at;      // next record's offset
    void *entries;    // sr_index_entry [header.records]
    void *sides;
    size_t entry_capacity, side_count, side_capacity;
};

// The table; NULL ends it.
const sr_store *sr_store_at(size_t index);

// Removes from a data set's folder what interrupted writers of folders for splits have left there.
SR_NODISCARD sr_status sr_store_sweep(const char *folder);

// "FOLDER/SPLIT" of the writer, into new memory (sr_free).
char *sr_store_split_folder(const sr_writer *writer);
// The same folder, made where it is missing and durable.
SR_NODISCARD sr_status sr_store_make_folder(const sr_writer *writer, char **out);
// Removes from a folder the files of these names and their temporary ones, and the folder if it is
// then empty. A folder that is not there is as good.
SR_NODISCARD sr_status sr_store_remove_files(const char *folder, const char *const *names,
                                             size_t count);

#endif
