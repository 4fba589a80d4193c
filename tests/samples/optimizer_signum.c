// SPDX-License-Identifier: Apache-2.0
// A custom optimiser: Signum (Bernstein et al. 2018). With g the gradient of the loss,
//
//   m = beta m + (1 - beta) g,  p -= lr (sign(m) + decay p)
//
//   optimizer: {name: signum, lr: 0.001, beta: 0.9}
#include <serried.h>
#include <stddef.h>

typedef struct signum {
    double beta;
} signum;

static const sr_option rows[] = {{.name = "beta",
                                  .help = "weight of the previous momentum",
                                  .type = SR_OPT_FLOAT,
                                  .offset = offsetof(signum, beta),
                                  .default_text = "0.9",
                                  .max = 1}};
static const sr_option_table table = {
    .name = "optimizer.signum", .options = rows, .count = 1, .struct_size = sizeof(signum)};

// The optimiser defines the layout of 'hyper': this function fills it, its kernel reads it.
enum { LR, BETA, REST, DECAY, SCALE, FIRST };

static void fill(const void *options, const sr_hyper_request *request, float hyper[SR_HYPER]) {
    const signum *o = (const signum *)options;
    hyper[LR] = (float)request->lr;
    hyper[BETA] = (float)o->beta;
    hyper[REST] = (float)(1 - o->beta);
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
        const float g = sum[i] * h[SCALE];
        m[i] = h[FIRST] > 0 ? g : h[BETA] * m[i] + h[REST] * g;
        p[i] -= h[LR] * ((float)((m[i] > 0) - (m[i] < 0)) + h[DECAY] * p[i]);
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
                                       .name = "signum/own",
                                       .provider = "own",
                                       .numerics_class = "own-elementwise",
                                       .supports = supports,
                                       .prepare = prepare};

static const sr_optimizer_desc optimizer = {.struct_size = sizeof(sr_optimizer_desc),
                                            .abi = SR_OPTIMIZER_ABI,
                                            .name = "signum",
                                            .help =
                                                "the sign of a momentum (Bernstein et al. 2018)",
                                            .options = &table,
                                            .states = 1,
                                            .state_names = {"momentum"},
                                            .kernel = SR_KERNEL_OWN,
                                            .fill = fill,
                                            .kernels = &kernel,
                                            .kernel_count = 1};
static const sr_optimizer_desc *const optimizers[] = {&optimizer, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "signum", .optimizers = optimizers};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
