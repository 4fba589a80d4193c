#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every way to fail ends, on one and on two ranks, with one clear message and the right exit code.

  check_failures.py SERRIED RECIPE
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def environment():
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                SERRIED_THREADS="1")


class Suite:
    def __init__(self, serried, recipe, folder):
        self.serried, self.recipe, self.folder = serried, recipe, folder
        self.data = os.path.join(folder, "data")
        self.count = self.failed = 0

    def prepare(self):
        pictures = os.path.join(self.folder, "pictures")
        for line in ([self.serried, "render", pictures, "--count", "20"],
                     [self.serried, "pack", pictures, self.data, "--val-fraction", "0.2"]):
            subprocess.run(line, check=True, capture_output=True)
        shutil.rmtree(pictures)

    def run_folder(self, name, ranks):
        return os.path.join(self.folder, f"{name}-{ranks}".replace(" ", "-"))

    def line(self, name, ranks, values, data=None):
        line = [self.serried, "train", self.recipe, "-o", self.run_folder(name, ranks),
                "data.train=" + (data or self.data), *values]
        if ranks > 1:
            line = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca",
                    "mpi_yield_when_idle", "1", *line]
        return line

    def report(self, good, what, detail):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'FAILED':7} {what}{'' if good else ': ' + detail}", flush=True)

    def expect(self, name, ranks, code, words, values=(), data=None):
        """One message on stderr that has the words, once; this exit code; within the time."""
        try:
            done = subprocess.run(self.line(name, ranks, values, data), env=environment(), text=True,
                                  capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            self.report(False, f"{name}, {ranks} ranks", "hangs")
            return
        errors = [line for line in done.stderr.splitlines() if "error" in line and words in line]
        good = done.returncode == code and len(errors) == 1
        self.report(good, f"{name}, {ranks} ranks",
                    f"exit code {done.returncode}, {len(errors)} lines with '{words}':\n{done.stderr[-1500:]}")

    def damaged(self, name, change):
        data = os.path.join(self.folder, "damaged-" + name)
        shutil.copytree(self.data, data)
        shard = os.path.join(data, "train-00000.kpl")
        with open(shard, "r+b") as file:
            content = bytearray(file.read())
            content = change(content)
            file.seek(0)
            file.truncate()
            file.write(content)
        return data

    def interrupt(self, ranks):
        """Ctrl-C writes a checkpoint, code 75; the same command ends at the undisturbed digest."""
        values = ["steps=60", "checkpoint.every=[1000it]"]
        whole = subprocess.run(self.line("whole", ranks, values), env=environment(), capture_output=True,
                               timeout=100, check=False)
        job = subprocess.Popen(self.line("stopped", ranks, values), env=environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        metrics = os.path.join(self.run_folder("stopped", ranks), "log.txt")
        end = time.monotonic() + 60
        while time.monotonic() < end and job.poll() is None and not os.path.exists(metrics):
            time.sleep(0.005)
        time.sleep(0.15)
        job.send_signal(signal.SIGINT if ranks == 1 else signal.SIGUSR1)
        _, errors = job.communicate(timeout=60)
        stopped = job.returncode
        again = subprocess.run(self.line("stopped", ranks, values), env=environment(), capture_output=True,
                               timeout=100, check=False)
        digests = []
        for name in ("whole", "stopped"):
            with open(os.path.join(self.run_folder(name, ranks), "exit.json"), encoding="utf-8") as file:
                digests.append(json.load(file)["digest"])
        good = (whole.returncode == 0 and stopped == 75 and again.returncode == 0 and
                digests[0] == digests[1])
        self.report(good, f"interrupted and resumed, {ranks} ranks",
                    f"codes {whole.returncode} {stopped} {again.returncode}, digests {digests}\n{errors[-800:]}")

    def all(self, ranks):
        self.expect("unknown key", ranks, 2, "did you mean 'optimizer'", ["optimzier.lr=1"])
        self.expect("wrong type", ranks, 2, "batch", ["batch=many"])
        self.expect("unknown model", ranks, 2, "did you mean 'resnet50'", ["model=resnet5O"])
        self.expect("missing data", ranks, 2, "does not exist", data="/nowhere/data")
        self.expect("unpacked folder", ranks, 2, "serried pack", data=os.path.dirname(self.recipe))
        self.expect("indivisible batch", ranks, 2, "equal lanes", ["batch=63"])
        self.expect("not finite", ranks, 5, "not finite", ["optimizer.lr=1e6", "steps=20"])
        middle = lambda c: c[:len(c) // 2] + bytes([c[len(c) // 2] ^ 4]) + c[len(c) // 2 + 1:]
        self.expect("flipped bit", ranks, 3, "train-00000.kpl", data=self.damaged(f"bit{ranks}", middle))
        self.expect("cut shard", ranks, 3, "train-00000.kpl",
                    data=self.damaged(f"cut{ranks}", lambda c: c[:len(c) * 2 // 3]))
        self.interrupt(ranks)


def main():
    serried, recipe = (os.path.abspath(path) for path in sys.argv[1:3])
    if shutil.which("mpirun") is None:
        print("NOT RUN: mpirun is not installed")
        return 77
    with tempfile.TemporaryDirectory(prefix="serried-failures-") as folder:
        suite = Suite(serried, recipe, folder)
        suite.prepare()
        for ranks in (1, 2):
            suite.all(ranks)
        suite.expect("more ranks than lanes", 3, 2, "at most 2 ranks", ["lanes=2"])
    print(f"{suite.count} cases, {suite.failed} failed")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
