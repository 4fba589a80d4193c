#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A shared machine: jobs of two ranks, several at once, stopped and killed at random and restarted.

  check_herd.py SERRIED RECIPE [--jobs N] [--alive N] [--seed N]

All of them reach the digest of an undisturbed run and leave nothing behind.
"""
import argparse
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
import suite  # noqa: E402
from job import Job, result_of  # noqa: E402

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL)
STARTS = 12  # of one job, which makes progress in between
LIMIT = 600  # seconds that a job may live


class Member:
    """One run and the jobs that work on it, one after the other."""

    def __init__(self, herd, number, choice):
        self.herd, self.choice, self.number = herd, choice, number
        self.run = os.path.join(herd.folder, f"member-{number}")
        self.starts, self.done, self.wrong, self.job = 0, False, None, None

    def start(self):
        self.starts += 1
        self.job = Job([self.herd.serried, "train", self.herd.recipe, "-n", "2", "-o", self.run,
                        f"data.train={self.herd.data}", *self.herd.values], suite.environment())
        # The last starts are not disturbed.
        self.disturb_at = time.monotonic() + self.choice.random() * 6 if self.starts < STARTS - 4 else None

    def step(self):
        code = self.job.process.poll()
        if code is None:
            if self.disturb_at and time.monotonic() > self.disturb_at:
                self.disturb_at = None
                self.job.process.send_signal(self.choice.choice(SIGNALS))
            elif time.monotonic() - self.job.begin > LIMIT:
                self.fail("hangs")
            return
        gone = self.job.wait_gone(10)
        left = self.job.left() if gone is not None else ["processes"]
        if left:
            self.fail(f"left {left}")
        elif result_of(self.run):  # a kill may have come after the end
            self.done = True
            self.wrong = None if result_of(self.run) == self.herd.want else f"another end {result_of(self.run)}"
        elif self.starts == STARTS or not (code in (75, 6, 130, 143, -signal.SIGKILL) or self.job.was_unborn(code)):
            self.fail(f"code {code} at start {self.starts}:\n{self.job.text()[-1500:]}")
        else:
            self.start()

    def fail(self, why):
        self.done, self.wrong = True, why
        self.job.end()


class Herd(suite.Suite):
    values = ["steps=12", "checkpoint.every=[2it]"]

    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe, self.want = recipe, None

    def learn(self):
        member = Member(self, 0, random.Random(0))
        member.start()
        member.disturb_at = None
        member.job.wait(LIMIT)
        self.want = result_of(member.run)

    def go(self, jobs, alive, choice):
        waiting = [Member(self, number + 1, random.Random(choice.randrange(1 << 31))) for number in range(jobs)]
        running = []
        while waiting or running:
            if waiting and len(running) < alive:
                running.append(waiting.pop())
                running[-1].start()
            for member in running:
                member.step()
            for member in [member for member in running if member.done]:
                self.report(not member.wrong, f"job {member.number}, {member.starts} starts", str(member.wrong))
            running = [member for member in running if not member.done]
            time.sleep(0.01)


def check(folder):
    parser = argparse.ArgumentParser()
    parser.add_argument("serried")
    parser.add_argument("recipe")
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--alive", type=int, default=6)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    choice = suite.show_seed(asked.seed if asked.seed is not None else suite.new_seed())
    herd = Herd(os.path.abspath(asked.serried), os.path.abspath(asked.recipe), folder)
    herd.prepare(20)
    herd.learn()
    herd.go(asked.jobs, asked.alive, choice)
    return herd


if __name__ == "__main__":
    suite.run(check)
