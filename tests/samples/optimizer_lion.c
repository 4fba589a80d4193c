// SPDX-License-Identifier: Apache-2.0
// A custom optimiser: Lion (Chen et al. 2023). With g the gradient of the loss,
//
//   p -= lr (sign(b1 m + (1 - b1) g) + decay p),  m = b2 m + (1 - b2) g
//
//   optimizer: {name: lion, lr: 0.001, beta2: 0.99}
#include <serried.h>
#include <stddef.h>

typedef struct lion {
    double beta1, beta2;
} lion;

static const sr_option rows[] = {{.name = "beta1",
                                  .help = "weight of the momentum in the direction",
                                  .type = SR_OPT_FLOAT,
                                  .offset = offsetof(lion, beta1),
                                  .default_text = "0.9",
                                  .max = 1},
                                 {.name = "beta2",
                                  .help = "weight of the previous momentum in the new one",
                                  .type = SR_OPT_FLOAT,
                                  .offset = offsetof(lion, beta2),
                                  .default_text = "0.99",
                                  .max = 1}};
static const sr_option_table table = {
    .name = "optimizer.lion", .options = rows, .count = 2, .struct_size = sizeof(lion)};

// The optimiser defines the layout of 'hyper': this function fills it, its kernel reads it.
enum { LR, BETA1, BETA2, DECAY, SCALE, FIRST };

static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const lion *o = (const lion *)options;
    hyper[LR] = (float)request->lr;
    hyper[BETA1] = (float)o->beta1;
    hyper[BETA2] = (float)o->beta2;
    hyper[DECAY] = (float)request->weight_decay;
    hyper[SCALE] = (float)request->gradient_scale;
    hyper[FIRST] = request->step == 0 ? 1.0f : 0.0f; // the momentum starts as the gradient
}

// ---- The kernel: p, m, g, hyper; elementwise, in independent blocks ----

enum { BLOCK = 16384 };

static sr_status run(const sr_kernel_args *args, int64_t block, sr_worker *worker) {
    const sr_count_params *params = (const sr_count_params *)args->params;
    float *p = (float *)args->p[0], *m = (float *)args->p[1];
    const float *sum = (const float *)args->p[2], *h = (const float *)args->p[3];
    int64_t end = (block + 1) * BLOCK < params->count ? (block + 1) * BLOCK : params->count;
    for (int64_t i = block * BLOCK; i < end; i++) {
        const float g = sum[i] * h[SCALE], past = h[FIRST] > 0 ? g : m[i];
        const float c = h[BETA1] * past + (1 - h[BETA1]) * g;
        p[i] -= h[LR] * ((float)((c > 0) - (c < 0)) + h[DECAY] * p[i]);
        m[i] = h[BETA2] * past + (1 - h[BETA2]) * g;
    }
    (void)worker;
    return SR_OK;
}

static bool supports(const sr_kernel_request *r) {
    return r->dtype[0] == SR_F32;
}

static sr_status prepare(const sr_kernel_request *r, sr_prepared *out) {
    const sr_count_params *params = (const sr_count_params *)r->params;
    out->stages = 1;
    out->stage[0] = (sr_kernel_stage){.run = run, .blocks = (params->count + BLOCK - 1) / BLOCK};
    return SR_OK;
}

static const sr_kernel_entry kernel = {.struct_size = sizeof(sr_kernel_entry),
                                       .abi = SR_KERNEL_ABI,
                                       .kernel = SR_KERNEL_OWN,
                                       .name = "lion/own",
                                       .provider = "own",
                                       .numerics_class = "own-elementwise",
                                       .supports = supports,
                                       .prepare = prepare};

static const sr_optimizer_desc optimizer = {.struct_size = sizeof(sr_optimizer_desc),
                                            .abi = SR_OPTIMIZER_ABI,
                                            .name = "lion",
                                            .help = "the sign of a momentum (Chen et al. 2023)",
                                            .options = &table,
                                            .states = 1,
                                            .state_names = {"momentum"},
                                            .kernel = SR_KERNEL_OWN,
                                            .fill = fill,
                                            .kernels = &kernel,
                                            .kernel_count = 1};
static const sr_optimizer_desc *const optimizers[] = {&optimizer, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "lion", .optimizers = optimizers};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
