#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the JUnit files of ctest and one-line results of other checks.

    tests/sum_results.py FOLDER

FOLDER holds PART.xml (ctest --output-junit) and PART.result (a line "passed WHAT", "failed WHAT" or
"skipped WHAT: why"). Prints what failed and what was not run, then "N passed, N failed, N skipped";
ends with 1 where something failed or nothing passed.
"""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason_of(case):
    """Why a test skipped itself: its line "NOT RUN: ..."."""
    output = case.findtext("system-out") or ""
    found = re.search(r"NOT RUN: *(.*)", output)
    return found.group(1) if found else "no reason given"


def add_ctest(part, path, counts, notes):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{part}: {case.get('name')}"
        skipped = case.find("skipped")
        status = case.get("status")
        # A missing program is "not run" to ctest, and a failure to us.
        if skipped is not None and "SKIP" in (skipped.get("message") or ""):
            counts["skipped"] += 1
            notes.append(f"NOT RUN  {name}: {reason_of(case)}")
        elif status == "run":
            counts["passed"] += 1
            for line in re.findall(r"NOT RUN: *(.*)", case.findtext("system-out") or ""):
                counts["skipped"] += 1
                notes.append(f"NOT RUN  {name}: {line}")
        elif status == "disabled":
            counts["skipped"] += 1
            notes.append(f"NOT RUN  {name}: disabled")
        else:
            counts["failed"] += 1
            notes.append(f"FAILED   {name}")


def add_line(part, line, counts, notes):
    kind, _, what = line.partition(" ")
    counts[kind] += 1
    if kind == "failed":
        notes.append(f"FAILED   {part}: {what}")
    elif kind == "skipped":
        notes.append(f"NOT RUN  {part}: {what}")


def main():
    folder = sys.argv[1]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    notes = []
    for entry in sorted(os.listdir(folder)):
        part, kind = os.path.splitext(entry)
        path = os.path.join(folder, entry)
        if kind == ".xml":
            add_ctest(part, path, counts, notes)
        elif kind == ".result":
            with open(path, encoding="utf-8") as file:
                for line in file.read().splitlines():
                    add_line(part, line, counts, notes)
    for note in notes:
        print(note)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
