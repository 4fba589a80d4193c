// SPDX-License-Identifier: Apache-2.0
// Running as mpirun's parent: exit codes, signals, and clean-up. The ranks are shell scripts; each
// writes a file when it handles signals, so that the test does not depend on timing.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "launcher/start/start.h"

static char folder[] = "/tmp/serried-start-XXXXXX";

static int enter(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int leave(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void nap(void) {
    const struct timespec time = {.tv_nsec = 10000000};
    (void)nanosleep(&time, NULL);
}

// In a child process: sends the signals once both ranks handle them.
static pid_t send_when_ready(const int *signals, int count) {
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    char ready[2][80], seen[80];
    for (int rank = 0; rank < 2; rank++)
        snprintf(ready[rank], sizeof ready[rank], "%s/ready-%d", folder, rank);
    snprintf(seen, sizeof seen, "%s/seen-0", folder);
    while (!sr_path_exists(ready[0]) || !sr_path_exists(ready[1]))
        nap();
    for (int i = 0; i < count; i++) {
        (void)kill(parent, signals[i]);
        while (i + 1 < count && !sr_path_exists(seen)) // the first one has arrived
            nap();
    }
    _exit(0);
}

// Removes the files that the ranks of an earlier case wrote.
static void forget(void) {
    static const char *const names[] = {"ready-0", "ready-1", "seen-0", "seen-1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[80];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
}

// Runs a script on two ranks; $RANK and $DIR are set.
static int run(const char *script, const int *signals, int count, sr_start_plan *plan) {
    forget();
    char text[1024], shell[] = "/bin/sh", option[] = "-c";
    snprintf(text, sizeof text, "DIR=%s; RANK=$OMPI_COMM_WORLD_RANK; %s", folder, script);
    char *command[] = {shell, option, text, NULL};
    sr_arena arena;
    sr_arena_init(&arena);
    assert_int_equal(sr_start_prepare(2, command, NULL, &arena, plan), SR_OK);
    assert_non_null(plan->folder);
    assert_int_equal(strncmp(plan->command_line, "mpirun -np 2 ", 13), 0);
    char kept[128];
    struct stat info;
    snprintf(kept, sizeof kept, "%s", plan->folder);
    assert_int_equal(stat(kept, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    plan->limit_seconds = 30;
    int code = -1;
    pid_t sender = count > 0 ? send_when_ready(signals, count) : 0;
    assert_int_equal(sr_start_run(plan, &code), SR_OK);
    if (sender > 0)
        assert_int_equal(waitpid(sender, NULL, 0), sender);
    sr_start_release(plan);
    assert_false(sr_path_exists(kept));
    sr_arena_release(&arena);
    return code;
}

#define LISTEN                                                                                     \
    "trap '> $DIR/seen-$RANK; exit 75' USR1; > $DIR/ready-$RANK; "                                 \
    "while :; do sleep 0.02; done"
#define DEAF "trap '> $DIR/seen-$RANK' USR1; > $DIR/ready-$RANK; while :; do sleep 0.02; done"

static void test_exit_codes(void **state) {
    (void)state;
    sr_start_plan plan;
    assert_int_equal(run("exit 0", NULL, 0, &plan), 0);
    assert_int_equal(run("exit 3", NULL, 0, &plan), 3);
    assert_int_equal(
        run("test $RANK = 0 || kill -9 $$; while :; do sleep 0.02; done", NULL, 0, &plan), 6);
    // These ranks never reach the point where a signal requests a checkpoint.
    assert_int_equal(
        run("test $RANK = 0 || kill -TERM $$; while :; do sleep 0.02; done", NULL, 0, &plan), 75);
}

static void test_stop_asks_for_a_checkpoint(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    for (int i = 0; i < 4; i++) {
        sr_start_plan plan;
        assert_int_equal(run(LISTEN, &signals[i], 1, &plan), 75);
    }
}

static void test_second_interrupt_ends_at_once(void **state) {
    (void)state;
    sr_start_plan plan;
    assert_int_equal(run(DEAF, (const int[]){SIGINT, SIGINT}, 2, &plan), 130);
    assert_int_equal(run(DEAF, (const int[]){SIGUSR1, SIGINT}, 2, &plan), 130);
    assert_int_equal(run(DEAF, (const int[]){SIGTERM, SIGTERM}, 2, &plan), 143);
}

static void test_terminal_does_not_reach_ranks_twice(void **state) {
    (void)state;
    sr_start_plan plan;
    // The ranks are in another process group than this process, and do not read from the terminal.
    char script[256];
    snprintf(script, sizeof script,
             "test $(ps -o pgid= -p $$) -ne %d || exit 9; read x && exit 8; "
             "exit 0",
             (int)getpgrp());
    assert_int_equal(run(script, NULL, 0, &plan), 0);
}

static void test_quoting(void **state) {
    (void)state;
    char word[] = "it's", path[] = "a b", *command[] = {word, path, NULL};
    sr_arena arena;
    sr_start_plan plan;
    sr_arena_init(&arena);
    assert_int_equal(sr_start_prepare(1, command, NULL, &arena, &plan), SR_OK);
    assert_non_null(strstr(plan.command_line, " 'it'\\''s' 'a b'"));
    sr_start_release(&plan);
    sr_arena_release(&arena);
}

static void test_detection(void **state) {
    (void)state;
    assert_int_equal(setenv("SLURM_STEP_NUM_TASKS", "4", 1), 0);
    assert_int_equal(sr_start_detect(), SR_STARTED_BY_SLURM);
    assert_int_equal(setenv("PMIX_RANK", "0", 1), 0);
    assert_int_equal(sr_start_detect(), SR_STARTED_BY_MPI);
    assert_int_equal(unsetenv("PMIX_RANK"), 0);
    assert_int_equal(unsetenv("SLURM_STEP_NUM_TASKS"), 0);
    assert_int_equal(sr_start_detect(), SR_STARTED_ALONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_stop_asks_for_a_checkpoint),
        cmocka_unit_test(test_second_interrupt_ends_at_once),
        cmocka_unit_test(test_terminal_does_not_reach_ranks_twice),
        cmocka_unit_test(test_quoting),
        cmocka_unit_test(test_detection),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
