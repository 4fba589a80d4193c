#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A kernel of class "reference" that adds in another order is found: by the comparison of providers, and by the digest
of networks with portable numerics.

  check_wrong_order.py PROVIDERS DIGESTS LIBRARY

PROVIDERS is test_kernels_providers, DIGESTS numerics_digests, LIBRARY the wrong kernel (wrong_order.c).
"""
import os
import subprocess
import sys


def run(program, *args, library=None):
    env = dict(os.environ, **({"LD_PRELOAD": library} if library else {}))
    return subprocess.run([program, *args], env=env, capture_output=True, text=True, timeout=300, check=False)


def rows(text):
    return {tuple(line.split()[:2]): line.split()[2] for line in text.splitlines() if line and line[0] not in "[#"}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    providers, digests, library = sys.argv[1:]
    good = True
    compared = run(providers, library=library)
    text = compared.stdout + compared.stderr
    if compared.returncode == 0 or "linear/wrong: argument" not in text:
        good = False
        print(f"FAILED the comparison of providers does not find the wrong order\n{text[-2000:]}")
    right, wrong = run(digests, "portable"), run(digests, "portable", library=library)
    if right.returncode != 0 or wrong.returncode != 0:
        sys.exit(f"FAILED numerics_digests: {right.stderr[-1000:]}{wrong.stderr[-1000:]}")
    right, wrong = rows(right.stdout), rows(wrong.stdout)
    for row in (("tiny", "fp32"), ("cifar-fast", "fp32")):
        if wrong[row] == right[row]:
            good = False
            print(f"FAILED the digest of {' '.join(row)} is the same with the wrong order")
    print(f"{len(right)} digests, {sum(right[row] != wrong.get(row) for row in right)} changed by the wrong order")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
