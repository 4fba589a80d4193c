// SPDX-License-Identifier: Apache-2.0
// Run folders: new, resumed, finished, other identity, moved aside, contended.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/trainer/checkpoint_fixture.h"
#include "trainer/checkpoint/json_tree.h"
#include "trainer/run/run_folder.h"

static char base[64], root[96], named[96];

static int set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    snprintf(base, sizeof base, "/tmp/serried-run-XXXXXX");
    if (mkdtemp(base) == NULL)
        return 1;
    snprintf(root, sizeof root, "%s/runs", base);
    snprintf(named, sizeof named, "%s/out/here", base);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

static sr_run_options usual(const char *identity) {
    return (sr_run_options){.root = root,
                            .recipe = "cifar10-fast",
                            .identity = identity,
                            .recipe_yaml = "model: tiny\n"};
}

static char *opened(const sr_run_options *options, bool resumed) {
    sr_run_folder *run;
    if (sr_run_folder_open(options, &run) != SR_OK)
        fail_msg("%s", sr_error_message());
    assert_int_equal(sr_run_folder_resumed(run), resumed);
    char *path = sr_strdup(sr_run_folder_path(run));
    sr_run_folder_close(run);
    return path;
}

static void finish(const sr_run_options *options, const char *status) {
    sr_run_folder *run;
    const sr_run_metric metrics[] = {{"val_top1", 0.9412}, {"val_loss", 0.25}};
    const sr_run_result result = {.status = status,
                                  .steps = 10,
                                  .samples = 640,
                                  .digest = "abcd",
                                  .wall_seconds = 12.5,
                                  .metrics = metrics,
                                  .metric_count = 2};
    assert_int_equal(sr_run_folder_open(options, &run), SR_OK);
    assert_int_equal(sr_run_finish(run, &result), SR_OK);
    assert_true(sr_run_previous_seconds(run) == 12.5);
    sr_run_folder_close(run);
}

static void resumes_the_newest_unfinished_run(void **state) {
    (void)state;
    sr_run_options a = usual("aaaa"), b = usual("bbbb");
    char *first = opened(&a, false), *other = opened(&b, false), *again = opened(&a, true);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    finish(&a, SR_RUN_STOPPED); // checkpointed: can be resumed
    sr_free(again);
    again = opened(&a, true);
    assert_string_equal(first, again);
    finish(&a, SR_RUN_FINISHED);
    sr_free(again);
    again = opened(&a, false); // a finished one starts over
    assert_string_not_equal(first, again);
    a.fresh = true;
    char *fresh = opened(&a, false);
    a.fresh = false;
    char *newest = opened(&a, true);
    assert_string_equal(fresh, newest);
    char link[160], target[4096];
    snprintf(link, sizeof link, "%s/cifar10-fast/latest", root);
    assert_null(realpath(link, target)); // none of them has started training
    sr_run_folder *run;
    assert_int_equal(sr_run_folder_open(&a, &run), SR_OK);
    sr_run_folder_make_latest(run);
    sr_run_folder_close(run);
    assert_non_null(realpath(link, target));
    assert_non_null(strstr(target, strrchr(newest, '/')));
    sr_free(newest);
    sr_free(fresh);
    sr_free(again);
    sr_free(other);
    sr_free(first);
}

static void refused(const sr_run_options *options, sr_status status, const char *word) {
    sr_run_folder *run;
    assert_int_equal(sr_run_folder_open(options, &run), status);
    if (strstr(sr_error_message(), word) == NULL)
        fail_msg("'%s' lacks '%s'", sr_error_message(), word);
}

static void named_folders(void **state) {
    (void)state;
    sr_run_options a = usual("aaaa"), b = usual("bbbb");
    a.folder = b.folder = named;
    sr_free(opened(&a, false));
    sr_free(opened(&a, true));
    refused(&b, SR_E_USAGE, "--fresh");
    finish(&a, SR_RUN_FINISHED);
    refused(&a, SR_E_USAGE, "finished");
    assert_int_equal(sr_status_exit_code(SR_E_USAGE), 2);
    b.fresh = true;
    sr_free(opened(&b, false)); // the old one is moved aside
    char command[256];
    snprintf(command, sizeof command, "test -e '%s'.old-*/exit.json && test ! -e '%s'/exit.json",
             named, named);
    assert_int_equal(system(command), 0);
}

// A folder that contains something else is left alone, with and without --fresh.
static void foreign_folders(void **state) {
    (void)state;
    sr_run_options a = usual("aaaa");
    char foreign[128], file[160];
    snprintf(foreign, sizeof foreign, "%s/photos", base);
    snprintf(file, sizeof file, "%s/photo.jpg", foreign);
    assert_int_equal(mkdir(foreign, 0700), 0);
    assert_int_equal(sr_file_write_atomic(file, "x", 1), SR_OK);
    a.folder = foreign;
    refused(&a, SR_E_USAGE, "is not a run folder");
    a.fresh = true;
    refused(&a, SR_E_USAGE, "is not a run folder");
    assert_true(sr_path_exists(file));
    assert_int_equal(unlink(file), 0);
    sr_free(opened(&a, false)); // an empty one is used
}

static void explicit_resume(void **state) {
    (void)state;
    sr_run_options a = usual("aaaa"), b = usual("bbbb");
    char *path = opened(&a, false);
    a.resume = b.resume = path;
    sr_free(opened(&a, true));
    refused(&b, SR_E_USAGE, "other options");
    a.fresh = true;
    refused(&a, SR_E_USAGE, "mutually exclusive");
    a.fresh = false;
    finish(&a, SR_RUN_FINISHED);
    refused(&a, SR_E_USAGE, "finished");
    a.resume = named;
    refused(&a, SR_E_USAGE, "not a run folder");
    sr_free(path);
}

static void the_live_job_locks(void **state) {
    (void)state;
    sr_run_options a = usual("aaaa");
    sr_run_folder *run;
    char pid[32], identity[128];
    a.folder = named;
    assert_int_equal(sr_run_folder_open(&a, &run), SR_OK);
    snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
    refused(&a, SR_E_EXISTS, pid);
    refused(&a, SR_E_EXISTS, "host ");
    a.fresh = true; // a live run is not moved aside either
    refused(&a, SR_E_EXISTS, pid);
    snprintf(identity, sizeof identity, "%s/identity", named);
    assert_true(sr_path_exists(identity));
    sr_run_folder_close(run);
    sr_free(opened(&a, false));
}

// One of many jobs that start together. Holds the lock until killed (or for 30 s).
static int compete(const sr_run_options *options, int go, int won) {
    char byte;
    sr_run_folder *run;
    if (read(go, &byte, 1) != 0) // closed by the parent: all start together
        return 9;
    sr_status status = sr_run_folder_open(options, &run);
    if (status != SR_OK)
        return status == SR_E_EXISTS ? 1 : 2;
    alarm(30);
    if (write(won, "w", 1) == 1)
        pause();
    return 3;
}

// Exactly one of many jobs gets the folder, and the next gets it once the first has ended, without
// any clean-up.
static void one_of_many(void **state) {
    (void)state;
    enum { JOBS = 16 };
    sr_run_options a = usual("aaaa");
    pid_t jobs[JOBS], winner = 0;
    int go[2], won[2];
    char byte;
    a.folder = named;
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(won), 0);
    for (int i = 0; i < JOBS; ++i) {
        jobs[i] = fork();
        if (jobs[i] == 0) {
            close(go[1]);
            _exit(compete(&a, go[0], won[1]));
        }
        assert_true(jobs[i] > 0);
    }
    close(go[0]);
    close(go[1]);
    assert_int_equal(read(won[0], &byte, 1), 1); // one has it
    for (int ended = 0; ended < JOBS - 1; ++ended) {
        int code;
        pid_t pid = wait(&code);
        assert_true(pid > 0 && WIFEXITED(code));
        assert_int_equal(WEXITSTATUS(code), 1);
        for (int i = 0; i < JOBS; ++i)
            jobs[i] = jobs[i] == pid ? 0 : jobs[i];
    }
    for (int i = 0; i < JOBS; ++i)
        winner = jobs[i] > 0 ? jobs[i] : winner;
    assert_true(winner > 0);
    char pid[32];
    snprintf(pid, sizeof pid, "pid %ld", (long)winner);
    refused(&a, SR_E_EXISTS, pid);
    assert_int_equal(kill(winner, SIGKILL), 0);
    assert_int_equal(waitpid(winner, NULL, 0), winner);
    close(won[0]);
    close(won[1]);
    sr_free(opened(&a, true));
}

static const sr_json *read_json(const char *folder, const char *name, sr_arena *arena) {
    void *text;
    size_t bytes;
    const sr_json *tree;
    char *path = sr_path_join(folder, name);
    assert_int_equal(sr_file_read(path, 1 << 20, &text, &bytes), SR_OK);
    if (sr_json_parse(text, bytes, 1000, path, arena, &tree) != SR_OK)
        fail_msg("%s", sr_error_message());
    sr_free(text);
    sr_free(path);
    return tree;
}

static void environment_without_secrets(void **state) {
    (void)state;
    sr_run_options a = usual("aaaa");
    sr_run_folder *run;
    sr_arena arena;
    char name[] = "serried", verb[] = "train";
    char *const argv[] = {name, verb};
    const sr_run_pair versions[] = {{"serried", "0.1"}};
    sr_arena_init(&arena);
    setenv("SECRET_TOKEN", "hunter2", 1);
    setenv("OMP_NUM_THREADS", "3", 1);
    assert_int_equal(sr_run_folder_open(&a, &run), SR_OK);
    assert_int_equal(sr_run_write_env(run, versions, 1, 2, argv), SR_OK);
    const sr_json *env = read_json(sr_run_folder_path(run), "env.json", &arena);
    const sr_json *variables = sr_json_get(env, "environment");
    assert_string_equal(sr_json_string(sr_json_get(variables, "OMP_NUM_THREADS")), "3");
    assert_null(sr_json_get(variables, "SECRET_TOKEN"));
    assert_null(sr_json_get(variables, "PATH"));
    assert_int_equal(sr_json_get(env, "command")->count, 2);
    assert_string_equal(sr_json_string(sr_json_get(sr_json_get(env, "versions"), "serried")),
                        "0.1");
    sr_run_folder_close(run);
    sr_arena_release(&arena);
}

static void logs(void **state) {
    (void)state;
    sr_run_options a = usual("aaaa");
    sr_run_folder *run;
    void *log;
    size_t bytes;
    assert_int_equal(sr_run_folder_open(&a, &run), SR_OK);
    sr_run_event(run, "checkpoint", "\"step\": 3");
    sr_run_event(run, "end \"x\"", NULL);
    char *log_path = sr_run_folder_file(run, "log.jsonl");
    assert_int_equal(sr_file_read(log_path, 10000, &log, &bytes), SR_OK);
    assert_non_null(strstr(log, "\"event\": \"checkpoint\", \"step\": 3}\n"));
    assert_non_null(strstr(log, "\"event\": \"end \\\"x\\\"\"}\n"));
    sr_free(log);
    sr_free(log_path);
    char *rank_log = sr_run_log_path(sr_run_folder_path(run), 12);
    char *own_log = sr_run_log_path(sr_run_folder_path(run), 0);
    assert_non_null(strstr(rank_log, "/log/rank-0012.txt"));
    assert_non_null(strstr(own_log, "/log.txt"));
    sr_free(rank_log);
    sr_free(own_log);
    sr_run_folder_close(run);
}

static void exit_file(void **state) {
    (void)state;
    sr_run_options a = usual("aaaa");
    sr_arena arena;
    int64_t steps;
    double top1;
    char *folder = opened(&a, false);
    sr_arena_init(&arena);
    finish(&a, SR_RUN_FINISHED);
    const sr_json *end = read_json(folder, "exit.json", &arena);
    assert_string_equal(sr_json_string(sr_json_get(end, "status")), "finished");
    assert_string_equal(sr_json_string(sr_json_get(end, "digest")), "abcd");
    assert_true(sr_json_int64(sr_json_get(end, "steps"), &steps) && steps == 10);
    assert_true(sr_json_double(sr_json_get(sr_json_get(end, "metrics"), "val_top1"), &top1));
    assert_true(top1 == 0.9412);
    sr_arena_release(&arena);
    sr_free(folder);
}

// The identity file has no checksum of its own, but the checkpoint's manifest contains the
// identity.
static void a_damaged_identity_is_repaired(void **state) {
    (void)state;
    sr_run_options named_run = usual("aa"), resumed = usual("aa"), sought = usual("aa"),
                   other = usual("cc"); // the fixture's manifest has "aa"
    char there[128], file[160];
    sr_run_folder *run;
    snprintf(there, sizeof there, "%s/runs/cifar10-fast/20260101-000000", base);
    snprintf(file, sizeof file, "%s/identity", there);
    named_run.folder = resumed.resume = other.folder = there;
    sr_free(opened(&named_run, false));
    assert_int_equal(state_save(there, 1, 1, false), SR_OK);
    const sr_run_options *const ways[] = {&named_run, &resumed, &sought};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
        void *text;
        size_t bytes;
        assert_int_equal(sr_file_write_atomic(file, "ba\n", 3), SR_OK);
        sr_free(opened(ways[i], true));
        assert_int_equal(sr_file_read(file, 64, &text, &bytes), SR_OK);
        assert_string_equal(text, "aa\n");
        sr_free(text);
    }
    // Another recipe's checkpoint is another recipe's run.
    assert_int_equal(sr_run_folder_open(&other, &run), SR_E_USAGE);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(resumes_the_newest_unfinished_run),
        CASE(named_folders),
        CASE(foreign_folders),
        CASE(explicit_resume),
        CASE(the_live_job_locks),
        CASE(one_of_many),
        CASE(environment_without_secrets),
        CASE(logs),
        CASE(exit_file),
        CASE(a_damaged_identity_is_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
