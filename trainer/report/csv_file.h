// SPDX-License-Identifier: Apache-2.0
// CSV files to which a run appends rows, and which it can resume: metrics.csv, digests.csv.
//
// RFC 4180 with "\n" line ends: the first line names the columns. On opening, rows after the
// resumed position (and an incomplete line left by a crash) are dropped by replacing the file
// atomically, so that a resumed run's file is the one that an uninterrupted run would have written.
#ifndef SR_TRAINER_CSV_FILE_H
#define SR_TRAINER_CSV_FILE_H

#include <stdint.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_csv sr_csv; // one thread at a time

// Opens for appending rows; creates the file if it is missing. Keeps the rows of an existing file
// whose value in columns[position_column] is at most 'position' (-1: none). A file with other
// columns is moved to PATH.old and a new one is started.
SR_NODISCARD sr_status sr_csv_open(const char *path, const char *const *columns, int column_count,
                                   int position_column, int64_t position, sr_csv **out);
// Appends a row, in one write. NaN becomes an empty cell; integers have no fraction. A row that
// cannot be written is kept in memory and tried again with the next one; the first failure is a
// warning.
SR_NODISCARD sr_status sr_csv_add_numbers(sr_csv *csv, const double *values);
// Appends a row of text cells without line breaks; NULL is an empty cell.
SR_NODISCARD sr_status sr_csv_add_text(sr_csv *csv, const char *const *cells);
// Makes all rows durable, or fails; called before a checkpoint is committed.
SR_NODISCARD sr_status sr_csv_sync(sr_csv *csv);
void sr_csv_close(sr_csv *csv);

// A whole file as numbers.
typedef struct sr_csv_table {
    int columns;
    int64_t rows;
    const char **names; // of the columns
    double *values;     // [rows][columns]; NaN where a cell is empty or not a number
    sr_arena arena;     // owns all of it
} sr_csv_table;

// SR_E_DATA if there is no header line or a row has another number of cells (naming the line).
SR_NODISCARD sr_status sr_csv_read(const char *path, sr_csv_table *out);
void sr_csv_table_release(sr_csv_table *table);
// Index of a column, or -1.
int sr_csv_table_column(const sr_csv_table *table, const char *name);

#ifdef __cplusplus
}
#endif
#endif
