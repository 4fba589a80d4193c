#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults in a running job: processes that die, hang or are stopped, in every phase.

  check_faults.py SERRIED RECIPE [--each N] [--seed N] [--only WORDS]... [--kills N]

Without options a fixed sample: every line of the table (faults.py) once. --each N tries each line N times, and lines
that kill twice as often; --kills N tries only those, N times each: at random times of the job's life, spread over the
numbers of ranks. The seed is printed and reproduces the choice of times; what a job is doing at those times depends on
the machine.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
import suite  # noqa: E402
from faults import CHECKPOINTED, ENDS_OR_GOES_ON, NAMED_AND_ENDED, NO_HARM, TABLE, kill  # noqa: E402
from job import Job, result_of  # noqa: E402

VALUES = ["steps=24", "checkpoint.every=[3it]", "deadline.act=2s", "data.memory=4MiB"]
END_SECONDS = 5  # from the fault to the end of the job, or of the stop
# A start of MPI may last SR_PATIENCE deadlines, and bare mpirun takes 2 s to end ranks that have a handler.
LATE_END_SECONDS = 15
START_ENDED = "(deadline.act) for MPI to start on all ranks: ended"
PATIENCE = 90  # for a job that continues, on a busy machine


class Faults(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe
        self.seconds = {}  # of an undisturbed run, by number of ranks and whether it evaluates a large split
        self.want = {}  # its result, by whether it evaluates a large split
        self.pack_seconds = 0

    def start(self, run, fault, ranks):
        command = [self.serried, "train", self.recipe, "-o", os.path.join(self.folder, run), f"data.train={self.data}",
                   *VALUES, *([f"data.val={self.folder}/large"] if fault.evaluating else [])]
        return Job(suite.under_mpirun(ranks, command) if fault.bare else [*command, "-n", str(ranks)],
                   suite.environment())

    def result(self, run):
        return result_of(os.path.join(self.folder, run))

    def prepare_large(self):
        pictures, large = os.path.join(self.folder, "more-pictures"), os.path.join(self.folder, "large")
        for line in ([self.serried, "render", pictures, "--count", "200"],
                     [self.serried, "pack", pictures, large, "--val-fraction", "0.5"]):
            begin = time.monotonic()
            subprocess.run(line, check=True, capture_output=True)
        self.pack_seconds = time.monotonic() - begin

    def packed(self, folder):
        """The files that a pack has written, by name."""
        files = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
        return files

    def packing(self, number, choice):
        """A pack that is ended repeatedly; the same command finally gives the same bytes."""
        out = os.path.join(self.folder, f"packed-{number}")
        line = [self.serried, "pack", os.path.join(self.folder, "more-pictures"), out, "--val-fraction", "0.5"]
        want = self.packed(os.path.join(self.folder, "large"))
        for _ in range(3):
            job = Job(line, suite.environment())
            time.sleep(choice.random() * self.pack_seconds)
            job.process.send_signal(number)
            job.wait(PATIENCE)
        job = Job(line, suite.environment())
        code = job.wait(PATIENCE)
        good = code == 0 and not job.left() and self.packed(out) == want
        self.report(good, f"{number.name} to a pack, three times", f"code {code}, {sorted(os.listdir(out))}\n{job.text()}")

    def undisturbed(self, fault, ranks):
        """The first job of each kind determines the duration and the result."""
        key = (ranks, fault.evaluating)
        if key in self.seconds:
            return
        run = f"whole-{ranks}-{fault.evaluating}"
        job = self.start(run, fault, ranks)
        code = job.wait(PATIENCE)
        self.seconds[key] = time.monotonic() - job.begin
        got, left = self.result(run), job.left()
        self.want.setdefault(fault.evaluating, got)
        self.report(code == 0 and got == self.want[fault.evaluating] and not left, f"undisturbed on {ranks} ranks",
                    f"code {code}, {got}, left {left}\n{job.text()[-1500:]}")

    # -- one fault ----------------------------------------------------------------------------

    def judge_end(self, fault, job, since, pid):
        """What is wrong with the end of the job, or None."""
        code = job.wait(PATIENCE)
        alone = code is None and fault.bare and job.of_kind("rank") == [pid]
        if alone and fault.outcome == NAMED_AND_ENDED and "finished " in job.text():
            # Stopped after its run, before its exit: the other ranks are gone, and only mpirun waits for it.
            os.kill(pid, signal.SIGCONT)
            code = job.wait(PATIENCE)
            return None if code == 0 else f"code {code} after it went on"
        took = time.monotonic() - since
        if code is None:
            return f"hangs\n{job.portrait()}"
        if fault.outcome == NO_HARM:
            return None if code == 0 else f"code {code}"
        if fault.outcome == CHECKPOINTED:
            unborn = job.was_unborn(code) or fault.bare and job.had_unborn_rank(code)
            return None if code in (0, 75) or unborn else f"code {code}"
        gone = job.wait_gone(max(0.5, LATE_END_SECONDS - took)) if code != 0 else 0
        late = fault.outcome == NAMED_AND_ENDED and (fault.bare or START_ENDED in job.text())
        limit = LATE_END_SECONDS if late else END_SECONDS
        if code != 0 and (gone is None or took + gone > limit):
            return f"took {took + (gone or 0):.1f} s to end"
        if fault.outcome == ENDS_OR_GOES_ON:
            return None if code in fault.codes else f"code {code}"
        if code == 0 and (fault.kind != "rank" or "finished " in job.text()):
            return None  # the stopped process had no work left, or had ended before the signal
        return None if code == 6 and fault.words in job.text() else f"code {code}, not named"

    def judge_report(self, fault, job, at):
        """Checks that it was named within deadline.report (1 s) of the fault, plus a second for a busy machine."""
        if fault.outcome != NAMED_AND_ENDED or job.process.returncode == 0:
            return None
        if " ended its run " in job.text():
            return None  # stopped after its run, it kept nobody waiting but mpirun
        times = [when for word in ("waiting ", "waited ", "heartbeat") if (when := job.first_line(word)) is not None]
        when = min(times, default=None)
        return None if when is not None and when - at < 2.5 else f"named after {when} s, stopped at {at:.2f} s"

    def resume(self, run, fault, ranks):
        """What is wrong with the result of repeating the same command, or None."""
        if self.result(run) is None:
            job = self.start(run, fault, ranks)
            code = job.wait(PATIENCE)
            if code is None:
                portrait = job.portrait()
                job.end()
                return f"the same command hangs\n{portrait}\n{job.text()[-1500:]}"
            if code != 0:
                return f"the same command ends with {code}:\n{job.text()[-1500:]}"
            if job.left():
                return f"the same command leaves {job.left()}"
        got = self.result(run)
        if got != self.want[fault.evaluating]:
            return f"another end: {got} instead of {self.want[fault.evaluating]}"
        odd = [name for _, folders, files in os.walk(os.path.join(self.folder, run)) for name in folders + files
               if ".tmp" in name or name.endswith(".sums")]
        return f"files left: {odd}" if odd else None

    def started(self, run, fault, ranks, fraction):
        """A job at the chosen time and its processes of the kind; an earlier time if these had ended by then."""
        while True:
            job = self.start(run, fault, ranks)
            time.sleep(fraction * self.seconds[ranks, fault.evaluating])
            pids = job.await_kind(fault.kind)
            if pids or fraction < 0.01:
                return job, pids, fraction
            job.wait(PATIENCE)
            shutil.rmtree(os.path.join(self.folder, run), ignore_errors=True)
            fraction /= 2

    def one(self, fault, ranks, fraction, draw):
        self.undisturbed(fault, ranks)
        run = f"run-{self.count}"
        job, pids, fraction = self.started(run, fault, ranks, fraction)
        what = f"{fault.name} at {100 * fraction:.0f} % on {ranks} ranks"
        wrong = None
        if pids:
            since = time.monotonic()
            pid = pids[draw % len(pids)]
            fault.do(job, pid)
            wrong = self.judge_end(fault, job, since, pid) or self.judge_report(fault, job, since - job.begin)
            moving = getattr(job, "notes", None)
            wrong = wrong or (f"ranks went on: {moving}" if moving else None)
        else:
            wrong = f"no {fault.kind} was ever there"
        text = job.text()
        left = job.wait_gone(1) is None or job.left()
        wrong = wrong or (f"left {job.left()}" if left else None)
        if wrong:
            job.end()
        else:
            wrong = self.resume(run, fault, ranks)
        self.report(not wrong, what, f"{wrong}\n{text[-2500:]}")
        if not wrong:
            shutil.rmtree(os.path.join(self.folder, run), ignore_errors=True)


def check(folder):
    parser = argparse.ArgumentParser()
    parser.add_argument("serried")
    parser.add_argument("recipe")
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    sample = asked.each == 1 and not asked.kills
    choice = suite.show_seed(asked.seed if asked.seed is not None else 1 if sample else suite.new_seed())
    tests = Faults(os.path.abspath(asked.serried), os.path.abspath(asked.recipe), folder)
    tests.prepare(20)
    tests.prepare_large()
    if not asked.kills and not asked.only:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            tests.packing(number, choice)
    for fault in TABLE:
        chosen = not asked.only or any(words in fault.name for words in asked.only)
        if not chosen or (asked.kills and (fault.do is not kill or fault.bare)):
            continue
        for turn in range(asked.kills or asked.each * (2 if fault.do is kill and not sample else 1)):
            ranks = fault.ranks[(turn + choice.randrange(3)) % len(fault.ranks)]
            tests.one(fault, ranks, choice.random(), choice.randrange(1 << 16))
    return tests


if __name__ == "__main__":
    suite.run(check)
