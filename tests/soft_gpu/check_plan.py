#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of steps for GPUs have the kernels that the CUDA module takes, and as many launches: compared with steps on the
software GPU.

    tests/soft_gpu/check_plan.py SERRIED RECIPE:PIXELS...

A step with lanes side by side is one launch more for each that the plan counts, of kernels of the module and of calls of
cuDNN and cuBLASLt; what sums and updates parameters is not compared. The classes of the kernels of a lane are those that
`--plan` prints, where they are not "reference".
"""
import collections
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
import suite  # noqa: E402

UPDATES = re.compile(r"cuda_(fold_lanes|ema|sgd|adam|rmsprop|lamb|lion|limit|add_squares)")
LIBRARIES = ("cudnn_executed", "cublaslt_matmul")
SAMPLES = 2  # of a lane


class Plans(suite.Suite):
    def run_bench(self, recipe, pixels, lanes, *more, **variables):
        line = [self.serried, "bench", "step", recipe, "-b", str(SAMPLES * lanes), "-l", str(lanes), "-i", pixels, "-p",
                "bf16", *more]
        done = subprocess.run(line, env=suite.environment(**variables), text=True, capture_output=True,
                              timeout=600 * suite.SLOW, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(line)}: exit code {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def plan(self, recipe, pixels, lanes):
        out = self.run_bench(recipe, pixels, lanes, "--plan", "--gpu", "h100", "--json")
        return [row for row in json.loads(out)["levels"][0]["rows"] if row["family"] != "gradient sums, update"]

    def step(self, recipe, pixels, lanes, steps):
        """Launches by kernel of a run with so many steps, calls of libraries, and what --plan prints."""
        files = [os.path.join(self.folder, f"{name}-{self.count}-{steps}") for name in ("launches", "counts")]
        text = self.run_bench(recipe, pixels, lanes, "--no-peer", "--blocks", "1", "--steps", str(steps), "--plan",
                              "device=cuda", "chooser=off", SOFT_GPU_LAUNCHES=files[0], SOFT_GPU_COUNTS=files[1],
                              SERRIED_CUDA_GRAPHS="off")  # calls of libraries are counted
        with open(files[0], encoding="utf-8") as file:
            launches = collections.Counter({words[0]: int(words[1]) for words in map(str.split, file)})
        with open(files[1], encoding="utf-8") as file:
            words = file.read().split()
        counts = dict(zip(words[::2], map(int, words[1::2])))
        launches.update({name: counts.get(name, 0) for name in LIBRARIES})
        return launches, text

    def compare(self, recipe, pixels):
        few, text = self.step(recipe, pixels, 2, 1)
        many, _ = self.step(recipe, pixels, 2, 2)
        got = sum(count - few[name] for name, count in many.items()
                  if not name.startswith("soft_") and not UPDATES.match(name))
        want = sum(row["launches"] for row in self.plan(recipe, pixels, 2))
        self.report(got == want, f"{recipe}: launches of a step", f"{got}, not {want}")
        kernels = re.findall(r"(\w+)/(\w+)", "\n".join(re.findall(r"^step \d+ units .*$", text, re.MULTILINE)))
        found = collections.Counter(kernel for kernel in kernels if kernel[1] in ("tensor", "cudnn", "cublaslt", "mma"))
        planned = collections.Counter()
        for row in self.plan(recipe, pixels, 1):
            if row["class"] != "reference":
                planned[(row["operator"], row["class"])] += round(row["kernels"])
        self.report(found == planned, f"{recipe}: classes of kernels", f"{found - planned}, not {planned - found}")


def body(folder):
    checks = Plans(sys.argv[1], folder)
    for argument in sys.argv[2:]:
        checks.compare(*argument.split(":"))
    return checks


suite.run(body)
