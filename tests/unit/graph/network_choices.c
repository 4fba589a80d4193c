// SPDX-License-Identifier: Apache-2.0
// Recording and replaying the choices of piecewise functions (network_choices.h).
//
// What is recorded are the values that decide: results of ReLUs, inputs of maxima. The positions of
// maxima follow from the rule of graph/ops.h, the first maximum of a window, not from the kernels.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // RTLD_NEXT
#endif
#define SR_OPS_PLAIN
#include "tests/unit/graph/network_choices.h"

#include <dlfcn.h>
#include <string.h>

#include "graph/context.h"
#include "graph/op.h"
#include "graph/ops.h"
#include "kernels/base/memory.h"
#include "kernels/kernel_params.h"

enum { CAPACITY = 256 };

typedef struct choice {
    sr_info info;
    void *values;
} choice;

struct choices {
    choice items[CAPACITY];
    int noted, given;
    sr_context *context; // that replays the choices
};

typedef enum mode { AS_USUAL, NOTE, GIVE } mode;

static choices *current;
static mode now;

choices *choices_create(void) {
    return sr_alloc(sizeof(choices), "choices");
}

static void forget(choices *c) {
    for (int i = 0; i < c->noted; i++)
        sr_free(c->items[i].values);
    c->noted = 0;
}

void choices_free(choices *c) {
    if (c)
        forget(c);
    sr_free(c);
}

void choices_note(choices *c) {
    forget(c);
    current = c;
    now = NOTE;
}

void choices_give(choices *c, sr_context *context) {
    c->given = 0;
    c->context = context;
    current = c;
    now = GIVE;
}

void choices_end(void) {
    now = AS_USUAL;
}

bool choices_all_given(const choices *c) {
    return c->given == c->noted;
}

// ---- Recording and replaying ----

static void note(sr_tensor decides) {
    choice *c = &current->items[current->noted];
    if (!sr_tensor_info(decides, &c->info))
        return;
    size_t bytes = (size_t)sr_info_count(&c->info) * sr_dtype_size(c->info.dtype);
    c->values = current->noted < CAPACITY ? sr_alloc(bytes, "a choice") : NULL;
    if (!c->values)
        return; // what is not recorded cannot be replayed: next() fails
    current->noted++;
    sr_read_later(decides, c->values, bytes);
}

// The next choice, or NULL if the program asks for more than was recorded.
static const choice *next(void) {
    const int i = current->given++;
    return i < current->noted ? &current->items[i] : NULL;
}

static double value_at(const choice *c, int64_t i) {
    if (c->info.dtype == SR_BF16)
        return (double)sr_bf16_to_f32(((const uint16_t *)c->values)[i]);
    if (c->info.dtype == SR_F16)
        return (double)sr_f16_to_f32(((const uint16_t *)c->values)[i]);
    return (double)((const float *)c->values)[i];
}

// A constant with the shape of a choice; frees 'data'.
static sr_tensor constant_of(const sr_info *shape, sr_dtype dtype, void *data) {
    sr_info info = *shape;
    info.dtype = dtype;
    sr_tensor tensor = sr_constant(current->context, &info, data);
    sr_free(data);
    return tensor;
}

// x times 1 where the recorded value is positive, else times 'slope'.
static sr_tensor give_sides(sr_tensor x, double slope) {
    const choice *c = next();
    size_t count = c ? (size_t)sr_info_count(&c->info) : 0;
    double *mask = c ? sr_alloc_array(count, sizeof *mask, "a mask") : NULL;
    if (!mask)
        return SR_NONE;
    for (size_t i = 0; i < count; i++)
        mask[i] = value_at(c, (int64_t)i) > 0 ? 1 : slope;
    return sr_mul(x, constant_of(&c->info, SR_F64, mask));
}

// ---- take: y[i] = x[place[i]], and put: x = 0, then x[place[i]] += y[i] ----

static sr_status run_take(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const double *x = args->p[0];
    const int32_t *place = args->p[1];
    double *y = args->p[2];
    const sr_rows_params *p = args->params; // elements of x, of y
    (void)block, (void)worker;
    for (int64_t i = 0; i < p->channels; i++)
        y[i] = x[place[i]];
    return SR_OK;
}

static sr_status run_put(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const double *y = args->p[0];
    const int32_t *place = args->p[1];
    double *x = args->p[2];
    const sr_rows_params *p = args->params;
    (void)block, (void)worker;
    memset(x, 0, (size_t)p->rows * sizeof *x);
    for (int64_t i = 0; i < p->channels; i++)
        x[place[i]] += y[i];
    return SR_OK;
}

static bool supports(const sr_kernel_request *request) {
    return request->dtype[0] == SR_F64 && request->dtype[1] == SR_I32;
}

static sr_status prepare_take(const sr_kernel_request *request, sr_prepared *out) {
    (void)request;
    out->stages = 1;
    out->stage[0] = (sr_kernel_stage){.run = run_take, .blocks = 1};
    return SR_OK;
}

static sr_status prepare_put(const sr_kernel_request *request, sr_prepared *out) {
    (void)request;
    out->stages = 1;
    out->stage[0] = (sr_kernel_stage){.run = run_put, .blocks = 1};
    return SR_OK;
}

#define OWN_KERNEL(label)                                                                          \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_OWN,     \
        .name = #label "/own", .provider = "own", .numerics_class = "own-serial",                  \
        .supports = supports, .prepare = prepare_##label                                           \
    }
static const sr_kernel_entry take_kernel = OWN_KERNEL(take), put_kernel = OWN_KERNEL(put);

static sr_status lower_take(const sr_node_view *node, sr_kernel_request *request) {
    const sr_rows_params p = {sr_info_count(&node->in[0]), sr_info_count(&node->out[0])};
    memcpy(request->params, &p, sizeof p);
    return SR_OK;
}

static sr_status lower_put(const sr_node_view *node, sr_kernel_request *request) {
    const sr_rows_params p = {sr_info_count(&node->out[0]), sr_info_count(&node->in[0])};
    memcpy(request->params, &p, sizeof p);
    return SR_OK;
}

static sr_status infer_take(const sr_node_view *node, sr_info *out) {
    out[0] = node->in[1];
    out[0].dtype = node->in[0].dtype;
    return SR_OK;
}

static sr_status infer_put(const sr_node_view *node, sr_info *out) {
    out[0] = *(const sr_info *)node->attr;
    return SR_OK;
}

static const sr_op put_op = {.struct_size = sizeof(sr_op),
                             .abi = SR_OP_ABI,
                             .name = "put",
                             .help = "elements added at given places",
                             .inputs = 2,
                             .required = 2,
                             .outputs = 1,
                             .attr_size = sizeof(sr_info), // info of the result
                             .infer = infer_put,
                             .lower = lower_put,
                             .kernels = &put_kernel,
                             .kernel_count = 1};

static void derive_take(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                        const bool *wanted, sr_tensor *grad_in) {
    (void)context;
    if (wanted[0])
        grad_in[0] =
            sr_op_record_one(&put_op, &node->in[0], (sr_tensor[]){grad_out[0], node->input[1]});
}

static const sr_op take_op = {.struct_size = sizeof(sr_op),
                              .abi = SR_OP_ABI,
                              .name = "take",
                              .help = "elements from given places",
                              .inputs = 2,
                              .required = 2,
                              .outputs = 1,
                              .infer = infer_take,
                              .lower = lower_take,
                              .derivative = derive_take,
                              .keeps_inputs = 2u,
                              .kernels = &take_kernel,
                              .kernel_count = 1};

// ---- Positions of maxima ----

typedef struct windows {
    int64_t p, q; // positions
    int64_t height, width, stride, pad;
} windows;

static int64_t first_maximum(const choice *c, const windows *w, int64_t n, int64_t p, int64_t q,
                             int64_t channel) {
    const int64_t *dim = c->info.dim;
    int64_t best = -1;
    for (int64_t y = p * w->stride - w->pad; y < p * w->stride - w->pad + w->height; y++) {
        for (int64_t x = q * w->stride - w->pad; x < q * w->stride - w->pad + w->width; x++) {
            int64_t at = ((n * dim[1] + y) * dim[2] + x) * dim[3] + channel;
            if (y < 0 || y >= dim[1] || x < 0 || x >= dim[2])
                continue;
            if (best < 0 || value_at(c, at) > value_at(c, best))
                best = at;
        }
    }
    return best;
}

static sr_tensor give_positions(sr_tensor x, const choice *c, const windows *w) {
    const int64_t *dim = c->info.dim;
    const sr_info shape = {.rank = 4, .dim = {dim[0], w->p, w->q, dim[3]}};
    int32_t *place = sr_alloc_array((size_t)sr_info_count(&shape), sizeof *place, "places");
    if (!place)
        return SR_NONE;
    int64_t i = 0;
    for (int64_t n = 0; n < dim[0]; n++)
        for (int64_t p = 0; p < w->p; p++)
            for (int64_t q = 0; q < w->q; q++)
                for (int64_t channel = 0; channel < dim[3]; channel++)
                    place[i++] = (int32_t)first_maximum(c, w, n, p, q, channel);
    return sr_op_record_one(&take_op, NULL, (sr_tensor[]){x, constant_of(&shape, SR_I32, place)});
}

static int64_t positions(int64_t size, const sr_pool2d_opts *opts, int64_t stride) {
    return (size + 2 * opts->pad - opts->window) / stride + 1;
}

// ---- Functions that replace the library's ----

typedef sr_tensor (*of_tensor)(sr_tensor);
typedef sr_tensor (*of_slope)(sr_tensor, double);
typedef sr_tensor (*of_window)(sr_tensor, sr_pool2d_opts);

#define LIBRARY(name, type)                                                                        \
    type library = NULL;                                                                           \
    void *symbol = dlsym(RTLD_NEXT, name);                                                         \
    memcpy(&library, &symbol, sizeof library) // ISO C has no cast for this

sr_tensor sr_relu(sr_tensor x) {
    LIBRARY("sr_relu", of_tensor);
    if (now == GIVE)
        return give_sides(x, 0);
    sr_tensor y = library(x);
    if (now == NOTE)
        note(y);
    return y;
}

sr_tensor sr_leaky_relu(sr_tensor x, double slope) {
    LIBRARY("sr_leaky_relu", of_slope);
    if (now == GIVE)
        return give_sides(x, slope);
    sr_tensor y = library(x, slope);
    if (now == NOTE)
        note(y);
    return y;
}

sr_tensor sr_maxpool2d(sr_tensor x, sr_pool2d_opts opts) {
    LIBRARY("sr_maxpool2d", of_window);
    if (now == NOTE)
        note(x);
    if (now != GIVE)
        return library(x, opts);
    const choice *c = next();
    if (!c)
        return SR_NONE;
    const int64_t stride = opts.stride == 0 ? opts.window : opts.stride;
    const windows w = {.p = positions(c->info.dim[1], &opts, stride),
                       .q = positions(c->info.dim[2], &opts, stride),
                       .height = opts.window,
                       .width = opts.window,
                       .stride = stride,
                       .pad = opts.pad};
    return give_positions(x, c, &w);
}

sr_tensor sr_global_maxpool(sr_tensor x) {
    LIBRARY("sr_global_maxpool", of_tensor);
    if (now == NOTE)
        note(x);
    if (now != GIVE)
        return library(x);
    const choice *c = next();
    if (!c)
        return SR_NONE;
    const int64_t *dim = c->info.dim;
    const windows w = {.p = 1, .q = 1, .height = dim[1], .width = dim[2], .stride = 1};
    return sr_reshape(give_positions(x, c, &w), 2, (int64_t[]){dim[0], dim[3]});
}
