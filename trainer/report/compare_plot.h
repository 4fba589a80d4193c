// SPDX-License-Identifier: Apache-2.0
// The curves of several runs as one figure.
#ifndef SR_TRAINER_COMPARE_PLOT_H
#define SR_TRAINER_COMPARE_PLOT_H

#include "trainer/draw/palette.h"
#include "trainer/report/results_plot.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_COMPARED_RUNS = 1 + SR_COLOR_SERIES }; // that colours tell apart

// The runs of a figure, and what it shows.
typedef struct sr_comparison {
    const sr_results *runs;
    const char *const *names; // of the runs
    int count;
    const char *metric; // a column of metrics.csv; NULL: `best` of the first run that has one, or
                        // else what was first measured
    const char *by;     // column of the x axis; NULL: epochs, or steps where no run has two epochs
} sr_comparison;

// What a figure shows of a run; NaN: not measured.
typedef struct sr_compared_run {
    double steps;
    double best, last; // of the metric, as in metrics.csv
} sr_compared_run;

// What a figure shows.
typedef struct sr_compared {
    sr_column metric; // borrowed from the runs, or from 'name'
    char name[128];
    const char *by;
    sr_compared_run runs[SR_COMPARED_RUNS];
} sr_compared;

// 1200 x 800 pixels, with the panels of sr_results_figure and a curve of each run in each: the loss
// of the first phase, the metric, its learning rate, images a second. A run without one of the
// columns has no curve there, after a warning. Fails as sr_csv_read; SR_E_USAGE for too many runs,
// and for a metric or an axis that no run has. Released with sr_figure_release.
SR_NODISCARD sr_status sr_compare_figure(const sr_comparison *comparison, sr_figure *out,
                                         sr_compared *compared);

#ifdef __cplusplus
}
#endif
#endif
