// SPDX-License-Identifier: Apache-2.0
// serried predict: classes of pictures as CSV (file, class, probability, five best).
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "launcher/command.h"
#include "trainer/inference.h"
#include "trainer/safetensors.h"

enum { KEY_RAW = 0x100, KEY_PIXELS, CHUNK = 256, MAX_OVERRIDES = 64 };
static const size_t max_file = (size_t)256 << 20;

static const struct argp_option options[] = {
    {"raw", KEY_RAW, NULL, 0, "the parameters themselves, not their average", 0},
    {"save-pixels", KEY_PIXELS, "FILE", 0,
     "the pictures as they went into the model, u8 [N,H,W,3], as safetensors", 0},
    {0}};

static const char about[] =
    "Classify IMAGES (JPEG or PNG) with MODEL: a run folder or a checkpoint.\v"
    "  serried predict runs/cifar10-fast/latest photo.jpg\n"
    "  serried predict resnet50 weights=r50.safetensors data.val=imagenet *.jpg\n\n"
    "Arguments with '=' before the first picture override the recipe. A damaged picture is named "
    "and left out; the exit code is then 3.";

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
    int damaged;
} predictor;

// CSV after RFC 4180: quotes only where they are needed.
static void print_text(const char *text) {
    if (!strpbrk(text, ",\"\n")) {
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

static void print_row(const predictor *p, const char *file, const float *row) {
    int classes = p->inference->class_count, best[5] = {0}, count = classes < 5 ? classes : 5;
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
    print_text(file);
    (void)putchar(',');
    print_text(p->inference->class_names[best[0]]);
    (void)printf(",%.6f,", (double)row[best[0]]);
    for (int k = 0; k < count; k++) {
        if (k)
            (void)putchar(' ');
        (void)printf("%s:%.4f", p->inference->class_names[best[k]], (double)row[best[k]]);
    }
    (void)putchar('\n');
}

static sr_status predict_chunk(predictor *p, char **names, int count, size_t done) {
    sr_status status = SR_OK;
    int loaded = 0;
    for (; loaded < count && status == SR_OK; loaded++) {
        void *data;
        status = sr_file_read(names[loaded], max_file, &data, &p->files[loaded].bytes);
        if (status != SR_OK)
            break;
        p->files[loaded].name = names[loaded];
        p->files[loaded].data = data;
    }
    if (status == SR_OK)
        status = sr_inference_predict(p->inference, p->files, count, p->probabilities,
                                      p->pixels ? p->pixels + done * p->picture_bytes : NULL,
                                      p->statuses);
    for (int i = 0; i < count && status == SR_OK; i++) {
        if (p->statuses[i] == SR_OK)
            print_row(p, names[i],
                      p->probabilities + (size_t)i * (size_t)p->inference->class_count);
        else
            p->damaged++;
    }
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
                                     .shape = {a->file_count, side, side, 3},
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
        SR_TRY(predict_chunk(p, a->files + i, now, (size_t)i));
    }
    if (a->pixels)
        SR_TRY(save_pixels(p, a));
    if (p->damaged)
        return SR_FAIL(SR_E_DATA, "%d of %d pictures are damaged and left out", p->damaged,
                       a->file_count);
    return SR_OK;
}

int sr_cmd_predict(int argc, char **argv) {
    static const struct argp parser = {options, parse, "MODEL [key=value...] IMAGES...", about, 0,
                                       0,       0};
    predict_arguments a = {.pixels = NULL};
    static predictor p; // large arrays
    a.open.overrides = a.overrides;
    argp_err_exit_status = 2;
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
