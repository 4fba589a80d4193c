// SPDX-License-Identifier: Apache-2.0
// The trace of steps FIRST to LAST of a run (key 'profile'): each rank collects its own, and at the
// end rank 0 writes all of them to trace.json in the run folder.
//
// Ranks begin together, when the previous step is complete on all of them, and measure time from
// there, so that their rows align even if the hosts' clocks differ. A trace that cannot be written
// is a warning and does not end the run.
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "trainer/engine/engine_trace.h"
#include "trainer/run/training_internal.h"

sr_status sr_training_trace_begin(sr_training *t) {
    char name[32];
    const sr_recipe *r = t->recipe;
    if (t->trace || t->step < r->profile_begin || t->step >= r->profile_end)
        return SR_OK;
    (void)snprintf(name, sizeof name, "rank %d", t->rank);
    SR_TRY(sr_comm_barrier(t->comm, "the start of a trace"));
    SR_TRY(sr_trace_create(t->rank, name, &t->trace));
    return sr_engine_set_trace(t->engine, t->trace);
}

static void write_all(const sr_training *t, const char *text, const size_t *offsets,
                      const size_t *sizes) {
    char *path = sr_run_folder_file(t->run, "trace.json");
    sr_text file;
    sr_text_init(&file);
    sr_text_add(&file, SR_TRACE_HEAD);
    for (int r = 0; r < t->ranks; r++) {
        sr_text_add(&file, "%s", r > 0 ? ",\n" : "");
        sr_text_add_bytes(&file, text + offsets[r], sizes[r]);
    }
    sr_text_add(&file, SR_TRACE_TAIL);
    sr_status status = path ? sr_text_check(&file) : SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_file_write_atomic(path, file.data, file.length);
    if (status == SR_OK)
        SR_INFO("trace of steps %lld to %lld: %s", (long long)t->recipe->profile_begin,
                (long long)t->step, path);
    else
        SR_WARN("%s", sr_error_message());
    sr_text_release(&file);
    sr_free(path);
}

typedef struct gathered_traces {
    size_t *sizes, *offsets;
    char *text;
} gathered_traces;

static sr_status gather(const sr_training *t, const sr_text *own, gathered_traces *g) {
    const size_t ranks = (size_t)t->ranks;
    size_t all = 0;
    g->sizes = sr_alloc_array(ranks, sizeof *g->sizes, "trace");
    g->offsets = sr_alloc_array(ranks, sizeof *g->offsets, "trace");
    if (!g->sizes || !g->offsets)
        return SR_E_MEMORY;
    SR_TRY(sr_comm_all_gather(t->comm, &own->length, sizeof own->length, g->sizes, "traces"));
    for (size_t r = 0; r < ranks; r++) {
        g->offsets[r] = all;
        all += g->sizes[r];
    }
    g->text = sr_alloc(all, "trace");
    if (!g->text)
        return SR_E_MEMORY;
    memcpy(g->text + g->offsets[t->rank], own->data, own->length);
    SR_TRY(sr_comm_all_gather_v(t->comm, g->text, g->offsets, g->sizes, "traces"));
    if (t->rank == 0)
        write_all(t, g->text, g->offsets, g->sizes);
    return SR_OK;
}

sr_status sr_training_trace_end(sr_training *t, bool last) {
    if (!t->trace || (t->step < t->recipe->profile_end && !last))
        return SR_OK;
    gathered_traces g = {0};
    sr_text own;
    SR_TRY(sr_engine_set_trace(t->engine, NULL));
    sr_text_init(&own);
    sr_trace_add_events(t->trace, &own);
    sr_status status = sr_text_check(&own);
    if (status == SR_OK)
        status = gather(t, &own, &g);
    sr_free(g.sizes);
    sr_free(g.offsets);
    sr_free(g.text);
    sr_text_release(&own);
    sr_trace_free(t->trace);
    t->trace = NULL;
    return status;
}
