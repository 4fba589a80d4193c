// SPDX-License-Identifier: Apache-2.0
// serried bench step: how blocks of settings alternate with ours.
//
// If more settings of PyTorch are considered than are measured in full, they are tried first: some
// at a time are in memory, warm, and run short blocks that alternate with ours, A-B-C-D-A-B-C-D, so
// that other load on the machine affects all alike; each is judged relative to our block of the
// same turn. The allocator is tried last, on the fastest. Then the finals are started again and
// alternate with ours. A setting that fails or takes too long is "not measured", with the reason.
#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "launcher/bench/bench_step_internal.h"

enum { TURNS = 3 };

static const double settle_seconds = 0.3;

// Threads that spin while they wait for work go to sleep before the other side begins.
static void settle(void) {
    sr_clock_sleep_ns((int64_t)(settle_seconds * (double)SR_NS_PER_S));
}

static double images_of(const sr_step_result *r) {
    return (double)(r->steps * r->batch);
}

static void name_setting(const sr_step_result *r, const sr_step_peers *peers, sr_step_setting *s,
                         char text[SR_STEP_TEXT]) {
    if (peers->malloc[0])
        s->malloc = peers->malloc;
    (void)sr_step_setting_text(s, r->precision, text);
}

// ---- Trying ----

// Keeps the reason, and ends the processes.
static void give_up(char reason[256], sr_step_peers *peers) {
    (void)snprintf(reason, 256, "%s", sr_error_message());
    sr_step_peers_stop(peers);
}

static void begin_try(sr_step_result *r, sr_step_try *t, sr_step_peers *peers) {
    sr_step_setting named = t->setting;
    const sr_status status = sr_step_peers_start(r, &t->setting, peers);
    name_setting(r, peers, &named, t->text);
    if (status != SR_OK)
        give_up(t->reason, peers);
}

static void take_try(const sr_step_own *own, const sr_step_result *r, double ours, sr_step_try *t,
                     sr_step_peers *peers) {
    double seconds, cpu;
    if (t->reason[0])
        return;
    if (sr_step_peers_block(peers, r, own->block_seconds, &seconds, &cpu) != SR_OK) {
        give_up(t->reason, peers);
        return;
    }
    sr_series_add(&t->per_s, images_of(r) / seconds);
    sr_series_add(&t->share, images_of(r) / seconds / ours);
    settle();
}

// Tries 'count' settings that are in memory at the same time.
static sr_status try_together(const sr_step_own *own, sr_step_result *r, sr_step_try *tries,
                              sr_step_peers *peers, int count) {
    sr_status status = SR_OK;
    for (int i = 0; i < count; i++)
        begin_try(r, &tries[i], &peers[i]);
    for (int turn = 0; turn < TURNS && status == SR_OK; turn++) {
        double ours = 0;
        status = own->block(own->user, false, &ours);
        for (int i = 0; i < count && status == SR_OK; i++)
            take_try(own, r, ours, &tries[i], &peers[i]);
    }
    for (int i = 0; i < count; i++)
        sr_step_peers_stop(&peers[i]);
    return status;
}

static sr_status try_settings(const sr_step_own *own, sr_step_result *r,
                              const sr_step_setting *list, int count, int resident) {
    sr_step_peers peers[SR_STEP_TRIES] = {{.count = 0}};
    for (int from = 0; from < count; from += resident) {
        const int some = count - from < resident ? count - from : resident;
        sr_step_try *tries = &r->tries[r->try_count];
        for (int i = 0; i < some; i++)
            tries[i] = (sr_step_try){.setting = list[from + i]};
        r->try_count += some;
        SR_TRY(try_together(own, r, tries, peers, some));
    }
    return SR_OK;
}

// Tries the fastest setting so far with the other allocator.
static sr_status try_other_malloc(const sr_step_own *own, sr_step_result *r) {
    int chosen[SR_STEP_FINALS];
    if (sr_step_choose_finals(r->tries, r->try_count, r->peer_precision, chosen) == 0)
        return SR_OK;
    const sr_step_try *best = &r->tries[chosen[0]];
    sr_step_setting other = best->setting;
    other.malloc = strstr(best->text, ", tcmalloc, ") ? "default" : "tcmalloc";
    return try_settings(own, r, &other, 1, 1);
}

static sr_status choose(const sr_step_options *o, const sr_step_own *own, sr_step_result *r,
                        const sr_step_setting *list, int count) {
    int chosen[SR_STEP_FINALS];
    SR_TRY(try_settings(own, r, list, count, o->peer_resident));
    if (!o->peer_malloc)
        SR_TRY(try_other_malloc(own, r));
    r->final_count = sr_step_choose_finals(r->tries, r->try_count, r->peer_precision, chosen);
    for (int i = 0; i < r->final_count; i++)
        r->finals[i].setting = r->tries[chosen[i]].setting;
    return r->final_count > 0 ? SR_OK : SR_FAIL(SR_E_PEER, "%s", r->tries[0].reason);
}

// ---- Finals ----

sr_status sr_step_finals_start(const sr_step_options *o, const sr_step_own *own,
                               sr_step_result *r) {
    sr_step_setting list[SR_STEP_TRIES];
    r->setting_count = sr_step_settings_list(o, r, true, list) + (o->peer_malloc ? 0 : 1);
    const int count = sr_step_settings_list(o, r, o->peer_best, list);
    if (count == 0)
        return SR_FAIL(SR_E_PEER, "no PyTorch setting matches the --peer options");
    if (count > SR_STEP_FINALS) {
        SR_TRY(choose(o, own, r, list, count));
    } else {
        r->final_count = count;
        for (int i = 0; i < count; i++)
            r->finals[i].setting = list[i];
    }
    int started = 0;
    for (int i = 0; i < r->final_count; i++) {
        sr_step_final *f = &r->finals[i];
        const sr_status status = sr_step_peers_start(r, &f->setting, &f->peers);
        name_setting(r, &f->peers, &f->setting, f->text);
        if (status != SR_OK)
            give_up(f->reason, &f->peers);
        started += status == SR_OK;
    }
    return started > 0 ? SR_OK : SR_FAIL(SR_E_PEER, "%s", r->finals[0].reason);
}

static void take_final(const sr_step_own *own, const sr_step_result *r, sr_step_final *f) {
    double seconds, cpu;
    if (f->reason[0])
        return;
    if (sr_step_peers_block(&f->peers, r, own->block_seconds, &seconds, &cpu) != SR_OK) {
        give_up(f->reason, &f->peers);
        return;
    }
    sr_series_add(&f->per_s, images_of(r) / seconds);
    sr_series_add(&f->cpu, cpu / r->steps);
    settle();
}

sr_status sr_step_take_turns(const sr_step_options *o, const sr_step_own *own, sr_step_result *r) {
    const int64_t begin = sr_clock_ns();
    for (int i = 0; i < o->blocks; i++) {
        const double spent = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
        double ours;
        if (spent > o->seconds)
            break;
        SR_TRY(own->block(own->user, true, &ours));
        for (int k = 0; k < r->final_count; k++)
            take_final(own, r, &r->finals[k]);
    }
    return SR_OK;
}

void sr_step_finals_stop(sr_step_result *r) {
    for (int i = 0; i < r->final_count; i++)
        sr_step_peers_stop(&r->finals[i].peers);
}
