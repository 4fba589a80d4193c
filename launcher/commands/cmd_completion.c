// SPDX-License-Identifier: Apache-2.0
// serried completion bash|zsh|fish: completion scripts that ask the program itself for commands,
// options, recipes and keys, so that they are never out of date.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "launcher/commands/command.h"

// What the scripts run: options are taken from the help of a command, keys from serried info.
#define COMMANDS "info commands 2>/dev/null"
#define RECIPES "recipe list --names 2>/dev/null"
#define OPTIONS "--help 2>/dev/null | grep -oE -- '(^| )--?[a-zA-Z][a-z-]*' | tr -d ' ' | sort -u"
#define KEYS "info options 2>/dev/null | sed -n 's/^\\([a-z_.0-9]*\\): .*/\\1=/p' | sort -u"

static const char bash_head[] =
    "# bash completion of serried; to use it: source <(serried completion bash)\n"
    "_serried() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} program=${COMP_WORDS[0]}\n"
    "    local kind= words=\n"
    "    COMPREPLY=()\n"
    "    case $command in\n";

static const char bash_tail[] =
    "    esac\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        words=$($program " COMMANDS " | cut -d' ' -f1)\n"
    "    elif [[ $word == -* ]]; then\n"
    "        words=$($program \"$command\" " OPTIONS ")\n"
    "    elif { [ \"$kind\" = recipe ] && [ \"$COMP_CWORD\" -eq 2 ]; } ||\n"
    "        { [ \"$command\" = recipe ] && [ \"$COMP_CWORD\" -gt 2 ]; }; then\n"
    "        words=$($program " RECIPES ")\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "    elif [ \"$kind\" = recipe ]; then\n"
    "        words=$($program " KEYS ")\n"
    "        compopt -o nospace\n"
    "    elif [ \"$kind\" = file ]; then\n"
    "        compopt -o filenames\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
    "        words=$kind\n"
    "    fi\n"
    "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
    "}\n"
    "complete -F _serried serried\n";

static const char zsh_head[] =
    "#compdef serried\n"
    "# zsh completion of serried; to use it: source <(serried completion zsh)\n"
    "_serried() {\n"
    "    local program=$words[1] command=$words[2] kind=\n"
    "    local -a list\n"
    "    case $command in\n";

static const char zsh_tail[] =
    "    esac\n"
    "    if (( CURRENT == 2 )); then\n"
    "        list=(${(f)\"$($program " COMMANDS " | sed 's/  */:/')\"})\n"
    "        _describe command list\n"
    "    elif [[ $words[CURRENT] == -* ]]; then\n"
    "        compadd -- ${(f)\"$($program $command " OPTIONS ")\"}\n"
    "    elif [[ $kind == recipe && $CURRENT -eq 3 ]] ||\n"
    "        [[ $command == recipe && $CURRENT -gt 3 ]]; then\n"
    "        compadd -- ${(f)\"$($program " RECIPES ")\"}\n"
    "        _files\n"
    "    elif [[ $kind == recipe ]]; then\n"
    "        compadd -S '' -- ${(f)\"$($program " KEYS ")\"}\n"
    "    elif [[ $kind == file ]]; then\n"
    "        _files\n"
    "    elif (( CURRENT == 3 )); then\n"
    "        compadd -- ${=kind}\n"
    "    fi\n"
    "}\n"
    "if [[ $funcstack[1] == _serried ]]; then\n" // loaded by name, as an installed file
    "    _serried \"$@\"\n"
    "else\n"
    "    compdef _serried serried\n"
    "fi\n";

static const char fish_text[] =
    "# fish completion of serried; to use it: serried completion fish | source\n"
    "function __serried_is\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -ge 2; and contains -- $words[2] $argv\n"
    "end\n"
    "function __serried_options\n"
    "    set -l words (commandline -opc)\n"
    "    $words[1] $words[2] " OPTIONS "\n"
    "end\n"
    "function __serried_first\n"
    "    test (count (commandline -opc)) -eq 2\n"
    "end\n"
    "complete -c serried -f\n"
    "complete -c serried -n 'test (count (commandline -opc)) -eq 1' "
    "-a \"(serried " COMMANDS " | string replace -r ' +' \\t)\"\n"
    "complete -c serried -n 'string match -q -- \"-*\" (commandline -ct)' "
    "-a '(__serried_options)'\n";

// Calls print for each command that takes arguments.
static void each_command(void (*print)(const char *name, const char *words)) {
    size_t count;
    const sr_command *commands = sr_commands(&count);
    for (size_t i = 0; i < count; i++)
        if (commands[i].name && *commands[i].words)
            print(commands[i].name, commands[i].words);
}

// "recipe", "file", or the words themselves.
static void print_case(const char *name, const char *words) {
    const int kind = *words == '<';
    (void)printf("    %s) kind='%.*s' ;;\n", name, (int)strlen(words) - 2 * kind, words + kind);
}

static void print_fish_rule(const char *name, const char *words) {
    const bool recipe = strcmp(words, "<recipe>") == 0;
    if (strcmp(words, "<file>") == 0) {
        (void)printf("complete -c serried -n '__serried_is %s' -F\n", name);
        return;
    }
    (void)printf("complete -c serried -n '__serried_is %s; and __serried_first' %s'%s'\n", name,
                 recipe ? "-F -a " : "-a ", recipe ? "(serried " RECIPES ")" : words);
    if (recipe)
        (void)printf("complete -c serried -n '__serried_is %s; and not __serried_first' "
                     "-a \"(serried %s)\"\n",
                     name, KEYS);
}

static void print_bash(void) {
    (void)fputs(bash_head, stdout);
    each_command(print_case);
    (void)fputs(bash_tail, stdout);
}

static void print_zsh(void) {
    (void)fputs(zsh_head, stdout);
    each_command(print_case);
    (void)fputs(zsh_tail, stdout);
}

static void print_fish(void) {
    (void)fputs(fish_text, stdout);
    each_command(print_fish_rule);
    (void)fputs("complete -c serried -n '__serried_is recipe; and not __serried_first' -F "
                "-a \"(serried " RECIPES ")\"\n",
                stdout);
}

int sr_cmd_completion(int argc, char **argv) {
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; argc == 2 && i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(argv[1], shells[i].shell) == 0) {
            shells[i].print();
            return 0;
        }
    }
    const int help = argc == 2 && strcmp(argv[1], "--help") == 0;
    (void)fputs("usage: serried completion bash|zsh|fish\n"
                "Print a completion script for a shell. To use it:\n\n"
                "  source <(serried completion bash)\n"
                "  source <(serried completion zsh)\n"
                "  serried completion fish | source\n",
                help ? stdout : stderr);
    return help ? 0 : 2;
}
