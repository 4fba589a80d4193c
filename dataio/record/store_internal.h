// SPDX-License-Identifier: Apache-2.0
// Stores: the writing side of containers. The writer (shard.h) checks records and collects the
// contents of headers; a store writes the bytes in the layout of its container.
//
// A store is a descriptor in its own file and one line in store_list.def. What it writes becomes
// visible by a final rename or not at all, and is a function of records and options alone.
#ifndef SR_DATAIO_STORE_INTERNAL_H
#define SR_DATAIO_STORE_INTERNAL_H

#include "dataio/record/protocol.h"
#include "dataio/record/shard_internal.h"

#define SR_STORE_ABI 1

typedef struct sr_store {
    uint32_t struct_size, abi;
    const char *name, *help; // name of the container, as in `pack --format`
    size_t state_bytes;      // of writer->state, zeroed at the start
    bool one_file;           // a split is one file, of any size
    // SR_E_EXISTS where the folder already has this split or the first shard to be written.
    sr_status (*refuse)(const sr_writer *writer);
    // Begins a file; sets writer->at to the offset of its first record.
    sr_status (*begin)(sr_writer *writer);
    sr_status (*append)(sr_writer *writer, const void *record, size_t bytes);
    // Ends a file: header, entries and sums of the writer are those of all its records.
    sr_status (*end)(sr_writer *writer, bool last);
    // Removes what was written of an unfinished file.
    void (*abort)(sr_writer *writer);
    // Removes all that a store of this kind has left of a split, readable or not; NULL for stores
    // without a folder for each split.
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
    shard_header header; // of the file that is being written
    uint64_t *class_records;

    bool open;        // a file is being written
    sr_status broken; // of the first failed write, after which nothing is finished
    uint64_t at;      // next record's offset
    void *entries;    // sr_index_entry [header.records]
    void *sides;
    size_t entry_capacity, side_count, side_capacity;
};

// The table; NULL ends it.
const sr_store *sr_store_at(size_t index);

// Removes from the folder of a data set what interrupted stores have left in folders of splits.
SR_NODISCARD sr_status sr_store_sweep(const char *folder);

// "FOLDER/SPLIT" of the writer, in new memory (sr_free).
char *sr_store_split_folder(const sr_writer *writer);
// The same folder, created where it is missing and made durable.
SR_NODISCARD sr_status sr_store_make_folder(const sr_writer *writer, char **out);
// Removes from a folder the files of these names and their temporary ones, and the folder if it is
// then empty. A missing folder is no error.
SR_NODISCARD sr_status sr_store_remove_files(const char *folder, const char *const *names,
                                             size_t count);

#endif
