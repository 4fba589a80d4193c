#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of cuDNN's convolutions, from what a GPU was measured to do to what plans of steps use.

write_times.py          checks that launcher/bench/bench_gpu_times.def is up to date
write_times.py --write  writes it from tests/gpu/results/cudnn.tsv; of equal rows, the last counts
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = os.path.join(ROOT, "tests/gpu/results/cudnn.tsv")
TARGET = os.path.join(ROOT, "launcher/bench/bench_gpu_times.def")
HEAD = """// SPDX-License-Identifier: Apache-2.0
// What cuDNN's convolutions took on an NVIDIA H100 80GB HBM3: the first engine of its heuristics.
// Written by tests/gpu/write_times.py from tests/gpu/results/cudnn.tsv, which says when and how.
//
// SR_GPU_TIME(kernel, dtype, samples, H, W, C, K, R, S, stride, microseconds)

"""
KERNELS = {"fprop": "conv2d", "dgrad": "conv2d_dx", "wgrad": "conv2d_dw"}
TYPES = {"bf16": "SR_BF16", "fp16": "SR_F16"}
PATTERN, TYPE, BATCH, SHAPE, OK, ENGINES, FIRST = range(7)


def rows(text):
    times = {}
    for line in text.splitlines():
        cells = line.split("\t")
        if line.startswith("#") or cells[PATTERN] not in KERNELS or cells[OK] != "ok":
            continue
        shape = re.fullmatch(r"(\d+)x(\d+) (\d+)->(\d+) (\d+)x(\d+)/(\d+)", cells[SHAPE])
        if not shape:
            raise SystemExit(f"{SOURCE}: '{cells[SHAPE]}' is not HxW C->K RxS/stride")
        key = (KERNELS[cells[PATTERN]], TYPES[cells[TYPE]], cells[BATCH], *shape.groups())
        times[key] = float(cells[FIRST])
    return [f"SR_GPU_TIME({', '.join(key)}, {time})\n" for key, time in times.items()]


def main():
    with open(SOURCE, encoding="utf-8") as file:
        text = HEAD + "".join(rows(file.read()))
    if sys.argv[1:] == ["--write"]:
        with open(TARGET, "w", encoding="utf-8") as file:
            file.write(text)
        return
    with open(TARGET, encoding="utf-8") as file:
        if file.read() != text:
            raise SystemExit(f"{TARGET} is out of date; run tests/gpu/write_times.py --write")


if __name__ == "__main__":
    main()
