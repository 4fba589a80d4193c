// SPDX-License-Identifier: Apache-2.0
// Which settings of PyTorch serried bench step measures again, and which one it reports.
//
// A try is judged by its speed relative to ours in the same turn, so that tries from different
// minutes can be compared on a machine whose speed varies.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "launcher/bench/bench_step_internal.h"

typedef bool kind(const sr_step_setting *setting, const char *precision);

enum { KINDS = 3 };

static bool is_own_precision(const sr_step_setting *s, const char *precision) {
    return strcmp(s->precision, precision) == 0;
}

bool sr_step_equal_groups(const sr_step_setting *s, const char *precision) {
    return s->equal_groups && is_own_precision(s, precision);
}

bool sr_step_other_groups(const sr_step_setting *s, const char *precision) {
    return !s->equal_groups && is_own_precision(s, precision);
}

bool sr_step_other_precision(const sr_step_setting *s, const char *precision) {
    return !is_own_precision(s, precision);
}

static kind *const kinds[KINDS] = {sr_step_equal_groups, sr_step_other_groups,
                                   sr_step_other_precision};

// ---- Tries ----

static bool has(const int *list, int count, int value) {
    for (int i = 0; i < count; i++)
        if (list[i] == value)
            return true;
    return false;
}

// The fastest try that is not in the list; 'want' may be NULL. -1 if there is none.
static int fastest_try(const sr_step_try *tries, int count, const char *precision, kind *want,
                       const int *list, int listed) {
    int best = -1;
    for (int i = 0; i < count; i++) {
        if (tries[i].reason[0] || has(list, listed, i) ||
            (want && !want(&tries[i].setting, precision)))
            continue;
        if (best < 0 || sr_series_median(&tries[i].share) > sr_series_median(&tries[best].share))
            best = i;
    }
    return best;
}

int sr_step_choose_finals(const sr_step_try *tries, int count, const char *precision, int *out) {
    int chosen = 0;
    for (int i = 0; i < 2; i++) {
        const int best = fastest_try(tries, count, precision, NULL, out, chosen);
        if (best >= 0)
            out[chosen++] = best;
    }
    for (int k = 0; k < KINDS; k++) {
        const int best = fastest_try(tries, count, precision, kinds[k], NULL, 0);
        if (best >= 0 && !has(out, chosen, best))
            out[chosen++] = best;
    }
    return chosen;
}

// ---- Finals ----

int sr_step_fastest(const sr_step_result *r, kind *want) {
    int best = -1;
    for (int i = 0; i < r->final_count; i++) {
        const sr_step_final *f = &r->finals[i];
        if (f->reason[0] || f->per_s.count == 0 || (want && !want(&f->setting, r->peer_precision)))
            continue;
        if (best < 0 || sr_series_median(&f->per_s) > sr_series_median(&r->finals[best].per_s))
            best = i;
    }
    return best;
}

double sr_step_ratio(const sr_step_result *r, int final) {
    return sr_series_median(&r->ours) / sr_series_median(&r->finals[final].per_s);
}

// ---- The headline ----

static void add_kind(const sr_step_result *r, int fastest, kind *want, const char *name,
                     sr_text *out) {
    const int i = sr_step_fastest(r, want);
    if (want(&r->finals[fastest].setting, r->peer_precision))
        return;
    if (i >= 0)
        sr_text_add(out, "; %.2fx %s", sr_step_ratio(r, i), name);
    else
        sr_text_add(out, "; %s not measured", name);
}

void sr_step_headline(const sr_step_result *r, sr_text *out) {
    const int best = sr_step_fastest(r, NULL);
    if (best < 0) {
        sr_text_add(out, "PyTorch: not measured: %s", r->peer_reason);
        return;
    }
    const sr_step_final *f = &r->finals[best];
    int measured = 0;
    for (int i = 0; i < r->try_count; i++)
        measured += !r->tries[i].reason[0];
    for (int i = 0; i < r->final_count && r->try_count == 0; i++)
        measured += !r->finals[i].reason[0];
    sr_text_add(out, "%.2fx the %s %s (%s)", sr_step_ratio(r, best),
                measured == 1 ? "one measured setting of" : "fastest measured setting of",
                f->peers.name, f->text);
    add_kind(r, best, sr_step_equal_groups, "with equal groups", out);
    add_kind(r, best, sr_step_other_groups, "with other groups", out);
    if (strcmp(r->peer_precision, "fp32") != 0) {
        const int other = sr_step_fastest(r, sr_step_other_precision);
        char name[32];
        (void)snprintf(name, sizeof name, "in %s",
                       other >= 0 ? r->finals[other].setting.precision : "another precision");
        add_kind(r, best, sr_step_other_precision, name, out);
    }
    sr_text_add(out, "; %d of the %d settings of --peer-best were measured", measured,
                r->setting_count);
}
