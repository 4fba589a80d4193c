// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a training run: what its manifest says, saving and going on from one.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "trainer/fingerprint.h"
#include "trainer/training_internal.h"

static sr_manifest make_manifest(const sr_training *t, const char *fingerprint) {
    const sr_recipe *r = t->recipe;
    sr_manifest m = {.position = t->position,
                     .step = t->step,
                     .epoch = t->position / t->train_count,
                     .lanes = t->engine->lanes,
                     .batch = t->engine->batch,
                     .seed = t->engine->seed,
                     .task = t->task->name,
                     .model = t->engine->models[0]->desc->name,
                     .recipe = r->name,
                     .recipe_identity = t->identity,
                     .data_identity = t->data_identity,
                     .fingerprint = fingerprint,
                     .classes = t->class_names,
                     .class_count = t->class_count,
                     .image_height = t->engine->image_height,
                     .image_width = t->engine->image_width,
                     .channels = 3,
                     .metric = "val/top1",
                     .metric_value = t->evaluated_here ? t->val_top1 : (double)NAN,
                     .best_value = t->best_top1,
                     .best_step = t->best_step};
    for (int c = 0; c < 3; c++) {
        m.mean[c] = t->engine->mean[c];
        m.std[c] = t->engine->std[c];
    }
    return m;
}

sr_status sr_training_save(sr_training *t) {
    char fingerprint[SR_FINGERPRINT_BYTES];
    sr_manifest manifest = make_manifest(t, sr_fingerprint(fingerprint));
    bool best = t->evaluated_here && t->best_step == t->step;
    if (t->rank == 0) {
        SR_TRY(sr_csv_sync(t->metrics));
        SR_TRY(sr_csv_sync(t->digests));
    }
    SR_TRY(sr_state_save(t->engine, t->place.folder, &manifest, best,
                         (int)t->recipe->checkpoint.keep, t->digest));
    t->last_checkpoint_ns = sr_clock_ns();
    t->last_checkpoint_position = t->position;
    if (t->rank != 0)
        return SR_OK;
    char step[32], position[32];
    (void)snprintf(step, sizeof step, "%lld", (long long)t->step);
    (void)snprintf(position, sizeof position, "%lld", (long long)t->position);
    SR_TRY(sr_csv_add_text(t->digests, (const char *const[]){step, position, t->digest}));
    char fields[192];
    (void)snprintf(fields, sizeof fields, "\"step\": %s, \"samples\": %s, \"digest\": \"%s\"", step,
                   position, t->digest);
    sr_run_event(t->run, "checkpoint", fields);
    return SR_OK;
}

static sr_status check_manifest(const sr_training *t, const sr_manifest *m) {
    char here[SR_FINGERPRINT_BYTES];
    if (m->lanes != t->engine->lanes || m->batch != t->engine->batch)
        return SR_FAIL(SR_E_USAGE, "%s was made with batch %lld in %d lanes, not %lld in %d",
                       t->place.folder, (long long)m->batch, m->lanes, (long long)t->engine->batch,
                       t->engine->lanes);
    if (strcmp(m->fingerprint, sr_fingerprint(here)) == 0 || t->request->allow_numerics_change)
        return SR_OK;
    return SR_FAIL(SR_E_NUMERICS,
                   "%s was computed by '%s', this machine is '%s': the bits would differ; add "
                   "--allow-numerics-change to go on all the same",
                   t->place.folder, m->fingerprint, here);
}

sr_status sr_training_load(sr_training *t) {
    sr_checkpoint *checkpoint;
    const sr_checkpoint_open_options options = {.generation = t->place.generation,
                                                .no_verify = t->rank != 0};
    SR_TRY(sr_checkpoint_open(t->place.folder, &options, &checkpoint));
    const sr_manifest *m = sr_checkpoint_manifest(checkpoint);
    sr_status status = check_manifest(t, m);
    if (status == SR_OK)
        status = sr_state_load(t->engine, checkpoint);
    if (status == SR_OK) {
        t->position = m->position;
        t->step = m->step;
        t->best_top1 = m->best_value;
        t->best_step = m->best_step;
        t->val_top1 = m->metric_value;
        (void)snprintf(t->digest, sizeof t->digest, "%s", m->digest);
    }
    sr_checkpoint_free(checkpoint);
    return status;
}
