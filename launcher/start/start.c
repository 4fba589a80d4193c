// SPDX-License-Identifier: Apache-2.0
// The command line for mpirun, and the folder for its backing files.
//
// Measured with Open MPI 4.1.4 (Debian 12): with odls_base_sigkill_timeout 0 a dead rank ends the
// job in 0.02 s instead of 1 to 2 s; mpi_yield_when_idle lets ranks share cores; a killed mpirun
// leaves shared-memory segments behind. They therefore go into our own folder below /dev/shm, which
// is removed at the end, or by a later start if this process was killed.
#include "launcher/start/start_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/cores.h"
#include "kernels/base/pool.h"
#include "kernels/base/text.h"

// ---- surroundings -------------------------------------------------------------------------------

static int number_of(const char *variable) {
    const char *text = getenv(variable);
    return text ? atoi(text) : 0;
}

sr_started_by sr_start_detect(void) {
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK"))
        return SR_STARTED_BY_MPI;
    // SLURM_STEP_NUM_TASKS is only set inside srun, SLURM_NTASKS in the batch script as well.
    if (number_of("SLURM_STEP_NUM_TASKS") > 1)
        return SR_STARTED_BY_SLURM;
    return SR_STARTED_ALONE;
}

int sr_start_slurm_tasks(void) {
    int tasks = number_of("SLURM_NTASKS"), step = number_of("SLURM_STEP_NUM_TASKS");
    tasks = tasks > step ? tasks : step;
    return tasks > 1 ? tasks : 1;
}

sr_start_cores sr_start_count_cores(void) {
    sr_cpu_location places[SR_CPUS];
    const sr_cpu_set mask = sr_cpu_set_of_thread();
    const int usable = sr_cpu_count(), logical = sr_cpu_locations_read("/sys", &mask, places);
    if (logical == 0)
        return (sr_start_cores){.cores = usable, .nodes = 1};
    const int cores = sr_cpu_locations_cores(places, logical);
    return (sr_start_cores){.cores = cores < usable ? cores : usable,
                            .nodes = sr_cpu_locations_nodes(places, logical),
                            .may_bind =
                                logical == (int)sysconf(_SC_NPROCESSORS_ONLN) && usable == logical};
}

// ---- the folder ---------------------------------------------------------------------------------

#define SHM "/dev/shm"
#define YOUNG_SECONDS 60 // a folder this young may not be locked yet

// Removes the folders that killed starts of this user left: those whose lock is not held.
static void sweep_old(const char *prefix) {
    DIR *shm = opendir(SHM);
    const struct dirent *entry;
    while (shm && (entry = readdir(shm)) != NULL) {
        char folder[320], lock[352];
        struct stat info;
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(folder, sizeof folder, SHM "/%s", entry->d_name);
        snprintf(lock, sizeof lock, "%s/" SR_START_LOCK, folder);
        if (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
            time(NULL) - info.st_ctime < YOUNG_SECONDS)
            continue;
        int fd = open(lock, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
            sr_start_remove_folder(folder);
        if (fd >= 0)
            (void)close(fd);
    }
    if (shm)
        (void)closedir(shm);
}

// Without /dev/shm, MPI uses its default folders: plan->folder stays NULL.
static sr_status make_folder(sr_arena *arena, sr_start_plan *plan) {
    char prefix[64], folder[128], lock[160], board[160];
    snprintf(prefix, sizeof prefix, "serried-%u-", (unsigned)geteuid());
    sweep_old(prefix);
    snprintf(folder, sizeof folder, SHM "/%s%d-%llx", prefix, (int)getpid(),
             (unsigned long long)time(NULL));
    snprintf(board, sizeof board, "%s/" SR_START_BOARD, folder);
    plan->folder = sr_arena_strdup(arena, folder);
    plan->board = sr_arena_strdup(arena, board);
    if (!plan->folder || !plan->board)
        return SR_E_MEMORY;
    SR_TRY(sr_guard_start(plan)); // first, so that there is always a process that removes it
    if (mkdir(folder, 0700) != 0) {
        sr_guard_dismiss(&plan->guard);
        plan->folder = plan->board = NULL;
        return SR_OK;
    }
    snprintf(lock, sizeof lock, "%s/" SR_START_LOCK, folder);
    // Inherited by mpirun on purpose: the folder is in use while either process lives.
    plan->lock = open(lock, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (plan->lock >= 0)
        (void)flock(plan->lock, LOCK_EX);
    return SR_OK;
}

// ---- the command line ---------------------------------------------------------------------------

typedef struct argument_list {
    sr_arena *arena;
    char **items;
    size_t count, room;
    bool failed;
} argument_list;

static void add(argument_list *w, const char *word) {
    char *copy = sr_arena_strdup(w->arena, word);
    if (!copy || w->count + 1 >= w->room)
        w->failed = true;
    else
        w->items[w->count++] = copy;
}

static void add_setting(argument_list *w, const char *name, const char *value) {
    add(w, "--mca");
    add(w, name);
    add(w, value);
}

static void add_placement(argument_list *w, sr_start_plan *plan) {
    sr_start_cores cores = sr_start_count_cores();
    char map[32];
    if (plan->ranks > cores.cores) {
        plan->oversubscribed = plan->ranks - cores.cores;
        add(w, "--oversubscribe");
    }
    if (plan->ranks > cores.cores || !cores.may_bind) {
        add(w, "--bind-to");
        add(w, "none");
        return;
    }
    snprintf(map, sizeof map, "slot:PE=%d", cores.cores / plan->ranks);
    add(w, "--map-by");
    add(w, map);
    add(w, "--bind-to");
    add(w, "core");
}

// Ranks of one machine talk through shared memory. The other transports would make each of them
// listen on the network.
static void add_transport(argument_list *w) {
    if (getenv("OMPI_MCA_btl") || getenv("OMPI_MCA_pml"))
        return;
    add_setting(w, "pml", "ob1");
    add_setting(w, "btl", "self,vader");
}

static bool is_safe(const char *word) {
    return *word && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789-_./=:,+@%")] == '\0';
}

static void add_quoted(sr_text *out, const char *word) {
    if (is_safe(word)) {
        sr_text_add(out, "%s", word);
        return;
    }
    sr_text_add(out, "'");
    for (; *word; word++)
        sr_text_add(out, *word == '\'' ? "'\\''" : "%c", *word);
    sr_text_add(out, "'");
}

static sr_status quote_command(sr_arena *arena, sr_start_plan *plan) {
    sr_text text;
    sr_text_init(&text);
    for (char **word = plan->argv; *word; word++) {
        sr_text_add(&text, "%s", word == plan->argv ? "" : " ");
        add_quoted(&text, *word);
    }
    sr_status status = sr_text_check(&text);
    if (status == SR_OK) {
        plan->command_line = sr_arena_strdup(arena, text.data);
        status = plan->command_line ? SR_OK : SR_E_MEMORY;
    }
    sr_text_release(&text);
    return status;
}

// mpirun's own messages are mostly advice on exit codes, for which there are better ones: --quiet.
static sr_status make_arguments(char *const *command, bool quiet, sr_arena *arena,
                                sr_start_plan *plan, char ***out) {
    argument_list w = {.arena = arena, .room = 40};
    for (char *const *word = command; *word; word++)
        w.room++;
    w.items = sr_arena_alloc(arena, w.room * sizeof *w.items);
    if (!w.items)
        return SR_E_MEMORY;
    char number[16];
    snprintf(number, sizeof number, "%d", plan->ranks);
    add(&w, "mpirun");
    add(&w, "-np");
    add(&w, number);
    if (quiet)
        add(&w, "--quiet");
    add_placement(&w, plan);
    add_setting(&w, "mpi_yield_when_idle", "1");
    add_setting(&w, "odls_base_sigkill_timeout", "0");
    if (plan->folder) {
        add_setting(&w, "orte_tmpdir_base", plan->folder);
        add_setting(&w, "btl_vader_backing_directory", plan->folder);
        add_transport(&w);
    }
    for (char *const *word = command; *word; word++)
        add(&w, *word);
    if (w.failed)
        return SR_E_MEMORY;
    *out = w.items;
    return SR_OK;
}

void sr_start_release(sr_start_plan *plan) {
    if (plan->lock >= 0)
        (void)close(plan->lock);
    sr_guard_dismiss(&plan->guard);
    if (plan->folder)
        sr_start_remove_folder(plan->folder); // in case the guard was killed
    plan->folder = NULL;
    plan->lock = -1;
}

sr_status sr_start_prepare(int ranks, char *const *command, char *const *probe, sr_arena *arena,
                           sr_start_plan *plan) {
    *plan =
        (sr_start_plan){.ranks = ranks, .lock = -1, .guard.channel = -1, .as_root = geteuid() == 0};
    sr_status status = make_folder(arena, plan);
    if (status == SR_OK)
        status = sr_start_check_needs(plan); // after leftovers of killed starts are removed
    if (status == SR_OK)
        status = make_arguments(command, true, arena, plan, &plan->argv);
    if (status == SR_OK && probe)
        status = make_arguments(probe, false, arena, plan, &plan->probe_argv);
    if (status == SR_OK)
        status = quote_command(arena, plan);
    if (status != SR_OK)
        sr_start_release(plan);
    return status;
}
