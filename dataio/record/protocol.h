// SPDX-License-Identifier: Apache-2.0
// Protocol: the schema of a data set's records, and KPLRecord's two side files.
//
// A protocol is a tree: maps with fixed keys, lists of one element type, and the leaf types bytes,
// float64, int64, string, file. It is written as protobuf text format (file N.meta):
//   Meta { int64 version = 1; string id = 2; RecordType record_type = 3; }
//   RecordType { enum basicType = 1; map<string, RecordType> properties = 2;
//                repeated string keys = 3; RecordType item = 4; }
//   basicType: unKnow 0, bytes 1, float64 2, int64 3, list 4, map 5, string 6, file 7
// and for users and in code as "{data: bytes, shape: [int64]}" (type names in any case; bytearray,
// float and int are accepted for bytes, float64 and int64). Text format:
// https://protobuf.dev/reference/protobuf/textformat-spec/
#ifndef SR_DATAIO_PROTOCOL_H
#define SR_DATAIO_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_type_kind {
    SR_TYPE_UNKNOWN = 0,
    SR_TYPE_BYTES,
    SR_TYPE_FLOAT64,
    SR_TYPE_INT64,
    SR_TYPE_LIST,
    SR_TYPE_MAP,
    SR_TYPE_STRING,
    SR_TYPE_FILE,
} sr_type_kind;

// A node of the tree; memory belongs to the arena of the parse.
typedef struct sr_type {
    sr_type_kind kind;
    const char *key;              // in its map; NULL elsewhere
    struct sr_type *first, *next; // MAP: keys in order; LIST: 'first' is the element
} sr_type;

// Parses "{a: [float64], b: int64}"; the top level is a map. SR_E_USAGE states the column of a
// mistake.
SR_NODISCARD sr_status sr_protocol_parse(const char *text, sr_arena *arena, const sr_type **out);
// Prints the same text.
void sr_protocol_print(const sr_type *type, sr_text *out);
// Text-format Meta, as the original writer prints it (two spaces a level).
void sr_meta_print(const sr_type *type, const char *id, sr_text *out);
// The protocol of a text-format Meta of any writer. SR_E_DATA states the line of a mistake.
SR_NODISCARD sr_status sr_meta_parse(const char *text, size_t bytes, sr_arena *arena,
                                     const sr_type **out);

// Checks that a record is well formed and has only keys and kinds of the protocol; keys may be
// missing. SR_E_DATA names the key path, as "object[2].xmin".
SR_NODISCARD sr_status sr_protocol_check(const sr_type *protocol, const void *record, size_t bytes);

// N.index: one message Index { repeated int64 index = 1; } (packed), the cumulative offsets of the
// records in N.data, beginning with 0. *offsets has count + 1 numbers for count records (sr_free).
SR_NODISCARD sr_status sr_index_parse(const void *data, size_t bytes, uint64_t **offsets,
                                      size_t *count);
SR_NODISCARD sr_status sr_index_write(const uint64_t *offsets, size_t count, sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
