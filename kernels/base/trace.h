// SPDX-License-Identifier: Apache-2.0
// Traces: time spans of several threads, collected in memory and written as a Chrome trace (JSON
// object format, complete events), which chrome://tracing, Perfetto and other viewers read.
//
// A row belongs to one thread, which writes to it without locks or allocations. Any thread may add
// rows and labels. The file may only be written while no thread writes to a row.
#ifndef SR_KERNELS_BASE_TRACE_H
#define SR_KERNELS_BASE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/text.h"

typedef struct sr_trace sr_trace;
typedef struct sr_trace_row sr_trace_row;
// What a span shows: its name and arguments.
typedef struct sr_trace_label sr_trace_label;

// 'process' (the rank) and 'name' are the heading of all rows. Times count from this call.
SR_NODISCARD sr_status sr_trace_create(int process, const char *name, sr_trace **out);
void sr_trace_free(sr_trace *trace); // NULL is legal

// 'args': members of a JSON object without its braces ("\"flops\": 3"), or "". Both are copied;
// the label lives as long as the trace.
SR_NODISCARD sr_status sr_trace_add_label(sr_trace *trace, const char *name, const char *args,
                                          const sr_trace_label **out);
// An empty row with room for 'spans' spans; rows are shown in the order in which they were added.
SR_NODISCARD sr_status sr_trace_add_row(sr_trace *trace, const char *name, size_t spans,
                                        sr_trace_row **out);
// Makes room for 'spans' more spans; the row's thread must not write in the meantime.
SR_NODISCARD sr_status sr_trace_reserve(sr_trace_row *row, size_t spans);

// Adds a span from 'begin' to 'end' (sr_clock_ns); drops it when the row is full.
void sr_trace_span(sr_trace_row *row, const sr_trace_label *label, int64_t begin, int64_t end);
// Adds a part of a span: extends the last span if it has this label and is not closed, so that the
// blocks of a kernel are counted instead of being drawn one by one.
void sr_trace_part(sr_trace_row *row, const sr_trace_label *label, int64_t begin, int64_t end);
void sr_trace_close(sr_trace_row *row);

// Appends the events of all rows, separated by commas: the content of a file between SR_TRACE_HEAD
// and SR_TRACE_TAIL. Such a file may contain the events of several processes, one after the other.
void sr_trace_add_events(const sr_trace *trace, sr_text *out);
#define SR_TRACE_HEAD "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
#define SR_TRACE_TAIL "\n]}\n"
// Writes all rows as a complete file.
SR_NODISCARD sr_status sr_trace_write(const sr_trace *trace, const char *path);

#endif
