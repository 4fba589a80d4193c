// SPDX-License-Identifier: Apache-2.0
// Shared by the files that read programs: the position in the text, and tokens.
#ifndef SR_GRAPH_PROGRAM_READ_INTERNAL_H
#define SR_GRAPH_PROGRAM_READ_INTERNAL_H

#include "graph/program_text_internal.h"

#define SR_PROGRAM_VALUES 1000000 // highest number of a value, plus one
#define SR_PROGRAM_WORD 64        // bytes of a word, with its terminator

// A value of the text.
typedef struct sr_read_value {
    sr_tensor tensor;
    int line; // line that defines it; 0: none
} sr_read_value;

typedef struct sr_program_reader {
    sr_context *context;
    const char *name; // of the text
    const char *at, *end, *line_begin;
    int line;
    sr_read_value *values; // by number
    size_t value_capacity, value_count;
    uint64_t slots; // of inputs, as a mask
    bool without_memory;
    sr_arena *arena;
    sr_read_program *out;
    size_t target_capacity, variable_capacity;
} sr_program_reader;

// Fails with SR_E_DATA, naming the text, and line and column of 'where', which is in the current
// line.
sr_status sr_reader_fail(const sr_program_reader *r, const char *where, const char *fmt, ...)
    SR_PRINTF(3, 4);
// Returns the context's failure, if any, with the location 'where'.
SR_NODISCARD sr_status sr_reader_check_context(sr_program_reader *r, const char *where);
// Skips spaces. Whether the line ends there (also in a comment).
void sr_reader_skip(sr_program_reader *r);
bool sr_reader_at_line_end(sr_program_reader *r);
// Skips spaces and this character, if it is next.
bool sr_reader_accept(sr_program_reader *r, char c);
SR_NODISCARD sr_status sr_reader_expect(sr_program_reader *r, char c, const char *after);
// A word of letters, digits and underscores; what: "an operator", for the message.
SR_NODISCARD sr_status sr_reader_word(sr_program_reader *r, const char *what,
                                      char out[SR_PROGRAM_WORD]);
// A number, up to a comma, bracket, brace or space.
SR_NODISCARD sr_status sr_reader_number(sr_program_reader *r, char out[SR_NUMBER_TEXT]);
// An integer in decimal digits.
SR_NODISCARD sr_status sr_reader_integer(sr_program_reader *r, const char *what, int64_t low,
                                         int64_t high, int64_t *out);
// "f32[2, 3]".
SR_NODISCARD sr_status sr_reader_info(sr_program_reader *r, sr_info *out);
// A quoted text, in memory of the arena.
SR_NODISCARD sr_status sr_reader_quoted(sr_program_reader *r, const char **out);
// The name of a dtype.
SR_NODISCARD sr_status sr_reader_dtype(sr_program_reader *r, sr_dtype *out);
// Attributes in braces, if any; attr is zeroed. where: position of the operator.
SR_NODISCARD sr_status sr_reader_attributes(sr_program_reader *r, const char *where,
                                            const sr_op *op, unsigned char *attr);

#endif
