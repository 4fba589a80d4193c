#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the CUDA kernels and checks what the compiler made of them.

    tests/cuda/check_code.py [--write] NVCC [OPTION...]     nvcc's options but for architectures

For each architecture of ARCHITECTURES, no function may spill registers or have local memory. The PTX of
each function has as many fused multiply-adds as its source has calls of fma: the compiler contracts
nothing. kernels/cuda/resources.md lists registers, shared memory and theoretical occupancy; --write
writes it, and without it the check is that it has all functions and no others.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "kernels/cuda"
TABLE = FOLDER / "resources.md"
ARCHITECTURES = ("sm_80", "sm_90a")
# Threads and registers of a multiprocessor, and the unit in which a warp gets registers: the same for
# both (CUDA C++ Programming Guide, compute capabilities 8.0 and 9.0).
THREADS, REGISTERS, UNIT, BLOCKS = 2048, 65536, 256, 32
HEAD = """# Resources of the CUDA kernels

What nvcc makes of each function: registers of a thread, static shared memory of a block, and the share of a
multiprocessor's threads that can run at once, as far as registers and the block's size decide it. Written by
`tests/cuda/check_code.py --write`; no function spills registers or has local memory.

| function | threads of a block | """


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def resources(nvcc, options, source, architecture, folder):
    """name -> (registers, shared bytes, local bytes) of the functions of a source."""
    code = architecture.replace("sm_", "compute_")
    text = run([nvcc, *options, f"-gencode=arch={code},code={architecture}", "-Xptxas", "-v", "-cubin",
                "-o", f"{folder}/{source.stem}-{architecture}.cubin", str(source)])
    out = {}
    for block in re.split(r"Compiling entry function '", text)[1:]:
        name = block[:block.index("'")]
        local = sum(map(int, re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", block)))
        shared = re.search(r"(\d+) bytes smem", block)
        out[name] = (int(re.search(r"Used (\d+) registers", block)[1]), int(shared[1]) if shared else 0, local)
    return out


def ptx_of(nvcc, options, source, folder):
    """name -> (fused multiply-adds, launch bound) in the PTX of the functions of a source."""
    ptx = pathlib.Path(folder) / f"{source.stem}.ptx"
    run([nvcc, *options, "-gencode=arch=compute_80,code=compute_80", "-ptx", "-o", str(ptx), str(source)])
    parts = re.split(r"\.entry (\w+)", ptx.read_text(encoding="utf-8"))
    bounds = (re.search(r"\.maxntid (\d+)", body) for body in parts[2::2])
    return {name: (len(re.findall(r"\bfma\.", body)), int(bound[1]) if bound else 0)
            for name, body, bound in zip(parts[1::2], parts[2::2], bounds)}


def occupancy(registers, threads):
    warps = -(-threads // 32)
    of_warp = -(-registers * 32 // UNIT) * UNIT
    blocks = min(THREADS // (warps * 32), REGISTERS // (of_warp * warps), BLOCKS)
    return blocks * warps * 32 / THREADS


def main():
    words = sys.argv[1:]
    write = words[:1] == ["--write"]
    nvcc, *options = words[write:]
    sources = sorted(FOLDER.glob("*.cu"))
    findings, rows, threads = [], {}, {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        jobs = [(s, a, pool.submit(resources, nvcc, options, s, a, folder)) for s in sources for a in ARCHITECTURES]
        ptx = [pool.submit(ptx_of, nvcc, options, s, folder) for s in sources]
        for source, architecture, job in jobs:
            for name, (registers, shared, local) in job.result().items():
                rows.setdefault(name, {})[architecture] = (registers, shared)
                if local:
                    findings.append(f"{source.name}: {name} has {local} bytes of local memory on {architecture}")
        for source, job in zip(sources, ptx):
            written = len(re.findall(r"\b(?:fmaf?|__fmaf?_r[nzud])\(", source.read_text(encoding="utf-8")))
            for name, (count, threads[name]) in job.result().items():
                if count > written:
                    findings.append(f"{source.name}: {name} has {count} fused multiply-adds; {written} are written")
    findings += [f"{name} has no launch bound" for name in sorted(rows) if not threads[name]]
    text = HEAD + " | ".join(f"{a}: registers, shared, occupancy" for a in ARCHITECTURES) + " |\n"
    text += "|---|---|" + "---|" * len(ARCHITECTURES) + "\n"
    for name in sorted(rows):
        cells = (f"{r}, {s}, {occupancy(r, threads[name]):.0%}" for r, s in (rows[name][a] for a in ARCHITECTURES))
        text += f"| `{name}` | {threads[name]} | " + " | ".join(cells) + " |\n"
    if write:
        TABLE.write_text(text, encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)`", TABLE.read_text(encoding="utf-8"), re.M)) if TABLE.exists() else set()
    findings += [f"{TABLE.name} and the sources differ in {name}; run this with --write"
                 for name in sorted(listed ^ rows.keys())]
    for finding in findings:
        print(finding)
    print(f"{len(rows)} functions for {', '.join(ARCHITECTURES)}, {len(findings)} findings")
    return 1 if findings or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
