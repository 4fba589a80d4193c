#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make_man.sh COMMAND CONVERT OUT: makes man pages from the output of --help: OUT/serried.1, and OUT/serried-NAME.1
# for each command. The help itself comes from the argp tables. The page of CONVERT, a Python script whose help is its
# docstring, is made without running Python.
set -eu
command=$1 convert=$2 out=$3
mkdir -p "$out"
version=$("$command" version | head -n 1 | cut -d' ' -f2)

# Usage lines become the synopsis, lines that begin with an option the options (deeper lines continue them), text
# before them the description, text after them the notes, in which indented lines are kept as they are.
page() { # name title; help on stdin
    printf '.TH %s 1 "" "serried %s" "serried"\n.SH NAME\n%s \\- %s\n' \
        "$(echo "$1" | tr '[:lower:]' '[:upper:]')" "$version" "$1" "$2"
    awk '
        function add(section, text) {
            gsub(/\\/, "\\e", text)
            gsub(/-/, "\\-", text)
            if (text ~ /^[.\047]/)
                text = "\\&" text
            found[section] = found[section] text "\n"
        }
        function request(section, text) { found[section] = found[section] text "\n" }
        function set_raw(on) {
            if (on != raw)
                request(now, on ? ".nf" : ".fi")
            raw = on
        }
        BEGIN { now = "DESCRIPTION" }
        tolower($1) == "usage:" || $1 == "or:" {
            sub(/^ *([Uu]sage|or): */, "")
            add("SYNOPSIS", $0)
            request("SYNOPSIS", ".br")
            next
        }
        /^$/ { set_raw(0); blank = 1; next }
        /^ +-/ && now != "NOTES" {
            set_raw(0)
            now = "OPTIONS"
            sub(/^ +/, "")
            split($0, part, /   +/)
            rest = substr($0, length(part[1]) + 1)
            sub(/^ +/, "", rest)
            request(now, ".TP")
            add(now, part[1])
            if (rest != "")
                add(now, rest)
            blank = 0
            next
        }
        now == "OPTIONS" && !blank && /^          / { sub(/^ +/, ""); add(now, $0); next }
        {
            if (now == "OPTIONS")
                now = "NOTES"
            set_raw(/^ /)
            if (blank && found[now] != "")
                request(now, ".PP")
            add(now, $0)
            blank = 0
        }
        END {
            set_raw(0)
            count = split("SYNOPSIS DESCRIPTION OPTIONS NOTES", order, " ")
            for (i = 1; i <= count; i++)
                if (found[order[i]] != "")
                    printf ".SH %s\n%s", order[i], found[order[i]]
        }'
}

"$command" info commands | while read -r name title; do
    "$command" "$name" --help | page "serried-$name" "$title" >"$out/serried-$name.1"
done
sed -n '/^"""Usage:/,/^"""$/ { s/^"""//; p }' "$convert" |
    page serried-convert "convert weights between PyTorch and serried" >"$out/serried-convert.1"
{
    "$command" --help | page serried "data-parallel training of vision models"
    echo '.SH SEE ALSO'
    "$command" info commands | sed 's/^\([a-z]*\).*/.BR serried\\-\1 (1),/'
    echo '.BR serried\-convert (1)'
} >"$out/serried.1"
