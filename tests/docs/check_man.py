#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command has a man page with every option and line of its --help, which groff formats without a warning.

check_man.py COMMAND FOLDER
"""
import os
import re
import shutil
import subprocess
import sys


def output(*line):
    return subprocess.run(line, check=True, text=True, capture_output=True).stdout


def words(text):
    """The text without the line breaks, hyphenation and quotes that typesetting changes."""
    text = re.sub(r"(?m)^ *(usage|or): *", " ", text, flags=re.I)
    return re.sub(r"\s+", " ", text)


def plain(page):
    """The text of a page in the subset of roff that our pages use."""
    lines = [re.sub(r"^\.BR ", "", line) for line in page.splitlines()]
    return "\n".join(line for line in lines if not line.startswith(".")).replace("\\&", "").replace("\\-", "-") \
        .replace("\\e", "\\")


def findings_of(name, text, page):
    """Lines of the help that the page lacks, and options without an entry."""
    have = words(plain(page))
    missing = [line for line in text.splitlines()
               if not all(part in have for part in re.split(r" {2,}", words(line.strip()).strip()))
               and not all(part in have for part in re.split(r" {3,}", line.strip()))]
    options = re.findall(r"^ {2,}(-.*?)(?: {3,}|$)", text, re.M)
    missing += [option for option in options if f".TP\n{option.replace('-', chr(92) + '-')}\n" not in page]
    return [f"{name}: no '{line}'" for line in missing]


def main():
    command, folder = sys.argv[1:]
    findings, names = [], [line.split()[0] for line in output(command, "info", "commands").splitlines()]
    groff = shutil.which("groff")
    if not groff:
        print("NOT RUN: groff is not installed, so only the words are checked")
    convert = os.path.join(os.path.dirname(command), "serried-convert")
    for name in ["", *names, "convert"]:
        path = os.path.join(folder, f"serried-{name}.1" if name else "serried.1")
        text = output(convert, "--help") if name == "convert" else output(command, *([name] if name else []), "--help")
        with open(path, encoding="utf-8") as file:
            findings += findings_of(os.path.basename(path), text, file.read())
        if groff:
            done = subprocess.run([groff, "-man", "-Tutf8", "-ww", "-z", path], text=True, capture_output=True,
                                  check=False)
            findings += done.stderr.splitlines()
    broken = findings_of("selftest", "Usage: x\n  -a, --all    all of it\n", ".SH OPTIONS\nall of it\n")
    if len(broken) < 2:
        findings.append(f"a page without an option passes: {broken}")
    print("\n".join(findings + [f"{len(names) + 2} pages, {len(findings)} findings"]))
    return 1 if findings or len(names) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
