// SPDX-License-Identifier: Apache-2.0
// LMDB stores: their keys, and reading an LMDB file with pread.
//
// A store is one LMDB file (version 1 of its format, 64-bit little-endian, as lmdb 0.9 makes it)
// whose unnamed database contains exactly
//   u64 big-endian i     record i (record.h), for i = 0, 1, ...
//   "serried"            table of contents (shard_internal.h): checksums, protocol, classes, counts
// Offsets in the table count in the sequence of the records. The table is written in the last
// transaction; without it the file is not a data set.
//
// Files are not read through liblmdb, which maps the file and trusts every number in it: there a
// truncated file raises SIGBUS in the reading process, and a flipped bit in a page SIGSEGV or an
// abort. Here each page is read and checked, and a damaged one is reported by number. Reading takes
// no locks and writes nothing, so a store may be on a read-only file system; a store that another
// process writes to is reported as damaged.
//
// The format, in pages (their size is in the first meta page):
//   page      u64 number, u16 -, u16 flags, u16 lower, u16 upper (overflow: u32 count of pages)
//   meta      two, pages 0 and 1: u32 0xBEEFC0DE, u32 version, u64 address, u64 size of the map,
//   two
//             databases (the first is of free pages, whose first field is the page size), u64 last
//             page, u64 transaction; the one with the later transaction counts
//   database  u32 -, u16 flags, u16 depth, u64 branch, leaf and overflow pages, u64 entries, u64
//   root branch,   from byte 16 to 'lower' u16 offsets of nodes in the order of their keys. A node
//   is u16 leaf      low, u16 high, u16 flags, u16 length of the key, the key; branch: low, high,
//   flags are
//             the number of the child, and the first key of a page is empty; leaf: low, high are
//             the length of the value, which follows, or, with flag 1, is replaced by the number of
//             its first overflow page
//   overflow  one value from byte 16 of its first page on
// Source: lmdb.h and mdb.c of LMDB 0.9,
// https://git.openldap.org/openldap/openldap/-/tree/mdb.master
#ifndef SR_DATAIO_LMDB_FILE_INTERNAL_H
#define SR_DATAIO_LMDB_FILE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#define SR_LMDB_FILE "data.mdb"    // in its folder
#define SR_LMDB_CONTENTS "serried" // key of the table of contents
#define SR_LMDB_KEY_BYTES 8        // of a record

// An LMDB file; the caller opens and closes 'fd'.
typedef struct sr_lmdb {
    int fd;
    const char *path;
    uint64_t bytes; // of the file
    uint64_t page_bytes, root, entries;
} sr_lmdb;

// Reads the meta pages. SR_E_DATA where it is not an LMDB file, or a damaged one.
SR_NODISCARD sr_status sr_lmdb_open(int fd, const char *path, sr_lmdb *out);
// True where the file begins with a meta page of LMDB.
bool sr_lmdb_is(const char *path);
// Offset and length of the value of a key, which is contiguous in the file. SR_E_NOT_FOUND where
// the key is missing; SR_E_DATA names a damaged page.
SR_NODISCARD sr_status sr_lmdb_find(const sr_lmdb *file, const void *key, size_t key_bytes,
                                    uint64_t *offset, uint64_t *bytes);
// The key of a record, into out[SR_LMDB_KEY_BYTES].
void sr_lmdb_key(uint64_t record, uint8_t *out);

#endif
