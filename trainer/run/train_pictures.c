// SPDX-License-Identifier: Apache-2.0
// Pictures of evaluations: examples of predictions, and the confusion matrix of the last
// evaluation. A picture that cannot be drawn is a warning and never ends a run.
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/run/training_internal.h"
#include "trainer/tasks/confusion_figure.h"

void sr_training_draw_confusion(sr_training *t, const sr_confusion *confusion) {
    char *csv = t->run ? sr_run_folder_file(t->run, "confusion.csv") : NULL;
    if (!csv)
        return;
    if (sr_run_folder_check(t->run) != SR_OK) { // the next checkpoint reports it
        sr_free(csv);
        return;
    }
    if (sr_confusion_write_csv(confusion, t->inputs.class_names, csv) != SR_OK)
        SR_WARN("%s", sr_error_message());
    sr_confusion_draw(confusion, t->inputs.class_names, t->location.folder, t->drawing);
    sr_free(csv);
}

void sr_training_draw_examples(sr_training *t, const sr_examples *examples) {
    char title[160];
    char *folder = t->run ? sr_run_folder_file(t->run, "samples") : NULL;
    char *path = folder ? sr_path_join(folder, "val.png") : NULL;
    if (!t->run)
        return;
    (void)snprintf(
        title, sizeof title,
        "val samples after step %lld (top-1 %.2f %%), each above its class and its prediction",
        (long long)t->step, 100 * t->val_top1);
    sr_status status = path ? sr_run_folder_check(t->run) : SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_make_folders(folder);
    if (status == SR_OK)
        sr_examples_draw(examples, t->inputs.class_names, title, path, t->drawing);
    else
        SR_WARN("examples of predictions were not drawn: %s", sr_error_message());
    sr_free(path);
    sr_free(folder);
}

void sr_training_add_picture(void *training, const char *folder, const char *name, int64_t step) {
    const sr_training *t = training;
    char *path = sr_path_join(folder, name), tag[64];
    (void)snprintf(tag, sizeof tag, "%.*s", (int)strcspn(name, "."), name);
    if (path)
        sr_event_file_add_picture(t->events, step, tag, path);
    sr_free(path);
}
