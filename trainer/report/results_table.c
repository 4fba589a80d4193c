// SPDX-License-Identifier: Apache-2.0
// What the pictures of one run and of several have in common (results_internal.h).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/text.h"
#include "trainer/report/results_internal.h"

// -- metrics.csv -----------------------------------------------------------------------------

sr_status sr_results_read(const char *folder, sr_csv_table *out) {
    char *path = sr_path_join(folder, "metrics.csv");
    if (path == NULL)
        return SR_E_MEMORY;
    const sr_status status = sr_csv_read(path, out);
    sr_free(path);
    return status;
}

double sr_results_cell(const sr_csv_table *table, int64_t row, const char *column) {
    int c = sr_csv_table_column(table, column);
    return c < 0 ? (double)NAN : table->values[row * table->columns + c];
}

double sr_results_last(const sr_csv_table *table, const char *column) {
    for (int64_t row = table->rows; row-- > 0;)
        if (!isnan(sr_results_cell(table, row, column)))
            return sr_results_cell(table, row, column);
    return (double)NAN;
}

double sr_results_best(const sr_csv_table *table, const sr_column *column) {
    double best = (double)NAN;
    for (int64_t row = 0; row < table->rows; ++row) {
        const double now = sr_results_cell(table, row, column->name);
        best = sr_column_is_better(column, now, best) ? now : best;
    }
    return best;
}

void sr_results_to_percent(sr_csv_table *table, const char *column) {
    const int c = sr_csv_table_column(table, column);
    for (int64_t row = 0; c >= 0 && row < table->rows; ++row)
        table->values[row * table->columns + c] *= 100;
}

static bool all_have(const sr_csv_table *const *tables, int count, const char *column) {
    for (int i = 0; i < count; ++i)
        if (sr_csv_table_column(tables[i], column) < 0)
            return false;
    return true;
}

const char *sr_results_axis(const sr_csv_table *const *tables, int count) {
    const bool has_epochs = all_have(tables, count, "epoch");
    const bool has_steps = all_have(tables, count, "step");
    double epochs = (double)NAN;
    for (int i = 0; i < count; ++i)
        epochs = fmax(epochs, sr_results_last(tables[i], "epoch"));
    if (has_epochs && (epochs >= 2 || !has_steps))
        return "epoch";
    return has_steps ? "step" : "samples";
}

// -- columns ---------------------------------------------------------------------------------

bool sr_column_is_in(const sr_column *column, const char *group) {
    return strncmp(column->name, group, strlen(group)) == 0;
}

bool sr_column_is_measured(const sr_column *column, sr_unit unit) {
    return column->unit == unit &&
           (sr_column_is_in(column, "train/") || sr_column_is_in(column, "val/"));
}

bool sr_column_is_rate(const char *name) {
    return strcmp(name, "lr") == 0 || sr_text_ends_with(name, ".lr");
}

void sr_column_curve(const sr_column *column, char out[SR_CURVE_NAME]) {
    const char *rest = strchr(column->name, '/') + 1, *what = rest;
    size_t length;
    if (column->unit != SR_UNIT_LOSS && column->label)
        what = column->label;
    length = strlen(what);
    if (column->unit == SR_UNIT_LOSS && length >= 4 && strcmp(what + length - 4, "loss") == 0)
        for (length -= 4; length > 0 && strchr("._", what[length - 1]);)
            --length;
    snprintf(out, SR_CURVE_NAME, "%.*s%s%.*s", (int)(rest - 1 - column->name), column->name,
             length > 0 ? " " : "", (int)length, what);
}

// -- panels ----------------------------------------------------------------------------------

bool sr_results_curve(const sr_csv_table *table, const char *x, const char *column,
                      sr_panel_series *out) {
    const int at_x = sr_csv_table_column(table, x), at_y = sr_csv_table_column(table, column);
    if (at_x < 0 || at_y < 0)
        return false;
    *out = (sr_panel_series){.name = "",
                             .x = table->values + at_x,
                             .y = table->values + at_y,
                             .stride = table->columns,
                             .count = table->rows};
    return true;
}

sr_panel sr_results_place(int column, int row, const char *title) {
    const double margin = 40, header = 84, gap = 48, middle = 24, foot = 40;
    const double width = (SR_RESULTS_WIDTH - 2 * margin - gap) / 2;
    const double height = SR_RESULTS_HEIGHT - header - middle - foot, upper = 0.58 * height;
    return (sr_panel){.title = title,
                      .x = margin + column * (width + gap),
                      .y = header + row * (upper + middle),
                      .width = width,
                      .height = row == 0 ? upper : height - upper,
                      .x_unit = 1};
}

void sr_results_add_panel(sr_figure *figure, sr_panel panel, const sr_panel_series *series,
                          int count) {
    panel.series = series;
    panel.series_count = count;
    sr_figure_add_panel(figure, panel);
}
