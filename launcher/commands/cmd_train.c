// SPDX-License-Identifier: Apache-2.0
// serried train: parses the command line, then either trains (alone, or as one rank of a job) or
// becomes the parent of mpirun. Training itself is sr_train_main (trainer/run/train.h).
#include <argp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "launcher/commands/command.h"
#include "launcher/start/start.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/plugins.h"
#include "trainer/engine/stop.h"
#include "trainer/run/train.h"

enum {
    KEY_FRESH = 0x100,
    KEY_RESUME,
    KEY_DRY_RUN,
    KEY_JSON,
    KEY_PLUGINS,
    KEY_NUMERICS,
    MAX_RANKS = 65536
};

static const struct argp_option options[] = {
    {NULL, 'n', "N", 0, "number of ranks on this machine (default: one per visible GPU, else 1)",
     0},
    {NULL, 'o', "DIR", 0, "run folder (default: runs/RECIPE/TIME)", 0},
    {"fresh", KEY_FRESH, NULL, 0, "start over; an existing run in the -o folder is moved aside", 0},
    {"resume", KEY_RESUME, "DIR", 0,
     "resume the run in this folder, with its own recipe if RECIPE is not given; epochs=N extends "
     "it",
     0},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "show the model, memory and plan without training", 0},
    {"json", KEY_JSON, NULL, 0, "print the result as one JSON object in the last line", 0},
    {"allow-plugins", KEY_PLUGINS, NULL, 0, "load plug-ins even if another user owns the recipe",
     0},
    {"allow-numerics-change", KEY_NUMERICS, NULL, 0,
     "resume even if this processor or the libraries compute different bits", 0},
    {"quiet", 'q', NULL, 0, "print only warnings and errors", 0},
    {"verbose", 'v', NULL, 0, "print more messages", 0},
    {0}};

static const char about[] =
    "Train RECIPE, the name of a shipped recipe or a file; key=value overrides single values. "
    "The same command resumes an unfinished run."
    "\v"
    "  serried train cifar10-resnet -n 2 data.train=data\n"
    "  serried train my.yaml optimizer.lr=0.4 epochs=30\n"
    "  mpirun -np 64 serried train my.yaml\n\n"
    "On Ctrl-C, SIGTERM, SIGHUP and SIGUSR1, training writes a checkpoint and exits with code "
    "75.\n"
    "Exit codes: 0 ok, 1 failure, 2 recipe or usage, 3 data, 4 device or numerics, 5 non-finite "
    "loss, 6 a rank was lost, 75 checkpointed: run the same command again.";

typedef struct train_arguments {
    sr_train_request request;
    const char **overrides;
    char stored[PATH_MAX]; // recipe of the run to resume
    bool ranks_given;
} train_arguments;

static int parse_ranks(const char *text) {
    char *end;
    long value = strtol(text, &end, 10);
    return *text && !*end && value >= 1 && value <= MAX_RANKS ? (int)value : 0;
}

// --resume DIR alone: the run's own recipe.
static void take_stored(train_arguments *a, struct argp_state *state) {
    const int length = snprintf(a->stored, sizeof a->stored, "%s/recipe.yaml", a->request.resume);
    if (length < 0 || (size_t)length >= sizeof a->stored)
        argp_error(state, "--resume: the path is longer than %d bytes", PATH_MAX);
    a->request.recipe = a->stored;
    a->request.stored_recipe = true;
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    train_arguments *a = state->input;
    sr_train_request *request = &a->request;
    switch (key) {
    case 'n':
        request->ranks = parse_ranks(value);
        a->ranks_given = true;
        if (request->ranks == 0)
            argp_error(state, "-n: expected a number of ranks from 1 to %d, got '%s'", MAX_RANKS,
                       value);
        break;
    case 'o':
        request->output = value;
        break;
    case KEY_FRESH:
        request->fresh = true;
        break;
    case KEY_RESUME:
        request->resume = value;
        break;
    case KEY_DRY_RUN:
        request->dry_run = true;
        break;
    case KEY_JSON:
        request->json = true;
        break;
    case KEY_PLUGINS:
        request->allow_plugins = true;
        break;
    case KEY_NUMERICS:
        request->allow_numerics_change = true;
        break;
    case 'q':
        sr_log_set_level(SR_LOG_WARN);
        break;
    case 'v':
        sr_log_set_level(SR_LOG_DEBUG);
        break;
    case ARGP_KEY_ARG:
        if (!request->recipe && !strchr(value, '='))
            request->recipe = value;
        else
            a->overrides[request->override_count++] = value;
        break;
    case ARGP_KEY_END:
        if (!request->recipe && request->resume)
            take_stored(a, state);
        if (!request->recipe)
            argp_error(state, "which recipe? 'serried recipe list' lists them");
        if (request->fresh && request->resume)
            argp_error(state, "--fresh and --resume are mutually exclusive");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

// One for each device that the recipe names; all processors are one. Ranks report a device that
// cannot be used.
static int default_ranks(const sr_recipe *recipe) {
    const bool named = recipe->device && strcmp(recipe->device, "auto") != 0;
    int count;
    return sr_device_count(named ? recipe->device : NULL, &count) == SR_OK ? count : 1;
}

// ---- the parent of ranks -----------------------------------------------------------------------

// Reports errors once before ranks are started, instead of in every rank.
static sr_status check(sr_recipe *recipe, const sr_train_request *request, int ranks) {
    SR_TRY(sr_plugins_load(recipe, sr_train_trust(request)));
    SR_TRY(sr_recipe_check(recipe));
    return sr_check_ranks(recipe, ranks);
}

static sr_status run_ranks(int ranks, int argc, char **argv, sr_arena *arena, int *exit_code) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot find this program's own file in /proc/self/exe");
    self[length] = '\0';
    char train[] = "train", option[] = "--mpi-probe", count[16];
    (void)snprintf(count, sizeof count, "%d", ranks);
    char *probe[] = {self, option, count, NULL};
    char **command = sr_arena_alloc(arena, ((size_t)argc + 2) * sizeof *command);
    if (!command)
        return SR_E_MEMORY;
    command[0] = self;
    command[1] = train;
    for (int i = 1; i < argc; i++)
        command[i + 1] = argv[i];
    sr_start_plan plan;
    SR_TRY(sr_start_prepare(ranks, command, probe, arena, &plan));
    sr_status status = sr_start_run(&plan, exit_code);
    sr_start_release(&plan);
    return status;
}

// Ranks ignore -n, so they get the same command line.
static int start(train_arguments *a, int argc, char **argv) {
    sr_recipe *recipe = NULL;
    const sr_train_request *request = &a->request;
    sr_status status = sr_train_load_recipe(request, &recipe);
    if (status != SR_OK)
        return sr_command_fail(status);
    int ranks = a->ranks_given ? request->ranks : default_ranks(recipe), exit_code = 1;
    if (ranks > 1)
        status = check(recipe, request, ranks);
    sr_recipe_free(recipe);
    if (status == SR_OK && ranks > 1) {
        sr_arena arena;
        sr_arena_init(&arena);
        status = run_ranks(ranks, argc, argv, &arena, &exit_code);
        sr_arena_release(&arena);
    } else if (status == SR_OK) {
        status = sr_stop_install();
        if (status == SR_OK)
            exit_code = sr_train_main(request);
    }
    return status == SR_OK ? exit_code : sr_command_fail(status);
}

// Whether several Slurm tasks would train separate runs, or all but one would stay idle.
static bool is_one_of_many(const train_arguments *a, sr_started_by by) {
    if (by == SR_STARTED_BY_SLURM)
        return !a->ranks_given || a->request.ranks > 1;
    return by == SR_STARTED_ALONE && !a->ranks_given && sr_start_slurm_tasks() > 1;
}

static int refuse_slurm(int tasks) {
    fprintf(stderr,
            "serried: Slurm started %d tasks, which would train %d separate runs; start them with "
            "'srun --mpi=pmix serried train ...', or one rank with -n 1\n",
            tasks, tasks);
    return 2;
}

int sr_cmd_train(int argc, char **argv) {
    static const struct argp parser = {
        options, parse_option, "RECIPE [key=value...]\n--resume DIR [key=value...]", about, NULL,
        NULL,    NULL};
    train_arguments a = {.request = {.argc = argc, .argv = argv}};
    a.overrides = sr_alloc_array((size_t)argc + 1, sizeof *a.overrides, "overrides");
    if (!a.overrides)
        return sr_command_fail(SR_E_MEMORY);
    a.request.overrides = a.overrides;
    int code = 1;
    sr_started_by by = sr_start_detect();
    sr_status status = sr_stop_hold();
    if (status == SR_OK && by == SR_STARTED_BY_MPI) {
        // Without its launcher nothing would end this rank, so it dies with the launcher.
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        status = sr_stop_install();
    }
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0)
        code = 2;
    else if (status != SR_OK)
        code = sr_command_fail(status);
    else if (is_one_of_many(&a, by))
        code = refuse_slurm(sr_start_slurm_tasks());
    else if (by == SR_STARTED_BY_MPI || a.request.dry_run)
        code = sr_train_main(&a.request);
    else
        code = start(&a, argc, argv);
    sr_free(a.overrides);
    return code;
}
