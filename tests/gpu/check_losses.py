#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on device=cuda has the CPU's losses: the same data and seed, step by step.

    tests/gpu/check_losses.py SERRIED SIZE...            sizes: those of SIZES
    tests/gpu/check_losses.py SERRIED --cpu SIZE...      that those of the CPU which losses.txt has are still right
    tests/gpu/check_losses.py SERRIED --write SIZE...    writes those of the CPU into losses.txt

Where losses.txt has the CPU's losses, that side does not run. With portable numerics the losses are equal. Elsewhere the
CPU computes with its fast kernels, which round in another order than the GPU's; each size states how large a difference
may become. ResNet-50 with its first random weights multiplies rounding errors by more than 1,000 in a step, so that after
one step only the former says anything.
"""
import csv
import os
import re
import subprocess
import sys
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "dist"))
import suite  # noqa: E402

TIMEOUT = 3000 * suite.SLOW
STORED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "losses.txt")


@dataclass
class Size:
    recipe: str
    steps: int
    values: list
    pictures: int     # of each of ten classes
    limit: float = 0  # of a loss's difference, relative to 1 + the loss; 0: portable numerics
    first: float = 1e-5  # the same of the first step
    precision: str = "fp32"


SIZES = {
    # With as many pictures as a batch an epoch is a step, so that metrics.csv has a row of each.
    "resnet50-20": Size("resnet50", 20, ["batch=10", "lanes=2", "image=224"], 1),
    # For the software GPU.
    "resnet50-2": Size("resnet50", 2, ["batch=4", "lanes=1", "image=32"], 1),
    "resnet18-2": Size("resnet18", 2, ["batch=8", "lanes=2", "image=32"], 2, 1e-4),
    "cifar10-fast-4": Size("cifar10-fast", 4, ["batch=32", "lanes=4"], 8, 1e-4),
}
# Those of the fast kernels: activations are rounded on both devices, but sums in other orders. ResNet-50 begins with
# blocks that pass their input on, or else it multiplies rounding errors, see above.
NETWORKS = {"resnet50": ["model.zero_init_residual=true"], "mobilenet-v3-large": [], "convnext-tiny": [], "deit-small": []}
FEW = ["lanes=1", "data.repeats=1", "schedule.warmup=0it"]
for network, options in NETWORKS.items():
    for precision in ("bf16", "fp16"):
        SIZES[f"{network}-{precision}"] = Size(network, 3, ["batch=8", "image=64", *FEW, *options], 1, 1e-2, 1e-2, precision)
        # At an eighth of the width.
        SIZES[f"{network}-eighth-{precision}"] = Size(network, 3, ["batch=8", "image=32", "model.width_mult=0.125", *FEW, *options],
                                                      1, 1e-2, 1e-2, precision)


def read_stored():
    """{size: losses of its steps}."""
    stored = {}
    if os.path.exists(STORED):
        with open(STORED, encoding="utf-8") as file:
            for name, *losses in (line.split() for line in file if not line.startswith("#")):
                stored[name] = [float(loss) for loss in losses]
    return stored


class Losses(suite.Suite):
    def pack(self, size):
        """Pictures for training alone."""
        data = os.path.join(self.folder, f"data-{size.pictures}")
        pictures = os.path.join(self.folder, f"pictures-{size.pictures}")
        if not os.path.exists(data):
            for line in ([self.serried, "render", pictures, "--count", str(size.pictures)],
                         [self.serried, "pack", pictures, data]):
                subprocess.run(line, check=True, capture_output=True)
        return data

    def train(self, name, size, device):
        """The loss of every step, and the numerics that the run has noted."""
        run = os.path.join(self.folder, f"{name}-{device}")
        line = [self.serried, "train", size.recipe, "-n", "1", "-o", run, "data.train=" + self.pack(size),
                f"steps={size.steps}", f"precision={size.precision}", f"device={device}", *size.values,
                f"numerics.portable={'false' if size.limit else 'true'}"]
        surroundings = suite.environment()
        surroundings.pop("SERRIED_THREADS")
        done = subprocess.run(line, env=surroundings, text=True, capture_output=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{name} on {device}: exit code {done.returncode}: {done.stderr[-2000:]}")
        with open(os.path.join(run, "metrics.csv"), encoding="utf-8") as file:
            losses = [float(row["train/loss"]) for row in csv.DictReader(file)]
        # With portable numerics no device is named.
        with open(os.path.join(run, "env.json"), encoding="utf-8") as file:
            numerics = re.search(r'"numerics": "([^"]*)"', file.read())
        return losses, numerics[1]

    def check_stored(self, name):
        cpu, _ = self.train(name, SIZES[name], "cpu")
        self.report(cpu == read_stored()[name], f"{name}: the CPU's losses are those stored", f"{cpu}")

    def write(self, name):
        stored = {**read_stored(), name: self.train(name, SIZES[name], "cpu")[0]}
        with open(STORED, "w", encoding="utf-8") as file:
            file.write("# Written by tests/gpu/check_losses.py --write: losses of the CPU's steps with portable numerics.\n")
            file.writelines(f"{name} {' '.join(map(repr, losses))}\n" for name, losses in sorted(stored.items()))

    def check(self, name):
        size = SIZES[name]
        cpu = read_stored().get(name) or self.train(name, size, "cpu")[0]
        gpu, numerics = self.train(name, size, "cuda")
        wanted = "cuda" if size.limit else "processor any"
        self.report(wanted in numerics, f"{name}: computed by {wanted}", numerics)
        self.report(len(cpu) == len(gpu) == size.steps and size.steps == len(set(cpu)), f"{name}: rows", f"{cpu} {gpu}")
        apart = [abs(a - b) / (1 + abs(a)) for a, b in zip(cpu, gpu)]
        for step, pair in enumerate(zip(cpu, gpu), 1):
            print(f"        step {step}: {pair[0]:.7f} on the CPU, {pair[1]:.7f} on cuda", flush=True)
        self.report(max(apart) <= size.limit and apart[0] <= size.first,
                    f"{name}: largest difference {max(apart):.1e} in {size.steps} steps, {apart[0]:.1e} in the first",
                    f"allowed are {size.limit:g} and {size.first:g}")


def body(folder):
    how = sys.argv[2] if sys.argv[2:] and sys.argv[2] in ("--cpu", "--write") else ""
    names = sys.argv[3:] if how else sys.argv[2:]
    if not names or set(names) - set(SIZES):
        sys.exit(f"{__doc__}\nsizes: {' '.join(SIZES)}")
    losses = Losses(os.path.abspath(sys.argv[1]), folder)
    for name in names:
        {"": losses.check, "--cpu": losses.check_stored, "--write": losses.write}[how](name)
    return losses


if __name__ == "__main__":
    suite.run(body)
