#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests/run counts: results of every kind, each with the expected sum; and the lines that its long suite writes for
parts that pass, fail, do not run and are interrupted, by tests/run itself with test parts.

  sum_results_selftest.py [BUILD]    with BUILD also: every long test of that build is in one part
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "dist"))
import suite  # noqa: E402

CMOCKA = """[==========] Running 5 test(s).
[ RUN      ] with_reason
NOT RUN: no such disk
[  SKIPPED ] with_reason
[ RUN      ] in_part
NOT RUN: half of it
[       OK ] in_part
[ RUN      ] bare
[  SKIPPED ] bare
[ RUN      ] wrong
NOT RUN: a third
[  FAILED  ] wrong
[ RUN      ] last
[       OK ] last
[==========] 5 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] with_reason
[  SKIPPED ] bare

 2 SKIPPED TEST(S)
"""


def junit(*cases):
    """(name, status, skip message, output) of each."""
    rows = [f'<testcase name="{name}" status="{status}">' + (f'<skipped message="{skip}"/>' if skip else "") +
            f"<system-out>{output}</system-out></testcase>" for name, status, skip, output in cases]
    return "<testsuite>" + "".join(rows) + "</testsuite>"


# name: files, closing line, words before it
SUMS = {
    "passes": ({"a.xml": junit(("x", "run", "", "fine"))}, "1 passed, 0 failed, 0 not run", []),
    "cases of cmocka": ({"a.xml": junit(("x", "run", "", CMOCKA))}, "1 passed, 0 failed, 4 not run",
                        ["a: x: with_reason: no such disk", "a: x: in_part: half of it",
                         "a: x: bare: no reason given", "a: x: wrong: a third"]),
    "of a failure": ({"a.xml": junit(("x", "fail", "", CMOCKA))}, "0 passed, 1 failed, 4 not run", ["FAILED   a: x"]),
    "lines": ({"a.xml": junit(("x", "run", "", "ok this\n   NOT RUN: that: no root\nNOT RUN without a colon\nok"))},
              "1 passed, 0 failed, 2 not run", ["that: no root", "without a colon"]),
    "no lines": ({"a.xml": junit(("x", "run", "", "it says NOT RUN in a sentence"))}, "1 passed, 0 failed, 0 not run", []),
    "skipped as a whole": ({"a.xml": junit(("x", "notrun", "SKIP_RETURN_CODE=77", "NOT RUN: no GPU"),
                                           ("y", "notrun", "SKIP_RETURN_CODE=77", ""), ("z", "run", "", ""))},
                           "1 passed, 0 failed, 2 not run", ["a: x: no GPU", "a: y: no reason given"]),
    "a missing program fails": ({"a.xml": junit(("x", "notrun", "Unable to find executable", ""))},
                                "0 passed, 1 failed, 0 not run", []),
    "disabled": ({"a.xml": junit(("x", "disabled", "", ""), ("y", "run", "", ""))}, "1 passed, 0 failed, 1 not run", []),
    "other checks": ({"a.result": "passed tidy\nfailed build\n"}, "1 passed, 1 failed, 0 not run", ["FAILED   a: build"]),
    "a program": ({"p.program": "seed 5\nNOT RUN: two of three\n", "p.result": "passed p\n"},
                  "1 passed, 0 failed, 1 not run", ["p: p: two of three"]),
    "a skipped program": ({"p.program": "NOT RUN: no GPU\n", "p.result": "skipped p\n", "q.program": "",
                           "q.result": "skipped q\n"}, "0 passed, 0 failed, 2 not run", ["no GPU", "no reason given"]),
    "interrupted": ({"a.ctest": "    Start 1: x\n 1/4 Test  #1: x ......   Passed    0.03 sec\n"
                                " 2/4 Test  #7: y ......***Failed    0.03 sec\n"
                                " 3/4 Test #10: z ......***Skipped   0.03 sec\n    Start 11: w\n"},
                    "1 passed, 1 failed, 1 not run", ["FAILED   a: y", "a: z: no reason given"]),
    "nothing": ({}, "0 passed, 0 failed, 0 not run", []),
}

PARTS = """# name minutes build command
good      1 -  sh -c 'echo seed $SERRIED_TEST_SEED; echo 5 cases, 0 failed' # passes
bad       1 -  sh -c 'echo NOT RUN: one thing; exit 3'            # fails
absent    1 -  sh -c 'echo "NOT RUN: case: file: no | disk"; echo "NOT RUN: other: no | disk"; exit 77' # cannot run
chosen    1 -  sh -c 'test "$1 $2" = "-R x"' sh                # takes -R
endless   1 -  sh -c 'trap "" HUP; touch began; sleep 100; true'  # is interrupted
"""


class Checks:
    def __init__(self):
        self.count = self.failed = 0

    def report(self, good, what, detail):
        self.count += 1
        self.failed += not good
        if not good:
            print(f"FAILED  {what}: {detail}")

    def sums(self):
        for name, (files, closing, words) in SUMS.items():
            with tempfile.TemporaryDirectory() as folder:
                for file, text in files.items():
                    with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                        out.write(text)
                done = subprocess.run([os.path.join(HERE, "sum_results.py"), folder], capture_output=True, text=True,
                                      check=False)
            want = 0 if re.match("[1-9].* 0 failed", closing) else 1
            good = done.stdout.splitlines()[-1:] == [closing] and all(word in done.stdout for word in words)
            self.report(good and done.returncode == want, name, f"{done.returncode}: {done.stdout}{done.stderr}")

    def reports(self):
        """What tests/dist/suite.py finds in a folder with a report, a data process that a sanitizer ended, and other files."""
        text = {"sanitizer.12": "ERROR: heap-buffer-overflow", "run/log/rank-0.txt": "all is well",
                "run/log.txt": f"data reader 0 died (exit code {suite.SANITIZER_CODE}) at its start; replaced",
                "run/log.jsonl": f"died (exit code {suite.SANITIZER_CODE})", "other/log.txt": "died (signal 9"}
        with tempfile.TemporaryDirectory() as folder:
            for name, words in text.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(words)
            found = sorted(report.partition(":")[0] for report in suite.find_reports(folder))
        self.report(found == ["log.txt", "sanitizer.12"], "reports of sanitizers", str(found))

    # -- tests/run --long with test parts -------------------------------------------------------------

    def tree(self, root):
        os.makedirs(os.path.join(root, "tests"))
        for name in ("run", "sum_results.py", "note_long.py"):
            shutil.copy(os.path.join(HERE, name), os.path.join(root, "tests"))
        with open(os.path.join(root, "tests", "long-parts"), "w", encoding="utf-8") as file:
            file.write(PARTS)
        git = ["git", "-C", root, "-c", "user.name=x", "-c", "user.email=x"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
            subprocess.run([*git, *words], check=True, env=dict(os.environ, GIT_CONFIG_COUNT="0"))
        return subprocess.run([*git, "rev-parse", "--short=7", "HEAD"], check=True, capture_output=True,
                              text=True).stdout.strip()

    def line(self, root, number, want):
        """The line of that number in LONG.md, as a pattern without date and seconds."""
        with open(os.path.join(root, "tests", "LONG.md"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        whole = r"\| \d{4}-\d\d-\d\d \| PART \| COMMIT \| \d+ s \| REST \|"
        part, commit, rest = want
        whole = whole.replace("PART", re.escape(part)).replace("COMMIT", re.escape(commit)).replace("REST", rest)
        found = lines[number] if number < len(lines) else None
        self.report(found is not None and re.fullmatch(whole, found), f"line of {part}", f"{found}, wanted {want}")

    def run_long(self, root, *words):
        return subprocess.run([os.path.join(root, "tests", "run"), "--no-install", "--long", *words], check=False,
                              capture_output=True, text=True, timeout=60)

    def interrupted(self, root, number):
        job = subprocess.Popen([os.path.join(root, "tests", "run"), "--no-install", "--long", "endless", "good"],
                               stdout=subprocess.PIPE, text=True)
        end = time.monotonic() + 30
        while not os.path.exists(os.path.join(root, "began")) and time.monotonic() < end:
            time.sleep(0.01)
        job.send_signal(number)
        output = job.communicate(timeout=30)[0]
        self.report(job.returncode == 1, f"ends after {number.name}", f"{job.returncode}: {output}")
        os.remove(os.path.join(root, "began"))

    def long_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "tree")
            commit = self.tree(root)
            done = self.run_long(root, "good", "bad", "absent", "--seed", "77")
            closing = done.stdout.splitlines()[-1:]
            self.report(closing == ["1 passed, 1 failed, 3 not run"] and done.returncode == 1, "three parts", done.stdout)
            self.line(root, 0, ("good", commit, r"good \(5 cases\) \| 1 passed, 0 failed, 0 not run \| 77 \| "))
            self.line(root, 1, ("bad", commit, r"bad \| 0 passed, 1 failed, 1 not run \|  \| "
                                r"failed: bad; not run: one thing \(bad\)"))
            self.line(root, 2, ("absent", commit, r"absent \| 0 passed, 0 failed, 2 not run \|  \| "
                                r"not run: no \\\| disk \(absent: file, other\)"))
            with open(os.path.join(root, "tests", "run"), "a", encoding="utf-8") as file:
                file.write("#\n")
            done = self.run_long(root, "good")
            self.report(done.returncode == 0, "a part that passes", done.stdout)
            self.line(root, 3, ("good", commit + " dirty", r"good \(5 cases\) \| 1 passed, 0 failed, 0 not run \| \d+ \| "))
            for row, number in enumerate((signal.SIGINT, signal.SIGTERM), 4):
                self.interrupted(root, number)
                self.line(root, row, ("endless", commit + " dirty",
                                      rf"0 tests \| 0 passed, 0 failed, 0 not run \|  \| interrupted by {number.name}"))
            self.run_long(root, "chosen", "-R", "x")
            self.line(root, 6, ("chosen -R 'x'", commit + " dirty", r"chosen \| 1 passed, 0 failed, 0 not run \|  \| "))
            refused = [self.run_long(root, *words).returncode for words in (["none"], ["good", "--seed", "x"], ["-R"])]
            self.report(refused == [2, 2, 2], "wrong words", str(refused))

    # -- the parts of a real build -------------------------------------------------------------------

    def parts(self, build):
        """Every long test belongs to one part, and every part of this kind has tests."""
        listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True,
                                check=True)
        labels = {test["name"]: [label for prop in test["properties"] if prop["name"] == "LABELS"
                                 for label in prop["value"]] for test in json.loads(listed.stdout)["tests"]}
        with open(os.path.join(HERE, "long-parts"), encoding="utf-8") as file:
            rows = [line.split(None, 3) for line in file if line.strip() and line[0] != "#"]
        wanted = [match.group(1) for row in rows if row[2] == "release" and
                  (match := re.match(r"tests -L ([\w-]+)\s", row[3]))]
        for name, of_test in labels.items():
            if not {"short", "dist"} & set(of_test):
                found = [label for label in of_test if label in wanted]
                self.report(len(found) == 1, f"{name} is in one part", f"{of_test}: {found}")
        for label in wanted:
            self.report(any(label in of_test for of_test in labels.values()), f"part {label}", "it has no tests")
        for row in rows:
            self.report(int(row[1]) <= 60, f"{row[0]} takes an hour at most", f"{row[1]} minutes")


def main():
    checks = Checks()
    checks.sums()
    checks.reports()
    checks.long_lines()
    if len(sys.argv) > 1:
        checks.parts(sys.argv[1])
    print(f"{checks.count} cases, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
