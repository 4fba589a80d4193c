// SPDX-License-Identifier: Apache-2.0
// Pictures of evaluations: examples of predictions, and the confusion matrix of the last
// evaluation. A picture that cannot be drawn is a warning and never ends a run.
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "trainer/run/training_internal.h"

void sr_training_finish_metric(void *training, const sr_metric_desc *metric, const void *state) {
    sr_training *t = training;
    if (!t->run || sr_run_folder_check(t->run) != SR_OK) // the next checkpoint reports it
        return;
    if (metric->write && metric->write(state, t->location.folder) != SR_OK)
        SR_WARN("%s", sr_error_message());
    if (metric->draw)
        metric->draw(state, t->drawing, t->location.folder);
}

void sr_training_draw_examples(sr_training *t, const sr_examples *examples) {
    const sr_column *column = &t->columns.list[t->columns.at[SR_RUN_VAL] + t->columns.main];
    char title[160], value[SR_COLUMN_TEXT];
    char *folder = t->run ? sr_run_folder_file(t->run, "samples") : NULL;
    char *path = folder ? sr_path_join(folder, "val.png") : NULL;
    if (!t->run)
        return;
    (void)snprintf(title, sizeof title, "val samples after step %lld (%s %s), %s",
                   (long long)t->step, column->label,
                   sr_column_text(column, t->val[t->columns.main], value), t->task->examples->what);
    sr_status status = path ? sr_run_folder_check(t->run) : SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_make_folders(folder);
    if (status == SR_OK)
        sr_examples_draw(examples, title, path, t->drawing);
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
