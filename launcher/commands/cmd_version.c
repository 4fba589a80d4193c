// SPDX-License-Identifier: Apache-2.0
// serried version.
#include <argp.h>
#include <stdio.h>

#include "launcher/commands/command.h"
#include "launcher/commands/library_list_internal.h"

static error_t refuse_words(int key, char *value, struct argp_state *state) {
    (void)value;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "version takes no arguments");
    return ARGP_ERR_UNKNOWN;
}

int sr_cmd_version(int argc, char **argv) {
    static const struct argp parser = {
        .parser = refuse_words,
        .doc = "Print the versions of serried and of the libraries that it uses."};
    if (argp_parse(&parser, argc, argv, 0, NULL, NULL) != 0)
        return 2;
    size_t count;
    const sr_library *libraries = sr_libraries(&count);
    char version[64];
    printf("serried %s\n", SR_VERSION);
    for (size_t i = 0; i < count; i++)
        printf("  %-14s %s\n", libraries[i].name, libraries[i].version(version));
    return 0;
}
