# SPDX-License-Identifier: Apache-2.0
"""What the checks of the real command share: the environment, a data set of rendered pictures, counting."""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time


SLOW = 5 if "ASAN_OPTIONS" in os.environ else 1  # factor for time limits
SANITIZER_CODE = 99  # exit code of a process that a sanitizer ends (cmake/testing.cmake)


def environment(**more):
    """The environment of a rank with one thread, which may run as root, as in a container."""
    return dict(os.environ, **{"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                               "SERRIED_THREADS": "1", **more})


def under_mpirun(ranks, line):
    """The line on this many ranks, which may exceed the number of cores."""
    if ranks == 1:
        return line
    return ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle",
            "1", *line]


def new_seed():
    """The seed of the long suite (tests/run --seed), otherwise a new one; to be printed by show_seed."""
    return int(os.environ.get("SERRIED_TEST_SEED") or random.SystemRandom().randrange(10**9))


def show_seed(seed):
    """Prints the seed on its own line, from which tests/LONG.md gets it; returns a generator that starts from it."""
    print(f"seed {seed}", flush=True)
    return random.Random(seed)


def not_run(what):
    """Prints what cannot be tested here, and why; tests/run counts it and repeats it in its last lines."""
    print(f"NOT RUN: {what}", flush=True)


class Suite:
    def __init__(self, serried, folder):
        self.serried, self.folder = serried, folder
        self.data = os.path.join(folder, "data")
        self.count = self.failed = 0

    def prepare(self, count):
        """Packs this many pictures of each of ten classes, a fifth of them held out."""
        subprocess.run([self.serried, "render", os.path.join(self.folder, "pictures"), "--count", str(count)],
                       check=True, capture_output=True)
        self.pack_pictures(self.data)

    def pack_pictures(self, data, *options):
        """Packs these pictures, squares of 48 to 64 pixels, with further options."""
        subprocess.run([self.serried, "pack", os.path.join(self.folder, "pictures"), data, "--val-fraction", "0.2", *options],
                       check=True, capture_output=True)

    def report(self, good, what, detail):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'FAILED':7} {what}{'' if good else ': ' + detail}", flush=True)


def keep_reports(folder):
    """In a build with sanitizers, writes their reports to files: stderr of a dying process may be lost."""
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            os.environ[name] += f":log_path={folder}/sanitizer"


def find_reports(folder):
    """Reports of sanitizers; and of data processes, which cannot open a file, those that a sanitizer ended."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not name.startswith("sanitizer.") and (not name.startswith("log") or name.endswith(".jsonl")):
                continue
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if name.startswith("sanitizer.") or f"died (exit code {SANITIZER_CODE})" in text:
                yield f"{name}: {text[:3000]}"


def run(body):
    """Calls body(folder), which returns its suite, and exits with 0 or 1; with 77 if mpirun is missing."""
    if shutil.which("mpirun") is None:
        not_run("mpirun is not installed")
        sys.exit(77)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="serried-") as folder:
        keep_reports(folder)
        try:
            suite = body(folder)
        finally:
            reports = list(find_reports(folder))
            print(*reports, sep="\n", flush=True)
        if reports:
            suite.failed += len(reports)
    print(f"{suite.count} cases, {suite.failed} failed, {time.monotonic() - begin:.0f} s")
    sys.exit(1 if suite.failed else 0)
