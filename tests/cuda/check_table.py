#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every kernel exists for every device in every activation dtype.

    tests/cuda/check_table.py [--write] SERRIED

kernels/cuda/table.md lists the numerics classes of each kernel by device and dtype; --write writes it.
A kernel of the CPU that the GPU lacks in f32, bf16 or f16 is a hole, and so is a table that is out of
date. f64 is for the CPU alone.
"""
import json
import pathlib
import subprocess
import sys

TABLE = pathlib.Path(__file__).resolve().parents[2] / "kernels/cuda/table.md"
DEVICES = ("cpu", "cuda")
DTYPES = ("f32", "bf16", "f16")
HEAD = """# Kernels by device

The numerics classes of each kernel, the one that is taken first, as `serried info kernels --device NAME` lists them.
Written by `tests/cuda/check_table.py --write`; a hole is a failure. f64 is for the CPU alone.

"""


def classes(serried, device):
    """(kernel, dtype) -> numerics classes, the last entry first."""
    done = subprocess.run([serried, "info", "kernels", "--device", device, "--json"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        sys.exit(done.stderr)
    out = {}
    for entry in json.loads(done.stdout):
        for dtype in entry["dtypes"].split():
            out.setdefault((entry["kernel"], dtype), []).insert(0, entry["numerics"])
    return out


def main():
    write = "--write" in sys.argv
    serried = next(argument for argument in sys.argv[1:] if argument != "--write")
    by_device = {device: classes(serried, device) for device in DEVICES}
    wanted = sorted(key for key in by_device["cpu"] if key[1] in DTYPES)
    holes = [f"{kernel} has no kernel for {device} in {dtype}" for device in DEVICES for kernel, dtype in wanted
             if (kernel, dtype) not in by_device[device]]
    text = HEAD + "| kernel | dtype | " + " | ".join(DEVICES) + " |\n|---|---|" + "---|" * len(DEVICES) + "\n"
    for kernel, dtype in wanted:
        cells = (", ".join(dict.fromkeys(by_device[d].get((kernel, dtype), ["**hole**"]))) for d in DEVICES)
        text += f"| {kernel} | {dtype} | " + " | ".join(cells) + " |\n"
    if write:
        TABLE.write_text(text, encoding="utf-8")
    for hole in holes:
        print(hole)
    old = not TABLE.exists() or TABLE.read_text(encoding="utf-8") != text
    if old:
        print(f"{TABLE.name} is out of date; run this with --write")
    print(f"{len(wanted)} kernels and dtypes on {', '.join(DEVICES)}, {len(holes)} holes")
    return 1 if holes or old else 0


if __name__ == "__main__":
    sys.exit(main())
