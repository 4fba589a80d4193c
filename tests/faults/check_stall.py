#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file system that does not respond: half a minute does no harm, longer than the deadlines is reported and ends the job.

  check_stall.py SERRIED RECIPE

The run folder is on a small private file system that is frozen during the run, which requires root and a loop device;
NOT RUN elsewhere. Every process that writes there hangs in the kernel until it is thawed.
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
import suite  # noqa: E402
from job import Job, result_of  # noqa: E402

VALUES = ["steps=40", "checkpoint.every=[2it]"]


class Disk:
    """A mounted file system in a file; private to this process's mount namespace."""

    def __init__(self, folder):
        self.image, self.place = os.path.join(folder, "image"), os.path.join(folder, "mounted")
        os.mkdir(self.place)
        subprocess.run(["truncate", "-s", "64M", self.image], check=True)
        for line in (["mkfs.ext4", "-q", self.image], ["mount", "-o", "loop", self.image, self.place]):
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                suite.not_run(f"{' '.join(line)}: {done.stderr.strip()}")
                sys.exit(77)

    def freeze(self, seconds):
        subprocess.run(["fsfreeze", "-f", self.place], check=True)
        try:
            time.sleep(seconds)
        finally:
            subprocess.run(["fsfreeze", "-u", self.place], check=True)

    def release(self):
        subprocess.run(["umount", self.place], check=True)


class Stalls(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe

    def start(self, run, ranks, *values):
        return Job([self.serried, "train", self.recipe, "-n", str(ranks), "-o", run, f"data.train={self.data}", *VALUES,
                    *values], suite.environment())

    def stalled(self, disk, ranks, seconds, *values):
        run = os.path.join(disk.place, f"run-{ranks}-{len(values)}")
        job = self.start(run, ranks, *values)
        while not os.path.exists(os.path.join(run, "last")) and job.process.poll() is None:
            time.sleep(0.01)
        disk.freeze(seconds)
        code = job.wait(120)
        gone = job.wait_gone(5)
        return run, job, code, gone is not None and not job.left()

    def all(self, disk):
        whole = os.path.join(self.folder, "whole")
        self.start(whole, 1).wait(120)
        want = result_of(whole)
        for ranks in (1, 2):
            run, job, code, clean = self.stalled(disk, ranks, 30)
            self.report(code == 0 and clean and result_of(run) == want, f"30 s at the default deadlines, {ranks} ranks",
                        f"code {code}, {result_of(run)} instead of {want}\n{job.text()[-1500:]}")
            run, job, code, clean = self.stalled(disk, ranks, 12, "deadline.act=1s")
            text = job.text()
            self.report(code == 6 and clean and "deadline.act" in text,
                        f"longer than the deadlines, {ranks} ranks", f"code {code}, clean {clean}\n{text[-1500:]}")
            again = self.start(run, ranks, "deadline.act=1s").wait(120)
            self.report(again == 0 and result_of(run) == want, f"the same command, {ranks} ranks", f"code {again}")


def check(folder):
    tests = Stalls(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), folder)
    tests.prepare(20)
    disk = Disk(folder)
    try:
        tests.all(disk)
    finally:
        disk.release()
    return tests


if __name__ == "__main__":
    if os.geteuid() != 0:
        suite.not_run("mounting a file system requires root")
        sys.exit(77)
    if "SERRIED_OWN_MOUNTS" not in os.environ:
        os.environ["SERRIED_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    suite.run(check)
