#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the module for CUDA says on a machine without a driver: one line each, with the cure.

    tests/cuda/check_absent.py SERRIED MODULE
"""
import ctypes
import json
import os
import subprocess
import sys

REASON = ("device 'cuda' cannot be used: no NVIDIA driver of CUDA 13 or newer is loaded; install driver 580 or newer, "
          "or give device=cpu")


def main():
    serried, module = sys.argv[1:]
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        print("NOT RUN: a machine without the NVIDIA driver; this one has it")
        return 77
    failed = 0

    def call(*words):
        environment = {k: v for k, v in os.environ.items() if k != "SERRIED_TEST_DEVICE"}
        return subprocess.run([serried, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)

    def report(good, what, detail):
        nonlocal failed
        failed += not good
        print(f"{'ok' if good else 'FAILED':7} {what}{'' if good else ': ' + detail}")

    missing = subprocess.run(["ldd", module], capture_output=True, text=True, check=True).stdout
    report("not found" not in missing and "libcudart.so.13" in missing, "the module finds its libraries", missing)
    done = call("info", "devices")
    report(done.returncode == 0 and (done.stdout + done.stderr).count(REASON) == 1, "info devices",
           done.stdout + done.stderr)
    done = call("doctor", "--json")
    texts = [c["text"] for c in json.loads(done.stdout)["checks"] if c["name"] == "device"]
    report(texts.count(REASON) == 1, "doctor", str(texts))
    done = call("train", "tests/recipes/tiny.yaml", "device=cuda", "--dry-run")
    report(done.returncode == 2 and done.stderr.count(REASON) == 1, "device=cuda", done.stderr)
    done = call("train", "tests/recipes/tiny.yaml", "--dry-run")
    report(done.returncode == 0 and done.stderr.count("computing on the CPU: " + REASON) == 1, "no device asked for",
           done.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
