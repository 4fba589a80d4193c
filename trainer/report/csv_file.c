// SPDX-License-Identifier: Apache-2.0
// CSV files with resume: reads a whole file, drops the rows after a position, appends rows.
//
// Not a general CSV library: the files are our own and have a few MB at most.
#include "trainer/report/csv_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"

#define MAX_CSV ((size_t)1 << 30)

struct sr_csv {
    int fd, columns;
    char *path;
    sr_text waiting; // rows that are not in the file yet
    bool warned;     // that they had to wait
};

// -- reading ---------------------------------------------------------------------------------

// Reads one cell at *at into *cell (unquoted in place) and advances *at past its separator. Returns
// the separator: ',' or '\n', or 0 at the end of the text. A line ends even inside quotes: our
// cells have no line breaks, so an open quote is damage to this line only.
static char next_cell(char **at, char **cell) {
    char *from = *at, *to = from, separator;
    *cell = to;
    if (*from == '"') {
        for (++from; *from != 0 && *from != '\n' && (*from != '"' || from[1] == '"'); ++from) {
            if (*from == '"')
                ++from; // a doubled quote
            *to++ = *from;
        }
        from += *from == '"';
    } else {
        size_t length = strcspn(from, ",\n");
        from += length;
        to = from;
    }
    separator = *from;
    *at = from + (separator != 0);
    *to = 0;
    return separator;
}

static double parse_number(const char *cell) {
    char *end;
    double value = strtod(cell, &end);
    return end == cell || *end != 0 ? (double)NAN : value;
}

// Splits the header; returns the number of columns: 0 without a complete header line, -1 if memory
// is out.
static int parse_header(char **at, sr_arena *arena, const char ***names) {
    int count = 0, capacity = 1;
    char separator;
    for (const char *c = *at; *c != 0 && *c != '\n'; ++c)
        capacity += *c == ',';
    *names = sr_arena_alloc(arena, (size_t)capacity * sizeof **names);
    if (*names == NULL)
        return -1;
    do {
        char *cell;
        separator = next_cell(at, &cell);
        (*names)[count++] = cell;
    } while (separator == ',' && count < capacity);
    return separator == '\n' ? count : 0;
}

static sr_status parse_rows(const char *path, char *at, int64_t row_capacity, sr_csv_table *table) {
    double *values = sr_arena_alloc(&table->arena,
                                    (size_t)row_capacity * (size_t)table->columns * sizeof *values);
    if (values == NULL)
        return SR_E_MEMORY;
    table->values = values;
    while (*at != 0) {
        char separator = ',', *cell;
        int column = 0;
        for (; separator == ',' && column < table->columns; ++column) {
            separator = next_cell(&at, &cell);
            values[column] = parse_number(cell);
        }
        if (separator != '\n' || column != table->columns) {
            if (separator == 0)
                break; // an incomplete last line is ignored
            return SR_FAIL(SR_E_DATA,
                           "%s:%lld: the line does not have %d cells like the first line", path,
                           (long long)table->rows + 2, table->columns);
        }
        values += table->columns;
        ++table->rows;
    }
    return SR_OK;
}

sr_status sr_csv_read(const char *path, sr_csv_table *out) {
    void *data = NULL;
    size_t bytes;
    if (sr_path_is_stream(path)) // reading one may never end
        return SR_FAIL(SR_E_DATA, "%s: not a regular file, so there are no rows to read", path);
    SR_TRY(sr_file_read(path, MAX_CSV, &data, &bytes));
    sr_csv_table table = {0};
    sr_arena_init(&table.arena);
    sr_status status = SR_OK;
    int64_t lines = 0;
    char *text = sr_arena_alloc(&table.arena, bytes + 1);
    if (text == NULL) {
        status = SR_E_MEMORY;
        goto done;
    }
    memcpy(text, data, bytes);
    for (size_t i = 0; i < bytes; ++i)
        lines += text[i] == '\n';
    table.columns = parse_header(&text, &table.arena, &table.names);
    if (table.columns > 0)
        status = parse_rows(path, text, lines, &table);
    else if (table.columns == 0)
        status = SR_FAIL(SR_E_DATA, "%s: no header line with column names", path);
    else
        status = SR_E_MEMORY;
done:
    sr_free(data);
    if (status == SR_OK)
        *out = table;
    else
        sr_arena_release(&table.arena);
    return status;
}

void sr_csv_table_release(sr_csv_table *table) {
    sr_arena_release(&table->arena);
    *table = (sr_csv_table){0};
}

int sr_csv_table_column(const sr_csv_table *table, const char *name) {
    for (int i = 0; i < table->columns; ++i)
        if (strcmp(table->names[i], name) == 0)
            return i;
    return -1;
}

// -- adding rows -----------------------------------------------------------------------------

static void add_cell(sr_text *row, int column, const char *cell) {
    if (column > 0)
        sr_text_add(row, ",");
    if (cell == NULL)
        return;
    if (strpbrk(cell, ",\"") == NULL) {
        sr_text_add(row, "%s", cell);
        return;
    }
    sr_text_add(row, "\"");
    for (; *cell != 0; ++cell)
        sr_text_add(row, *cell == '"' ? "\"\"" : "%c", *cell);
    sr_text_add(row, "\"");
}

// Rows that could not be written stay in 'waiting', partly written ones with their remainder, and
// are written with the next row: a disk that is full for a while loses no rows.
static sr_status write_waiting(sr_csv *csv) {
    size_t done = 0;
    sr_status status = sr_text_check(&csv->waiting);
    while (status == SR_OK && done < csv->waiting.length) {
        ssize_t n = write(csv->fd, csv->waiting.data + done, csv->waiting.length - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            status = sr_file_fail(csv->path, "cannot add a row", errno);
    }
    if (done > 0)
        memmove(csv->waiting.data, csv->waiting.data + done, csv->waiting.length - done + 1);
    csv->waiting.length -= done;
    return status;
}

static sr_status write_row(sr_csv *csv) {
    sr_text_add(&csv->waiting, "\n");
    SR_TRY(sr_text_check(&csv->waiting));
    if (write_waiting(csv) == SR_OK || csv->warned)
        return SR_OK;
    csv->warned = true;
    SR_WARN("%s; rows are kept in memory until the next checkpoint, which must write them",
            sr_error_message());
    return SR_OK;
}

sr_status sr_csv_add_numbers(sr_csv *csv, const double *values) {
    for (int i = 0; i < csv->columns; ++i) {
        if (i > 0)
            sr_text_add(&csv->waiting, ",");
        if (isfinite(values[i]) && fabs(values[i]) < 9e15 && values[i] == floor(values[i]))
            sr_text_add(&csv->waiting, "%.0f", values[i]);
        else if (isfinite(values[i]))
            sr_text_add(&csv->waiting, "%.9g", values[i]); // as exact as fp32
        else if (!isnan(values[i]))
            sr_text_add(&csv->waiting, values[i] > 0 ? "inf" : "-inf");
    }
    return write_row(csv);
}

sr_status sr_csv_add_text(sr_csv *csv, const char *const *cells) {
    for (int i = 0; i < csv->columns; ++i)
        add_cell(&csv->waiting, i, cells[i]);
    return write_row(csv);
}

sr_status sr_csv_sync(sr_csv *csv) {
    SR_TRY(write_waiting(csv));
    return sr_file_sync(csv->fd, csv->path);
}

// -- opening ---------------------------------------------------------------------------------

static bool same_columns(const sr_csv_table *table, const char *const *columns, int count) {
    if (table->columns != count)
        return false;
    for (int i = 0; i < count; ++i)
        if (strcmp(table->names[i], columns[i]) != 0)
            return false;
    return true;
}

// Copies the header and the rows that stay, as they were written, into 'out'.
static void copy_rows(const char *text, const sr_csv_table *table, int position_column,
                      int64_t position, sr_text *out) {
    const char *end = strchr(text, '\n');
    sr_text_add_bytes(out, text, (size_t)(end + 1 - text));
    for (int64_t row = 0; row < table->rows; ++row) {
        text = end + 1;
        end = strchr(text, '\n');
        double value = table->values[row * table->columns + position_column];
        if (value <= (double)position)
            sr_text_add_bytes(out, text, (size_t)(end + 1 - text));
    }
}

static void make_header(const char *const *columns, int count, sr_text *out) {
    for (int i = 0; i < count; ++i)
        add_cell(out, i, columns[i]);
    sr_text_add(out, "\n");
}

// Moves a file that cannot be continued aside; the last error message is the reason.
static sr_status set_aside(const char *path) {
    char reason[512], *old;
    (void)snprintf(reason, sizeof reason, "%s", sr_error_message());
    SR_TRY(sr_move_aside(path, ".old", &old));
    SR_WARN("%s; it is kept as %s, and a new file is started", reason, old);
    sr_free(old);
    return SR_OK;
}

static sr_status read_same(const char *path, const char *const *columns, int count,
                           sr_csv_table *out) {
    SR_TRY(sr_csv_read(path, out));
    if (same_columns(out, columns, count))
        return SR_OK;
    sr_csv_table_release(out);
    return SR_FAIL(SR_E_DATA, "%s: its columns differ from those that this version writes", path);
}

// The file's new contents; *same if they equal the old ones.
static sr_status trim(const char *path, const char *const *columns, int count, int position_column,
                      int64_t position, sr_text *out, bool *same) {
    void *data = NULL;
    size_t bytes;
    sr_csv_table table = {0};
    *same = false;
    sr_status status = position < 0 ? SR_E_NOT_FOUND : sr_file_read(path, MAX_CSV, &data, &bytes);
    if (status == SR_E_NOT_FOUND) {
        make_header(columns, count, out);
        return sr_text_check(out);
    }
    SR_TRY(status);
    status = read_same(path, columns, count, &table);
    if (status == SR_OK) {
        copy_rows(data, &table, position_column, position, out);
        *same = out->length == bytes;
        sr_csv_table_release(&table);
    } else if (status == SR_E_DATA) {
        make_header(columns, count, out);
        status = set_aside(path);
    }
    sr_free(data);
    return status == SR_OK ? sr_text_check(out) : status;
}

static sr_status rewrite(const char *path, const char *const *columns, int column_count,
                         int position_column, int64_t position) {
    bool same;
    sr_text text;
    sr_text_init(&text);
    sr_status status = trim(path, columns, column_count, position_column, position, &text, &same);
    if (status == SR_OK && !same)
        status = sr_file_write_atomic(path, text.data, text.length);
    sr_text_release(&text);
    return status;
}

sr_status sr_csv_open(const char *path, const char *const *columns, int column_count,
                      int position_column, int64_t position, sr_csv **out) {
    const bool stream = sr_path_is_stream(path); // has no rows to keep
    if (!stream)
        SR_TRY(rewrite(path, columns, column_count, position_column, position));
    sr_csv *csv = sr_alloc(sizeof *csv, "CSV file");
    if (csv == NULL)
        return SR_E_MEMORY;
    sr_text_init(&csv->waiting);
    if (stream)
        make_header(columns, column_count, &csv->waiting);
    csv->columns = column_count;
    csv->fd = -1;
    csv->path = sr_strdup(path);
    sr_status status = csv->path ? sr_file_open_lines(path, &csv->fd) : SR_E_MEMORY;
    if (status != SR_OK) {
        sr_csv_close(csv);
        return status;
    }
    *out = csv;
    return SR_OK;
}

void sr_csv_close(sr_csv *csv) {
    if (csv == NULL)
        return;
    if (csv->fd >= 0)
        close(csv->fd);
    sr_text_release(&csv->waiting);
    sr_free(csv->path);
    sr_free(csv);
}
