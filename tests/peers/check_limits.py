# SPDX-License-Identifier: Apache-2.0
"""check_limits.py [SERRIED]: what SERRIED_CPU_MASK hides is hidden from oneDNN, in serried and in PyTorch.

Without the command: the settings that torch_step.py passes to PyTorch's libraries, for every set of features. With it:
what oneDNN itself reports, in serried and, if this Python has it, in PyTorch.
"""
import importlib.util
import os
import re
import subprocess
import sys

import torch_step

HERE = os.path.dirname(os.path.abspath(__file__))
KEYS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
CASES = {
    "": ("default", "SSE41", "SSE4_2"),
    "avx2": ("avx2", "AVX2", "AVX2"),
    "avx2 avx512": ("avx512", "AVX512_CORE", "AVX512"),
    "avx2 avx512 vnni": ("avx512", "AVX512_CORE_VNNI", "AVX512"),
    "avx2 avx512 vnni bf16": ("avx512", "AVX512_CORE_BF16", "AVX512"),
    "avx2 avx512 vnni bf16 bf16_dot": ("avx512", "AVX512_CORE_BF16", "AVX512"),
    "avx2 avx512 vnni bf16 fp16": ("avx512", "AVX512_CORE_FP16", "AVX512"),
    "avx2 avx512 vnni bf16 fp16 amx_bf16 amx_int8": ("avx512", "AVX512_CORE_AMX", "AVX512"),
}


def findings_of_words():
    for features, expected in CASES.items():
        limits = torch_step.limits_of(features.split())
        found = tuple(limits[key] for key in KEYS)
        if found != expected or limits["DNNL_MAX_CPU_ISA"] != expected[1]:
            yield f"'{features}': {found}, expected {expected}"
    if torch_step.binding_of(["0", "3"]) != {"OMP_PROC_BIND": "true", "OMP_PLACES": "{0},{3}"}:
        yield f"two pinned threads: {torch_step.binding_of(['0', '3'])}"


def isas_of(*command, **variables):
    """Instruction sets that oneDNN reports in the command's output."""
    environment = dict(os.environ, ONEDNN_VERBOSE="1", DNNL_VERBOSE="1", **variables)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, env=environment, capture_output=True,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return sorted(set(re.findall(r"cpu,isa:Intel (\S+)", done.stdout + done.stderr)))


def findings_of_libraries(serried):
    step = (serried, "bench", "step", "cifar10-fast", "--batch=2", "--blocks=1", "--steps=1", "--no-peer")
    found = isas_of(*step, SERRIED_CPU_MASK="avx512")
    if found != ["AVX2"]:
        yield f"serried without avx512: oneDNN says {found}"
    found = isas_of(*step, SERRIED_CPU_MASK="avx2")
    if found:
        yield f"serried without avx2: oneDNN is used and says {found}"
    if not importlib.util.find_spec("torch"):
        print("NOT RUN: PyTorch's oneDNN: it is not installed")
        return
    step = (sys.executable, os.path.join(HERE, "torch_step.py"), "resnet18", "--batch=2", "--image=64", "--classes=2")
    for features, isa in (("avx2", "AVX2"), ("", "SSE4.1")):
        found = isas_of(*step, "--features", features)
        if found != [isa]:
            yield f"PyTorch with '{features}': oneDNN says {found}"


findings = list(findings_of_words())
if len(sys.argv) > 1:
    findings += findings_of_libraries(sys.argv[1])
print(*findings, f"{len(CASES)} sets of features, {len(findings)} findings", sep="\n")
sys.exit(1 if findings else 0)
