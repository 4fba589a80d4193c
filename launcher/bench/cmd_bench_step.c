// SPDX-License-Identifier: Apache-2.0
// serried bench step: training steps of a recipe's model, ours alternating with PyTorch's.
//
// Both sides keep their model in memory and run blocks of steps, A-B-A-B, on the same processors
// and with as many samples in flight. Data are random, fixed and in memory; ours takes pictures as
// u8 and normalises them in the step, the peer gets them normalised. Its settings
// (bench_step_setting.c) are those with our batch norm groups (L lanes are compared with L
// independent models of a lane's batch, whose gradients need not be added) and those with others.
// The ratio refers to the fastest setting.
//
// This is not a test: it reports what it measured, and how much other processes disturbed it.
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/pool.h"
#include "launcher/bench/bench.h"
#include "launcher/bench/bench_engine_internal.h"
#include "launcher/bench/bench_gpu_internal.h"
#include "launcher/bench/bench_step_internal.h"
#include "launcher/commands/command.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine_trace.h"
#include "trainer/engine/plugins.h"

enum { WARM_STEPS = 2, TRACED_STEPS = 2, FIXED_OVERRIDES = 8 };

static const double block_seconds = 2;

typedef struct step_bench {
    const sr_step_options *o;
    sr_arena arena;
    sr_comm *comm;
    sr_bench_engine own;
    double step_seconds;                                          // of a warm step
    uint64_t allocations, recorded, repeated, record_ns, hash_ns; // of our blocks
    int64_t our_steps;
    sr_trace *trace;
    sr_step_profile *profile; // NULL: none
    sr_step_result result;
} step_bench;

// ---- Ours ----

static sr_status create_engine(step_bench *b) {
    sr_step_result *r = &b->result;
    const sr_comm_options options = {.alone = true};
    SR_TRY(sr_comm_create(&options, &b->comm));
    return sr_bench_engine_create(r->recipe, b->comm, r->threads, r->classes, &b->own);
}

// A device whose kernels are put on streams has the plan of a GPU.
static sr_status plan_for_gpu(step_bench *b) {
    sr_step_result *r = &b->result;
    const sr_comm_options options = {.alone = true};
    SR_TRY(sr_comm_create(&options, &b->comm));
    SR_TRY(sr_bench_engine_make(r->recipe, b->comm, "cpu-async", 1, r->classes, &b->own));
    return sr_step_plan_gpu(b->own.engine, r, b->o->gpu, b->o->json);
}

static sr_status warm_up(step_bench *b) {
    sr_step_result *r = &b->result;
    sr_plan *plan;
    SR_TRY(sr_bench_engine_step(&b->own, 1, &r->first_seconds));
    SR_TRY(sr_bench_engine_step(&b->own, WARM_STEPS, &b->step_seconds));
    b->step_seconds /= WARM_STEPS;
    r->lanes_at_once = sr_engine_get_info(b->own.engine).at_once;
    for (int p = 0; p < sr_engine_get_info(b->own.engine).phases; p++) {
        SR_TRY(sr_engine_compile(b->own.engine, p, &plan));
        r->operators += sr_plan_node_count(plan);
        r->flops += sr_plan_flops(plan) * (double)r->lanes;
        r->bytes += sr_plan_bytes(plan) * (double)r->lanes;
        if (sr_plan_peak_bytes(plan) > r->peak_bytes) {
            r->peak_bytes = sr_plan_peak_bytes(plan);
            r->live_bound_bytes = sr_plan_live_bound_bytes(plan);
        }
    }
    const sr_context_stats stats = sr_context_get_stats(sr_engine_get_info(b->own.engine).context);
    r->compile_ns = (double)stats.compile_ns / r->operators;
    r->prepare_seconds = (double)stats.prepare_ns / (double)SR_NS_PER_S;
    double steps = block_seconds / b->step_seconds;
    r->steps = b->o->steps > 0 ? b->o->steps : steps < 1 ? 1 : steps > 1000 ? 1000 : (int)steps;
    return SR_OK;
}

// A block that only serves a comparison (!counts) does not change the result.
static sr_status our_block(void *user, bool counts, double *images_per_s) {
    step_bench *b = user;
    sr_step_result *r = &b->result;
    double seconds;
    uint64_t allocations = sr_memory_get_stats().allocations;
    sr_context_stats before = sr_context_get_stats(sr_engine_get_info(b->own.engine).context),
                     after;
    (void)sr_load_of_others();
    double cpu = sr_own_cpu_seconds();
    SR_TRY(sr_bench_engine_step(&b->own, r->steps, &seconds));
    *images_per_s = (double)(r->steps * r->batch) / seconds;
    if (!counts)
        return SR_OK;
    sr_series_add(&r->our_cpu, (sr_own_cpu_seconds() - cpu) / r->steps);
    double others = sr_load_of_others();
    after = sr_context_get_stats(sr_engine_get_info(b->own.engine).context);
    b->allocations += sr_memory_get_stats().allocations - allocations;
    b->recorded += after.nodes_recorded - before.nodes_recorded;
    b->repeated += after.nodes_repeated - before.nodes_repeated;
    b->record_ns += after.record_ns - before.record_ns;
    b->hash_ns += after.hash_ns - before.hash_ns;
    b->our_steps += r->steps;
    r->others = others > r->others ? others : r->others;
    sr_series_add(&r->ours, *images_per_s);
    return SR_OK;
}

// A GPU's limits are those of its table (bench_gpu_table.c); one that it lacks has none.
static void find_limits(step_bench *b) {
    sr_step_result *r = &b->result;
    const sr_gpu *gpu = sr_gpu_of_model(r->device->model);
    if (!gpu)
        return;
    const bool full = strcmp(r->precision, "fp32") == 0;
    r->limits = (sr_machine_limits){.flops = full ? sr_gpu_flop_rate(gpu, SR_GPU_reference, SR_F32)
                                                  : sr_gpu_flop_rate(gpu, SR_GPU_cudnn, SR_BF16),
                                    .copy_rate = gpu->bytes};
    r->limit_products = full ? "fp32 multiplications and additions" : "16-bit matrix products";
}

static sr_status measure_limits(step_bench *b) {
    sr_pool *pool;
    b->result.limit_products = "fp32 multiply-adds";
    SR_TRY(sr_pool_create(b->result.threads, NULL, NULL, &pool));
    sr_status status = sr_machine_limits_measure(pool, &b->result.limits);
    sr_pool_free(pool);
    return status;
}

static sr_status print_plans(step_bench *b) {
    sr_text text;
    sr_status status = SR_OK;
    sr_text_init(&text);
    for (int p = 0; status == SR_OK && p < sr_engine_get_info(b->own.engine).phases; p++) {
        sr_plan *plan;
        status = sr_engine_compile(b->own.engine, p, &plan);
        if (status == SR_OK)
            status = sr_plan_text(plan, &text);
    }
    return sr_command_print(status, &text);
}

static sr_status profile(step_bench *b) {
    double seconds;
    sr_engine_set_profiling(b->own.engine, true);
    SR_TRY(sr_bench_engine_step(&b->own, b->result.steps, &seconds));
    SR_TRY(sr_step_profile_take(b->own.engine, b->result.steps, seconds, &b->profile));
    sr_engine_set_profiling(b->own.engine, false);
    return SR_OK;
}

static sr_status trace_steps(step_bench *b) {
    double seconds;
    SR_TRY(sr_trace_create(0, b->result.recipe->name, &b->trace));
    SR_TRY(sr_engine_set_trace(b->own.engine, b->trace));
    SR_TRY(sr_bench_engine_step(&b->own, TRACED_STEPS, &seconds));
    SR_TRY(sr_engine_set_trace(b->own.engine, NULL));
    SR_TRY(sr_trace_write(b->trace, b->o->trace));
    (void)printf("\ntrace of %d steps: %s\n", TRACED_STEPS, b->o->trace);
    return SR_OK;
}

static void per_step(step_bench *b) {
    sr_step_result *r = &b->result;
    double steps = (double)b->our_steps, nodes = (double)b->recorded;
    r->allocations = steps > 0 ? (double)b->allocations / steps : 0;
    r->record_ns = nodes > 0 ? (double)b->record_ns / nodes : 0;
    r->repeated = nodes > 0 ? (double)b->repeated / nodes : 0;
    r->hash_ns = nodes > 0 ? (double)b->hash_ns / nodes : 0;
}

static bool requires_peer(const sr_step_options *o) {
    return o->needs_peer || o->names_peer;
}

static sr_status start_finals(step_bench *b, const sr_step_own *own) {
    sr_step_result *r = &b->result;
    if (b->o->no_peer) {
        (void)snprintf(r->peer_reason, sizeof r->peer_reason, "not requested");
        return SR_OK;
    }
    const sr_status status = sr_step_finals_start(b->o, own, r);
    if (status == SR_OK || requires_peer(b->o))
        return status;
    (void)snprintf(r->peer_reason, sizeof r->peer_reason, "%s", sr_error_message());
    sr_step_finals_stop(r);
    r->final_count = 0;
    return SR_OK;
}

// A failing peer ends only its own series.
static sr_status check_finals(step_bench *b) {
    sr_step_result *r = &b->result;
    if (r->final_count == 0 || sr_step_fastest(r, NULL) >= 0)
        return SR_OK;
    (void)snprintf(r->peer_reason, sizeof r->peer_reason, "%s", r->finals[0].reason);
    return requires_peer(b->o) ? SR_FAIL(SR_E_PEER, "%s", r->peer_reason) : SR_OK;
}

// A failure leaves the speeds as they are.
static sr_status measure_peer_memory(step_bench *b) {
    sr_step_result *r = &b->result;
    sr_status status = sr_step_fastest(r, NULL) >= 0 ? sr_step_peers_memory(r) : SR_OK;
    if (status == SR_OK || b->o->needs_peer)
        return status;
    (void)snprintf(r->memory_reason, sizeof r->memory_reason, "%s", sr_error_message());
    return SR_OK;
}

// Speaks the protocol of bench_peer.c, as a peer of another serried.
static sr_status serve(step_bench *b) {
    char line[64];
    double seconds;
    int steps;
    (void)printf("ready {}\n");
    while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "run %d", &steps) != 1)
            return SR_FAIL(SR_E_USAGE, "--serve: '%s' is not 'run STEPS'", line);
        SR_TRY(sr_bench_engine_step(&b->own, steps, &seconds));
        (void)printf("%.9f\n", seconds);
    }
    return SR_OK;
}

static sr_status report(const step_bench *b) {
    return b->o->json ? sr_step_report_json(&b->result, b->profile, b->o->depth)
                      : sr_step_report(&b->result, b->o->markdown);
}

// What follows the measurements.
static sr_status report_all(step_bench *b) {
    if (b->o->profile)
        SR_TRY(profile(b));
    SR_TRY(report(b));
    if (b->o->plan)
        SR_TRY(print_plans(b));
    if (b->profile && !b->o->json)
        sr_step_profile_print(b->profile, &b->result, b->o->depth);
    if (b->o->trace)
        SR_TRY(trace_steps(b));
    if (b->o->memory)
        SR_TRY(sr_step_memory(b->own.engine, &b->result, b->o->memory_picture));
    return SR_OK;
}

static sr_status run(step_bench *b) {
    sr_step_result *r = &b->result;
    SR_TRY(sr_step_choose_cpus(r->threads, r));
    double before = sr_process_memory_get().resident;
    SR_TRY(create_engine(b));
    r->device = sr_device_get_properties(sr_engine_get_info(b->own.engine).device);
    SR_TRY(warm_up(b));
    if (b->o->serve)
        return serve(b);
    const sr_step_own own = {our_block, b, b->step_seconds * r->steps};
    SR_TRY(start_finals(b, &own));
    SR_TRY(sr_step_take_turns(b->o, &own, r));
    SR_TRY(check_finals(b));
    per_step(b);
    r->our_memory = sr_process_memory_get().peak - before;
    SR_TRY(measure_peer_memory(b));
    if (sr_step_is_on_cpu(r))
        SR_TRY(measure_limits(b)); // last, since it allocates memory
    else
        find_limits(b);
    return report_all(b);
}

// ---- The recipe ----

static sr_status override(step_bench *b, const char **list, int *count, const char *fmt, ...)
    SR_PRINTF(4, 5);
static sr_status override(step_bench *b, const char **list, int *count, const char *fmt, ...) {
    char text[64];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    list[*count] = sr_arena_strdup(&b->arena, text);
    return list[(*count)++] ? SR_OK : SR_E_MEMORY;
}

// As many as the loss is written for, or the usual number; for small pictures that of CIFAR-10.
static sr_status choose_classes(step_bench *b) {
    sr_step_result *r = &b->result;
    const sr_task_desc *task;
    sr_choice_loss loss;
    SR_TRY(sr_choose_task(r->recipe, &task));
    SR_TRY(sr_choose_loss(r->recipe, task, b->o->classes, &b->arena, &loss));
    r->classes = b->o->classes > 0 ? b->o->classes : sr_choice_loss_classes(&loss);
    if (r->classes == 0)
        r->classes = task->maps || r->image > 64 ? sr_task_usual_classes(task) : 10;
    return SR_OK;
}

static void choose_cores(step_bench *b) {
    sr_step_result *r = &b->result;
    const char *mask = getenv("SERRIED_CPU_MASK");
    r->cores = sr_cpu_count();
    r->threads = b->o->threads > 0 ? b->o->threads : r->cores;
    r->mask = mask && *mask ? mask : NULL;
}

// Without --lanes: one lane of the recipe.
static sr_status load_recipe(step_bench *b) {
    const sr_step_options *o = b->o;
    sr_step_result *r = &b->result;
    sr_recipe *plain;
    sr_choice_model model;
    SR_TRY(sr_choose_recipe(o->recipe, o->overrides, o->override_count, &plain));
    int64_t of_lane = plain->batch / plain->lanes;
    sr_recipe_free(plain);
    r->lanes = o->lanes > 0 ? o->lanes : 1;
    r->batch = o->batch > 0 ? o->batch : of_lane * r->lanes;
    const char **list =
        sr_arena_alloc(&b->arena, (size_t)(o->override_count + FIXED_OVERRIDES) * sizeof(char *));
    int n = o->override_count;
    if (!list)
        return SR_E_MEMORY;
    if (n > 0)
        memcpy(list, o->overrides, (size_t)n * sizeof *list);
    SR_TRY(override(b, list, &n, "batch=%lld", (long long)r->batch));
    SR_TRY(override(b, list, &n, "lanes=%lld", (long long)r->lanes));
    SR_TRY(override(b, list, &n, "data.repeats=1")); // copies of a sample need as many lanes
    if (o->image > 0)
        SR_TRY(override(b, list, &n, "image=%lld", (long long)o->image));
    if (o->precision)
        SR_TRY(override(b, list, &n, "precision=%s", o->precision));
    if (o->gpu) { // a CPU's faster kernels and their times play no part
        SR_TRY(override(b, list, &n, "chooser=off"));
        SR_TRY(override(b, list, &n, "numerics.portable=true"));
    }
    SR_TRY(sr_choose_recipe(o->recipe, list, n, &r->recipe));
    SR_TRY(sr_plugins_load(r->recipe, SR_PLUGINS_NAMED));
    SR_TRY(sr_choose_model(r->recipe, 0, &b->arena, &model));
    r->model = model.desc->name;
    r->image = r->recipe->image_height;
    r->precision = sr_recipe_get(r->recipe, "precision");
    r->peer_precision = o->peer_precision ? o->peer_precision : r->precision;
    choose_cores(b);
    return choose_classes(b);
}

static void release(step_bench *b) {
    sr_step_finals_stop(&b->result);
    sr_step_profile_free(b->profile);
    sr_bench_engine_release(&b->own);
    sr_trace_free(b->trace); // after the engine, which may still refer to it after a failure
    sr_comm_free(b->comm);
    sr_recipe_free(b->result.recipe);
    sr_arena_release(&b->arena);
}

// ---- The command line ----

enum {
    KEY_BATCH = 'b',
    KEY_LANES = 'l',
    KEY_PRECISION = 'p',
    KEY_IMAGE = 'i',
    KEY_THREADS = 't',
    KEY_BLOCKS = 0x100,
    KEY_STEPS,
    KEY_SECONDS,
    KEY_CLASSES,
    KEY_PEER,
    KEY_NO_PEER,
    KEY_PEER_BEST,
    KEY_PEER_MODE,
    KEY_PEER_MALLOC,
    KEY_PEER_PROCESSES,
    KEY_PEER_PINNED,
    KEY_PEER_GROUPS,
    KEY_PEER_PRECISION,
    KEY_PEER_RESIDENT,
    KEY_PROFILE,
    KEY_DEPTH,
    KEY_PLAN,
    KEY_GPU,
    KEY_TRACE,
    KEY_MEMORY,
    KEY_MEMORY_PICTURE,
    KEY_JSON,
    KEY_MARKDOWN,
    KEY_SERVE,
};

static const struct argp_option options[] = {
    {"batch", KEY_BATCH, "N", 0,
     "samples per step (default: the number of lanes times the recipe's samples per lane)", 0},
    {"lanes", KEY_LANES, "L", 0, "number of lanes (default: 1)", 0},
    {"precision", KEY_PRECISION, "P", 0, "fp32, bf16 or fp16 (default: that of the recipe)", 0},
    {"image", KEY_IMAGE, "PX", 0, "side of the pictures (default: that of the recipe)", 0},
    {"classes", KEY_CLASSES, "N", 0,
     "number of classes (default: 1000; 10 for pictures up to 64 px; 21 for pixels)", 0},
    {"threads", KEY_THREADS, "T", 0, "number of threads (default: the cores of this process)", 0},
    {"blocks", KEY_BLOCKS, "N", 0,
     "number of blocks to time, of serried and of PyTorch each (default: 5)", 0},
    {"steps", KEY_STEPS, "K", 0, "steps per block (default: as many as take two seconds)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "start no further block after S seconds (default: 600)", 0},
    {"peer", KEY_PEER, NULL, 0,
     "fail if PyTorch cannot be measured; each --peer-... option implies this", 0},
    {"no-peer", KEY_NO_PEER, NULL, 0, "measure serried only", 0},
    {"peer-mode", KEY_PEER_MODE, "M", 0, "eager or compile (default: eager)", 0},
    {"peer-malloc", KEY_PEER_MALLOC, "A", 0,
     "tcmalloc or default, the system's (default: tcmalloc if installed)", 0},
    {"peer-processes", KEY_PEER_PROCESSES, "N", 0,
     "processes that share threads and batch (default: one per thread if the batch divides evenly)",
     0},
    {"peer-pinned", KEY_PEER_PINNED, "yes|no", 0,
     "pin each thread to its own processor (default: yes if there are several processes)", 0},
    {"peer-groups", KEY_PEER_GROUPS, "equal|other", 0,
     "only settings with the same batch norm groups as serried, or only others (default: both)", 0},
    {"peer-precision", KEY_PEER_PRECISION, "P", 0,
     "only settings in this precision (default: that of the step and wider ones)", 0},
    {"peer-best", KEY_PEER_BEST, NULL, 0,
     "try every mode, number of processes, pinning and allocator that is not given; then measure "
     "the fastest two, and the fastest of each kind of setting, again",
     0},
    {"peer-resident", KEY_PEER_RESIDENT, "N", 0,
     "settings kept in memory at once with --peer-best (default: 4)", 0},
    {"profile", KEY_PROFILE, NULL, 0, "run more steps to time each operator, kernel and layer", 0},
    {"depth", KEY_DEPTH, "N", 0,
     "levels of nested layers to show with --profile; 0: all (default: 3)", 0},
    {"plan", KEY_PLAN, NULL, 0, "print the steps of a lane's plan", 0},
    {"gpu", KEY_GPU, "NAME", 0,
     "with --plan: run nothing; predict the time of the step on this GPU (h200, h100 or a100), "
     "with "
     "the kernels that exist and with fused ones",
     0},
    {"trace", KEY_TRACE, "FILE", 0, "write a Chrome trace of two more steps", 0},
    {"memory", KEY_MEMORY, NULL, 0, "print what uses memory, at the peak and by owner", 0},
    {"memory-picture", KEY_MEMORY_PICTURE, "FILE", 0,
     "like --memory, and draw a timeline of the memory range as a PNG", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {"markdown", KEY_MARKDOWN, NULL, 0, "print the table in Markdown, for docs/performance.md", 0},
    {"serve", KEY_SERVE, NULL, 0, "run steps as requested on stdin (tests/peers/two_builds.py)", 0},
    {0}};

static const char about[] =
    "Measure training steps of RECIPE on fixed random data, alternating with PyTorch if it is "
    "installed (tests/peers/install)."
    "\v"
    "  serried bench step resnet50\n"
    "  serried bench step resnet50 --precision bf16 --profile --no-peer\n"
    "  serried bench step cifar10-fast --lanes 2 model.widths='[64, 128, 128]'\n"
    "  serried bench step resnet18 --lanes 2 --peer-best\n"
    "  serried bench step resnet50 -b 256 -p bf16 --plan --gpu h200\n\n"
    "SERRIED_PEER_PYTHON is the Python with PyTorch (default: /usr/bin/python3). Processor "
    "features hidden by SERRIED_CPU_MASK (such as avx512) are hidden from PyTorch too.";

// One of two words.
static const char *either(struct argp_state *state, const char *value, const char *a,
                          const char *b) {
    if (strcmp(value, a) != 0 && strcmp(value, b) != 0)
        argp_error(state, "'%s' is neither %s nor %s", value, a, b);
    return value;
}

static const char *gpu_of(struct argp_state *state, const char *name) {
    char known[128];
    size_t used = 0;
    for (size_t i = 0; sr_gpu_at(i); i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 sr_gpu_at(i)->name);
    if (!sr_gpu_find(name))
        argp_error(state, "--gpu: '%s' is not in the table of GPUs, which has %s", name, known);
    return name;
}

// What a plan for a GPU would ignore.
static const char *measuring_option(const sr_step_options *o) {
    return requires_peer(o) ? "--peer"
           : o->profile     ? "--profile"
           : o->memory      ? "--memory"
           : o->trace       ? "--trace"
           : o->markdown    ? "--markdown"
           : o->serve       ? "--serve"
                            : NULL;
}

static void check_gpu(struct argp_state *state, const sr_step_options *o) {
    if (o->gpu && !o->plan)
        argp_error(state, "--gpu needs --plan: a step is planned for that GPU, not run on it");
    if (o->gpu && measuring_option(o))
        argp_error(state, "--plan --gpu runs nothing, so %s has no effect; remove it",
                   measuring_option(o));
}

static error_t parse_peer(int key, char *value, struct argp_state *state, sr_step_options *o) {
    if (key > KEY_NO_PEER && key <= KEY_PEER_RESIDENT)
        o->names_peer = true;
    switch (key) {
    case KEY_PEER:
        o->needs_peer = true;
        return 0;
    case KEY_NO_PEER:
        o->no_peer = true;
        return 0;
    case KEY_PEER_BEST:
        o->peer_best = true;
        return 0;
    case KEY_PEER_MODE:
        o->peer_mode = either(state, value, "eager", "compile");
        return 0;
    case KEY_PEER_MALLOC:
        o->peer_malloc = either(state, value, "tcmalloc", "default");
        return 0;
    case KEY_PEER_PROCESSES:
        o->peer_processes = (int)sr_command_number(state, NULL, value, 1, SR_STEP_PEERS);
        return 0;
    case KEY_PEER_PINNED:
        o->peer_pinned = either(state, value, "yes", "no");
        return 0;
    case KEY_PEER_GROUPS:
        o->peer_groups = strcmp(either(state, value, "equal", "other"), "equal") == 0
                             ? SR_STEP_GROUPS_EQUAL
                             : SR_STEP_GROUPS_OTHER;
        return 0;
    case KEY_PEER_PRECISION:
        o->peer_precision = value;
        return 0;
    case KEY_PEER_RESIDENT:
        o->peer_resident = (int)sr_command_number(state, NULL, value, 1, SR_STEP_TRIES);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    sr_step_options *o = state->input;
    switch (key) {
    case KEY_BATCH:
        o->batch = sr_command_number(state, NULL, value, 1, 1 << 20);
        return 0;
    case KEY_LANES:
        o->lanes = sr_command_number(state, NULL, value, 1, 1 << 16);
        return 0;
    case KEY_PRECISION:
        o->precision = value;
        return 0;
    case KEY_IMAGE:
        o->image = sr_command_number(state, NULL, value, 1, 8192);
        return 0;
    case KEY_CLASSES:
        o->classes = sr_command_number(state, NULL, value, 1, 1 << 20);
        return 0;
    case KEY_THREADS:
        o->threads = (int)sr_command_number(state, NULL, value, 1, 1024);
        return 0;
    case KEY_BLOCKS:
        o->blocks = (int)sr_command_number(state, NULL, value, 1, SR_SERIES_MAX);
        return 0;
    case KEY_STEPS:
        o->steps = (int)sr_command_number(state, NULL, value, 1, 1 << 20);
        return 0;
    case KEY_SECONDS:
        o->seconds = (double)sr_command_number(state, NULL, value, 1, 1 << 20);
        return 0;
    case KEY_PROFILE:
        o->profile = true;
        return 0;
    case KEY_DEPTH:
        o->depth = (int)sr_command_number(state, NULL, value, 0, 100);
        return 0;
    case KEY_PLAN:
        o->plan = true;
        return 0;
    case KEY_GPU:
        o->gpu = gpu_of(state, value);
        return 0;
    case KEY_TRACE:
        o->trace = value;
        return 0;
    case KEY_MEMORY_PICTURE:
        o->memory_picture = value;
        o->memory = true;
        return 0;
    case KEY_MEMORY:
        o->memory = true;
        return 0;
    case KEY_JSON:
        o->json = true;
        return 0;
    case KEY_MARKDOWN:
        o->markdown = true;
        return 0;
    case KEY_SERVE:
        o->serve = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!o->recipe && !strchr(value, '='))
            o->recipe = value;
        else
            o->overrides[o->override_count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (!o->recipe)
            argp_error(state, "which recipe? 'serried recipe list' lists them");
        if (o->no_peer && requires_peer(o))
            argp_error(state, "--no-peer cannot be combined with --peer or the --peer-... options");
        if (o->json && o->markdown)
            argp_error(state, "--json and --markdown are mutually exclusive");
        check_gpu(state, o);
        return 0;
    default:
        return parse_peer(key, value, state, o);
    }
}

int sr_bench_step(int argc, char **argv) {
    static const struct argp parser = {options, parse_option, "RECIPE [key=value...]", about, NULL,
                                       NULL,    NULL};
    sr_step_options o = {.blocks = 5, .seconds = 600, .depth = 3, .peer_resident = SR_STEP_FINALS};
    step_bench b = {.o = &o};
    sr_arena_init(&b.arena);
    o.overrides = sr_arena_alloc(&b.arena, ((size_t)argc + 1) * sizeof *o.overrides);
    if (!o.overrides)
        return sr_command_fail(SR_E_MEMORY);
    argp_err_exit_status = 2;
    if (argp_parse(&parser, argc, argv, 0, NULL, &o) != 0)
        return 2;
    sr_status status = load_recipe(&b);
    if (status == SR_OK)
        status = sr_step_settings_check(&o, &b.result);
    if (status == SR_OK)
        status = o.gpu ? plan_for_gpu(&b) : run(&b);
    int code = status == SR_OK ? 0 : sr_command_fail(status);
    release(&b);
    return code;
}
