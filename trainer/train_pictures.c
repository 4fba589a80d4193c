// SPDX-License-Identifier: Apache-2.0
// Pictures that a run leaves beside its curves: the first augmented batch with its labels, and the
// confusion matrix of the last evaluation. What cannot be drawn is a warning, never an end.
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/results_plot.h"
#include "trainer/samples_picture.h"
#include "trainer/training_internal.h"

enum { MAX_TILES = 36 };

static sr_status draw_slot(const sr_training *t, const sr_slot *slot, const char *path) {
    const sr_array *image = sr_slot_find(slot, "image"), *label = sr_slot_find(slot, "label");
    sr_tile tiles[MAX_TILES];
    if (!image || !label)
        return SR_FAIL(SR_E_INTERNAL, "a data slot without pictures or labels");
    int count = image->shape[0] < MAX_TILES ? (int)image->shape[0] : MAX_TILES;
    int64_t size = image->shape[1] * image->shape[2] * 3;
    for (int i = 0; i < count; i++) {
        int32_t number = ((const int32_t *)label->data)[i];
        tiles[i] = (sr_tile){.rgb = (const uint8_t *)image->data + i * size,
                             .width = image->shape[2],
                             .height = image->shape[1],
                             .caption = number >= 0 && number < t->inputs.class_count
                                            ? t->inputs.class_names[number]
                                            : NULL};
    }
    return sr_samples_picture(path, "first augmented samples", tiles, count, 0);
}

void sr_training_draw_first_batch(sr_training *t) {
    const sr_slot *slot;
    if (!t->run || t->step > 0 || sr_feed_peek(t->feed, t->engine->lane_begin, &slot) != SR_OK)
        return; // a failing feed is reported by the step that needs it
    char *folder = sr_run_folder_file(t->run, "samples");
    char *path = folder ? sr_path_join(folder, "aug_0.png") : NULL;
    sr_status status = path ? sr_make_folders(folder) : SR_E_MEMORY;
    if (status == SR_OK)
        status = draw_slot(t, slot, path);
    if (status != SR_OK)
        SR_WARN("no picture of the first samples: %s", sr_error_message());
    sr_free(path);
    sr_free(folder);
}

// Counts of all ranks, added on every rank: exact in any order.
sr_status sr_gather_confusion(sr_comm *comm, sr_confusion *confusion) {
    int ranks = sr_comm_size(comm);
    size_t cells = (size_t)confusion->classes * (size_t)confusion->classes;
    if (ranks == 1)
        return SR_OK;
    int64_t *all = sr_alloc_array((size_t)ranks * cells, sizeof *all, "confusion of all ranks");
    if (!all)
        return SR_E_MEMORY;
    sr_status status =
        sr_comm_all_gather(comm, confusion->counts, cells * sizeof *all, all, "confusion matrix");
    for (int r = 0; r < ranks && status == SR_OK; r++)
        if (r != sr_comm_rank(comm))
            sr_confusion_add(confusion, all + (size_t)r * cells);
    sr_free(all);
    return status;
}

void sr_training_draw_confusion(sr_training *t, const sr_confusion *confusion) {
    char *csv = t->run ? sr_run_folder_file(t->run, "confusion.csv") : NULL;
    if (!csv)
        return;
    if (sr_confusion_write_csv(confusion, t->inputs.class_names, csv) != SR_OK)
        SR_WARN("%s", sr_error_message());
    if (sr_plots_available() &&
        sr_confusion_plot(confusion, t->inputs.class_names, t->place.folder) != SR_OK)
        SR_WARN("no confusion picture: %s", sr_error_message());
    sr_free(csv);
}
