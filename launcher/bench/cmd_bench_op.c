// SPDX-License-Identifier: Apache-2.0
// serried bench op: the time of each kernel at the shapes of ResNet-50, as a share of what the
// machine can do, and the overhead of an operator (bench_op_cost.c).
//
// The limits (multiply-adds, copying) are measured first, with the same number of threads. The
// share of a kernel is max(flops / limit, bytes / limit) / time, where bytes are those of its
// arguments: a kernel that finds them in a cache may exceed 100 %. Data are random, never zeros;
// arrays are touched before they are timed.
//
// On a GPU (--device) the time is that of the device, with nothing in its caches, and limits are
// those of the table of GPUs. --lanes times kernels of several lanes side by side.
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/text.h"
#include "kernels/cpu/machine_limits.h"
#include "kernels/kernel_lanes.h"
#include "launcher/bench/bench.h"
#include "launcher/bench/bench_gpu_internal.h"
#include "launcher/bench/bench_op_internal.h"
#include "launcher/commands/command.h"

#define MAX_RUNS 1000

enum { KEY_JSON = 0x100, KEY_PORTABLE, KEY_DEVICE };

// Numbers of operators of the programs that show the overhead of one.
static const int sizes[] = {256, 2000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

typedef struct options {
    bool json;
    const char *filter, *provider, *device; // device: NULL: the CPU
    int threads, lanes;
    int64_t batch;
    double seconds; // to spend on one kernel
    sr_dtype dtype; // SR_DTYPE_COUNT: f32, bf16 and f16
} options;

typedef struct op_bench {
    const options *o;
    sr_bench_op_device *device; // NULL: the CPU, with
    sr_pool *pool;
    void **scratch; // per thread, of the kernel being timed
    sr_machine_limits limits;
    sr_bench_overhead overhead[SIZES];
    sr_text json;
    int found, rows; // cases to time, cases timed so far
    sr_status status;
} op_bench;

typedef struct timing {
    const sr_kernel_entry *entry;
    double best, median; // seconds
    double flop_rate, byte_rate, share;
} timing;

// ---- running one kernel ----

typedef struct launch {
    const sr_kernel_args *args;
    sr_kernel_fn run;
    void *const *scratch;
    sr_status status;
} launch;

static void run_block(void *user, int64_t block, int worker) {
    launch *l = user;
    sr_worker w = {.index = worker, .scratch = l->scratch[worker]};
    const sr_status status = l->run(l->args, block, &w);
    if (status != SR_OK)
        l->status = status; // read after all threads are done
}

static sr_status run_kernel(op_bench *b, const sr_prepared *prepared, sr_kernel_args *args) {
    launch l = {.args = args, .scratch = b->scratch};
    for (int s = 0; s < prepared->stages; s++) {
        args->block_rows = prepared->stage[s].block_rows;
        l.run = prepared->stage[s].run;
        sr_pool_run(b->pool, prepared->stage[s].blocks, run_block, &l);
    }
    return l.status;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_up(double *times, int runs, timing *out) {
    qsort(times, (size_t)runs, sizeof *times, compare);
    if (runs > 0) {
        out->best = times[0];
        out->median = times[runs / 2];
    }
}

static sr_status time_kernel(op_bench *b, const sr_prepared *prepared, sr_kernel_args *args,
                             timing *out) {
    double *times = sr_alloc_array(MAX_RUNS, sizeof *times, "times of a benchmark");
    if (times == NULL)
        return SR_E_MEMORY;
    sr_status status = run_kernel(b, prepared, args); // warms caches and lazily created state
    double spent = 0;
    int runs = 0;
    while (status == SR_OK && runs < MAX_RUNS && (runs < 3 || spent < b->o->seconds)) {
        const int64_t begin = sr_clock_ns();
        status = run_kernel(b, prepared, args);
        times[runs] = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
        spent += times[runs++];
    }
    sum_up(times, runs, out);
    sr_free(times);
    return status;
}

// ---- arrays ----

static sr_status make_arrays(const sr_bench_case *c, void **p) {
    for (int i = 0; i < c->request.args; i++) {
        const int64_t count = sr_kernel_argument_count(&c->request, i);
        if (count == 0)
            continue;
        const size_t bytes = (size_t)count * sr_dtype_size(c->request.dtype[i]);
        p[i] = sr_alloc(bytes, "an array of a benchmark");
        if (p[i] == NULL)
            return SR_E_MEMORY;
        sr_bench_op_fill(c->request.dtype[i], p[i], count, (uint64_t)i + 1);
    }
    return SR_OK;
}

static sr_status make_scratch(op_bench *b, size_t bytes) {
    for (int i = 0; i < b->o->threads; i++) {
        b->scratch[i] = sr_alloc(bytes, "scratch of a benchmark");
        if (b->scratch[i] == NULL)
            return SR_E_MEMORY;
    }
    return SR_OK;
}

static void free_scratch(op_bench *b) {
    for (int i = 0; i < b->o->threads; i++) {
        sr_free(b->scratch[i]);
        b->scratch[i] = NULL;
    }
}

static sr_status measure_on_device(op_bench *b, const sr_bench_case *c, const sr_prepared *prepared,
                                   timing *out) {
    int runs;
    double *times = sr_alloc_array(MAX_RUNS, sizeof *times, "times of a benchmark");
    if (times == NULL)
        return SR_E_MEMORY;
    const sr_status status = sr_bench_op_device_time(b->device, &c->request, prepared,
                                                     b->o->seconds, times, MAX_RUNS, &runs);
    sum_up(times, runs, out);
    sr_free(times);
    return status;
}

static sr_status measure(op_bench *b, const sr_bench_case *c, const sr_prepared *prepared,
                         timing *out) {
    void *p[SR_KERNEL_MAX_ARGS] = {0};
    void *workspace = sr_alloc(prepared->workspace, "workspace of a benchmark");
    sr_status status = workspace != NULL ? make_arrays(c, p) : SR_E_MEMORY;
    if (status == SR_OK)
        status = make_scratch(b, prepared->scratch);
    sr_kernel_args args = {p, c->request.params, prepared->state, workspace, 0};
    if (status == SR_OK)
        status = time_kernel(b, prepared, &args, out);
    free_scratch(b);
    for (int i = 0; i < c->request.args; i++)
        sr_free(p[i]);
    sr_free(workspace);
    return status;
}

// ---- reporting ----

// The limits of a GPU that is in no table are unknown, and so is the share.
static void rate(const op_bench *b, const sr_bench_case *c, timing *r) {
    const double bytes = sr_bench_case_bytes(c);
    sr_machine_limits limits = b->limits;
    r->flop_rate = c->flops / r->best;
    r->byte_rate = bytes / r->best;
    r->share = (double)NAN;
    if (b->device) {
        const sr_gpu *gpu = sr_gpu_of_model(sr_bench_op_device_properties(b->device)->model);
        if (!gpu)
            return;
        limits.flops = sr_gpu_flop_rate(gpu, SR_GPU_cudnn, c->request.dtype[0]);
        limits.copy_rate = gpu->bytes;
    }
    const double least = c->flops / limits.flops, move = bytes / limits.copy_rate;
    r->share = (least > move ? least : move) / r->best;
}

static void add_json(op_bench *b, const sr_bench_case *c, const timing *r) {
    sr_text_add(&b->json,
                "%s\n  {\"kernel\": \"%s\", \"dtype\": \"%s\", \"shape\": \"%s\", "
                "\"provider\": \"%s\", \"class\": \"%s\", \"seconds\": ",
                b->rows > 0 ? "," : "", sr_kernel_name(c->request.kernel),
                sr_dtype_name(c->request.dtype[0]), c->shape, r->entry->provider,
                r->entry->numerics_class);
    sr_text_add_json_number(&b->json, r->best);
    sr_text_add(&b->json, ", \"median_seconds\": ");
    sr_text_add_json_number(&b->json, r->median);
    sr_text_add(&b->json, ", \"flops\": ");
    sr_text_add_json_number(&b->json, r->flop_rate);
    sr_text_add(&b->json, ", \"bytes_per_s\": ");
    sr_text_add_json_number(&b->json, r->byte_rate);
    sr_text_add(&b->json, ", \"share_of_limit\": ");
    sr_text_add_json_number(&b->json, r->share);
    sr_text_add(&b->json, "}");
}

static void print_row(const sr_bench_case *c, const timing *r) {
    char flops[16] = "", share[16] = "";
    if (c->flops > 0)
        (void)snprintf(flops, sizeof flops, "%.1f", r->flop_rate * 1e-9);
    if (!isnan(r->share))
        (void)snprintf(share, sizeof share, "%.0f%%", 100 * r->share);
    printf("%-23s %-5s %-22s %9.3f %9.3f %8s %7.1f %6s  %s %s\n", sr_kernel_name(c->request.kernel),
           sr_dtype_name(c->request.dtype[0]), c->shape, r->best * 1e3, r->median * 1e3, flops,
           r->byte_rate * 1e-9, share, r->entry->provider, r->entry->numerics_class);
    (void)fflush(stdout);
}

static bool wanted(const op_bench *b, const sr_bench_case *c) {
    const char *filter = b->o->filter;
    return filter == NULL || strstr(sr_kernel_name(c->request.kernel), filter) != NULL ||
           strstr(c->shape, filter) != NULL;
}

// What lanes side by side share.
static bool is_parameter(const char *argument) {
    return strcmp(argument, "w") == 0 || strcmp(argument, "bias") == 0 ||
           strcmp(argument, "gamma") == 0 || strcmp(argument, "beta") == 0;
}

// Makes the case that of the device, and of its lanes; false if they run one by one.
static bool adapt(const op_bench *b, sr_bench_case *c) {
    const sr_kernel_request lane = c->request;
    uint32_t varies = 0;
    int args;
    const sr_kernel_argument *arguments = sr_kernel_arguments(lane.kernel, &args);
    for (int i = 0; i < args; i++)
        varies |= lane.dtype[i] != SR_DTYPE_COUNT && !is_parameter(arguments[i].name) ? 1u << i : 0;
    c->flops *= b->o->lanes;
    return b->o->lanes == 1 || sr_kernel_join_lanes(&lane, b->o->lanes, varies, &c->request);
}

// The entry to time; NULL if the case is filtered out or the provider lacks it.
static const sr_kernel_entry *entry_of(const op_bench *b, sr_bench_case *c) {
    if (!wanted(b, c))
        return NULL;
    if (b->device) {
        c->request.device = sr_bench_op_device_properties(b->device)->kind;
        if (!adapt(b, c))
            return NULL;
    }
    return b->o->provider != NULL ? sr_kernel_find_in(&c->request, b->o->provider)
                                  : sr_kernel_find(&c->request);
}

static bool count(void *user, const sr_bench_case *of_cpu) {
    op_bench *b = user;
    sr_bench_case c = *of_cpu;
    b->found += entry_of(b, &c) != NULL;
    return true;
}

static bool visit(void *user, const sr_bench_case *of_cpu) {
    op_bench *b = user;
    sr_bench_case c = *of_cpu;
    const sr_kernel_entry *entry = entry_of(b, &c);
    if (entry == NULL)
        return true;
    timing r = {.entry = entry};
    sr_prepared prepared = {0};
    b->status = entry->prepare(&c.request, &prepared);
    if (b->status != SR_OK)
        return false;
    prepared.entry = entry;
    b->status = b->device ? measure_on_device(b, &c, &prepared, &r) : measure(b, &c, &prepared, &r);
    sr_prepared_release(&prepared);
    if (b->status != SR_OK)
        return false;
    rate(b, &c, &r);
    if (b->o->json)
        add_json(b, &c, &r);
    else
        print_row(&c, &r);
    b->rows++;
    return true;
}

static void print_columns(void) {
    printf("%-23s %-5s %-22s %9s %9s %8s %7s %6s  %s\n", "kernel", "dtype", "shape", "best ms",
           "median", "GFLOP/s", "GB/s", "limit", "provider class");
}

static void print_device_head(const op_bench *b) {
    if (b->o->json)
        return;
    printf("%s, batch %lld", sr_bench_op_device_properties(b->device)->model,
           (long long)b->o->batch);
    printf(b->o->lanes > 1 ? " in each of %d lanes side by side\n\n" : "\n\n", b->o->lanes);
    print_columns();
}

static void print_head(const op_bench *b) {
    char features[80];
    if (b->o->json)
        return;
    printf("%s (%s), %d thread%s, batch %lld\n", sr_cpu_model(),
           sr_cpu_features_text(sr_cpu_features(), features), b->o->threads,
           b->o->threads > 1 ? "s" : "", (long long)b->o->batch);
    printf("limits: %.1f GFLOP/s, copy %.1f GB/s (read + written)\n", b->limits.flops * 1e-9,
           b->limits.copy_rate * 1e-9);
    for (int i = 0; i < SIZES; i++) {
        const sr_bench_overhead *own = &b->overhead[i];
        printf("overhead of one of %d operators: %.0f ns to record; %.0f ns to find the plan and "
               "%.0f ns to replay (%.0f of them its kernel), %llu allocations; %.1f us to "
               "compile; starting a replay: %.1f us\n",
               own->operators, own->record_ns, own->find_ns, own->replay_ns, own->kernel_ns,
               (unsigned long long)own->allocations, 1e-3 * own->compile_ns, 1e-3 * own->start_ns);
    }
    putchar('\n');
    print_columns();
}

static void add_own_cost(const sr_bench_overhead *own, bool first, sr_text *out) {
    const struct {
        const char *key;
        double ns;
    } of[] = {{"recorded_ns", own->record_ns},    {"found_ns", own->find_ns},
              {"replay_start_ns", own->start_ns}, {"replayed_ns", own->replay_ns},
              {"kernel_ns", own->kernel_ns},      {"compiled_ns", own->compile_ns}};
    sr_text_add(out, "%s{\"operators\": %d", first ? "" : ", ", own->operators);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        sr_text_add(out, ", \"%s\": ", of[i].key);
        sr_text_add_json_number(out, of[i].ns);
    }
    sr_text_add(out, ", \"allocations\": %llu}", (unsigned long long)own->allocations);
}

static sr_status print_device_json(const op_bench *b) {
    sr_text out;
    sr_text_init(&out);
    sr_text_add(&out, "{\"device\": ");
    sr_text_add_json_string(&out, sr_bench_op_device_properties(b->device)->model);
    sr_text_add(&out, ", \"batch\": %lld, \"lanes\": %d, \"rows\": [%s\n]}\n",
                (long long)b->o->batch, b->o->lanes, b->json.data);
    return sr_command_print(sr_text_check(&b->json), &out);
}

static sr_status print_json(const op_bench *b) {
    sr_text out;
    sr_text_init(&out);
    sr_text_add(&out, "{\"processor\": ");
    sr_text_add_json_string(&out, sr_cpu_model());
    sr_text_add(&out, ", \"threads\": %d, \"batch\": %lld, \"limit_flops\": ", b->o->threads,
                (long long)b->o->batch);
    sr_text_add_json_number(&out, b->limits.flops);
    sr_text_add(&out, ", \"limit_bytes_per_s\": ");
    sr_text_add_json_number(&out, b->limits.copy_rate);
    sr_text_add(&out, ", \"own_cost\": [");
    for (int i = 0; i < SIZES; i++)
        add_own_cost(&b->overhead[i], i == 0, &out);
    sr_text_add(&out, "], \"rows\": [%s\n]}\n", b->json.data);
    return sr_command_print(sr_text_check(&b->json), &out);
}

static void init_thread(void *user, int worker) {
    (void)user, (void)worker;
    sr_kernels_thread_init();
}

// Of activations.
static const sr_dtype dtypes[] = {SR_F32, SR_BF16, SR_F16};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static void offer_cases(op_bench *b, sr_bench_visit visitor) {
    for (size_t i = 0; i < DTYPES && b->status == SR_OK; i++)
        if (b->o->dtype == SR_DTYPE_COUNT || b->o->dtype == dtypes[i])
            sr_bench_op_cases(dtypes[i], b->o->batch, b->device != NULL, visitor, b);
}

static sr_status count_cases(op_bench *b) {
    offer_cases(b, count);
    if (b->found > 0)
        return SR_OK;
    return SR_FAIL(SR_E_USAGE,
                   "nothing to measure: no kernel or shape%s%s contains '%s'%s; 'serried info "
                   "kernels' lists the kernels and their providers",
                   b->o->provider ? " of provider " : "", b->o->provider ? b->o->provider : "",
                   b->o->filter ? b->o->filter : "",
                   b->o->lanes > 1 ? ", or their lanes run one by one" : "");
}

static sr_status run_cases(op_bench *b) {
    SR_TRY(count_cases(b));
    SR_TRY(sr_machine_limits_measure(b->pool, &b->limits));
    for (int i = 0; i < SIZES; i++)
        SR_TRY(sr_bench_overhead_measure(sizes[i], &b->overhead[i]));
    print_head(b);
    offer_cases(b, visit);
    SR_TRY(b->status);
    return b->o->json ? print_json(b) : SR_OK;
}

static sr_status run_on_device(const options *o) {
    op_bench b = {.o = o};
    SR_TRY(sr_bench_op_device_open(o->device, &b.device));
    sr_text_init(&b.json);
    sr_status status = count_cases(&b);
    if (status == SR_OK) {
        print_device_head(&b);
        offer_cases(&b, visit);
        status = b.status;
    }
    if (status == SR_OK && o->json)
        status = print_device_json(&b);
    sr_text_release(&b.json);
    sr_bench_op_device_close(b.device);
    return status;
}

static sr_status run_on_cpu(const options *o) {
    op_bench b = {.o = o};
    SR_TRY(sr_pool_create(o->threads, init_thread, NULL, &b.pool));
    b.scratch = sr_alloc_array((size_t)o->threads, sizeof *b.scratch, "scratch of a benchmark");
    sr_text_init(&b.json);
    const sr_status status = b.scratch != NULL ? run_cases(&b) : SR_E_MEMORY;
    sr_text_release(&b.json);
    sr_free(b.scratch);
    sr_pool_free(b.pool);
    return status;
}

// ---- options ----

static double number(struct argp_state *state, const char *name, const char *text, double low,
                     double high) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= low && value <= high))
        argp_error(state, "--%s: '%s' is not a number from %g to %g", name, text, low, high);
    return value;
}

static sr_dtype dtype_of(struct argp_state *state, const char *text) {
    for (size_t i = 0; i < DTYPES; i++)
        if (strcmp(text, sr_dtype_name(dtypes[i])) == 0)
            return dtypes[i];
    argp_error(state, "--dtype: '%s' is not one of f32, bf16 and f16", text);
    return SR_DTYPE_COUNT;
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    options *o = state->input;
    if (key == KEY_JSON)
        o->json = true;
    else if (key == KEY_PORTABLE)
        sr_kernels_use_portable(true);
    else if (key == 'f')
        o->filter = value;
    else if (key == 'p')
        o->provider = value;
    else if (key == 't')
        o->threads = (int)number(state, "threads", value, 1, 256);
    else if (key == 'b')
        o->batch = (int64_t)number(state, "batch", value, 1, 4096);
    else if (key == 'l')
        o->lanes = (int)number(state, "lanes", value, 1, SR_KERNEL_MAX_LANES);
    else if (key == KEY_DEVICE)
        o->device = value;
    else if (key == 's')
        o->seconds = number(state, "seconds", value, 0, 1000);
    else if (key == 'd')
        o->dtype = dtype_of(state, value);
    else if (key == ARGP_KEY_END && o->lanes > 1 && !o->device)
        argp_error(state, "--lanes: a CPU computes lanes one by one; give --device, too");
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "bench op takes no arguments; use --filter to choose kernels");
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int sr_bench_op(int argc, char **argv) {
    static const struct argp_option table[] = {
        {"json", KEY_JSON, NULL, 0, "print the results as JSON", 0},
        {"filter", 'f', "NAME", 0, "only time kernels or shapes that contain NAME", 0},
        {"provider", 'p', "NAME", 0,
         "time the kernels of this provider instead of those that training would use", 0},
        {"portable", KEY_PORTABLE, NULL, 0, "time the kernels of numerics.portable", 0},
        {"dtype", 'd', "T", 0, "activations in f32, bf16 or f16 (default: all)", 0},
        {"threads", 't', "N", 0, "number of threads (default: 1)", 0},
        {"batch", 'b', "N", 0, "number of images (default: 32)", 0},
        {"device", KEY_DEVICE, "NAME", 0, "a GPU, as cuda or cuda:1, instead of the CPU", 0},
        {"lanes", 'l', "L", 0,
         "lanes side by side on a device, each with that number of images (default: 1)", 0},
        {"seconds", 's', "S", 0, "seconds to spend on each kernel (default: 0.3)", 0},
        {0}};
    static const struct argp parser = {
        table,
        parse_option,
        NULL,
        "Time each kernel at the shapes of ResNet-50, and compare it "
        "with the measured limits of the machine or GPU.",
        NULL,
        NULL,
        NULL};
    options o = {.threads = 1, .lanes = 1, .batch = 32, .seconds = 0.3, .dtype = SR_DTYPE_COUNT};
    if (argp_parse(&parser, argc, argv, 0, NULL, &o) != 0)
        return 2;
    const sr_status status = o.device ? run_on_device(&o) : run_on_cpu(&o);
    return status == SR_OK ? 0 : sr_command_fail(status);
}
