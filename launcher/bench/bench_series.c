// SPDX-License-Identifier: Apache-2.0
// Series of measurements: median and extremes. No mean, which one disturbed block would shift.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/bench/bench_internal.h"

void sr_series_add(sr_series *series, double value) {
    if (series->count < SR_SERIES_MAX)
        series->values[series->count++] = value;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sr_series_median(const sr_series *series) {
    double sorted[SR_SERIES_MAX];
    size_t n = (size_t)series->count;
    if (n == 0)
        return (double)NAN;
    memcpy(sorted, series->values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double sr_series_min(const sr_series *series) {
    double least = (double)NAN;
    for (int i = 0; i < series->count; i++)
        least = series->values[i] > least ? least : series->values[i];
    return least;
}

double sr_series_max(const sr_series *series) {
    double most = (double)NAN;
    for (int i = 0; i < series->count; i++)
        most = series->values[i] < most ? most : series->values[i];
    return most;
}
