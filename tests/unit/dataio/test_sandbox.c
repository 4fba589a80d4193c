// SPDX-License-Identifier: Apache-2.0
// The sandbox of data processes: what it forbids fails with an error and kills no process; what a
// decoder needs still works; every process of a real pipeline is sandboxed; a plug-in that opens a
// file too late is named, and so is a sample that needs more memory than its limit.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/pipeline/sandbox.h"
#include "dataio/pipeline/stage_internal.h"
#include "dataio/record/dataset.h"
#include "dataio/record/links.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

static char folder[256], inside[300], linked[300], elsewhere[256], outside[300], shard[300];
static int opened = -1; // 'inside', opened before the sandbox is entered

// -- what is tried inside the sandbox ----------------------------------------------------------

// Each attempt returns 0 or errno.
static int by(long result) {
    return result < 0 ? errno : 0;
}

static int open_and_close(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0600);
    int error = by(fd);
    if (fd >= 0)
        (void)close(fd);
    return error;
}

static int try_open_inside(void) {
    return open_and_close(inside, O_RDONLY);
}

static int try_open_link(void) {
    return open_and_close(linked, O_RDONLY);
}

static int try_open_shard(void) {
    return open_and_close(shard, O_RDONLY);
}

static int try_list(void) {
    DIR *dir = opendir(folder);
    int error = dir ? 0 : errno;
    if (dir)
        (void)closedir(dir);
    return error;
}

static int try_open_outside(void) {
    return open_and_close(outside, O_RDONLY);
}

// Without a right to read it, but Landlock does not check that.
static int try_open_path(void) {
    return open_and_close(outside, O_PATH);
}

static int try_write(void) {
    return open_and_close(inside, O_RDWR);
}

static int try_make(void) {
    char path[330];
    (void)snprintf(path, sizeof path, "%s/new", folder);
    return open_and_close(path, O_WRONLY | O_CREAT);
}

static int try_cut(void) {
    return open_and_close(inside, O_RDONLY | O_TRUNC);
}

static int try_unnamed(void) {
    return open_and_close(folder, O_TMPFILE | O_RDWR);
}

static int try_remove(void) {
    return by(unlink(inside));
}

static int try_socket(void) {
    return by(socket(AF_INET, SOCK_STREAM, 0));
}

static int try_unix_socket(void) {
    return by(socket(AF_UNIX, SOCK_DGRAM, 0));
}

static int try_exec(void) {
    char *const none[] = {NULL};
    return by(execve("/bin/true", none, none));
}

static int try_fork(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return by(child);
}

static int try_trace(void) {
    return by(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static int try_kill(void) {
    return by(kill(getppid(), SIGCONT));
}

static int try_code(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? errno : 0;
}

static int try_limits(void) {
    return by(setrlimit(RLIMIT_NOFILE, &(struct rlimit){10, 10}));
}

static int try_read(void) {
    char byte;
    return pread(opened, &byte, 1, 0) == 1 ? 0 : errno;
}

static int try_memory(void) {
    for (int i = 0; i < 200; i++) { // small ones, and ones large enough to be mapped
        char *memory = sr_alloc((size_t)1 << (i % 25), "test");
        if (!memory)
            return ENOMEM;
        memory[0] = 1;
        sr_free(memory);
    }
    return 0;
}

static void *count_up(void *number) {
    ++*(int *)number;
    return NULL;
}

static int try_thread(void) {
    int number = 0;
    pthread_t thread;
    int error = pthread_create(&thread, NULL, count_up, &number);
    return error != 0 ? error : pthread_join(thread, NULL) != 0 || number != 1 ? ECANCELED : 0;
}

static int try_time(void) {
    int64_t begin = sr_clock_ns();
    sr_clock_sleep_ns(SR_NS_PER_MS);
    return sr_clock_ns() > begin && sr_clock_thread_ns() > 0 && time(NULL) > 0 ? 0 : ECANCELED;
}

static int try_message(void) {
    FILE *null = fdopen(dup(opened), "r"); // dup is not on the list of allowed calls
    if (null)
        (void)fclose(null);
    return fprintf(stderr, "%s", "") == 0 ? 0 : errno;
}

typedef struct attempt {
    const char *what;
    int (*run)(void);
    bool compute, read; // whether it may succeed with these rights
} attempt;

static const attempt attempts[] = {
    {"memory", try_memory, true, true},
    {"a thread", try_thread, true, true},
    {"time", try_time, true, true},
    {"an open file", try_read, true, true},
    {"a message", try_message, true, true},
    {"opening a file of the data set", try_open_inside, false, true},
    {"opening a shard that the data set links", try_open_link, false, true},
    {"listing the data set", try_list, false, true},
    {"opening another file", try_open_outside, false, false},
    {"opening another file as a path", try_open_path, false, false},
    {"opening to write", try_write, false, false},
    {"making a file", try_make, false, false},
    {"making a file without a name", try_unnamed, false, false},
    {"cutting a file", try_cut, false, false},
    {"removing a file", try_remove, false, false},
    {"a socket", try_socket, false, false},
    {"a local socket", try_unix_socket, false, false},
    {"another program", try_exec, false, false},
    {"another process", try_fork, false, false},
    {"looking into its parent", try_trace, false, false},
    {"a signal to its parent", try_kill, false, false},
    {"memory that is code", try_code, false, false},
    {"setting a limit", try_limits, false, false},
};

// -- in a child process ------------------------------------------------------------------------

// Returns the number of attempts with an unexpected result.
static int try_all(sr_sandbox_rights rights) {
    const sr_sandbox_support support = sr_sandbox_get_support();
    int wrong = 0;
    if (sr_sandbox_enter(rights, folder) != SR_OK) {
        (void)fprintf(stderr, "%s\n", sr_error_message());
        return 99;
    }
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        const attempt *a = &attempts[i];
        const bool may = rights == SR_SANDBOX_READ ? a->read : a->compute;
        if (a->run == try_open_outside && rights == SR_SANDBOX_READ && support.landlock == 0)
            continue; // Landlock decides which files may be opened
        const int error = a->run();
        if (may ? error == 0 : error == EPERM || error == EACCES)
            continue;
        (void)fprintf(stderr, "rights %d: %s: %s\n", (int)rights, a->what,
                      error ? strerror(error) : "went through");
        wrong++;
    }
    return wrong;
}

static int run_in_child(int (*function)(void *), void *argument) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(function(argument));
    assert_int_equal(child, waitpid(child, &status, 0));
    if (WIFSIGNALED(status))
        fail_msg("killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static int try_with(void *rights) {
    return try_all(*(sr_sandbox_rights *)rights);
}

static void need_seccomp(void) {
    if (!sr_sandbox_get_support().seccomp)
        test_skip("this kernel has no seccomp filters");
}

static void test_rights(void **state) {
    (void)state;
    need_seccomp();
    if (sr_sandbox_get_support().landlock == 0)
        print_message("NOT RUN: other files, because this kernel has no Landlock\n");
    for (sr_sandbox_rights r = SR_SANDBOX_COMPUTE; r <= SR_SANDBOX_READ; r++)
        assert_int_equal(0, run_in_child(try_with, &r));
}

// The data set is one file: no other file in its folder can be read.
static int try_one_file(void *unused) {
    (void)unused;
    if (sr_sandbox_enter(SR_SANDBOX_READ, shard) != SR_OK)
        return 99;
    return (try_open_shard() != 0) + (try_open_inside() != EACCES) + (try_list() != EACCES);
}

static void test_one_file(void **state) {
    (void)state;
    if (sr_sandbox_get_support().landlock == 0)
        test_skip("this kernel has no Landlock");
    assert_int_equal(0, run_in_child(try_one_file, NULL));
}

// A link that leads out of the data set opens nothing, wherever it is; one that the user names
// works.
static int try_stray_links(void *unused) {
    (void)unused;
    if (sr_sandbox_enter(SR_SANDBOX_READ, folder) != SR_OK)
        return 99;
    return (try_open_outside() != EACCES) + (try_open_link() != 0) + (try_open_inside() != 0);
}

static void test_stray_links(void **state) {
    (void)state;
    char link[300];
    if (sr_sandbox_get_support().landlock == 0)
        test_skip("this kernel has no Landlock");
    const char *const targets[] = {"/", elsewhere, outside};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        sr_dataset *set;
        (void)snprintf(link, sizeof link, "%s/stray", folder);
        assert_int_equal(0, symlink(targets[i], link));
        assert_int_equal(0, run_in_child(try_stray_links, NULL));
        assert_status(SR_E_USAGE, sr_dataset_open(folder, "train", &set));
        assert_message(link);
        assert_message(targets[i]);
        assert_message(SR_LINKS_VARIABLE "=");
        assert_int_equal(0, unlink(link));
    }
}

static int take_memory(void *unused) {
    (void)unused;
    if (!sr_sandbox_limit_memory(64 << 20))
        return 77;
    if (sr_sandbox_enter(SR_SANDBOX_COMPUTE, NULL) != SR_OK)
        return 99;
    void *some = sr_alloc(32 << 20, "some"), *more = sr_alloc(128 << 20, "more");
    return some && !more && strstr(sr_error_message(), "more") ? 0 : 1;
}

static void test_memory_limit(void **state) {
    (void)state;
    int code = run_in_child(take_memory, NULL);
    if (code == 77)
        test_skip("a sanitizer needs more memory than any limit");
    assert_int_equal(0, code);
}

// -- a pipeline --------------------------------------------------------------------------------

// A transform that opens a file too late, or takes too much memory.
typedef struct late_options {
    int64_t megabytes;
} late_options;

static const sr_option late_rows[] = {{.name = "megabytes",
                                       .help = "to take; 0: opens a file instead",
                                       .type = SR_OPT_INT,
                                       .offset = offsetof(late_options, megabytes),
                                       .default_text = "0",
                                       .max = 1 << 20}};

static sr_status late_apply(sr_canvas *canvas, const sr_transform_call *call) {
    const late_options *o = call->options;
    (void)canvas;
    if (o->megabytes > 0) {
        void *memory = sr_alloc((size_t)o->megabytes << 20, "lookup table");
        sr_free(memory);
        return memory ? SR_OK : SR_E_MEMORY;
    }
    int error = open_and_close("/etc/hostname", O_RDONLY);
    return error == 0 ? SR_OK : SR_FAIL(SR_E_IO, "/etc/hostname: %s", strerror(error));
}

static const sr_transform late = {.struct_size = sizeof(sr_transform),
                                  .abi = SR_TRANSFORM_ABI,
                                  .name = "late",
                                  .help = "for this test",
                                  .options = {.name = "late",
                                              .options = late_rows,
                                              .count = 1,
                                              .struct_size = sizeof(late_options)},
                                  .apply = late_apply};
static const sr_transform *const late_list[] = {&late, NULL};

static sr_pipeline_options usual(void) {
    return (sr_pipeline_options){.dataset = folder,
                                 .split = "train",
                                 .image_height = 24,
                                 .image_width = 24,
                                 .order = SR_ORDER_EXAMPLES,
                                 .batch = 8,
                                 .lanes = 2,
                                 .lane_end = 2,
                                 .workers = 2};
}

static long status_field(pid_t pid, const char *name) {
    char path[64], line[256];
    long value = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name), NULL, 10);
    (void)fclose(file);
    return value;
}

static void test_every_process(void **state) {
    (void)state;
    need_seccomp();
    static const sr_transform_spec crop[] = {{.name = "random_resized_crop"}};
    sr_pipeline_options o = usual();
    sr_pipeline *p;
    bool end;
    sr_slot slot;
    o.transforms = crop;
    o.transform_count = 1;
    for (int skips = 0; skips < 2; skips++) {
        o.on_corrupt = skips ? SR_CORRUPT_SKIP : SR_CORRUPT_STOP;
        assert_ok(sr_pipeline_open(&o, &p));
        for (int i = 0; i < 8; i++) { // each has processed something by then
            assert_ok(sr_pipeline_next(p, &slot, &end));
            sr_pipeline_release(p, &slot);
        }
        for (int i = 0; i < SR_STAGE_TRANSFORMER + 2; i++) {
            pid_t pid = sr_pipeline_stage_pid(p, i);
            assert_int_equal(2, status_field(pid, "Seccomp:"));
            assert_int_equal(1, status_field(pid, "NoNewPrivs:"));
        }
        sr_pipeline_close(p);
    }
}

static void run_late(const char *arguments, bool threads, sr_status want) {
    sr_pipeline_options o = usual();
    const sr_transform_spec list[] = {{.name = "resize", .arguments = "stretch=true"},
                                      {.name = "late", .arguments = arguments}};
    sr_pipeline *p;
    sr_slot slot;
    bool end;
    o.transforms = list;
    o.transform_count = 2;
    o.threads = threads;
    assert_ok(sr_pipeline_open(&o, &p));
    assert_status(want, sr_pipeline_next(p, &slot, &end));
    sr_pipeline_close(p);
}

static void test_late_plugin(void **state) {
    (void)state;
    need_seccomp();
    run_late("", true, SR_OK);
    run_late("", false, SR_E_IO);
    assert_message("transform late of late.so: /etc/hostname: ");
    assert_message("train-0000"); // names the sample
    assert_message(" record ");
}

static void test_hungry_plugin(void **state) {
    (void)state;
    if (run_in_child(take_memory, NULL) == 77)
        test_skip("a sanitizer needs more memory than any limit");
    run_late("megabytes=100", false, SR_OK);
    run_late("megabytes=8000", false, SR_E_LIMIT);
    assert_message(" record ");
    assert_message("lookup table");
    assert_message("a transformer is limited to 4.0 GiB");
}

// -- set-up ------------------------------------------------------------------------------------

static int make_files(void **state) {
    (void)state;
    test_folder_make(folder);
    test_folder_make(elsewhere);
    (void)snprintf(inside, sizeof inside, "%s/inside", folder);
    (void)snprintf(linked, sizeof linked, "%s/linked", folder);
    (void)snprintf(shard, sizeof shard, "%s/train-00000.kpl", folder);
    (void)snprintf(outside, sizeof outside, "%s/outside", elsewhere);
    char target[300];
    (void)snprintf(target, sizeof target, "%s/target", elsewhere);
    assert_ok(sr_file_write_atomic(inside, "a", 1));
    assert_ok(sr_file_write_atomic(outside, "a", 1));
    assert_ok(sr_file_write_atomic(target, "a", 1));
    assert_int_equal(0, symlink(target, linked));
    assert_int_equal(0, setenv(SR_LINKS_VARIABLE, target, 1));
    pictures_pack(folder, 30, 40, 32, 0);
    opened = open(inside, O_RDONLY | O_CLOEXEC);
    assert_ok(sr_transforms_add(late_list, "late.so"));
    return opened < 0;
}

static int remove_files(void **state) {
    (void)state;
    (void)close(opened);
    test_folder_remove(folder);
    test_folder_remove(elsewhere);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--data-process") == 0)
        return sr_transforms_add(late_list, "late.so") != SR_OK ? 1
                                                                : sr_data_process_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rights),        cmocka_unit_test(test_one_file),
        cmocka_unit_test(test_stray_links),   cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_every_process), cmocka_unit_test(test_late_plugin),
        cmocka_unit_test(test_hungry_plugin),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
