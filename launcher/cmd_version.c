// SPDX-License-Identifier: Apache-2.0
// serried version, and serried completion bash: the two commands that only print.
//
// The completion script asks the program itself for what it offers, so that it never goes stale.
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "launcher/command.h"
#include "launcher/library_list_internal.h"

static error_t refuse_words(int key, char *value, struct argp_state *state) {
    (void)value;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "version takes no arguments");
    return ARGP_ERR_UNKNOWN;
}

int sr_cmd_version(int argc, char **argv) {
    static const struct argp parser = {
        .parser = refuse_words,
        .doc = "Print the version, and those of the libraries that serried works with."};
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

static const char head[] =
    "# bash completion of serried; to use it: source <(serried completion bash)\n"
    "_serried() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} program=${COMP_WORDS[0]}\n"
    "    local kind= words=\n"
    "    COMPREPLY=()\n"
    "    case $command in\n";

static const char tail[] =
    "    esac\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        words=$($program info commands 2>/dev/null | cut -d' ' -f1)\n"
    "    elif [[ $word == -* ]]; then\n"
    "        words=$($program \"$command\" --help 2>/dev/null |\n"
    "            grep -oE -- '(^| )--?[a-zA-Z][a-z-]*' | tr -d ' ' | sort -u)\n"
    "    elif { [ \"$kind\" = recipe ] && [ \"$COMP_CWORD\" -eq 2 ]; } ||\n"
    "        { [ \"$command\" = recipe ] && [ \"$COMP_CWORD\" -gt 2 ]; }; then\n"
    "        words=$($program recipe list --names 2>/dev/null)\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "    elif [ \"$kind\" = recipe ]; then\n"
    "        words=$($program info options 2>/dev/null | sed -n 's/^\\([a-z_.0-9]*\\): "
    ".*/\\1=/p')\n"
    "        compopt -o nospace\n"
    "    elif [ \"$kind\" = file ]; then\n"
    "        compopt -o filenames\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "    fi\n"
    "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
    "}\n"
    "complete -F _serried serried\n";

static void print_bash(void) {
    size_t count;
    const sr_command *commands = sr_commands(&count);
    fputs(head, stdout);
    for (size_t i = 0; i < count; i++) {
        const char *words = commands[i].words;
        if (!commands[i].name || !*words)
            continue;
        if (*words == '<')
            printf("    %s) kind=%.*s ;;\n", commands[i].name, (int)strlen(words) - 2, words + 1);
        else
            printf("    %s) [ \"$COMP_CWORD\" -ne 2 ] || words='%s' ;;\n", commands[i].name, words);
    }
    fputs(tail, stdout);
}

int sr_cmd_completion(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "bash") == 0) {
        print_bash();
        return 0;
    }
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs("usage: serried completion bash\n"
          "Print a completion script; to use it: source <(serried completion bash)\n",
          help ? stdout : stderr);
    return help ? 0 : 2;
}
