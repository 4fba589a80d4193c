// SPDX-License-Identifier: Apache-2.0
// serried bench NAME: finds the benchmark in bench_list.def and passes it its command line.
#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"
#include "launcher/bench/bench.h"
#include "launcher/commands/command.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} benchmarks[] = {
#define SR_BENCH(name, function, help) {name, function, help},
#include "launcher/bench/bench_list.def"
#undef SR_BENCH
};
#define BENCHMARKS (sizeof benchmarks / sizeof *benchmarks)

static void print_help(FILE *out) {
    (void)fputs("usage: serried bench NAME [options]\n"
                "Measure this machine, and compare with other software if it is installed\n"
                "(tests/peers).\n\n",
                out);
    for (size_t i = 0; i < BENCHMARKS; i++)
        (void)fprintf(out, "  %-8s %s\n", benchmarks[i].name, benchmarks[i].help);
    (void)fputs("\n'serried bench NAME --help' shows the options of a benchmark.\n", out);
}

static int unknown(const char *name) {
    const char *names[BENCHMARKS];
    for (size_t i = 0; i < BENCHMARKS; i++)
        names[i] = benchmarks[i].name;
    const char *nearest = sr_text_nearest(name, names, BENCHMARKS);
    (void)fprintf(stderr, "serried bench: unknown benchmark '%s'; %s%s%s\n", name,
                  nearest ? "did you mean '" : "see ", nearest ? nearest : "serried bench --help",
                  nearest ? "'?" : "");
    return 2;
}

int sr_cmd_bench(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0) {
        print_help(stdout);
        return 0;
    }
    for (size_t i = 0; i < BENCHMARKS; i++) {
        char title[64];
        if (strcmp(argv[1], benchmarks[i].name) != 0)
            continue;
        (void)snprintf(title, sizeof title, "serried bench %s", benchmarks[i].name);
        argv[1] = title; // what argp calls the program in its messages
        return benchmarks[i].run(argc - 1, argv + 1);
    }
    return unknown(argv[1]);
}
