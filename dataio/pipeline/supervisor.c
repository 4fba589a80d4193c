// SPDX-License-Identifier: Apache-2.0
// The processes (or threads) that run a pipeline's stages, and their replacement.
//
// A process runs the same executable, started by posix_spawn with the sealed plan as descriptor 3
// and the shared memory as 4; it inherits nothing else but stderr. fork is not used, because the
// rank may hold locks, GPU contexts and MPI state. A child ends with its rank: by PR_SET_PDEATHSIG,
// and by polling a pidfd in case it misses that signal. It ignores signals that a terminal or
// launcher sends to the process group; the rank decides when it stops.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataio/pipeline/stage_internal.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/build_identity.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/machine.h"
#include "kernels/base/memory.h"
#include "kernels/base/plugin_file.h"
#include "kernels/base/thread.h"

#define MAX_DEATHS_WITHOUT_PROGRESS 3
#define MAX_KILLS_WITHOUT_PROGRESS 50 // by SIGKILL: probably memory pressure, not the sample
#define GRACE_NS (200 * SR_NS_PER_MS)
// Set in data processes to the identity of their rank's build; also detects a program that does not
// call sr_data_process_main (pipeline.h).
#define MARK "SERRIED_DATA_PROCESS"

extern char **environ;

typedef struct member {
    pid_t pid; // 0: not running
    bool started, finished;
    pthread_t thread;
    sr_stage stage; // threads mode
    uint64_t progress_at_death;
    int deaths;
} member;

struct sr_supervisor {
    sr_stage_memory memory;
    sr_stage_header *header;
    sr_stage_plan plan; // own copy
    bool threads;
    int count;
    int64_t restarts;
    member *members;
};

// -- in the child ------------------------------------------------------------------------------

static const int group_signals[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGTSTP, SIGTTIN,
                                    SIGTTOU, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM};

static void ignore_group_signals(void) {
    sigset_t none;
    for (size_t i = 0; i < sizeof group_signals / sizeof group_signals[0]; i++)
        (void)signal(group_signals[i], SIG_IGN);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); // blocked by the parent until here
}

static sr_status watch_parent(sr_stage *stage) {
    pid_t parent = stage->plan.parent;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    stage->parent_pidfd = (int)syscall(SYS_pidfd_open, parent, 0);
    // In this order, so that the end of the parent from now on is noticed; the rank's failure is
    // reported elsewhere.
    return getppid() == parent ? SR_OK : sr_error_adopt(SR_E_PEER, "", "");
}

// Loads the rank's plug-ins that have transforms. 'words': pairs of content hash and path.
static sr_status load_plugins(char *const *words, int count) {
    for (int i = 0; i + 1 < count; i += 2) {
        sr_plugin_file *file;
        SR_TRY(sr_plugin_open(words[i + 1], words[i], &file));
        SR_TRY(sr_transforms_add(file->plugin->transforms, file->path));
        file->added = true;
    }
    return SR_OK;
}

static sr_status run_child(int number, char *const *plugins, int words) {
    sr_stage_memory memory;
    sr_stage stage = {.parent_pidfd = -1};
    SR_TRY(sr_shared_attach(SR_STAGE_PLAN_FD, true, &memory.plan));
    SR_TRY(sr_shared_attach(SR_STAGE_WORK_FD, false, &memory.work));
    sr_status status = sr_stage_init(&stage, &memory, number);
    stage.own_process = true;
    if (status == SR_OK)
        status = watch_parent(&stage);
    if (status == SR_OK) {
        status = load_plugins(plugins, words);
        if (status != SR_OK)
            sr_stage_error_set(&stage.state->error, status, -1); // the rank reports it
    }
    if (status == SR_OK) {
        char name[32];
        (void)prctl(PR_SET_NAME, sr_stage_name(number, name));
        sr_stage_run(&stage);
        status = (sr_status)atomic_load(&stage.state->error.status);
        if (status != SR_OK)
            (void)sr_error_adopt(status, "", ""); // the rank reports it
    }
    sr_stage_release(&stage);
    sr_stage_memory_release(&memory);
    return status;
}

int sr_data_process_main(int argc, char **argv) {
    ignore_group_signals();
    if (argc < 3) {
        fprintf(stderr, "--data-process is for serried's internal use\n");
        return 2;
    }
    const char *build = getenv(MARK);
    if (build && sr_build_compare(build) != SR_OK) { // shared memory may have another layout
        SR_ERROR("data process: %s", sr_error_message());
        return SR_EXIT_OTHER_BUILD;
    }
    sr_status status = run_child(atoi(argv[2]), argv + 3, argc - 3);
    if (status != SR_OK && sr_error_message()[0])
        SR_ERROR("data process: %s", sr_error_message());
    return sr_status_exit_code(status);
}

// -- in the rank -------------------------------------------------------------------------------

static int plan_descriptors(posix_spawn_file_actions_t *actions, const sr_stage_memory *memory) {
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0 && fcntl(STDERR_FILENO, F_GETFD) < 0)
        error = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // stdout is for the rank's results.
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, memory->plan.fd, SR_STAGE_PLAN_FD);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, memory->work.fd, SR_STAGE_WORK_FD);
    if (error == 0)
        error = posix_spawn_file_actions_addclosefrom_np(actions, SR_STAGE_WORK_FD + 1);
    return error;
}

static int plan_signals(posix_spawnattr_t *attributes) {
    sigset_t all;
    sigfillset(&all);
    int error = posix_spawnattr_setsigmask(attributes, &all);
    if (error == 0)
        error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
    return error;
}

// A copy of the environment with the mark of a data process (sr_free).
static char **make_environment(void) {
    static _Thread_local char mark[sizeof MARK + SR_BUILD_IDENTITY_BYTES];
    size_t count = 0;
    (void)snprintf(mark, sizeof mark, MARK "=%s", sr_build_identity());
    while (environ[count])
        count++;
    char **copy = sr_alloc_array(count + 2, sizeof *copy, "environment");
    if (copy) {
        memcpy(copy, environ, count * sizeof *copy);
        copy[count] = mark;
    }
    return copy;
}

// Appends the plug-ins that the process must load, and NULL.
static void add_plugins(char **words) {
    int count;
    const sr_plugin_file *files = sr_plugin_files(&count);
    for (int i = 0; i < count; i++) {
        if (!files[i].plugin->transforms)
            continue;
        union {
            const char *in;
            char *any;
        } hash = {.in = files[i].hash}, path = {.in = files[i].path}; // only read
        *words++ = hash.any;
        *words++ = path.any;
    }
    *words = NULL;
}

static sr_status spawn(sr_supervisor *supervisor, int number) {
    char name[32], title[48], index[16];
    snprintf(title, sizeof title, "serried-data: %s", sr_stage_name(number, name));
    snprintf(index, sizeof index, "%d", number);
    char option[] = "--data-process";
    char *arguments[3 + 2 * SR_PLUGIN_FILES_MAX + 1] = {title, option, index};
    char **environment = make_environment();
    add_plugins(arguments + 3);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (!environment)
        return SR_E_MEMORY;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        sr_free(environment);
        return SR_FAIL(SR_E_SYSTEM, "cannot start a data process: %s", strerror(error));
    }
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = plan_descriptors(&actions, &supervisor->memory);
        if (error == 0)
            error = plan_signals(&attributes);
        if (error == 0)
            error = posix_spawn(&supervisor->members[number].pid, "/proc/self/exe", &actions,
                                &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    sr_free(environment);
    if (error != 0) {
        char failure[SR_START_FAILURE_BYTES];
        supervisor->members[number].pid = 0;
        return SR_FAIL(SR_E_SYSTEM, "cannot start a data process: %s%s",
                       sr_machine_start_failure(error, failure),
                       error == EAGAIN ? "" : "; data.processes=0 uses threads instead");
    }
    return SR_OK;
}

static void *thread_main(void *stage) {
    sr_stage_run(stage);
    return NULL;
}

static sr_status start_thread(sr_supervisor *supervisor, int number) {
    member *m = &supervisor->members[number];
    sr_status status = sr_stage_init(&m->stage, &supervisor->memory, number);
    if (status == SR_OK)
        status = sr_thread_start(&m->thread, "sr-data", thread_main, &m->stage);
    if (status != SR_OK) {
        sr_stage_release(&m->stage);
        return status;
    }
    m->started = true;
    return SR_OK;
}

sr_status sr_supervisor_start(const sr_stage_memory *memory, bool threads, sr_supervisor **out) {
    if (!threads && getenv(MARK))
        return SR_FAIL(SR_E_USAGE,
                       "a data process of this program runs the program's main function; call "
                       "sr_data_process_main at its beginning (dataio/pipeline/pipeline.h), or use "
                       "data.processes=0");
    sr_supervisor *supervisor = sr_alloc(sizeof *supervisor, "data processes");
    if (!supervisor)
        return SR_E_MEMORY;
    sr_status status;
    supervisor->memory = *memory;
    supervisor->header = memory->work.base;
    memcpy(&supervisor->plan, memory->plan.base, sizeof supervisor->plan);
    supervisor->plan.base = memory->work.base;
    supervisor->threads = threads;
    int count = SR_STAGE_TRANSFORMER + supervisor->plan.workers;
    supervisor->members =
        sr_alloc_array((size_t)count, sizeof *supervisor->members, "data processes");
    if (!supervisor->members) {
        status = SR_E_MEMORY;
        goto fail;
    }
    for (; supervisor->count < count; supervisor->count++)
        SR_TRY_GOTO(threads ? start_thread(supervisor, supervisor->count)
                            : spawn(supervisor, supervisor->count),
                    fail);
    *out = supervisor;
    return SR_OK;
fail:
    sr_supervisor_stop(supervisor);
    return status;
}

// A stage's progress: repeated deaths without progress are caused by the current sample.
static uint64_t progress(const sr_supervisor *supervisor, int number) {
    const sr_stage_plan *plan = &supervisor->plan;
    uint64_t sum = 0;
    if (number == SR_STAGE_ITERATOR)
        return atomic_load(&supervisor->header->ready);
    if (number >= SR_STAGE_TRANSFORMER)
        return atomic_load(&sr_stage_ring(plan, number - SR_STAGE_TRANSFORMER)->consumed);
    for (int w = 0; w < plan->workers; w++)
        sum += atomic_load(&sr_stage_ring(plan, w)->published);
    return sum;
}

static void describe_end(int wait_status, char *out, size_t size) {
    if (WIFSIGNALED(wait_status))
        snprintf(out, size, "signal %d, %s", WTERMSIG(wait_status),
                 WTERMSIG(wait_status) == SIGKILL ? "perhaps out of memory"
                                                  : strsignal(WTERMSIG(wait_status)));
    else
        snprintf(out, size, "exit code %d", WEXITSTATUS(wait_status));
}

// Describes what a stage was doing when it died. True: it was working on a sample, whose name is in
// 'out'.
static bool find_sample(const sr_supervisor *supervisor, int number, sr_dataset *dataset,
                        char *out) {
    const sr_stage_state *state = &supervisor->header->states[number];
    int32_t activity = atomic_load(&state->activity);
    int64_t sample = atomic_load(&state->sample);
    bool busy = activity == SR_ACTIVITY_READING || activity == SR_ACTIVITY_DECODING;
    if (busy && sample >= 0 && sample < supervisor->plan.count)
        return sr_dataset_sample_name(dataset, sample, out) != NULL;
    (void)snprintf(out, 300, "%s", activity == SR_ACTIVITY_STARTING ? "its start" : "a wait");
    return false;
}

static sr_status replace(sr_supervisor *supervisor, int number, int wait_status,
                         sr_dataset *dataset) {
    member *m = &supervisor->members[number];
    char name[32], end[80], where[300];
    uint64_t reached = progress(supervisor, number);
    describe_end(wait_status, end, sizeof end);
    m->deaths = reached == m->progress_at_death ? m->deaths + 1 : 1;
    m->progress_at_death = reached;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == SR_EXIT_OTHER_BUILD) {
        return SR_FAIL(
            SR_E_NUMERICS,
            "serried was replaced by another build while this job is running, so no data "
            "process can be started; run the same command again to resume with the new "
            "build from the last checkpoint");
    }
    bool killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
    bool sample = find_sample(supervisor, number, dataset, where);
    if (m->deaths >= (killed ? MAX_KILLS_WITHOUT_PROGRESS : MAX_DEATHS_WITHOUT_PROGRESS)) {
        return SR_FAIL(SR_E_PEER,
                       "data %s died %d times (%s) at %s; %srun with data.processes=0 "
                       "under a debugger",
                       sr_stage_name(number, name), m->deaths, end, where,
                       sample ? "look at that sample with 'serried show', or " : "");
    }
    SR_WARN("data %s died (%s) at %s; replaced", sr_stage_name(number, name), end, where);
    supervisor->restarts++;
    atomic_store(&supervisor->header->states[number].activity, SR_ACTIVITY_STARTING);
    return spawn(supervisor, number);
}

sr_status sr_supervisor_check(sr_supervisor *supervisor, sr_dataset *dataset) {
    for (int i = 0; i < supervisor->count; i++) {
        member *m = &supervisor->members[i];
        const sr_stage_state *state = &supervisor->header->states[i];
        SR_TRY(sr_stage_error_adopt(&state->error, dataset));
        if (m->pid == 0)
            continue;
        int end = 0;
        pid_t got = waitpid(m->pid, &end, WNOHANG);
        if (got == 0 || (got < 0 && errno == EINTR))
            continue;
        m->pid = 0;
        SR_TRY(sr_stage_error_adopt(&state->error, dataset));
        if (got > 0 && WIFEXITED(end) && WEXITSTATUS(end) == 0 &&
            atomic_load(&state->activity) == SR_ACTIVITY_DONE)
            continue;
        SR_TRY(replace(supervisor, i, end, dataset));
    }
    return SR_OK;
}

int64_t sr_supervisor_restarts(const sr_supervisor *supervisor) {
    return supervisor->restarts;
}

pid_t sr_supervisor_pid(const sr_supervisor *supervisor, int number) {
    return number < supervisor->count ? supervisor->members[number].pid : 0;
}

static void wake_all(const sr_supervisor *supervisor) {
    atomic_store(&supervisor->header->stop, 1);
    sr_bell_ring(&supervisor->header->free_bell);
    for (int w = 0; w < supervisor->plan.workers; w++) {
        sr_bell_ring(&sr_stage_ring(&supervisor->plan, w)->published_bell);
        sr_bell_ring(&sr_stage_ring(&supervisor->plan, w)->consumed_bell);
    }
}

static void end_process(member *m, int64_t deadline) {
    while (m->pid > 0) {
        pid_t got = waitpid(m->pid, NULL, WNOHANG);
        if (got > 0 || (got < 0 && errno != EINTR)) {
            m->pid = 0;
        } else if (sr_clock_ns() < deadline) {
            sr_clock_sleep_ns(SR_NS_PER_MS / 2);
        } else {
            (void)kill(m->pid, SIGKILL);
            while (waitpid(m->pid, NULL, 0) < 0 && errno == EINTR) {
            }
            m->pid = 0;
        }
    }
}

void sr_supervisor_stop(sr_supervisor *supervisor) {
    if (!supervisor)
        return;
    wake_all(supervisor);
    int64_t deadline = sr_clock_ns() + GRACE_NS;
    for (int i = 0; supervisor->members && i < supervisor->count; i++) {
        member *m = &supervisor->members[i];
        if (m->started) {
            (void)pthread_join(m->thread, NULL);
            sr_stage_release(&m->stage);
        }
        end_process(m, deadline);
    }
    sr_free(supervisor->members);
    sr_free(supervisor);
}
