#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the CUDA kernels and checks what the compiler made of them.

    tests/cuda/check_code.py [--write] NVCC [OPTION...]     nvcc's options but for architectures
    tests/cuda/check_code.py --names MODULE     only that the table has all functions of the module, and no others

For each architecture of ARCHITECTURES, no function may spill registers or have local memory. The compiler
contracts nothing: in the PTX of each function all products and sums of floating-point numbers are rounded
(those without a mode of rounding may be fused), and there are fused multiply-adds only where the source, or a
header whose name its own begins with, has calls of fma. kernels/cuda/resources.md lists registers, shared memory and theoretical occupancy; --write
writes it, and without it the check is that it has all functions and no others.

What was found of a source is kept in $XDG_CACHE_HOME/serried/cuda-code, by default ~/.cache/serried/cuda-code, and
counts while the source, the files of this tree that it includes, options and compiler are the same.
"""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "kernels/cuda"
TABLE = FOLDER / "resources.md"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "serried/cuda-code"
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


def compile_source(nvcc, options, source, folder):
    """Of the functions of a source: (name, architecture) -> (registers, shared bytes, local bytes), and
    name -> (fused multiply-adds, products and sums that may become some, launch bound) in their PTX."""
    folder = pathlib.Path(folder) / source.stem
    folder.mkdir()
    codes = [f"-gencode=arch={a.replace('sm_', 'compute_')},code={a}" for a in ARCHITECTURES]
    text = run([nvcc, *options, *codes, "-gencode=arch=compute_80,code=compute_80", "-Xptxas", "-v", "-fatbin", "-keep",
                "-keep-dir", str(folder), "-o", str(folder / "fatbin"), str(source)])
    used, counts = {}, {}
    for block in re.split(r"Compiling entry function ", text)[1:]:
        name, architecture = re.match(r"'(\w+)' for '(\w+)'", block).groups()
        local = sum(map(int, re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", block)))
        shared = re.search(r"(\d+) bytes smem", block)
        registers = int(re.search(r"Used (\d+) registers", block)[1])
        used[name, architecture] = (registers, int(shared[1]) if shared else 0, local)
    ptx = (folder / f"{source.stem}.compute_80.ptx").read_text(encoding="utf-8")
    parts = re.split(r"\.entry (\w+)", ptx)
    for name, body in zip(parts[1::2], parts[2::2]):
        bound = re.search(r"\.maxntid (\d+)", body)
        counts[name] = (len(re.findall(r"\bfma\.", body)), len(re.findall(r"\b(?:mul|add|sub)(?:\.ftz)?\.f", body)),
                        int(bound[1]) if bound else 0)
    return used, counts


def included(path, found):
    """The path and, in the set 'found', all files of the tree that it includes."""
    if path in found or not path.is_file():
        return found
    found.add(path)
    for name in re.findall(r'^ *# *include "([^"]+)"', path.read_text(encoding="utf-8"), re.M):
        included(ROOT / name, found)
    return found


def read_source(nvcc, options, salt, source, folder):
    """As compile_source, but compiled only if it was not before."""
    files = sorted(included(source, set()))
    key = hashlib.sha256(salt + b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()
    kept = CACHE / key
    if not kept.exists():
        used, counts = compile_source(nvcc, options, source, folder)
        whole = kept.with_suffix(f".{os.getpid()}")
        whole.write_text(json.dumps([[[*names, *values] for names, values in used.items()],
                                     [[name, *values] for name, values in counts.items()]]), encoding="utf-8")
        whole.rename(kept)
    used, counts = json.loads(kept.read_text(encoding="utf-8"))
    return {(name, a): values for name, a, *values in used}, {name: values for name, *values in counts}


def occupancy(registers, threads):
    warps = -(-threads // 32)
    of_warp = -(-registers * 32 // UNIT) * UNIT
    blocks = min(THREADS // (warps * 32), REGISTERS // (of_warp * warps), BLOCKS)
    return blocks * warps * 32 / THREADS


def unlisted(names):
    """What the table says of functions: a finding for each that it lacks, or has and should not."""
    listed = set(re.findall(r"^\| `(\w+)`", TABLE.read_text(encoding="utf-8"), re.M)) if TABLE.exists() else set()
    return [f"{TABLE.name} and the sources differ in {name}; run tests/cuda/check_code.py with --write"
            for name in sorted(listed ^ set(names))]


def names_of(module):
    """The kernels of a module, by the functions of the host that launch them."""
    return {text[:int(length)] for length, text in re.findall(r"__device_stub__Z(\d+)(\w+)$", run(["nm", module]), re.M)}


def main():
    words = sys.argv[1:]
    if words[:1] == ["--names"]:
        names = names_of(words[1])
        findings = unlisted(names)
        print("\n".join([*findings, f"{len(names)} functions, {len(findings)} findings"]))
        return 1 if findings or not names else 0
    write = words[:1] == ["--write"]
    nvcc, *options = words[write:]
    sources = sorted(FOLDER.glob("*.cu"))
    findings, rows, threads = [], {}, {}
    CACHE.mkdir(parents=True, exist_ok=True)
    salt = "\0".join([run([nvcc, "--version"]), *options, "", pathlib.Path(__file__).read_text(encoding="utf-8")])
    salt = salt.replace(str(ROOT), ".").encode()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(read_source, nvcc, options, salt, source, folder) for source in sources]
        for source, job in zip(sources, jobs):
            used, counts = job.result()
            for (name, architecture), (registers, shared, local) in used.items():
                rows.setdefault(name, {})[architecture] = (registers, shared)
                if local:
                    findings.append(f"{source.name}: {name} has {local} bytes of local memory on {architecture}")
            texts = [source, *(header for header in FOLDER.glob("*.h") if source.stem.startswith(header.stem))]
            written = sum(len(re.findall(r"\b(?:fmaf?|__fmaf?_r[nzud])\(", path.read_text(encoding="utf-8")))
                          for path in texts)
            for name, (fused, loose, threads[name]) in counts.items():
                if fused and not written:
                    findings.append(f"{source.name}: {name} has {fused} fused multiply-adds; none are written")
                if loose:
                    findings.append(f"{source.name}: {name} has {loose} products and sums that may be fused")
    findings += [f"{name} has no launch bound" for name in sorted(rows) if not threads[name]]
    text = HEAD + " | ".join(f"{a}: registers, shared, occupancy" for a in ARCHITECTURES) + " |\n"
    text += "|---|---|" + "---|" * len(ARCHITECTURES) + "\n"
    for name in sorted(rows):
        cells = (f"{r}, {s}, {occupancy(r, threads[name]):.0%}" for r, s in (rows[name][a] for a in ARCHITECTURES))
        text += f"| `{name}` | {threads[name]} | " + " | ".join(cells) + " |\n"
    if write:
        TABLE.write_text(text, encoding="utf-8")
    findings += unlisted(rows)
    for finding in findings:
        print(finding)
    print(f"{len(rows)} functions for {', '.join(ARCHITECTURES)}, {len(findings)} findings")
    return 1 if findings or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
