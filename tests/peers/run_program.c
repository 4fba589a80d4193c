// SPDX-License-Identifier: Apache-2.0
// run_program: reads programs of operators from stdin, runs them one after the other, and writes
// their results to stdout: the serried half of check_random.py. It runs until stdin ends, so that a
// program costs neither a process nor a start of the library.
//
// A program is lines of text and, after the last line, the bytes of its values in order. Values are
// numbered from 0 in the order of the lines; -1 means no tensor.
//   value DTYPE RANK DIM...             a constant of the step
//   variable DTYPE RANK DIM...          a variable with this first value
//   call NAME COUNT INPUT... NUMBERS... one operator call; NAME and NUMBERS as in 'calls' below
//   gradient Y DY COUNT X...            makes COUNT values: the gradients of sum(Y DY)
//   run BYTES COUNT VALUE...            BYTES follow; answers with these values
// The answer is "ok", a line "DTYPE RANK DIM..." for each value, "end" and their bytes; or "failed"
// and the message.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/gradients.h"
#include "graph/context.h"
#include "kernels/base/memory.h"

#define LINE_BYTES 65536
#define MAX_VALUES 2048
#define MAX_INPUTS 8
#define MAX_NUMBERS 8
#define THREADS 2

typedef struct program_value {
    sr_tensor tensor;
    bool variable;
    sr_info info; // of variables and constants
} program_value;

typedef struct program {
    sr_context *context;
    program_value values[MAX_VALUES];
    int count;
    char line[LINE_BYTES];
    char *next; // the next word of the line
} program;

// The inputs, numbers and outputs of an operator call.
typedef struct call_args {
    sr_tensor in[MAX_INPUTS];
    double number[MAX_NUMBERS];
    sr_tensor out[3];
} call_args;

static int int_of(const call_args *a, int i) {
    return (int)a->number[i];
}

static sr_conv2d_opts conv_opts(const call_args *a) {
    return (sr_conv2d_opts){.stride = int_of(a, 0),
                            .stride_w = int_of(a, 1),
                            .pad = int_of(a, 2),
                            .pad_w = int_of(a, 3),
                            .has_pad_w = true,
                            .dilation = int_of(a, 4),
                            .groups = int_of(a, 5),
                            .extra_right = int_of(a, 6),
                            .extra_bottom = int_of(a, 7)};
}

static sr_pool2d_opts pool_opts(const call_args *a) {
    return (sr_pool2d_opts){.window = int_of(a, 0),
                            .stride = int_of(a, 1),
                            .pad = int_of(a, 2),
                            .window_w = int_of(a, 3),
                            .stride_w = int_of(a, 4),
                            .pad_w = int_of(a, 5),
                            .has_pad_w = true};
}

// numbers: rank, dimensions
static sr_tensor reshape(const call_args *a) {
    int64_t dim[SR_MAX_RANK] = {0};
    for (int i = 0; i < SR_MAX_RANK; i++)
        dim[i] = (int64_t)a->number[1 + i];
    return sr_reshape(a->in[0], int_of(a, 0), dim);
}

// numbers: dtype, rank, dimensions
static sr_tensor fill(const call_args *a) {
    int64_t dim[SR_MAX_RANK] = {0};
    for (int i = 0; i < SR_MAX_RANK; i++)
        dim[i] = (int64_t)a->number[2 + i];
    return sr_fill_by(a->in[0], (sr_dtype)int_of(a, 0), int_of(a, 1), dim);
}

// numbers: dtype, three means, three deviations
static sr_tensor normalize(const call_args *a) {
    double mean[4] = {0}, std[4] = {1, 1, 1, 1};
    for (int c = 0; c < 3; c++) {
        mean[c] = a->number[1 + c];
        std[c] = a->number[4 + c];
    }
    return sr_normalize(a->in[0], mean, std, (sr_dtype)int_of(a, 0));
}

#define CALL(name, statement)                                                                      \
    static void call_##name(call_args *a) {                                                        \
        const sr_tensor *in = a->in;                                                               \
        const double *number = a->number;                                                          \
        (void)in;                                                                                  \
        (void)number;                                                                              \
        statement;                                                                                 \
    }
#define CALL_ONE(name, expression) CALL(name, a->out[0] = (expression))

CALL_ONE(conv2d, sr_is_none(in[2]) ? sr_conv2d(in[0], in[1], conv_opts(a))
                                   : sr_conv2d_bias(in[0], in[1], in[2], conv_opts(a)))
static sr_tensor conv2d_transpose(const call_args *a) {
    sr_conv2d_opts opts = conv_opts(a);
    opts.extra_right = 0;
    return sr_conv2d_transpose(a->in[0], a->in[1], opts, int_of(a, 6));
}
CALL_ONE(conv2d_transpose, conv2d_transpose(a))
CALL_ONE(linear, sr_linear(in[0], in[1], in[2]))
CALL_ONE(bias_add, sr_bias_add(in[0], in[1]))
CALL_ONE(channel_sum, sr_channel_sum(in[0]))
CALL_ONE(channel_dot, sr_channel_dot(in[0], in[1], in[2]))
CALL(batchnorm_train,
     const sr_batchnorm_out out = sr_batchnorm_train(in[0], in[1], in[2], number[0]);
     a->out[0] = out.y; a->out[1] = out.mean; a->out[2] = out.var)
CALL_ONE(batchnorm_infer, sr_batchnorm_infer(in[0], in[1], in[2], in[3], in[4], number[0]))
CALL_ONE(relu, sr_relu(in[0]))
CALL_ONE(leaky_relu, sr_leaky_relu(in[0], number[0]))
CALL_ONE(gelu, sr_gelu(in[0]))
CALL_ONE(tanh, sr_tanh_op(in[0]))
CALL_ONE(sigmoid, sr_sigmoid(in[0]))
CALL_ONE(softplus, sr_softplus(in[0]))
CALL_ONE(add, sr_add(in[0], in[1]))
CALL_ONE(sub, sr_sub(in[0], in[1]))
CALL_ONE(mul, sr_mul(in[0], in[1]))
CALL_ONE(scale, sr_scale(in[0], number[0], number[1]))
CALL_ONE(scale_by, sr_scale_by(in[0], in[1]))
CALL_ONE(fill_by, fill(a))
CALL_ONE(cast, sr_cast(in[0], (sr_dtype)int_of(a, 0)))
CALL_ONE(normalize, normalize(a))
CALL_ONE(dropout, sr_dropout(in[0], in[1], number[0], (uint32_t)number[1]))
CALL_ONE(maxpool2d, sr_maxpool2d(in[0], pool_opts(a)))
CALL_ONE(avgpool2d, sr_avgpool2d(in[0], pool_opts(a)))
CALL_ONE(global_avgpool, sr_global_avgpool(in[0]))
CALL_ONE(global_maxpool, sr_global_maxpool(in[0]))
CALL_ONE(upsample2d, sr_upsample2d(in[0], int_of(a, 0)))
CALL_ONE(reshape, reshape(a))
CALL_ONE(reduce_sum, sr_reduce_sum(in[0]))
CALL_ONE(softmax_xent, sr_softmax_cross_entropy(in[0], in[1], number[0]))
CALL_ONE(softmax, sr_softmax(in[0], 1))
CALL_ONE(topk_hits, sr_topk_hits(in[0], in[1]))
CALL_ONE(bce_with_logits, sr_bce_with_logits(in[0], number[0]))
CALL_ONE(grid_sample, sr_grid_sample(in[0], in[1],
                                     (sr_grid_sample_opts){.mode = (sr_sample_mode)int_of(a, 0),
                                                           .border = (sr_pad_mode)int_of(a, 1),
                                                           .align_corners = number[2] != 0}))
CALL_ONE(upfirdn2d, sr_upfirdn2d(in[0], in[1],
                                 (sr_upfirdn2d_opts){.up = int_of(a, 0),
                                                     .down = int_of(a, 1),
                                                     .top = int_of(a, 2),
                                                     .bottom = int_of(a, 3),
                                                     .left = int_of(a, 4),
                                                     .right = int_of(a, 5)}))
CALL_ONE(roi_align, sr_roi_align(in[0], in[1], in[2],
                                 (sr_roi_align_opts){.height = int_of(a, 0),
                                                     .width = int_of(a, 1),
                                                     .scale = number[2],
                                                     .samples = int_of(a, 3),
                                                     .aligned = number[4] != 0}))
CALL(nms, const sr_kept kept = sr_nms(in[0], in[1], in[2], (sr_nms_opts){.overlap = number[0]});
     a->out[0] = sr_cast(kept.index, SR_F32); a->out[1] = sr_cast(kept.count, SR_F32))
CALL(sgd, sr_sgd_update(in[0], in[1], in[2], in[3]))
CALL(ema, sr_ema_update(in[0], in[1], in[2]))

// The names of calls; a call makes 'outputs' values.
static const struct {
    const char *name;
    void (*run)(call_args *);
    int outputs;
} calls[] = {
    // numbers: stride h, w, pad h, w, dilation, groups, padding more on the right, at the bottom
    {"conv2d", call_conv2d, 1},
    {"conv2d_transpose", call_conv2d_transpose, 1}, // stride to groups, output_pad
    {"linear", call_linear, 1},
    {"bias_add", call_bias_add, 1},
    {"channel_sum", call_channel_sum, 1},
    {"channel_dot", call_channel_dot, 1},
    {"batchnorm_train", call_batchnorm_train, 3}, // eps
    {"batchnorm_infer", call_batchnorm_infer, 1}, // eps
    {"relu", call_relu, 1},
    {"leaky_relu", call_leaky_relu, 1}, // slope
    {"gelu", call_gelu, 1},
    {"tanh", call_tanh, 1},
    {"sigmoid", call_sigmoid, 1},
    {"softplus", call_softplus, 1},
    {"add", call_add, 1},
    {"sub", call_sub, 1},
    {"mul", call_mul, 1},
    {"scale", call_scale, 1}, // alpha, beta
    {"scale_by", call_scale_by, 1},
    {"fill_by", call_fill_by, 1},     // dtype, rank, dimensions
    {"cast", call_cast, 1},           // dtype
    {"normalize", call_normalize, 1}, // dtype, three means, three deviations
    {"dropout", call_dropout, 1},     // probability, scope; only two inputs count
    {"maxpool2d", call_maxpool2d, 1}, // window, stride, pad of the height, and of the width
    {"avgpool2d", call_avgpool2d, 1}, // the same
    {"global_avgpool", call_global_avgpool, 1},
    {"global_maxpool", call_global_maxpool, 1},
    {"upsample2d", call_upsample2d, 1}, // factor
    {"reshape", call_reshape, 1},       // rank, dimensions
    {"reduce_sum", call_reduce_sum, 1},
    {"softmax_xent", call_softmax_xent, 1}, // smoothing
    {"softmax", call_softmax, 1},
    {"topk_hits", call_topk_hits, 1},
    {"bce_with_logits", call_bce_with_logits, 1}, // target
    {"grid_sample", call_grid_sample, 1},         // mode, border, align_corners
    {"upfirdn2d", call_upfirdn2d, 1},             // up, down, top, bottom, left, right
    {"roi_align", call_roi_align, 1},             // height, width, scale, samples, aligned
    {"nms", call_nms, 2},                         // overlap
    {"sgd", call_sgd, 0},
    {"ema", call_ema, 0},
};

// ---- Reading ----

static double next_number(program *p) {
    char *end;
    const double x = strtod(p->next, &end);
    p->next = end;
    return x;
}

static int next_int(program *p) {
    return (int)next_number(p);
}

static const char *next_word(program *p) {
    const char *word = p->next + strspn(p->next, " ");
    const size_t length = strcspn(word, " ");
    p->next = (char *)(uintptr_t)word + length;
    if (*p->next)
        *p->next++ = '\0';
    return word;
}

static sr_dtype dtype_of(const char *name) {
    for (int i = 0; i < SR_DTYPE_COUNT; i++)
        if (strcmp(name, sr_dtype_name((sr_dtype)i)) == 0)
            return (sr_dtype)i;
    return SR_DTYPE_COUNT;
}

static size_t bytes_of(const sr_info *info) {
    return (size_t)sr_info_count(info) * sr_dtype_size(info->dtype);
}

static sr_tensor tensor_at(const program *p, int i) {
    return i >= 0 && i < p->count ? p->values[i].tensor : SR_NONE;
}

static void add_value(program *p, sr_tensor tensor) {
    if (p->count < MAX_VALUES)
        p->values[p->count++] = (program_value){.tensor = tensor};
}

// ---- Running ----

// The lines of a program, kept until its bytes have arrived, which its values need.
typedef struct text {
    char **lines;
    size_t count, capacity;
} text;

static sr_status make_value(program *p, bool variable, const uint8_t **data, size_t *left) {
    char name[SR_MAX_RANK * 8];
    program_value v = {.variable = variable};
    v.info.dtype = dtype_of(next_word(p));
    v.info.rank = next_int(p);
    if (v.info.dtype == SR_DTYPE_COUNT || v.info.rank < 0 || v.info.rank > SR_MAX_RANK ||
        p->count == MAX_VALUES)
        return SR_FAIL(SR_E_ARGUMENT, "value %d has no such type or rank", p->count);
    for (int i = 0; i < v.info.rank; i++)
        v.info.dim[i] = (int64_t)next_number(p);
    const size_t bytes = bytes_of(&v.info);
    if (bytes > *left)
        return SR_FAIL(SR_E_ARGUMENT, "value %d needs %zu bytes, %zu are left", p->count, bytes,
                       *left);
    (void)snprintf(name, sizeof name, "value%d", p->count);
    v.tensor = variable ? sr_variable(p->context, name, &v.info, *data)
                        : sr_constant(p->context, &v.info, *data);
    *data += bytes;
    *left -= bytes;
    p->values[p->count++] = v;
    return SR_OK;
}

static sr_status make_call(program *p) {
    call_args args = {0};
    const char *name = next_word(p);
    const int inputs = next_int(p);
    for (int i = 0; i < inputs && i < MAX_INPUTS; i++)
        args.in[i] = tensor_at(p, next_int(p));
    for (int i = 0; i < MAX_NUMBERS; i++)
        args.number[i] = next_number(p);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].name, name) != 0)
            continue;
        calls[i].run(&args);
        for (int k = 0; k < calls[i].outputs; k++)
            add_value(p, args.out[k]);
        return sr_context_status(p->context);
    }
    return SR_FAIL(SR_E_NOT_FOUND, "there is no call '%s'", name);
}

static sr_status make_gradients(program *p) {
    sr_tensor xs[64], grads[64] = {{0}};
    const sr_tensor y = tensor_at(p, next_int(p)), dy = tensor_at(p, next_int(p));
    int count = next_int(p);
    if (count > (int)(sizeof xs / sizeof xs[0]))
        return SR_FAIL(SR_E_ARGUMENT, "gradients of %d values are too many", count);
    for (int i = 0; i < count; i++)
        xs[i] = tensor_at(p, next_int(p));
    sr_gradients(y, dy, xs, count, grads);
    for (int i = 0; i < count; i++)
        add_value(p, grads[i]);
    return sr_context_status(p->context);
}

static sr_status make_line(program *p, const uint8_t **data, size_t *left) {
    const char *word = next_word(p);
    if (strcmp(word, "value") == 0 || strcmp(word, "variable") == 0)
        return make_value(p, strcmp(word, "variable") == 0, data, left);
    if (strcmp(word, "call") == 0)
        return make_call(p);
    if (strcmp(word, "gradient") == 0)
        return make_gradients(p);
    return SR_FAIL(SR_E_ARGUMENT, "there is no line '%s'", word);
}

// Variables are read after the run that updates them; the run delivers everything else.
static sr_status fetch(program *p, const int *ids, int count, void **out, sr_info *infos) {
    for (int i = 0; i < count; i++) {
        const sr_tensor t = tensor_at(p, ids[i]);
        if (sr_is_none(t))
            return SR_FAIL(SR_E_ARGUMENT, "value %d is no tensor", ids[i]);
        if (!sr_tensor_info(t, &infos[i]))
            return sr_context_status(p->context);
        out[i] = sr_alloc(bytes_of(&infos[i]), "a result");
        if (!out[i])
            return SR_E_MEMORY;
        if (!p->values[ids[i]].variable)
            sr_read_later(t, out[i], bytes_of(&infos[i]));
    }
    SR_TRY(sr_context_run(p->context));
    for (int i = 0; i < count; i++)
        if (p->values[ids[i]].variable)
            SR_TRY(sr_read(tensor_at(p, ids[i]), out[i], bytes_of(&infos[i])));
    return SR_OK;
}

static void answer(sr_status status, int count, void *const *out, const sr_info *infos) {
    if (status != SR_OK) {
        (void)printf("failed %s\n", sr_error_message());
        (void)fflush(stdout);
        return;
    }
    (void)printf("ok\n");
    for (int i = 0; i < count; i++) {
        (void)printf("%s %" PRId32, sr_dtype_name(infos[i].dtype), infos[i].rank);
        for (int k = 0; k < infos[i].rank; k++)
            (void)printf(" %" PRId64, infos[i].dim[k]);
        (void)printf("\n");
    }
    (void)printf("end\n");
    for (int i = 0; i < count; i++)
        (void)fwrite(out[i], 1, bytes_of(&infos[i]), stdout);
    (void)fflush(stdout);
}

// 'line' is "run BYTES COUNT VALUE..." without its first word.
static sr_status run_program(program *p, const text *lines, const uint8_t *data, size_t left,
                             char *line) {
    int ids[256];
    void *out[256] = {0};
    sr_info infos[256];
    p->next = line;
    int count = next_int(p);
    if (count < 0 || count > (int)(sizeof ids / sizeof ids[0]))
        return SR_FAIL(SR_E_ARGUMENT, "%d results are too many", count);
    for (int i = 0; i < count; i++)
        ids[i] = next_int(p);
    p->count = 0;
    const sr_context_options options = {.threads = THREADS};
    SR_TRY(sr_context_create(&options, &p->context));
    sr_status status = SR_OK;
    for (size_t i = 0; i < lines->count && status == SR_OK; i++) {
        p->next = lines->lines[i];
        status = make_line(p, &data, &left);
    }
    if (status == SR_OK)
        status = fetch(p, ids, count, out, infos);
    answer(status, count, out, infos);
    for (int i = 0; i < count; i++)
        sr_free(out[i]);
    sr_context_free(p->context);
    return SR_OK;
}

static void clear(text *lines) {
    for (size_t i = 0; i < lines->count; i++)
        sr_free(lines->lines[i]);
    lines->count = 0;
}

// Reads the program's bytes and runs it.
static sr_status read_and_run(program *p, text *lines, char *line) {
    char *rest;
    const size_t bytes = strtoull(line, &rest, 10);
    uint8_t *data = sr_alloc(bytes, "a program's values");
    if (!data)
        return SR_E_MEMORY;
    sr_status status = SR_OK;
    if (fread(data, 1, bytes, stdin) != bytes)
        status = SR_FAIL(SR_E_ARGUMENT, "stdin ends within a program's values");
    else
        status = run_program(p, lines, data, bytes, rest);
    sr_free(data);
    clear(lines);
    return status;
}

static sr_status serve(program *p, text *lines) {
    while (fgets(p->line, sizeof p->line, stdin)) {
        p->line[strcspn(p->line, "\n")] = '\0';
        if (strncmp(p->line, "run ", 4) == 0) {
            SR_TRY(read_and_run(p, lines, p->line + 4));
            continue;
        }
        SR_TRY(sr_grow((void **)&lines->lines, &lines->capacity, lines->count + 1,
                       sizeof *lines->lines, "lines"));
        char *copy = sr_strdup(p->line);
        if (!copy)
            return SR_E_MEMORY;
        lines->lines[lines->count++] = copy;
    }
    return SR_OK;
}

int main(void) {
    text lines = {0};
    program *p = sr_alloc(sizeof *p, "a program");
    const sr_status status = p ? serve(p, &lines) : SR_E_MEMORY;
    if (status != SR_OK)
        (void)fprintf(stderr, "run_program: %s\n", sr_error_message());
    clear(&lines);
    sr_free(lines.lines);
    sr_free(p);
    return sr_status_exit_code(status);
}
