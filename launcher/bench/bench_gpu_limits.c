// SPDX-License-Identifier: Apache-2.0
// Times of kernels, and the memory of values (bench_gpu_internal.h).
#include "kernels/base/memory.h"
#include "launcher/bench/bench_gpu_internal.h"

const char *const sr_gpu_bounds[SR_GPU_BOUNDS] = {[SR_GPU_BY_FLOPS] = "flops",
                                                  [SR_GPU_BY_BYTES] = "bytes",
                                                  [SR_GPU_BY_MEASURE] = "measured",
                                                  [SR_GPU_BY_LAUNCH] = "launch"};

static void add_uses(const sr_gpu_program *p, const sr_gpu_use *uses, int count,
                     sr_gpu_cost *cost) {
    for (int i = 0; i < count; i++) {
        const double bytes = p->values[uses[i].value].bytes;
        cost->bytes += uses[i].times * bytes;
        cost->cached += uses[i].cached * bytes;
    }
}

// Inputs and outputs once; what the kernel wrote itself is no input, and what it packed no output.
static double least_bytes(const sr_gpu_program *p, const sr_gpu_kernel *k) {
    double bytes = 0;
    for (int i = 0; i < k->write_count; i++)
        bytes += p->values[k->writes[i].value].is_packed ? 0 : p->values[k->writes[i].value].bytes;
    for (int i = 0; i < k->read_count; i++) {
        bool own = false;
        for (int j = 0; j < k->write_count; j++)
            own |= k->writes[j].value == k->reads[i].value;
        bytes += own ? 0 : p->values[k->reads[i].value].bytes;
    }
    return bytes + (k->family == SR_GPU_UPDATE ? k->fixed : 0);
}

static void multiply(sr_gpu_cost *cost, const sr_gpu_kernel *k) {
    cost->kernels *= k->runs * k->repeats;
    cost->functions *= k->runs * k->repeats;
    cost->flops *= k->runs;
    cost->executed *= k->runs;
    cost->bytes *= k->runs;
    cost->cached *= k->runs;
    cost->least *= k->runs;
    cost->workspace *= k->runs;
}

// Our own kernels reach a share of the rate of a copy.
static double byte_rate(const sr_gpu *gpu, sr_gpu_class numerics) {
    const bool library = numerics == SR_GPU_cudnn || numerics == SR_GPU_cublaslt;
    return gpu->bytes * (library ? 1 : gpu->own);
}

sr_gpu_cost sr_gpu_cost_of(const sr_gpu_program *p, const sr_gpu_kernel *k, const sr_gpu *gpu) {
    sr_gpu_cost cost = {.kernels = 1,
                        .functions = k->functions,
                        .flops = k->flops,
                        .executed = k->executed,
                        .bytes = k->fixed,
                        .least = least_bytes(p, k),
                        .workspace = k->family == SR_GPU_UPDATE ? 0 : k->fixed};
    int bound = 0;
    if (k->gone)
        return (sr_gpu_cost){0};
    add_uses(p, k->reads, k->read_count, &cost);
    add_uses(p, k->writes, k->write_count, &cost);
    multiply(&cost, k);
    cost.by[SR_GPU_BY_FLOPS] = cost.executed / sr_gpu_flop_rate(gpu, k->numerics, k->dtype);
    cost.by[SR_GPU_BY_BYTES] = cost.bytes / byte_rate(gpu, k->numerics);
    cost.by[SR_GPU_BY_MEASURE] = k->measured * k->runs;
    cost.by[SR_GPU_BY_LAUNCH] = cost.functions * gpu->launch;
    for (int i = 1; i < SR_GPU_BY_LAUNCH; i++)
        if (cost.by[i] > cost.by[bound])
            bound = i;
    cost.bound[bound] = cost.by[bound];
    cost.bound[SR_GPU_BY_LAUNCH] = cost.by[SR_GPU_BY_LAUNCH];
    cost.seconds = cost.bound[bound] + cost.bound[SR_GPU_BY_LAUNCH];
    return cost;
}

int sr_gpu_bound_of(const sr_gpu_cost *cost) {
    int bound = 0;
    for (int i = 1; i < SR_GPU_BOUNDS; i++)
        if (cost->bound[i] > cost->bound[bound])
            bound = i;
    return bound;
}

void sr_gpu_cost_add(sr_gpu_cost *to, const sr_gpu_cost *cost) {
    to->kernels += cost->kernels;
    to->functions += cost->functions;
    to->flops += cost->flops;
    to->executed += cost->executed;
    to->bytes += cost->bytes;
    to->cached += cost->cached;
    to->least += cost->least;
    to->workspace += cost->workspace;
    to->seconds += cost->seconds;
    for (int i = 0; i < SR_GPU_BOUNDS; i++) {
        to->by[i] += cost->by[i];
        to->bound[i] += cost->bound[i];
    }
}

// ---- Memory ----

// Kernels between which a value is alive; none where first > last.
typedef struct life {
    int first, last;
} life;

static void find_lives(const sr_gpu_program *p, life *lives) {
    for (int v = 0; v < p->value_count; v++)
        lives[v] = (life){p->kernel_count, -1};
    for (int n = 0; n < p->kernel_count; n++) {
        const sr_gpu_kernel *k = &p->kernels[n];
        for (int i = 0; !k->gone && i < k->write_count; i++)
            lives[k->writes[i].value] = (life){n, n};
    }
    for (int n = 0; n < p->kernel_count; n++) {
        const sr_gpu_kernel *k = &p->kernels[n];
        for (int i = 0; !k->gone && i < k->read_count; i++)
            if (n > lives[k->reads[i].value].last)
                lives[k->reads[i].value].last = n;
    }
}

// A value ends before the kernel that reads it last and writes another one in its place.
static void end_in_place(const sr_gpu_program *p, life *lives) {
    for (int n = 0; n < p->kernel_count; n++) {
        const sr_gpu_kernel *k = &p->kernels[n];
        for (int i = 0; !k->gone && i < k->read_count; i++)
            for (int j = 0; j < k->write_count; j++)
                if (p->values[k->reads[i].value].root == p->values[k->writes[j].value].root &&
                    k->reads[i].value != k->writes[j].value && lives[k->reads[i].value].last == n)
                    lives[k->reads[i].value].last = n - 1;
    }
}

static double most_alive(const sr_gpu_program *p, const life *lives, double *change) {
    double now = 0, most = 0;
    for (int v = 0; v < p->value_count; v++) {
        if (p->values[v].given || lives[v].first > lives[v].last)
            continue;
        change[lives[v].first] += p->values[v].bytes;
        change[lives[v].last + 1] -= p->values[v].bytes;
    }
    for (int n = 0; n < p->kernel_count; n++) {
        now += change[n];
        most = now > most ? now : most;
    }
    return most;
}

sr_status sr_gpu_live_bytes(const sr_gpu_program *p, double *out) {
    life *lives = sr_alloc_array((size_t)p->value_count + 1, sizeof *lives, "plan for a GPU");
    double *change = sr_alloc_array((size_t)p->kernel_count + 1, sizeof *change, "plan for a GPU");
    sr_status status = SR_E_MEMORY;
    if (lives && change) {
        find_lives(p, lives);
        end_in_place(p, lives);
        *out = most_alive(p, lives, change);
        status = SR_OK;
    }
    sr_free(lives);
    sr_free(change);
    return status;
}
