// SPDX-License-Identifier: Apache-2.0
// Confusion counts and their file (confusion.h).
#include "trainer/tasks/confusion.h"

#include <inttypes.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"

sr_status sr_confusion_create(int classes, sr_confusion *out) {
    int64_t *counts =
        sr_alloc_array((size_t)classes * (size_t)classes, sizeof *counts, "confusion counts");
    if (counts == NULL)
        return SR_E_MEMORY;
    *out = (sr_confusion){.classes = classes, .counts = counts};
    return SR_OK;
}

void sr_confusion_release(sr_confusion *confusion) {
    sr_free(confusion->counts);
    *confusion = (sr_confusion){0};
}

static void add_class(sr_text *text, const char *const *classes, int index) {
    if (classes == NULL) {
        sr_text_add(text, "%d", index);
        return;
    }
    sr_text_add_csv_cell(text, classes[index]);
}

sr_status sr_confusion_write_csv(const sr_confusion *confusion, const char *const *classes,
                                 const char *path) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "truth,predicted,count\n");
    for (int t = 0; t < confusion->classes; ++t) {
        for (int p = 0; p < confusion->classes; ++p) {
            int64_t count = confusion->counts[(int64_t)t * confusion->classes + p];
            if (count == 0)
                continue;
            add_class(&text, classes, t);
            sr_text_add(&text, ",");
            add_class(&text, classes, p);
            sr_text_add(&text, ",%" PRId64 "\n", count);
        }
    }
    sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        status = sr_file_write_atomic(path, text.data, text.length);
    sr_text_release(&text);
    return status;
}

sr_status sr_confusion_write(const sr_confusion *confusion, const char *const *classes,
                             const char *folder) {
    char *path = sr_path_join(folder, "confusion.csv");
    const sr_status status = path ? sr_confusion_write_csv(confusion, classes, path) : SR_E_MEMORY;
    sr_free(path);
    return status;
}
