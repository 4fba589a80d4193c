#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The line of tests/LONG.md for one part of the long suite.

    tests/note_long.py FOLDER PART REGEX COMMIT SECONDS SIGNAL

FOLDER contains the results (tests/sum_results.py); REGEX is empty if the whole part ran, SIGNAL if
nothing interrupted it. Columns: date, part, commit, seconds, what was run, counts, seed, remarks.
"""
import datetime
import sys

import sum_results

NAMES_MAX = 8  # as many tests are named, more are counted


def short(name):
    return name.partition(": ")[2]


def describe_run(results):
    """The tests, with their numbers of cases where they count them."""
    names = dict.fromkeys(results.passed + results.failed + [name for name, _ in results.not_run])
    if not 0 < len(names) <= NAMES_MAX:
        return f"{len(names)} tests"
    return ", ".join(short(name) + (f" ({results.cases[name]} cases)" if name in results.cases else "") for name in names)


def list_not_run(not_run):
    """Each reason once, with the tests and the cases that it kept from running."""
    by_reason = {}
    for name, text in not_run:
        *what, reason = text.split(": ")
        tests, whats = by_reason.setdefault(reason, ({}, {}))
        tests[short(name)] = True
        whats.update(dict.fromkeys(what[-1:]))
    return [f"not run: {reason} ({': '.join(', '.join(group) for group in groups if group)})"
            for reason, groups in by_reason.items()]


def list_remarks(results, signal):
    """What failed and what was not run."""
    remarks = [f"interrupted by SIG{signal}"] if signal else []
    remarks += [f"failed: {', '.join(short(name) for name in results.failed)}"] if results.failed else []
    return remarks + list_not_run(results.not_run)


def main():
    folder, part, regex, commit, seconds, signal = sys.argv[1:]
    results = sum_results.Results()
    results.add_folder(folder)
    cells = [datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
             part + (f" -R '{regex}'" if regex else ""), commit, f"{seconds} s", describe_run(results),
             results.counts(), " ".join(sorted(results.seeds)), "; ".join(list_remarks(results, signal))]
    print("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |")


if __name__ == "__main__":
    main()
