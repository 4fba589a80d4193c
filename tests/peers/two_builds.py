#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the time of a training step, and the memory, of two builds of serried, measured in turns.

    tests/peers/two_builds.py [--pairs N] [--most N] [--within PERCENT] [--fresh N] [--cores LIST]
                              BUILD_A/serried BUILD_B/serried RECIPE [bench step's options]
    tests/peers/two_builds.py --ranks N ... BUILD_A/serried BUILD_B/serried RECIPE [bench ranks' options]

Without --ranks both stay in memory ('serried bench step --serve') and take one step each, A-B-B-A, so that a machine
whose speed changes from minute to minute affects both alike. After each N pairs of --fresh both start again: where a
process's memory happens to lie makes it faster or slower by a percent or two for as long as it lives. With --ranks each
turn is a 'serried bench ranks' under mpirun with three pairs of its own, and its time is that of the common job's steps.

Prints the median of the ratios B/A of the pairs' times with its 95 % interval, and the ratio of the peaks of resident
memory; without --ranks also that of the memory of the process alone. The rest are pages of files, which all processes of
a machine share: those of program code, for instance, of which a build with more operators has more. After N pairs it
takes more until the interval is within PERCENT of the median, --most at most.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys


class Resident:
    """A 'bench step' that takes steps on request."""

    def __init__(self, binary, options, rest):
        pinned = ["taskset", "-c", options.cores] if options.cores else []
        self.process = subprocess.Popen([*pinned, binary, "bench", "step", *rest, "--serve"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not self.process.stdout.readline().startswith("ready"):
            sys.exit(f"two_builds: {binary} did not get ready")

    def take(self):
        """Seconds of a step."""
        self.process.stdin.write("run 1\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        """Ends it and returns the most memory that was resident, and its own after the last step, in MiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            status = file.read()
        self.process.stdin.close()
        self.process.wait()
        return [int(re.search(name + r":\s+(\d+)", status)[1]) / 1024 for name in ("VmHWM", "RssAnon")]


class Job:
    """A 'bench ranks' for each turn."""

    def __init__(self, binary, options, rest):
        self.command = ["mpirun", "-n", str(options.ranks), binary, "bench", "ranks", *rest,
                        "--pairs", "3", "--json"]
        self.highest = 0

    def take(self):
        """Seconds of a step of the common job."""
        process = subprocess.Popen(self.command, text=True, stdout=subprocess.PIPE)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"two_builds: {' '.join(self.command)} failed")
        self.highest = max(self.highest, usage.ru_maxrss / 1024)
        return json.loads(out)["common_ms"]["median"] / 1e3

    def end(self):
        """The most memory that was resident in a rank, in MiB."""
        return [self.highest]


def interval(values):
    """The 95 % interval of the median: order statistics by the normal approximation of the sign test."""
    ordered, count = sorted(values), len(values)
    below = max(0, math.floor((count - 1.96 * math.sqrt(count)) / 2) - 1)
    return ordered[below], ordered[count - 1 - below]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pairs", type=int, default=20)
parser.add_argument("--most", type=int, default=200)
parser.add_argument("--within", type=float, default=2)
parser.add_argument("--fresh", type=int, default=25)
parser.add_argument("--cores", help="of both, as taskset names them")
parser.add_argument("--ranks", type=int)
parser.add_argument("a")
parser.add_argument("b")
options, rest = parser.parse_known_args()
kind = Job if options.ranks else Resident
times, peaks, running = [], [], []
while len(times) < options.most:
    if len(times) % options.fresh == 0:
        peaks += [tuple(side.end() for side in running)] if running else []
        running = [kind(binary, options, rest) for binary in (options.a, options.b)]
    first, second = running if len(times) % 2 == 0 else reversed(running)
    taken = {first: first.take(), second: second.take()}
    times.append(tuple(taken[side] for side in running))
    ratios = [y / x for x, y in times]
    middle, (low, high) = statistics.median(ratios), interval(ratios)
    if len(times) >= options.pairs and max(high - middle, middle - low) <= options.within / 100:
        break
peaks.append(tuple(side.end() for side in running))
of_a, of_b = zip(*times)
print(f"step: A {1e3 * statistics.median(of_a):.1f} ms, B {1e3 * statistics.median(of_b):.1f} ms, of {len(times)} pairs")
print(f"time of B over A: {middle:.3f} ({low:.3f} to {high:.3f}, 95 %), fastest steps {min(of_b) / min(of_a):.3f}")
for what, *turns in zip(("memory", "of its own"), *((zip(*pair)) for pair in peaks)):
    most_a, most_b = (max(side) for side in zip(*turns))
    print(f"{what}: A {most_a:.1f} MiB, B {most_b:.1f} MiB, ratio {most_b / most_a:.3f}")
