#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the JUnit files of ctest and one-line results of other checks.

    tests/sum_results.py FOLDER...

A folder contains PART.xml (ctest --output-junit), or if ctest was interrupted PART.ctest (what it
printed); PART.program (what a program printed) and PART.result (lines "passed WHAT", "failed WHAT" or
"skipped WHAT"). Prints what failed and what was not run, then "N passed, N failed, N not run"; exits
with 1 if something failed or nothing passed.

Not run are: a test that exits with its code for that, a case of a cmocka program that calls skip(), and
every line "NOT RUN: what", also of tests that otherwise pass or fail.
Tested by tests/sum_results_selftest.py.
"""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

NOT_RUN = re.compile(r"^\W*NOT RUN\b:?\s*(.*)")
CASE_BEGINS = re.compile(r"^\[ RUN      \] (\S+)")
CASE_SKIPPED = re.compile(r"^\[  SKIPPED \] (\S+)$")
CASE_ENDS = re.compile(r"^\[(?:       OK|  FAILED ) \] (\S+)$")
SEED = re.compile(r"^seed (\d+)$", re.M)
CASES = re.compile(r"^(\d+) cases, \d+ failed", re.M)
# "3/110 Test  #5: test_x ......   Passed    0.03 sec"
CTEST_LINE = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*(\**)(.*?) +[\d.]+ sec", re.M)


def list_not_run(output):
    """What a test's output lists as not run. The reasons that a skipped case prints replace its name."""
    found, case, reasons = [], None, []
    for line in output.splitlines():
        begins, skipped = CASE_BEGINS.match(line), CASE_SKIPPED.match(line)
        reason = NOT_RUN.match(line)
        if begins:
            case, reasons = begins.group(1), []
        elif reason:
            reasons.append(reason.group(1).strip())
        elif skipped and skipped.group(1) == case:  # cmocka lists them again at the end
            found.append(f"{case}: {'; '.join(reasons) or 'no reason given'}")
            case, reasons = None, []
        elif CASE_ENDS.match(line):
            found += [f"{case}: {reason}" for reason in reasons]
            case, reasons = None, []
        if case is None:
            found += reasons
            reasons = []
    return found + reasons


class Results:
    """Names of what passed and failed, (name, reason) of what was not run, seeds, and cases by name."""

    def __init__(self):
        self.passed, self.failed, self.not_run = [], [], []
        self.seeds, self.cases = set(), {}

    def add_output(self, name, output):
        self.not_run += [(name, reason) for reason in list_not_run(output)]
        self.seeds.update(SEED.findall(output))
        self.cases.update({name: count for count in CASES.findall(output)})

    def add_skipped(self, name, output):
        """A test that was skipped as a whole, for the reasons that it prints."""
        before = len(self.not_run)
        self.add_output(name, output)
        if len(self.not_run) == before:
            self.not_run.append((name, "no reason given"))

    def add_junit(self, part, path):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            name, status = f"{part}: {case.get('name')}", case.get("status")
            output = case.findtext("system-out") or ""
            skipped = case.find("skipped")
            # ctest counts a missing program as "not run"; here it is a failure.
            if skipped is not None and "SKIP" in (skipped.get("message") or ""):
                self.add_skipped(name, output)
            elif status == "disabled":
                self.not_run.append((name, "disabled"))
            else:
                (self.passed if status == "run" else self.failed).append(name)
                self.add_output(name, output)

    def add_printed(self, part, path):
        """The printed output of an interrupted ctest, which contains no output of tests that passed."""
        for name, stars, outcome in CTEST_LINE.findall(read(path)):
            name, outcome = f"{part}: {name}", outcome.strip()
            if outcome == "Passed":
                self.passed.append(name)
            elif stars == "***" and outcome == "Skipped":
                self.not_run.append((name, "no reason given"))
            else:
                self.failed.append(name)

    def add_result(self, part, path):
        for line in read(path).splitlines():
            kind, _, what = line.partition(" ")
            if kind == "skipped":
                if not any(name.startswith(part + ":") for name, _ in self.not_run):
                    self.not_run.append((f"{part}: {what}", "no reason given"))
            else:
                {"passed": self.passed, "failed": self.failed}[kind].append(f"{part}: {what}")

    def add_folder(self, folder):
        entries = sorted(os.listdir(folder))
        for entry in entries:
            part, kind = os.path.splitext(entry)
            path = os.path.join(folder, entry)
            if kind == ".xml":
                self.add_junit(part, path)
            elif kind == ".ctest" and part + ".xml" not in entries:
                self.add_printed(part, path)
            elif kind == ".program":
                self.add_output(f"{part}: {part}", read(path))
            elif kind == ".result":
                self.add_result(part, path)

    def counts(self):
        return f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.not_run)} not run"


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def main():
    results = Results()
    for folder in sys.argv[1:]:
        results.add_folder(folder)
    for name in results.failed:
        print(f"FAILED   {name}")
    for name, reason in results.not_run:
        print(f"NOT RUN  {name}: {reason}")
    print(results.counts())
    return 1 if results.failed or not results.passed else 0


if __name__ == "__main__":
    sys.exit(main())
