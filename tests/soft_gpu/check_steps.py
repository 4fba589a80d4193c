#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a step asks of a GPU, by the report and the counts of the software GPU (SOFT_GPU_REPORT, SOFT_GPU_COUNTS).

    tests/soft_gpu/check_steps.py SERRIED RECIPE

A step uploads lanes and settings from memory that is registered, on a stream without kernels, so that copies are
asynchronous and run beside the lane before: longer runs have more such copies, and no more of others. All kernels of
further steps are in graphs, and nothing waits for the whole device. So it is in `bench step`.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
import subprocess  # noqa: E402

import suite  # noqa: E402

REPORT = re.compile(r"software GPU: (\d+) uploads, (\d+) of pageable memory, (\d+) on streams of kernels; "
                    r"(\d+) downloads, (\d+) to pageable memory, (\d+) on streams of kernels")


FIRST = 4  # steps until all work has come twice, with either set of inputs


class Steps(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe

    def train(self, steps, *values):
        return ["train", self.recipe, f"data.train={self.data}", f"steps={steps}", "device=cuda", "checkpoint.every=[]", "chooser=off",
                "-o", os.path.join(self.folder, f"run-{self.count}-{steps}"), *values]

    def bench(self, steps, *values):
        return ["bench", "step", self.recipe, "--no-peer", "--blocks", "1", "--steps", str(steps), "-l", "8", "device=cuda",
                "chooser=off", *values]

    def counts(self, *arguments):
        """Uploads of a run: all, of pageable memory, on streams of kernels; then downloads; and its counts by kind."""
        line = [self.serried, *arguments]
        counts = os.path.join(self.folder, f"counts-{len(os.listdir(self.folder))}")
        done = subprocess.run(line, env=suite.environment(SOFT_GPU_REPORT="1", SOFT_GPU_COUNTS=counts), text=True,
                              capture_output=True, timeout=200 * suite.SLOW, check=False)
        found = [tuple(map(int, match)) for match in REPORT.findall(done.stderr)]
        most = max(found, default=None)  # data processes copy nothing
        if done.returncode != 0 or most is None:
            sys.exit(f"exit code {done.returncode}: {done.stderr[-2000:]}")
        with open(counts, encoding="utf-8") as file:
            lines = [line.split() for line in file]  # of each rank
        total = {}
        for kind, count in (pair for words in lines for pair in zip(words[::2], map(int, words[1::2]))):
            total[kind] = total.get(kind, 0) + count
        return most, total

    def expect(self, what, lanes, command, *values):
        (few, before), (many, after) = (self.counts(*command(steps, *values)) for steps in (FIRST, FIRST + 2))
        more = [b - a for a, b in zip(few, many)]
        self.report(after["launch"] > before["launch"] and after["alone"] == before["alone"] and
                    after["graph"] >= before["graph"] + 2, f"{what}: kernels of steps are in graphs", f"{before} {after}")
        self.report("wait_for_all" not in after, f"{what}: nothing waits for the device", f"{after}")
        self.report(more[0] >= 2 * lanes, f"{what}: steps upload their lanes", f"{few} {many}")
        self.report(more[1] == 0, f"{what}: from registered memory", f"{few} {many}")
        self.report(more[2] == 0, f"{what}: beside kernels", f"{few} {many}")


def body(folder):
    checks = Steps(sys.argv[1], sys.argv[2], folder)
    checks.prepare(20)
    checks.expect("processes", 8, checks.train)
    checks.expect("threads", 8, checks.train, "data.processes=0")
    checks.expect("clipped", 8, checks.train, "optimizer.clip_norm=1")
    checks.expect("bench", 8, checks.bench)
    return checks


suite.run(body)
