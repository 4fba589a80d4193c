// SPDX-License-Identifier: Apache-2.0
// serried predict: classes of pictures as CSV (file, class, probability, best ones) or JSON.
#include <argp.h>
#include <stdio.h>
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
    CHUNK = 256,
    MAX_OVERRIDES = 64
};
static const size_t max_file = (size_t)256 << 20;

static const struct argp_option options[] = {
    {"top", KEY_TOP, "N", 0, "list the N most probable classes (default: 5)", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object per picture instead of CSV", 0},
    {"raw", KEY_RAW, NULL, 0, "use the parameters instead of their moving average", 0},
    {"allow-plugins", KEY_PLUGINS, NULL, 0,
     "load the plug-ins that the recipe of a run folder names", 0},
    {"save-pixels", KEY_PIXELS, "FILE", 0,
     "write the pictures as the model sees them, u8 [N,H,W,3], to a safetensors file; picture i "
     "belongs to row i of the output",
     0},
    {0}};

static const char about[] =
    "Classify IMAGES with MODEL: a run folder, a checkpoint, or a recipe with weights=FILE. "
    "IMAGES are JPEG or PNG files, folders (all pictures below them), or - to read names from "
    "stdin, one per line."
    "\v"
    "  serried predict runs/cifar10-fast/latest photo.jpg\n"
    "  serried predict runs/cifar10-fast/latest photos/ --top 3\n"
    "  serried predict resnet50 weights=r50.safetensors data.val=imagenet *.jpg\n\n"
    "Arguments with '=' before the first picture override the recipe. Pictures that cannot be read "
    "are reported and skipped, and the exit code is 3; so are pictures for which the model's "
    "result is not finite, with exit code 5.";

typedef struct predict_arguments {
    sr_inference_options open;
    const char *overrides[MAX_OVERRIDES];
    const char *pixels;
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

static sr_status predict(predictor *p, const predict_arguments *a, const sr_picture_list *list) {
    const int count = (int)list->count;
    SR_TRY(prepare(p, a, list->count));
    if (!p->json)
        (void)printf("file,class,probability,top%ld\n", a->top);
    for (int i = 0; i < count; i += CHUNK)
        SR_TRY(predict_chunk(p, list, i, count - i < CHUNK ? count - i : CHUNK));
    if (a->pixels)
        SR_TRY(save_pixels(p, a));
    if (p->left_out > 0)
        return SR_FAIL(p->some_not_finite ? SR_E_NON_FINITE : SR_E_DATA,
                       "%d of %d pictures could not be read%s and were skipped", p->left_out, count,
                       p->some_not_finite ? ", or their results are not finite," : "");
    return SR_OK;
}

static sr_status run(predictor *p, const predict_arguments *a, sr_arena *arena,
                     sr_picture_list *list) {
    for (int i = 0; i < a->name_count; i++)
        SR_TRY(sr_picture_list_add(list, arena, a->names[i]));
    SR_TRY(sr_inference_open(&a->open, &p->inference));
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
