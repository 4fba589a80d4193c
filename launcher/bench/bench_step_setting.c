// SPDX-License-Identifier: Apache-2.0
// The settings of PyTorch that serried bench step considers: mode (eager, compile), allocator,
// number of processes with their share of the batch, pinned threads or not, and the wider
// precisions.
//
// Processes that take whole lanes normalise over the samples of a lane, as ours do: equal groups.
// Any other division of the batch has other groups, which may be faster; both are considered.
#include <stdio.h>
#include <string.h>

#include "launcher/bench/bench_step_internal.h"

enum { MAX_LAYOUTS = 4 };

// How the batch is divided: into 'processes' times 'passes' parts.
typedef struct layout {
    int processes, passes;
} layout;

// From narrow to wide.
static const char *const precisions[] = {"fp16", "bf16", "fp32"};
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

// Index in precisions; -1 for another name.
static int width_of(const char *precision) {
    int i = PRECISIONS - 1;
    while (i >= 0 && strcmp(precisions[i], precision) != 0)
        i--;
    return i;
}

// The largest number of processes, up to one per thread, that divides 'parts' (lanes or samples).
static int most_processes(const sr_step_result *r, int64_t parts) {
    int most = r->threads < SR_STEP_PEERS ? r->threads : SR_STEP_PEERS;
    while (most > 1 && parts % most != 0)
        most--;
    return most;
}

static bool are_equal(const sr_step_result *r, const layout *l) {
    return (int64_t)l->processes * l->passes == r->lanes;
}

sr_status sr_step_settings_check(const sr_step_options *o, const sr_step_result *r) {
    const int n = o->peer_processes;
    if (width_of(r->peer_precision) < width_of(r->precision)) {
        return SR_FAIL(
            SR_E_USAGE,
            "--peer-precision %s: must be %s, the precision of the step, or a wider one; "
            "from narrow to wide they are fp16, bf16 and fp32",
            r->peer_precision, r->precision);
    }
    if (n == 0 || r->lanes % n == 0)
        return SR_OK;
    if (o->peer_groups == SR_STEP_GROUPS_EQUAL)
        return SR_FAIL(SR_E_USAGE,
                       "--peer-processes %d does not divide %lld lane%s, so batch norm groups "
                       "would differ from ours, which --peer-groups equal excludes",
                       n, (long long)r->lanes, r->lanes == 1 ? "" : "s");
    if (r->batch % n != 0)
        return SR_FAIL(SR_E_USAGE, "--peer-processes %d does not divide a batch of %lld", n,
                       (long long)r->batch);
    return SR_OK;
}

static void add_layout(layout *list, int *count, layout one) {
    for (int i = 0; i < *count; i++)
        if (list[i].processes == one.processes && list[i].passes == one.passes)
            return;
    list[(*count)++] = one;
}

// Layouts with equal groups, then with others. Unless all are wanted, only the one with the most
// processes of each. Returns the number.
static int list_layouts(const sr_step_options *o, const sr_step_result *r, bool all,
                        layout out[MAX_LAYOUTS]) {
    const int given = o->peer_processes;
    const int by_lanes = given > 0 ? given : most_processes(r, r->lanes);
    const int by_samples = given > 0 ? given : most_processes(r, r->batch);
    int count = 0;
    if (o->peer_groups != SR_STEP_GROUPS_OTHER && r->lanes % by_lanes == 0) {
        add_layout(out, &count, (layout){by_lanes, (int)(r->lanes / by_lanes)});
        if (all && given == 0)
            add_layout(out, &count, (layout){1, (int)r->lanes});
    }
    if (o->peer_groups == SR_STEP_GROUPS_EQUAL)
        return count;
    const layout others[] = {{by_samples, 1}, {1, 1}};
    const int before = count;
    for (int i = 0; i < (given > 0 ? 1 : 2); i++)
        if (!are_equal(r, &others[i]) && r->batch % others[i].processes == 0 &&
            (all || count == before))
            add_layout(out, &count, others[i]);
    return count;
}

static bool both(bool best, const char *given) {
    return best && !given;
}

// The combinations for one layout and precision. Those that are not pinned come first: the others
// find what they compiled in the cache.
static int add_settings(const sr_step_options *o, const sr_step_result *r, bool best,
                        sr_step_setting base, sr_step_setting *out) {
    static const char *const modes[] = {"eager", "compile"};
    const bool can_pin = r->cpu_count >= r->threads;
    int count = 0;
    for (int m = 0; m < 2; m++) {
        const bool wants = o->peer_mode ? strcmp(o->peer_mode, modes[m]) == 0 : m == 0 || best;
        for (int pinned = 0; pinned < 2 && wants; pinned++) {
            const bool usual = base.processes > 1;
            const bool given = o->peer_pinned && (strcmp(o->peer_pinned, "yes") == 0) == pinned;
            if ((pinned && !can_pin) || (o->peer_pinned && !given) ||
                (!o->peer_pinned && !both(best, o->peer_pinned) && pinned != (usual && can_pin)))
                continue;
            out[count] = base;
            out[count].mode = modes[m];
            out[count].pinned = pinned;
            count++;
        }
    }
    return count;
}

int sr_step_settings_list(const sr_step_options *o, const sr_step_result *r, bool best,
                          sr_step_setting *out) {
    layout layouts[MAX_LAYOUTS];
    const int layout_count = list_layouts(o, r, best, layouts);
    const int first = width_of(r->peer_precision);
    int count = 0;
    for (int p = first; p < (o->peer_precision ? first + 1 : PRECISIONS); p++) {
        for (int i = 0; i < layout_count; i++) {
            const int n = layouts[i].processes;
            const sr_step_setting base = {.malloc = o->peer_malloc ? o->peer_malloc : "auto",
                                          .precision = precisions[p],
                                          .processes = n,
                                          .threads = r->threads > n ? r->threads / n : 1,
                                          .passes = layouts[i].passes,
                                          .equal_groups = are_equal(r, &layouts[i])};
            count += add_settings(o, r, best, base, out + count);
        }
    }
    return count;
}

const char *sr_step_setting_text(const sr_step_setting *s, const char *own,
                                 char out[SR_STEP_TEXT]) {
    const bool same = strcmp(s->precision, own) == 0;
    (void)snprintf(out, SR_STEP_TEXT, "%s%s%s, %s, %d process%s of %d thread%s%s%s",
                   same ? "" : s->precision, same ? "" : ", ", s->mode, s->malloc, s->processes,
                   s->processes == 1 ? "" : "es", s->threads, s->threads == 1 ? "" : "s",
                   s->pinned ? ", pinned" : "", s->equal_groups ? "" : ", other groups");
    return out;
}

// ---- Processors ----

sr_status sr_step_choose_cpus(int threads, sr_step_result *r) {
    static sr_cpu_location places[SR_CPUS];
    const sr_cpu_set allowed = sr_cpu_set_of_thread();
    const int count = sr_cpu_locations_read("/sys", &allowed, places);
    sr_cpu_set chosen = {{0}};
    r->cpu_count = 0;
    for (int first = 1; first >= 0; first--) {
        for (int i = 0; i < count && r->cpu_count < threads; i++) {
            const bool is_first = i == 0 || sr_cpu_locations_cores(&places[i - 1], 2) == 2;
            if (is_first != (first == 1))
                continue;
            r->cpus[r->cpu_count++] = places[i].cpu;
            sr_cpu_set_add(&chosen, places[i].cpu);
        }
    }
    return r->cpu_count > 0 ? sr_cpu_set_bind(&chosen) : SR_OK;
}
