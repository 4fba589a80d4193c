#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the reference of the public headers and the pages: OUT/html/index.html, by Doxygen.

make_reference.py OUT [ROOT]: prints Doxygen's warnings; exits with 1 if there are any, and with 77 if
Doxygen is not installed.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["index", "own-data", "kplrecord", "recipes", "runs", "pictures", "fine-tuning", "from-pytorch", "augmentation",
         "own-model", "own-task", "segmentation", "inference", "own-loop", "cluster", "inspect", "performance"]
# A member with an obvious name needs no comment if its struct or enum has one.
PLAIN_MEMBER = re.compile(r"Member .*\((variable|enumvalue)\) of (struct|class|file) \S+ is not documented")


def make(out, root=ROOT):
    """Runs Doxygen over a tree; returns its warnings as lines."""
    with open(os.path.join(root, "serried.h"), encoding="utf-8") as file:
        headers = re.findall(r'^#include "(.*)"', file.read(), re.M)
    pages = [f"docs/{page}.md" for page in PAGES if os.path.exists(f"{root}/docs/{page}.md")]
    with open(os.path.join(root, "docs", "Doxyfile"), encoding="utf-8") as file:
        options = file.read()
    with open(os.path.join(root, "VERSION"), encoding="utf-8") as file:
        options += "PROJECT_NUMBER = " + file.readline()
    options += f'OUTPUT_DIRECTORY = "{out}"\nINPUT = serried.h {" ".join(headers + pages)}\n'
    os.makedirs(out, exist_ok=True)
    done = subprocess.run(["doxygen", "-"], input=options, cwd=root, text=True, capture_output=True, check=False)
    warnings = [line for line in done.stderr.splitlines() if line.strip() and not PLAIN_MEMBER.search(line)]
    if done.returncode and not warnings:
        warnings = [f"doxygen ended with {done.returncode}"]
    return [line.replace(root + "/", "") for line in warnings]


def main():
    if not shutil.which("doxygen"):
        print("NOT RUN: doxygen is not installed")
        return 77
    out = os.path.abspath(sys.argv[1])
    warnings = make(out)
    print("\n".join(warnings + [f"{out}/html/index.html: {len(warnings)} warnings"]))
    return 1 if warnings else 0


if __name__ == "__main__":
    sys.exit(main())
