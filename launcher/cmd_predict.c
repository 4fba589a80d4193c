// SPDX-License-Identifier: Apache-2.0
// serried predict: classes of pictures as CSV (file, class, probability, five best).
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "launcher/command.h"
#include "trainer/inference.h"
#include "trainer/safetensors.h"

enum { KEY_RAW = 0x100, KEY_PLUGINS, KEY_PIXELS, CHUNK = 256, MAX_OVERRIDES = 64 };
static const size_t max_file = (size_t)256 << 20;

static const struct argp_option options[] = {
    {"raw", KEY_RAW, NULL, 0, "the parameters themselves, not their average", 0},
    {"allow-plugins", KEY_PLUGINS, NULL, 0, "load plug-ins that a run folder's recipe names", 0},
    {"save-pixels", KEY_PIXELS, "FILE", 0,
     "the pictures as they went into the model, u8 [N,H,W,3], as safetensors", 0},
    {0}};

static const char about[] =
    "Classify IMAGES (JPEG or PNG) with MODEL: a run folder or a checkpoint.\v"
    "  serried predict runs/cifar10-fast/latest photo.jpg\n"
    "  serried predict resnet50 weights=r50.safetensors data.val=imagenet *.jpg\n\n"
    "Arguments with '=' before the first picture override the recipe. A picture that cannot "
    "be read is named and left out; the exit code is then 3.";

typedef struct predict_arguments {
    sr_inference_options open;
    const char *overrides[MAX_OVERRIDES];
    const char *pixels;
    char **files;
    int file_count;
} predict_arguments;

static bool is_override(const char *text) {
    return strchr(text, '=') != NULL && !sr_path_exists(text);
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
    case ARGP_KEY_ARG:
        if (!a->open.source) {
            a->open.source = value;
            return 0;
        }
        if (is_override(value) && a->open.override_count < MAX_OVERRIDES) {
            a->overrides[a->open.override_count++] = value;
            return 0;
        }
        a->files = &state->argv[state->next - 1];
        a->file_count = state->argc - state->next + 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (!a->open.source || a->file_count == 0)
            argp_error(state, "give a model and pictures");
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
    uint8_t *pixels; // of all files, or NULL
    size_t picture_bytes;
    int done, left_out; // files that went into the model; that could not be read or decoded
} predictor;

// CSV after RFC 4180: quotes only where they are needed.
static void print_text(const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        (void)fputs(text, stdout);
        return;
    }
    (void)putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            (void)putchar('"');
        (void)putchar(*text);
    }
    (void)putchar('"');
}

// The classes with the highest probabilities, the lower number first of equal ones.
static int find_best(const float *row, int classes, int best[5]) {
    int count = classes < 5 ? classes : 5;
    for (int k = 0; k < count; k++) {
        best[k] = -1;
        for (int c = 0; c < classes; c++) {
            bool taken = false;
            for (int j = 0; j < k; j++)
                taken = taken || best[j] == c;
            if (!taken && (best[k] < 0 || row[c] > row[best[k]]))
                best[k] = c;
        }
    }
    return count;
}

static void print_row(const predictor *p, const char *file, const float *row) {
    const char *const *names = p->inference->class_names;
    int best[5] = {0}, count = find_best(row, p->inference->class_count, best);
    sr_text five;
    sr_text_init(&five);
    for (int k = 0; k < count; k++)
        sr_text_add(&five, "%s%s:%.4f", k ? " " : "", names[best[k]], (double)row[best[k]]);
    print_text(file);
    (void)putchar(',');
    print_text(names[best[0]]);
    (void)printf(",%.6f,", (double)row[best[0]]);
    print_text(five.data);
    (void)putchar('\n');
    sr_text_release(&five);
}

// Reads the files that can be read into p->files; their number.
static sr_status read_files(predictor *p, char **names, int count, int *loaded) {
    for (int i = 0; i < count; i++) {
        void *data;
        size_t bytes;
        sr_status status = sr_file_read(names[i], max_file, &data, &bytes);
        if (status == SR_E_MEMORY)
            return status;
        if (status != SR_OK) {
            SR_WARN("%s", sr_error_message());
            p->left_out++;
            continue;
        }
        p->files[(*loaded)++] = (sr_picture_file){.name = names[i], .data = data, .bytes = bytes};
    }
    return SR_OK;
}

static sr_status predict_chunk(predictor *p, char **names, int count) {
    int loaded = 0, classes = p->inference->class_count;
    sr_status status = read_files(p, names, count, &loaded);
    uint8_t *pixels = p->pixels ? p->pixels + (size_t)p->done * p->picture_bytes : NULL;
    if (status == SR_OK && loaded > 0)
        status = sr_inference_predict(p->inference, p->files, loaded, p->probabilities, pixels,
                                      p->statuses);
    for (int i = 0; i < loaded && status == SR_OK; i++) {
        if (p->statuses[i] == SR_OK)
            print_row(p, p->files[i].name, p->probabilities + (size_t)i * (size_t)classes);
        else
            p->left_out++;
    }
    p->done += loaded;
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
    int64_t side = p->inference->recipe->eval.crop;
    const sr_stored_tensor tensor = {.name = "pixels",
                                     .dtype = SR_U8,
                                     .rank = 4,
                                     .shape = {p->done, side, side, 3},
                                     .data = p->pixels};
    return sr_safetensors_write(a->pixels, &tensor, 1, NULL, 0, NULL);
}

static sr_status predict(predictor *p, const predict_arguments *a) {
    int64_t side = p->inference->recipe->eval.crop;
    p->picture_bytes = (size_t)(side * side * 3);
    p->probabilities =
        sr_alloc_array(CHUNK, (size_t)p->inference->class_count * sizeof(float), "probabilities");
    if (!p->probabilities)
        return SR_E_MEMORY;
    if (a->pixels) {
        p->pixels = sr_alloc_array((size_t)a->file_count, p->picture_bytes, "pixels");
        if (!p->pixels)
            return SR_E_MEMORY;
    }
    (void)printf("file,class,probability,top5\n");
    for (int i = 0; i < a->file_count; i += CHUNK) {
        int now = a->file_count - i < CHUNK ? a->file_count - i : CHUNK;
        SR_TRY(predict_chunk(p, a->files + i, now));
    }
    if (a->pixels)
        SR_TRY(save_pixels(p, a));
    if (p->left_out > 0)
        return SR_FAIL(SR_E_DATA, "%d of %d pictures could not be read and are left out",
                       p->left_out, a->file_count);
    return SR_OK;
}

int sr_cmd_predict(int argc, char **argv) {
    static const struct argp parser = {options, parse, "MODEL [key=value...] IMAGES...", about, 0,
                                       0,       0};
    predict_arguments a = {.pixels = NULL};
    static predictor p; // large arrays
    a.open.overrides = a.overrides;
    if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &a) != 0)
        return 2;
    sr_status status = sr_inference_open(&a.open, &p.inference);
    if (status != SR_OK)
        return sr_command_fail(status);
    status = predict(&p, &a);
    int code = status == SR_OK ? 0 : sr_command_fail(status);
    sr_free(p.probabilities);
    sr_free(p.pixels);
    sr_inference_free(p.inference);
    return code;
}
