// SPDX-License-Identifier: Apache-2.0
// What the pictures of one run and of several have in common: metrics.csv, its columns, and where
// panels are.
#ifndef SR_TRAINER_RESULTS_INTERNAL_H
#define SR_TRAINER_RESULTS_INTERNAL_H

#include "trainer/draw/figure.h"
#include "trainer/report/csv_file.h"
#include "trainer/tasks/metric.h"

enum { SR_RESULTS_WIDTH = 1200, SR_RESULTS_HEIGHT = 800, SR_CURVE_NAME = 48 };

// Reads FOLDER/metrics.csv.
SR_NODISCARD sr_status sr_results_read(const char *folder, sr_csv_table *out);
// A number of a table; NaN if it has no such column.
double sr_results_cell(const sr_csv_table *table, int64_t row, const char *column);
// The last number in a column; NaN if there is none.
double sr_results_last(const sr_csv_table *table, const char *column);
// The best number in a column; NaN if there is none.
double sr_results_best(const sr_csv_table *table, const sr_column *column);
// Files contain fractions, pictures show percent.
void sr_results_to_percent(sr_csv_table *table, const char *column);
// The column of the x axis that suits all tables: epochs, or steps where none has two epochs.
const char *sr_results_axis(const sr_csv_table *const *tables, int count);

// Whether the name of a column begins with the group: "train/", "val/".
bool sr_column_is_in(const sr_column *column, const char *group);
// Whether training or an evaluation measured it, in this unit.
bool sr_column_is_measured(const sr_column *column, sr_unit unit);
// Whether it is the learning rate of a phase.
bool sr_column_is_rate(const char *name);
// "train top-1"; of losses "train", "val", "train D" of the phase D.
void sr_column_curve(const sr_column *column, char out[SR_CURVE_NAME]);

// The points of a column over column 'x'; false if the table lacks one of them.
bool sr_results_curve(const sr_csv_table *table, const char *x, const char *column,
                      sr_panel_series *out);
// An empty panel of two columns and two rows, the upper one of which is higher.
sr_panel sr_results_place(int column, int row, const char *title);
// Records the panel with its curves.
void sr_results_add_panel(sr_figure *figure, sr_panel panel, const sr_panel_series *series,
                          int count);

#endif
