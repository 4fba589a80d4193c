// SPDX-License-Identifier: Apache-2.0
// Spans of time of several threads, kept in memory and written as a Chrome trace (JSON object
// format, complete events; chrome://tracing, Perfetto and other viewers read it).
//
// A row belongs to one thread, which writes into it without a lock and without taking memory. Rows
// and labels may be added by any thread; writing the file is for when no row is being written.
#ifndef SR_KERNELS_BASE_TRACE_H
#define SR_KERNELS_BASE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/text.h"

typedef struct sr_trace sr_trace;
typedef struct sr_trace_row sr_trace_row;
// What a span shows: its name and arguments.
typedef struct sr_trace_label sr_trace_label;

// 'process' and its name stand over all rows: the rank. Times are counted from now on.
SR_NODISCARD sr_status sr_trace_create(int process, const char *name, sr_trace **out);
void sr_trace_free(sr_trace *trace); // NULL is legal

// 'args': members of a JSON object without its braces ("\"flops\": 3"), or "". Both are copied;
// the label lives as long as the trace.
SR_NODISCARD sr_status sr_trace_add_label(sr_trace *trace, const char *name, const char *args,
                                          const sr_trace_label **out);
// An empty row with room for 'spans' spans; rows stand in the order in which they were added.
SR_NODISCARD sr_status sr_trace_add_row(sr_trace *trace, const char *name, size_t spans,
                                        sr_trace_row **out);
// Room for so many spans beside those that are there; its thread must not write meanwhile.
SR_NODISCARD sr_status sr_trace_reserve(sr_trace_row *row, size_t spans);

// Adds a span from 'begin' to 'end' (sr_clock_ns). What finds no room is counted.
void sr_trace_span(sr_trace_row *row, const sr_trace_label *label, int64_t begin, int64_t end);
// A part of a span: goes on with the last span where that has this label and was not closed, so
// that blocks of a kernel are counted and not drawn one by one.
void sr_trace_part(sr_trace_row *row, const sr_trace_label *label, int64_t begin, int64_t end);
void sr_trace_close(sr_trace_row *row);

// Spans that found no room, of all rows.
uint64_t sr_trace_lost(const sr_trace *trace);
// Appends the events of all rows, separated by commas: what stands between SR_TRACE_HEAD and
// SR_TRACE_TAIL in a file, where those of several processes may follow each other.
void sr_trace_add_events(const sr_trace *trace, sr_text *out);
#define SR_TRACE_HEAD "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
#define SR_TRACE_TAIL "\n]}\n"
// Writes all rows as a file of their own.
SR_NODISCARD sr_status sr_trace_write(const sr_trace *trace, const char *path);

#endif
