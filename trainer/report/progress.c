// SPDX-License-Identifier: Apache-2.0
// Formats the progress line; sr_log_progress decides where and how often it appears.
#include "trainer/report/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/base/log.h"
#include "kernels/base/status.h"
#include "kernels/base/text.h"

#define PLAIN_INTERVAL_S 10.0

typedef struct progress_line {
    char *at;
    size_t left;
} progress_line;

static void add(progress_line *l, const char *fmt, ...) SR_PRINTF(2, 3);
static void add(progress_line *l, const char *fmt, ...) {
    va_list list;
    va_start(list, fmt);
    int n = vsnprintf(l->at, l->left, fmt, list);
    va_end(list);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (used >= l->left)
        used = l->left - 1;
    l->at += used;
    l->left -= used;
}

char *sr_progress_duration(double seconds, char *out) {
    int64_t s = seconds < 1e14 ? (int64_t)(seconds + 0.5) : 0;
    if (!(seconds < 1e14))
        snprintf(out, 24, "over 10^9 d");
    else if (s < 60)
        snprintf(out, 24, "%" PRId64 " s", s);
    else if (s < 3600)
        snprintf(out, 24, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, 24, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 24, "%" PRId64 " d %02" PRId64 ":%02" PRId64, s / 86400, s / 3600 % 24,
                 s / 60 % 60);
    return out;
}

static void add_where(progress_line *l, const sr_progress *p) {
    if (p->what != NULL)
        add(l, "%s  ", p->what);
    if (p->epochs > 0)
        add(l, "epoch %g/%g  ", p->epoch, p->epochs);
    if (p->steps > 0)
        add(l, "step %" PRId64 "/%" PRId64, p->step, p->steps);
    else
        add(l, "step %" PRId64, p->step);
}

static void add_values(progress_line *l, const sr_progress *p) {
    char text[24], value[SR_COLUMN_TEXT];
    if (isfinite(p->eta_seconds) && p->eta_seconds >= 0 && p->eta_seconds < 1e9)
        add(l, "  ETA %s", sr_progress_duration(p->eta_seconds, text));
    if (!isnan(p->loss))
        add(l, "  loss %.4f", p->loss);
    if (!isnan(p->lr))
        add(l, "  lr %.4g", p->lr);
    if (!isnan(p->images_per_s))
        add(l, p->images_per_s < 100 ? "  %.1f images/s" : "  %.0f images/s", p->images_per_s);
    if (!isnan(p->data_wait))
        add(l, "  data %.1f %%", 100 * p->data_wait);
    if (!isnan(p->comm_exposed))
        add(l, "  comm %.1f %%", 100 * p->comm_exposed);
    if (!isnan(p->mfu))
        add(l, "  MFU %.1f %%", 100 * p->mfu);
    if (p->memory_bytes > 0)
        add(l, "  %s", sr_text_bytes(p->memory_bytes, text));
    if (isnan(p->val))
        return;
    add(l, "  val %s %s", p->val_column->label, sr_column_text(p->val_column, p->val, value));
    if (p->val_epoch > 0)
        add(l, " (epoch %g)", p->val_epoch);
    else
        add(l, " (step %" PRId64 ")", p->val_step);
}

char *sr_progress_format(const sr_progress *progress, char *out, size_t bytes) {
    progress_line l = {.at = out, .left = bytes};
    *out = 0;
    add_where(&l, progress);
    add_values(&l, progress);
    return out;
}

void sr_progress_show(const sr_progress *progress) {
    char text[320];
    sr_log_progress(sr_progress_format(progress, text, sizeof text), PLAIN_INTERVAL_S);
}

void sr_rate_mark(sr_rate *rate, int64_t samples, int64_t ns) {
    int64_t at = rate->marks++ % SR_RATE_MARKS;
    rate->samples[at] = samples;
    rate->ns[at] = ns;
}

double sr_rate_get(const sr_rate *rate) {
    if (rate->marks < 2)
        return (double)NAN;
    int64_t newest = (rate->marks - 1) % SR_RATE_MARKS;
    int64_t oldest = rate->marks > SR_RATE_MARKS ? rate->marks % SR_RATE_MARKS : 0;
    int64_t ns = rate->ns[newest] - rate->ns[oldest];
    if (ns <= 0)
        return (double)NAN;
    return (double)(rate->samples[newest] - rate->samples[oldest]) * 1e9 / (double)ns;
}
