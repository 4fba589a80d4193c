#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the calls of CUDA or one of its libraries that a library exports, or that a module makes, with the list of them.

    tests/soft_gpu/check_calls.py api.def LIBRARY               exports exactly the calls of the runtime
    tests/soft_gpu/check_calls.py api.def --module MODULE       calls none that the list lacks
    tests/soft_gpu/check_calls.py cudnn_api.def --cudnn LIBRARY exports exactly the calls of cuDNN
    tests/soft_gpu/check_calls.py cublaslt_api.def --cublaslt LIBRARY    of cuBLASLt
"""
import re
import subprocess
import sys


def symbols(library, kind, prefix):
    lines = subprocess.run(["nm", "-D", kind, library], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in lines.splitlines()}
    return {name for name in names if re.match(prefix, name)}


def main():
    macro, prefix = {"--cudnn": ("SR_CUDNN_CALL", r"cudnn"), "--cublaslt": ("SR_CUBLASLT_CALL", r"cublas")}.get(
        sys.argv[2], ("SR_CUDA_CALL", r"cu(da)?[A-Z]"))
    with open(sys.argv[1], encoding="utf-8") as file:
        listed = set(re.findall(rf"^{macro}\((\w+)\)", file.read(), re.M))
    if not listed:
        sys.exit("no calls in the list")
    if sys.argv[2] == "--module":
        wrong = symbols(sys.argv[3], "--undefined-only", prefix) - listed
    else:
        wrong = symbols(sys.argv[-1], "--defined-only", prefix) ^ listed
    for name in sorted(wrong):
        print(f"{name}: {'only in the list' if name in listed else 'not in the list'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
