#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the time of a training step of two builds of serried, measured in turns.

    tests/peers/two_builds.py [--pairs N] [--cores LIST] BUILD_A/serried BUILD_B/serried RECIPE [bench step's options]

Both stay in memory ('serried bench step --serve') and take one step each, A-B-B-A, so that a machine
whose speed changes from minute to minute affects both alike. Prints B's speed relative to A's: for the
medians, for the fastest steps, and the median of the pairs.
"""
import argparse
import statistics
import subprocess
import sys


def start(binary, rest, cores):
    pinned = ["taskset", "-c", cores] if cores else []
    process = subprocess.Popen([*pinned, binary, "bench", "step", *rest, "--serve"], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if not process.stdout.readline().startswith("ready"):
        sys.exit(f"two_builds: {binary} did not get ready")
    return process


def take(process):
    process.stdin.write("run 1\n")
    process.stdin.flush()
    return float(process.stdout.readline())


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pairs", type=int, default=20)
parser.add_argument("--cores", help="of both, as taskset names them")
parser.add_argument("a")
parser.add_argument("b")
options, rest = parser.parse_known_args()
a, b = start(options.a, rest, options.cores), start(options.b, rest, options.cores)
times = []
for pair in range(options.pairs):
    first, second = (a, b) if pair % 2 == 0 else (b, a)
    one, other = take(first), take(second)
    times.append((one, other) if pair % 2 == 0 else (other, one))
of_a, of_b = zip(*times)
pairs = sorted(x / y for x, y in times)
print(f"step: A {1e3 * statistics.median(of_a):.1f} ms, B {1e3 * statistics.median(of_b):.1f} ms, of {len(times)} pairs")
print(f"speed of B over A: medians {statistics.median(of_a) / statistics.median(of_b):.3f}, "
      f"fastest {min(of_a) / min(of_b):.3f}, pairs {statistics.median(pairs):.3f} "
      f"({pairs[len(pairs) // 4]:.3f} to {pairs[-len(pairs) // 4]:.3f})")
