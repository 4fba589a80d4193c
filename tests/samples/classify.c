// SPDX-License-Identifier: Apache-2.0
// Classifies pictures with a trained model: classify RUN PICTURE... JPEG and PNG are passed on as
// files; a PPM ("P6") stands for a camera: pixels in memory.
#include <serried.h>
#include <stdio.h>

enum { MOST = 64, MAX_BYTES = 64 << 20 };

typedef struct work {
    sr_inference *model;
    sr_picture_file pictures[MOST];
    sr_status statuses[MOST];
    float *probabilities; // [count, classes]
    int count;
} work;

// The whole file in memory of the arena.
static sr_status read_file(const char *path, sr_arena *arena, sr_picture_file *out) {
    FILE *file = fopen(path, "rb");
    long bytes = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (!file || bytes < 1 || bytes > MAX_BYTES || fseek(file, 0, SEEK_SET) != 0) {
        if (file)
            (void)fclose(file);
        return SR_FAIL(SR_E_NOT_FOUND, "%s cannot be read, is empty or too long", path);
    }
    char *data = sr_arena_alloc(arena, (size_t)bytes + 1);
    size_t got = data ? fread(data, 1, (size_t)bytes, file) : 0;
    (void)fclose(file);
    if (!data)
        return SR_E_MEMORY;
    *out = (sr_picture_file){.name = path, .data = data, .bytes = got};
    return got == (size_t)bytes ? SR_OK : SR_FAIL(SR_E_IO, "%s: reading failed", path);
}

// Finds height and width if the file is a PPM of 8 bits; the pixels follow its header.
static void find_pixels(sr_picture_file *picture) {
    const char *data = (const char *)picture->data;
    int width, height, header = 0;
    if (sscanf(data, "P6 %d %d 255%n", &width, &height, &header) != 2 || header == 0)
        return;
    picture->data = data + header + 1;
    picture->bytes -= (size_t)header + 1;
    picture->width = width;
    picture->height = height; // channels: 3 by default
}

static void print(const work *w) {
    const int classes = w->model->class_count;
    for (int i = 0; i < w->count; i++) {
        const float *row = w->probabilities + (size_t)i * (size_t)classes;
        int best = 0;
        for (int c = 1; c < classes; c++)
            best = row[c] > row[best] ? c : best;
        if (w->statuses[i] == SR_OK)
            printf("%s,%s,%.6f\n", w->pictures[i].name, w->model->class_names[best],
                   (double)row[best]);
        else // the log contains the reason
            printf("%s,%s,\n", w->pictures[i].name, sr_status_name(w->statuses[i]));
    }
}

static sr_status classify(work *w, char **names, sr_arena *arena) {
    for (int i = 0; i < w->count; i++) {
        SR_TRY(read_file(names[i], arena, &w->pictures[i]));
        find_pixels(&w->pictures[i]);
    }
    size_t values = (size_t)w->count * (size_t)w->model->class_count;
    w->probabilities = (float *)sr_arena_alloc(arena, values * sizeof(float));
    if (!w->probabilities)
        return SR_E_MEMORY;
    return sr_inference_predict(w->model, w->pictures, w->count, w->probabilities, NULL,
                                w->statuses);
}

int main(int argc, char **argv) {
    static work w;
    sr_arena arena;
    const sr_inference_options options = {.source = argc > 2 ? argv[1] : "", .threads = 2};
    w.count = argc - 2 < MOST ? argc - 2 : MOST;
    sr_arena_init(&arena);
    sr_status status = sr_inference_open(&options, &w.model);
    if (status == SR_OK)
        status = classify(&w, argv + 2, &arena);
    if (status == SR_OK)
        print(&w);
    else
        (void)fprintf(stderr, "classify: %s\n", sr_error_message());
    sr_inference_free(w.model);
    sr_arena_release(&arena);
    return sr_status_exit_code(status);
}
