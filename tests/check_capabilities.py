#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capabilities.md: every row has a state and shows it. A row that is done names a test, a part of tests/run, a command or a
file; one that is partial also says what is missing. Tests that are named exist.

  check_capabilities.py BUILD
"""
import fnmatch
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GAP = re.compile(r"\b(missing|not|no|nothing|alone|until|only)\b", re.IGNORECASE)


def tests_of(build):
    listed = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"Test +#\d+: (\S+)", listed)


def long_parts():
    with open(os.path.join(HERE, "long-parts"), encoding="utf-8") as file:
        return [line.split()[0] for line in file if line.strip() and not line.startswith("#")]


def shows(word, names):
    """Whether a word in backquotes is something that can be run or read."""
    return (bool(fnmatch.filter(names, word)) or any(name.startswith(word + "_") for name in names) or
            re.match(r"(serried|bench|tests/)\b", word) is not None or
            os.path.exists(os.path.join(os.path.dirname(HERE), word)))


def faults_of(row, names):
    number, state, shown = row[0], row[3], row[4]
    words = re.findall(r"`([^`]+)`", shown)
    if state not in ("done", "partial", "not yet"):
        yield f"row {number}: '{state}' is no state"
    if state in ("done", "partial") and not any(shows(word, names) for word in words):
        yield f"row {number} is {state} and names no test, command or file"
    if state == "partial" and not GAP.search(shown):
        yield f"row {number} is partial and does not say what is missing"
    for word in words:
        if word.startswith("test_") and "." not in word and not fnmatch.filter(names, word):
            yield f"row {number} names {word}, which does not exist"


def main():
    names = tests_of(sys.argv[1]) + long_parts()
    with open(os.path.join(HERE, "capabilities.md"), encoding="utf-8") as file:
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in file if re.match(r"\| \d", line)]
    faults = [f"row {i + 1} is missing or out of order" for i, row in enumerate(rows) if row[0] != str(i + 1)]
    faults += [f"row {row[0]} has {len(row)} cells instead of 5" for row in rows if len(row) != 5]
    if not faults:
        faults = [fault for row in rows for fault in faults_of(row, names)]
    for fault in faults:
        print(f"capabilities.md: {fault}")
    print(f"{len(rows)} rows")
    return 1 if faults or len(rows) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
