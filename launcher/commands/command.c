// SPDX-License-Identifier: Apache-2.0
// Finding and calling commands. Each command parses its own options (glibc argp).
#include "launcher/commands/command.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "dataio/pipeline/pipeline.h"
#include "kernels/base/text.h"
#include "launcher/commands/doctor_internal.h"
#include "trainer/draw/drawing.h"

static const sr_command commands[] = {
#define SR_COMMAND_GROUP(title) {NULL, NULL, NULL, title},
#define SR_COMMAND(name, function, words, help) {name, function, words, help},
#include "launcher/commands/command_list.def"
#undef SR_COMMAND
#undef SR_COMMAND_GROUP
};
#define COMMANDS (sizeof commands / sizeof *commands)

enum { STACK_LEAST = 1 << 20, STACK_BYTES = 8 << 20 };

// Internal commands, by which serried starts itself.
static const struct {
    const char *name;
    sr_command_fn run;
} hidden[] = {
    {"--data-process", sr_data_process_main},
    {"--draw", sr_drawing_main},
    {"--mpi-probe", sr_doctor_mpi_probe},
};

const sr_command *sr_commands(size_t *count) {
    *count = COMMANDS;
    return commands;
}

static void print_help(FILE *out) {
    fputs("serried trains vision models data-parallel, with the same bits on any number of "
          "processes.\n\nusage: serried COMMAND [options] [recipe] [key=value...]\n",
          out);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (!commands[i].name)
            fprintf(out, "\n%s\n", commands[i].help);
        else
            fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].help);
    }
    fputs("\n'serried COMMAND --help' shows the options of a command. To start:\n"
          "  serried pack PICTURES data                pack a folder of pictures, one folder per "
          "class\n"
          "  serried train resnet18 -n 2 data.train=data\n",
          out);
}

static const sr_command *find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i].name && strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int unknown(const char *name) {
    const char *names[COMMANDS];
    size_t count = 0;
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i].name)
            names[count++] = commands[i].name;
    }
    const char *nearest = sr_text_nearest(name, names, count);
    if (nearest)
        fprintf(stderr, "serried: unknown command '%s'; did you mean '%s'?\n", name, nearest);
    else
        fprintf(stderr, "serried: unknown command '%s'; 'serried --help' lists them\n", name);
    return 2;
}

// argp itself only knows -? and --help.
static void spell_out_help(int argc, char **argv) {
    static char help[] = "--help";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-h") == 0)
            argv[i] = help;
}

// Finds an empty argument, as from an unset shell variable. One command would take it for the
// current folder or its parent, another would ignore it.
static int find_empty(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const size_t n = strlen(argv[i]);
        if (n == 0 || (strncmp(argv[i], "--", 2) == 0 && argv[i][n - 1] == '='))
            return i;
    }
    return 0;
}

static int run(const sr_command *command, int argc, char **argv) {
    char title[64];
    const int empty = find_empty(argc, argv);
    if (empty > 0) {
        fprintf(stderr, "serried %s: argument %d ('%s') is empty; is a variable unset?\n",
                command->name, empty, argv[empty]);
        return 2;
    }
    spell_out_help(argc, argv);
    snprintf(title, sizeof title, "serried %s", command->name);
    argv[0] = title; // what argp calls the program in its messages
    return command->run(argc, argv);
}

static int help(int argc, char **argv) {
    if (argc < 2) {
        print_help(stdout);
        return 0;
    }
    const sr_command *command = find(argv[1]);
    if (!command)
        return unknown(argv[1]);
    char name[] = "serried", option[] = "--help";
    char *arguments[] = {name, option, NULL};
    return run(command, 2, arguments);
}

static int dispatch(int argc, char **argv) {
    argp_err_exit_status = 2;
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    const char *name = argv[1];
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        if (strcmp(name, hidden[i].name) == 0)
            return hidden[i].run(argc, argv);
    }
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "help") == 0)
        return help(argc - 1, argv + 1);
    if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0)
        name = "version";
    const sr_command *command = find(name);
    return command ? run(command, argc - 1, argv + 1) : unknown(name);
}

// Opens the standard descriptors that are closed (>&-), so that no file that is opened later
// becomes stdout. What replaces stdout cannot be written, so that lost results are still a failure.
static void fill_standard_files(void) {
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", flags[fd]); // opens the lowest free descriptor
}

// Stacks of threads have the size of the main thread's limit. A small one would end this process,
// MPI or a library at some call that needs more.
static bool has_stack(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_LEAST)
        return true;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = STACK_BYTES;
    if (limit.rlim_max < STACK_BYTES) // root may raise it
        limit.rlim_max = STACK_BYTES;
    if (setrlimit(RLIMIT_STACK, &limit) != 0 && getrlimit(RLIMIT_STACK, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_STACK, &limit);
    }
    pthread_attr_t threads;
    if (limit.rlim_cur >= STACK_LEAST && pthread_attr_init(&threads) == 0) {
        (void)pthread_attr_setstacksize(&threads, (size_t)limit.rlim_cur);
        (void)pthread_setattr_default_np(&threads);
        (void)pthread_attr_destroy(&threads);
        return true;
    }
    fprintf(stderr,
            "serried: the stack size limit is %llu KiB, but at least %d KiB are needed; raise it "
            "with 'ulimit -s 8192'\n",
            (unsigned long long)before >> 10, STACK_LEAST >> 10);
    return false;
}

int sr_command_main(int argc, char **argv) {
    fill_standard_files();
    (void)signal(SIGXFSZ, SIG_IGN); // a file over `ulimit -f` fails with a message instead
    if (!has_stack())
        return 1;
    sr_drawing_allow_children();
    int code = dispatch(argc, argv);
    // Lost results are a failure, even if the disk was full only at their last byte.
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "serried: cannot write the results to stdout: %s\n", strerror(errno));
    return code != 0 ? code : 1;
}
