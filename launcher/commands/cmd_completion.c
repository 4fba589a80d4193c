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
#define MODELS "info models 2>/dev/null | grep -oE '^[a-z][^ ]*'"

// 'sub' is a sub-command that was entered, 'kind' what may follow at 'place' and behind it.
static const char bash_head[] =
    "# bash completion of serried; to use it: source <(serried completion bash)\n"
    "_serried() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} program=${COMP_WORDS[0]}\n"
    "    local kind= place=2 subs= sub= words=\n"
    "    COMPREPLY=()\n"
    "    case $command in\n";

static const char bash_middle[] = "    esac\n"
                                  "    if [ -n \"$subs\" ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n"
                                  "        sub=${COMP_WORDS[2]} place=3\n"
                                  "    fi\n"
                                  "    case \"$command $sub\" in\n";

static const char bash_tail[] =
    "    esac\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        words=$($program " COMMANDS " | cut -d' ' -f1)\n"
    "    elif [[ $word == -* ]]; then\n"
    "        words=$($program \"$command\" $sub " OPTIONS ")\n"
    "    elif [ \"$kind\" = file ]; then\n"
    "        compopt -o filenames\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "    elif [ -n \"$kind\" ] && [ \"$COMP_CWORD\" -eq \"$place\" ]; then\n"
    "        words=$($program " RECIPES ")\n"
    "        [ \"$kind\" = recipe ] || words+=\" $($program " MODELS ")\"\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "    elif [ -n \"$kind\" ]; then\n"
    "        words=$($program " KEYS ")\n"
    "        compopt -o nospace\n"
    "    elif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
    "        words=$subs\n"
    "    fi\n"
    "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
    "}\n"
    "complete -F _serried serried\n";

static const char zsh_head[] =
    "#compdef serried\n"
    "# zsh completion of serried; to use it: source <(serried completion zsh)\n"
    "_serried() {\n"
    "    local program=$words[1] command=$words[2] kind= place=3 subs= sub=\n"
    "    local -a list\n"
    "    case $command in\n";

static const char zsh_middle[] = "    esac\n"
                                 "    if [[ -n $subs ]] && (( CURRENT > 3 )); then\n"
                                 "        sub=$words[3] place=4\n"
                                 "    fi\n"
                                 "    case \"$command $sub\" in\n";

static const char zsh_tail[] =
    "    esac\n"
    "    if (( CURRENT == 2 )); then\n"
    "        list=(${(f)\"$($program " COMMANDS " | sed 's/  */:/')\"})\n"
    "        _describe command list\n"
    "    elif [[ $words[CURRENT] == -* ]]; then\n"
    "        compadd -- ${(f)\"$($program $command $sub " OPTIONS ")\"}\n"
    "    elif [[ $kind == file ]]; then\n"
    "        _files\n"
    "    elif [[ -n $kind && $CURRENT -eq $place ]]; then\n"
    "        compadd -- ${(f)\"$($program " RECIPES ")\"}\n"
    "        [[ $kind == recipe ]] || compadd -- ${(f)\"$($program " MODELS ")\"}\n"
    "        _files\n"
    "    elif [[ -n $kind ]]; then\n"
    "        compadd -S '' -- ${(f)\"$($program " KEYS ")\"}\n"
    "    elif (( CURRENT == 3 )); then\n"
    "        compadd -- ${=subs}\n"
    "    fi\n"
    "}\n"
    "if [[ $funcstack[1] == _serried ]]; then\n" // loaded by name, as an installed file
    "    _serried \"$@\"\n"
    "else\n"
    "    compdef _serried serried\n"
    "fi\n";

// __serried_at COMMAND SUB WHERE: the words before the cursor begin with these (SUB "": with
// COMMAND), and WHERE is first: no other word follows, more: others follow, or any.
static const char fish_text[] =
    "# fish completion of serried; to use it: serried completion fish | source\n"
    "function __serried_at\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -ge 2; and test $words[2] = $argv[1]; or return 1\n"
    "    set -l place 2\n"
    "    if test -n \"$argv[2]\"\n"
    "        test (count $words) -ge 3; and test $words[3] = $argv[2]; or return 1\n"
    "        set place 3\n"
    "    end\n"
    "    switch $argv[3]\n"
    "        case first\n"
    "            test (count $words) -eq $place\n"
    "        case more\n"
    "            test (count $words) -gt $place\n"
    "    end\n"
    "end\n"
    "function __serried_options\n"
    "    set -l words (commandline -opc)\n"
    "    $words[1] $words[2] (string match -rv '^-' -- $words[3]) " OPTIONS "\n"
    "end\n"
    "complete -c serried -f\n"
    "complete -c serried -n 'test (count (commandline -opc)) -eq 1' "
    "-a \"(serried " COMMANDS " | string replace -r ' +' \\t)\"\n"
    "complete -c serried -n 'string match -q -- \"-*\" (commandline -ct)' "
    "-a '(__serried_options)'\n";

// ---- What may follow a command ----

// A word of sr_command.words and the kind behind it; length 0: a kind alone.
typedef struct word {
    const char *name, *kind;
    int length, kind_length;
} word;

// Takes the next word from *text.
static bool next_word(const char **text, word *out) {
    const char *name = *text + strspn(*text, " ");
    *out = (word){.name = name, .length = (int)strcspn(name, " <")};
    name += out->length;
    if (*name == '<') {
        out->kind = name + 1;
        out->kind_length = (int)strcspn(out->kind, ">");
        name = out->kind + out->kind_length + 1;
    }
    *text = name;
    return out->length + out->kind_length > 0;
}

static void print_words(const char *words) {
    word w;
    for (const char *gap = ""; next_word(&words, &w); gap = " ")
        (void)printf("%s%.*s", gap, w.length, w.name);
}

// Calls print for each command that takes arguments.
static void each_command(void (*print)(const char *name, const char *words)) {
    size_t count;
    const sr_command *commands = sr_commands(&count);
    for (size_t i = 0; i < count; i++)
        if (commands[i].name && *commands[i].words)
            print(commands[i].name, commands[i].words);
}

static void print_subs(const char *name, const char *words) {
    if (*words == '<')
        return;
    (void)printf("    %s) subs='", name);
    print_words(words);
    (void)printf("' ;;\n");
}

static void print_kinds(const char *name, const char *words) {
    word w;
    while (next_word(&words, &w))
        if (w.kind)
            (void)printf("    '%s %.*s') kind=%.*s ;;\n", name, w.length, w.name, w.kind_length,
                         w.kind);
}

static void print_fish_kind(const char *name, const word *w) {
    const bool file = *w->kind == 'f', model = *w->kind == 'm';
    (void)printf("complete -c serried -n '__serried_at %s \"%.*s\" %s' -F%s%s%s\n", name, w->length,
                 w->name, file ? "any" : "first", file ? "" : " -a \"(serried " RECIPES,
                 model ? "; serried " MODELS : "", file ? "" : ")\"");
    if (!file)
        (void)printf("complete -c serried -n '__serried_at %s \"%.*s\" more' -a \"(serried %s)\"\n",
                     name, w->length, w->name, KEYS);
}

static void print_fish_rules(const char *name, const char *words) {
    word w;
    if (*words != '<') {
        (void)printf("complete -c serried -n '__serried_at %s \"\" first' -a '", name);
        print_words(words);
        (void)printf("'\n");
    }
    while (next_word(&words, &w))
        if (w.kind)
            print_fish_kind(name, &w);
}

static void print_bash(void) {
    (void)fputs(bash_head, stdout);
    each_command(print_subs);
    (void)fputs(bash_middle, stdout);
    each_command(print_kinds);
    (void)fputs(bash_tail, stdout);
}

static void print_zsh(void) {
    (void)fputs(zsh_head, stdout);
    each_command(print_subs);
    (void)fputs(zsh_middle, stdout);
    each_command(print_kinds);
    (void)fputs(zsh_tail, stdout);
}

static void print_fish(void) {
    (void)fputs(fish_text, stdout);
    each_command(print_fish_rules);
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
