// SPDX-License-Identifier: Apache-2.0
// serried predict: classes of pictures as CSV (file, class, probability, best ones) or JSON.
#include <argp.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "launcher/commands/command.h"
#include "launcher/commands/picture_list.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/run/inference.h"

enum {
    KEY_RAW = 0x100,
    KEY_PLUGINS,
    KEY_PIXELS,
    KEY_TOP,
    KEY_JSON,
    KEY_OUTPUT = 'o',
    CHUNK = 256,
    MAX_OVERRIDES = 64
};
static const size_t max_file = (size_t)256 << 20;

static const struct argp_option options[] = {
    {"top", KEY_TOP, "N", 0,
     "list the N most probable classes, or those of most pixels (default: 5)", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object per picture instead of CSV", 0},
    {"output", KEY_OUTPUT, "DIR", 0,
     "segmentation: write the class of each pixel as a PNG with a palette for each picture", 0},
    {"raw", KEY_RAW, NULL, 0, "use the parameters instead of their moving average", 0},
    {"allow-plugins", KEY_PLUGINS, NULL, 0,
     "load the plug-ins that the recipe of a run folder names", 0},
    {"save-pixels", KEY_PIXELS, "FILE", 0,
     "write the pictures as the model sees them, u8 [N,H,W,3], to a safetensors file; picture i "
     "belongs to row i of the output",
     0},
    {0}};

static const char about[] =
    "Classify IMAGES or their pixels with MODEL: a run folder, a checkpoint, or a recipe with "
    "weights=FILE. "
    "IMAGES are JPEG or PNG files, folders (all pictures below them), or - to read names from "
    "stdin, one per line."
    "\v"
    "  serried predict runs/cifar10-fast/latest photo.jpg\n"
    "  serried predict runs/cifar10-fast/latest photos/ --top 3\n"
    "  serried predict runs/camvid-deeplab/latest street.jpg -o labels\n"
    "  serried predict resnet50 weights=r50.safetensors data.val=imagenet *.jpg\n\n"
    "Arguments with '=' before the first picture override the recipe. Pictures that cannot be read "
    "are reported and skipped, and the exit code is 3; so are pictures for which the model's "
    "result is not finite, with exit code 5.";

typedef struct predict_arguments {
    sr_inference_options open;
    const char *overrides[MAX_OVERRIDES];
    const char *pixels, *output;
    char **names; // as given
    int name_count;
    long top;
    bool json;
} predict_arguments;

static bool is_override(const char *text) {
    return strchr(text, '=') != NULL && !sr_path_exists(text);
}

// A key and a value after pictures: taken for the name of a picture, it would have no effect.
static bool is_late_override(const char *text) {
    const size_t key = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return key > 0 && text[key] == '=' && is_override(text);
}

static error_t parse(int key, char *value, struct argp_state *state) {
    predict_arguments *a = state->input;
    switch (key) {
    case KEY_RAW:
        a->open.raw = true;
        return 0;
    case KEY_PLUGINS:
        a->open.allow_plugins = true;
        return 0;
    case KEY_PIXELS:
        a->pixels = value;
        return 0;
    case KEY_OUTPUT:
        a->output = value;
        return 0;
    case KEY_TOP:
        a->top = sr_command_number(state, "--top", value, 1, 1 << 20);
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!a->open.source) {
            a->open.source = value;
            return 0;
        }
        if (a->name_count == 0 && is_override(value) && a->open.override_count < MAX_OVERRIDES) {
            a->overrides[a->open.override_count++] = value;
            return 0;
        }
        if (a->name_count > 0 && is_late_override(value))
            argp_error(state, "%s: key=value goes before the first picture", value);
        a->names[a->name_count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (!a->open.source || a->name_count == 0)
            argp_error(state, "MODEL and IMAGES are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

typedef struct predictor {
    sr_inference *inference;
    sr_picture_file files[CHUNK];
    sr_status statuses[CHUNK];
    float *probabilities;
    int *best, top; // indices of the classes that a row lists
    bool json;
    uint8_t *pixels; // of all pictures, or NULL
    size_t picture_bytes;
    int rows;             // printed; row i of the pixels is that of row i
    int left_out;         // files without a row: not read, not decoded, or without a result
    bool some_not_finite; // of those
} predictor;

// Stores the classes with the highest probabilities in p->best; of equal ones, the lower index
// first.
static void find_best(const predictor *p, const float *row) {
    int count = 0;
    for (int c = 0; c < p->inference->class_count; c++) {
        int at = count;
        while (at > 0 && row[c] > row[p->best[at - 1]])
            at--;
        if (at == p->top)
            continue;
        count += count < p->top;
        memmove(p->best + at + 1, p->best + at, (size_t)(count - 1 - at) * sizeof *p->best);
        p->best[at] = c;
    }
}

// Names are those of files and data, which may contain anything.
static void add_csv(const predictor *p, const char *file, const float *row, sr_text *out) {
    const char *const *names = p->inference->class_names;
    sr_text best;
    sr_text_init(&best);
    for (int k = 0; k < p->top; k++)
        sr_text_add(&best, "%s%s:%.4f", k ? " " : "", names[p->best[k]], (double)row[p->best[k]]);
    sr_text_add_csv_cell(out, file);
    sr_text_add(out, ",");
    sr_text_add_csv_cell(out, names[p->best[0]]);
    sr_text_add(out, ",%.6f,", (double)row[p->best[0]]);
    sr_text_add_csv_cell(out, best.data);
    sr_text_add(out, "\n");
    out->failed = out->failed || best.failed;
    sr_text_release(&best);
}

static void add_json(const predictor *p, const char *file, const float *row, sr_text *out) {
    const char *const *names = p->inference->class_names;
    sr_text_add(out, "{\"file\": ");
    sr_text_add_json_string(out, file);
    sr_text_add(out, ", \"class\": ");
    sr_text_add_json_string(out, names[p->best[0]]);
    sr_text_add(out, ", \"probability\": %.6f, \"top\": [", (double)row[p->best[0]]);
    for (int k = 0; k < p->top; k++) {
        sr_text_add(out, "%s{\"class\": ", k ? ", " : "");
        sr_text_add_json_string(out, names[p->best[k]]);
        sr_text_add(out, ", \"probability\": %.6f}", (double)row[p->best[k]]);
    }
    sr_text_add(out, "]}\n");
}

static sr_status print_row(const predictor *p, const char *file, const float *row) {
    sr_text text;
    sr_text_init(&text);
    find_best(p, row);
    if (p->json)
        add_json(p, file, row, &text);
    else
        add_csv(p, file, row, &text);
    const sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        (void)fputs(text.data, stdout);
    sr_text_release(&text);
    return status;
}

// Reads the files that can be read into p->files; *loaded: their number.
static sr_status read_files(predictor *p, const sr_picture_list *list, int first, int count,
                            int *loaded) {
    for (int i = 0; i < count; i++) {
        const char *name = sr_picture_list_get(list, (size_t)first + (size_t)i);
        void *data;
        size_t bytes;
        sr_status status = sr_file_read(name, max_file, &data, &bytes);
        if (status == SR_E_MEMORY)
            return status;
        if (status != SR_OK) {
            SR_WARN("%s", sr_error_message());
            p->left_out++;
            continue;
        }
        p->files[(*loaded)++] = (sr_picture_file){.name = name, .data = data, .bytes = bytes};
    }
    return SR_OK;
}

// Prints the row of a picture and keeps its pixels, or counts it as left out.
static sr_status finish_picture(predictor *p, int i, const uint8_t *pixels) {
    const size_t classes = (size_t)p->inference->class_count;
    if (p->statuses[i] != SR_OK) {
        p->left_out++;
        p->some_not_finite = p->some_not_finite || p->statuses[i] == SR_E_NON_FINITE;
        return SR_OK;
    }
    SR_TRY(print_row(p, p->files[i].name, p->probabilities + (size_t)i * classes));
    if (pixels) // from the same place or one further back
        memmove(p->pixels + (size_t)p->rows * p->picture_bytes,
                pixels + (size_t)i * p->picture_bytes, p->picture_bytes);
    p->rows++;
    return SR_OK;
}

static sr_status predict_chunk(predictor *p, const sr_picture_list *list, int first, int count) {
    int loaded = 0;
    sr_status status = read_files(p, list, first, count, &loaded);
    uint8_t *pixels = p->pixels ? p->pixels + (size_t)p->rows * p->picture_bytes : NULL;
    if (status == SR_OK && loaded > 0)
        status = sr_inference_predict(p->inference, p->files, loaded, p->probabilities, pixels,
                                      p->statuses);
    for (int i = 0; i < loaded && status == SR_OK; i++)
        status = finish_picture(p, i, pixels);
    for (int i = 0; i < loaded; i++) {
        union {
            const void *in;
            void *out;
        } data = {.in = p->files[i].data};
        sr_free(data.out);
    }
    return status;
}

static sr_status save_pixels(const predictor *p, const predict_arguments *a) {
    const sr_recipe *r = p->inference->recipe;
    const sr_stored_tensor tensor = {.name = "pixels",
                                     .dtype = SR_U8,
                                     .rank = 4,
                                     .shape = {p->rows, r->eval.crop_height, r->eval.crop_width, 3},
                                     .data = p->pixels};
    return sr_safetensors_write(a->pixels, &tensor, 1, NULL, 0, NULL);
}

static sr_status prepare(predictor *p, const predict_arguments *a, size_t count) {
    const sr_recipe *r = p->inference->recipe;
    const int classes = p->inference->class_count;
    p->top = a->top < classes ? (int)a->top : classes;
    p->json = a->json;
    p->picture_bytes = (size_t)(r->eval.crop_height * r->eval.crop_width * 3);
    p->best = sr_alloc_array((size_t)p->top + 1, sizeof *p->best, "classes");
    p->probabilities = sr_alloc_array(CHUNK, (size_t)classes * sizeof(float), "probabilities");
    if (a->pixels)
        p->pixels = sr_alloc_array(count, p->picture_bytes, "pixels");
    return p->best && p->probabilities && (p->pixels || !a->pixels) ? SR_OK : SR_E_MEMORY;
}

static sr_status report_left_out(const predictor *p, int count) {
    if (p->left_out == 0)
        return SR_OK;
    return SR_FAIL(p->some_not_finite ? SR_E_NON_FINITE : SR_E_DATA,
                   "%d of %d pictures could not be read%s and were skipped", p->left_out, count,
                   p->some_not_finite ? ", or their results are not finite," : "");
}

static sr_status predict(predictor *p, const predict_arguments *a, const sr_picture_list *list) {
    const int count = (int)list->count;
    SR_TRY(prepare(p, a, list->count));
    if (!p->json)
        (void)printf("file,class,probability,top%ld\n", a->top);
    for (int i = 0; i < count; i += CHUNK)
        SR_TRY(predict_chunk(p, list, i, count - i < CHUNK ? count - i : CHUNK));
    if (a->pixels)
        SR_TRY(save_pixels(p, a));
    return report_left_out(p, count);
}

// ---- Tasks with predictions of their own ----

// The folders that all names begin with, as a number of bytes.
static size_t common_folder(const sr_picture_list *list) {
    const char *first = sr_picture_list_get(list, 0);
    const char *slash = strrchr(first, '/');
    size_t common = slash ? (size_t)(slash - first) + 1 : 0;
    for (size_t i = 1; i < list->count; i++) {
        const char *name = sr_picture_list_get(list, i);
        size_t same = 0;
        while (same < common && name[same] == first[same])
            same++;
        while (same > 0 && first[same - 1] != '/')
            same--;
        common = same;
    }
    return common;
}

// DIR/b/c.png for a/b/c.jpg, where all pictures are below a.
static sr_status output_path(const char *folder, const char *name, const char *suffix,
                             char out[PATH_MAX]) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    const int stem = (int)(dot && dot > base ? dot - name : (ptrdiff_t)strlen(name));
    if (snprintf(out, PATH_MAX, "%s/%.*s%s", folder, stem, name, suffix) >= PATH_MAX)
        return SR_FAIL(SR_E_USAGE, "%s: the name below %s is too long", name, folder);
    return SR_OK;
}

static sr_status write_output(const sr_task_prediction *prediction,
                              const sr_metric_samples *picture, const sr_metric_setting *setting,
                              const char *folder, const char *name) {
    char path[PATH_MAX];
    SR_TRY(output_path(folder, name, prediction->suffix, path));
    char *slash = strrchr(path, '/');
    *slash = '\0';
    SR_TRY(sr_make_folders(path));
    *slash = '/';
    return prediction->write(picture, setting, path);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Refuses two pictures with one file for their results.
static sr_status check_outputs(const sr_picture_list *list, const sr_task_prediction *prediction,
                               sr_arena *arena) {
    const size_t common = common_folder(list);
    const char **paths = sr_arena_alloc(arena, (list->count + 1) * sizeof *paths);
    if (!paths)
        return SR_E_MEMORY;
    for (size_t i = 0; i < list->count; i++) {
        char path[PATH_MAX];
        SR_TRY(output_path("", sr_picture_list_get(list, i) + common, prediction->suffix, path));
        paths[i] = sr_arena_strdup(arena, path);
        if (!paths[i])
            return SR_E_MEMORY;
    }
    qsort(paths, list->count, sizeof *paths, by_text);
    for (size_t i = 1; i < list->count; i++)
        if (strcmp(paths[i - 1], paths[i]) == 0)
            return SR_FAIL(SR_E_USAGE, "two pictures would have one result, %s: rename one of them",
                           paths[i] + 1);
    return SR_OK;
}

static sr_status describe(const predictor *p, const sr_metric_samples *picture,
                          const sr_metric_setting *setting, const char *file) {
    const sr_task_prediction *prediction = p->inference->task->prediction;
    sr_text text;
    sr_text_init(&text);
    if (p->json) {
        sr_text_add(&text, "{\"file\": ");
        sr_text_add_json_string(&text, file);
    } else {
        sr_text_add_csv_cell(&text, file);
    }
    sr_status status = prediction->describe(picture, setting, p->top, p->json, &text);
    sr_text_add(&text, p->json ? "}\n" : "\n");
    if (status == SR_OK)
        status = sr_text_check(&text);
    if (status == SR_OK)
        (void)fputs(text.data, stdout);
    sr_text_release(&text);
    return status;
}

static bool is_of_picture(sr_status status) {
    return (status >= SR_E_DATA && status < SR_E_PEER) || status == SR_E_NON_FINITE;
}

// folder: NULL, or where results are written, below it as 'name' from 'common' on.
static sr_status predict_picture(predictor *p, const char *name, const char *folder,
                                 size_t common) {
    const sr_metric_setting setting = {.options =
                                           sr_engine_get_info(p->inference->engine).task_options,
                                       .classes = p->inference->class_count,
                                       .class_names = p->inference->class_names,
                                       .samples = 1};
    sr_slot slot;
    sr_task_outputs outputs;
    const sr_metric_samples picture = {.slot = &slot, .outputs = &outputs};
    void *data;
    sr_picture_file file = {.name = name};
    sr_status status = sr_file_read(name, max_file, &data, &file.bytes);
    if (status != SR_OK && status != SR_E_MEMORY) {
        SR_WARN("%s", sr_error_message());
        p->left_out++;
        return SR_OK;
    }
    SR_TRY(status);
    file.data = data;
    status = sr_inference_infer(p->inference, &file, &slot, &outputs);
    if (status == SR_OK)
        status = describe(p, &picture, &setting, name);
    sr_free(data);
    if (is_of_picture(status)) {
        SR_WARN("%s: %s", name, sr_error_message());
        p->left_out++;
        p->some_not_finite = p->some_not_finite || status == SR_E_NON_FINITE;
        return SR_OK;
    }
    SR_TRY(status);
    p->rows++;
    return folder ? write_output(p->inference->task->prediction, &picture, &setting, folder,
                                 name + common)
                  : SR_OK;
}

static sr_status predict_by_task(predictor *p, const predict_arguments *a,
                                 const sr_picture_list *list, sr_arena *arena) {
    const sr_task_prediction *prediction = p->inference->task->prediction;
    if (a->pixels)
        return SR_FAIL(SR_E_USAGE, "--save-pixels is for tasks that see pictures of one size");
    if (a->output && list->count > 0)
        SR_TRY(check_outputs(list, prediction, arena));
    const size_t common = list->count > 0 ? common_folder(list) : 0;
    p->top = (int)a->top;
    p->json = a->json;
    if (!p->json)
        (void)printf("file,%s\n", prediction->columns);
    for (size_t i = 0; i < list->count; i++)
        SR_TRY(predict_picture(p, sr_picture_list_get(list, i), a->output, common));
    return report_left_out(p, (int)list->count);
}

static sr_status run(predictor *p, const predict_arguments *a, sr_arena *arena,
                     sr_picture_list *list) {
    for (int i = 0; i < a->name_count; i++)
        SR_TRY(sr_picture_list_add(list, arena, a->names[i]));
    SR_TRY(sr_inference_open(&a->open, &p->inference));
    if (p->inference->task->prediction)
        return predict_by_task(p, a, list, arena);
    if (a->output)
        return SR_FAIL(SR_E_USAGE, "task %s writes no files: --output is for segmentation",
                       p->inference->task->name);
    return predict(p, a, list);
}

int sr_cmd_predict(int argc, char **argv) {
    static const struct argp parser = {options, parse, "MODEL [key=value...] IMAGES...", about, 0,
                                       0,       0};
    static predictor p; // large arrays
    predict_arguments a = {.top = 5,
                           .names = sr_alloc_array((size_t)argc, sizeof(char *), "arguments")};
    sr_picture_list list = {0};
    sr_arena arena;
    int code = 2;
    if (!a.names)
        return sr_command_fail(SR_E_MEMORY);
    a.open.overrides = a.overrides;
    sr_arena_init(&arena);
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) == 0) {
        const sr_status status = run(&p, &a, &arena, &list);
        code = status == SR_OK ? 0 : sr_command_fail(status);
    }
    sr_free(p.best);
    sr_free(p.probabilities);
    sr_free(p.pixels);
    sr_inference_free(p.inference);
    sr_picture_list_release(&list);
    sr_arena_release(&arena);
    sr_free(a.names);
    return code;
}
