#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network learns as well on one provider's kernels as on another's.

cifar10-fast is trained on rendered shapes with several seeds by each set of kernels: all of them; oneDNN's and the
reference's; and those for processors without AVX-512. Seeds differ more than kernels do: at each epoch the means of two
sets are within LIMIT standard errors of each other, where the variance is that of the seeds in all sets.

  check_curves.py SERRIED [--seeds N] [--epochs N] [key=value...]
"""
import argparse
import csv
import itertools
import math
import os
import statistics
import subprocess

import suite

# Student's t with six degrees of freedom (three seeds of three sets) exceeds this once in 1,000 comparisons.
LIMIT = 5.2

SETS = {
    "all kernels": {},
    "reference, onednn": {"SERRIED_PROVIDERS": "reference,onednn"},
    "without AVX-512": {"SERRIED_CPU_MASK": "avx512"},
}


class Curves(suite.Suite):
    def train(self, name, seed, options):
        run = os.path.join(self.folder, f"{name}-{seed}".replace(" ", ""))
        line = [self.serried, "train", "cifar10-fast", "-o", run, f"data.train={self.data}", f"seed={seed}",
                f"epochs={options.epochs}", "batch=256", *options.overrides]
        subprocess.run(line, check=True, capture_output=True, env=suite.environment(**SETS[name]))
        with open(os.path.join(run, "metrics.csv"), encoding="utf-8") as file:
            losses = [float(row["val/loss"]) for row in csv.DictReader(file) if row["val/loss"]]
        print(f"{name:18} seed {seed}: val/loss {' '.join(f'{loss:.4f}' for loss in losses)}", flush=True)
        return losses

    def compare(self, curves, seeds):
        for epoch, values in enumerate(zip(*(zip(*curves[name]) for name in SETS)), 1):
            spread = math.sqrt(statistics.mean(statistics.variance(v) for v in values) * 2 / seeds)
            means = dict(zip(SETS, map(statistics.mean, values)))
            for a, b in itertools.combinations(SETS, 2):
                apart = abs(means[a] - means[b])
                self.report(apart <= LIMIT * spread, f"epoch {epoch}: {a} and {b}",
                            f"{means[a]:.4f} and {means[b]:.4f}, standard error {spread:.4f}")


def body(folder):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("serried")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    curves = Curves(os.path.abspath(options.serried), folder)
    curves.prepare(220)
    losses = {name: [] for name in SETS}
    for seed in range(1, options.seeds + 1):
        for name in SETS:
            losses[name].append(curves.train(name, seed, options))
    curves.compare(losses, options.seeds)
    return curves


suite.run(body)
