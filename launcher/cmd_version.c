// SPDX-License-Identifier: Apache-2.0
// serried version, and serried completion bash: the two commands that only print.
//
// The completion script asks the program itself for what it offers, so that it never goes stale.
#include <stdio.h>
#include <string.h>

#include "launcher/command.h"
#include "launcher/library_list_internal.h"

int sr_cmd_version(int argc, char **argv) {
    (void)argc;
    (void)argv;
    size_t count;
    const sr_library *libraries = sr_libraries(&count);
    char version[64];
    printf("serried %s\n", SR_VERSION);
    for (size_t i = 0; i < count; i++)
        printf("  %-14s %s\n", libraries[i].name, libraries[i].version(version));
    return 0;
}

static const char bash_script[] =
    "# bash completion of serried; to use it: source <(serried completion bash)\n"
    "_serried() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} program=${COMP_WORDS[0]}\n"
    "    local words=\n"
    "    COMPREPLY=()\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        words=$($program info commands 2>/dev/null | cut -d' ' -f1)\n"
    "    elif [[ $word == -* ]]; then\n"
    "        words=$($program \"$command\" --help 2>/dev/null |\n"
    "            grep -oE -- '(^| )--?[a-zA-Z][a-z-]*' | tr -d ' ' | sort -u)\n"
    "    else\n"
    "        case $command:$COMP_CWORD in\n"
    "        recipe:2) words='list show check' ;;\n"
    "        info:2) words=$($program info --help 2>/dev/null | tr -s ' ,.' '\\n' |\n"
    "            grep -xE 'commands|options|models|optimizers|schedules|transforms|ops|kernels') "
    ";;\n"
    "        train:2|recipe:3) words=$($program recipe list --names 2>/dev/null) ;;\n"
    "        completion:2) words=bash ;;\n"
    "        train:*|recipe:*) words=$($program info options 2>/dev/null |\n"
    "            sed -n 's/^\\([a-z_.0-9]*\\): .*/\\1=/p'); compopt -o nospace ;;\n"
    "        esac\n"
    "        case $command in\n"
    "        info|completion|doctor|version) ;;\n"
    "        *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
    "        esac\n"
    "    fi\n"
    "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
    "}\n"
    "complete -F _serried serried\n";

int sr_cmd_completion(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "bash") == 0) {
        fputs(bash_script, stdout);
        return 0;
    }
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    fputs("usage: serried completion bash\n"
          "Print a completion script; to use it: source <(serried completion bash)\n",
          help ? stdout : stderr);
    return help ? 0 : 2;
}
