#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference covers every public symbol: Doxygen has no warning on the headers and pages.

check_reference.py            checks this tree
check_reference.py --selftest breaks a copy in each way that must be detected, and checks that it is
"""
import os
import shutil
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "docs"))
import make_reference

HEADER = """// SPDX-License-Identifier: Apache-2.0
// A header. It has <angle brackets>, @commands, 100 % and a_name_ with *stars, and #hashes & more:
//
//   a table   of | things @param
//    1  2     \\\\n
#ifndef SR_SAMPLE_H
#define SR_SAMPLE_H

#define SR_SAMPLE 1 // of something

// What it is.
typedef struct sr_sample {
    int plain;
    int a, b[SR_SAMPLE]; // of both
    double c; // goes on
              // over two lines
} sr_sample;

// Of all of them:
int sr_sample_a(const sr_sample *sample, int first,
                int second);
int sr_sample_b(void); // the second

// What it says.
typedef enum sr_kind {
    // a group:
    SR_KIND_A = 0, // the first
    SR_KIND_B,
} sr_kind;

// What it does.
static inline int sr_sample_c(int x) {
    return x * (x + 1); // not documentation
}
#endif
"""

# What to replace, the replacement, and Doxygen's expected warning.
BREAKS = [
    ("// What it is.\n", "", "Compound sr_sample is not documented"),
    ("// Of all of them:\n", "// Of one of them.\n", None),
    ("// Of all of them:\n", "\n", "sr_sample_a(const sr_sample *sample, int first, int second) (function)"),
    ("; // the second", ";\n\nint sr_sample_d(void);", "sr_sample_d(void) (function)"),
    (" // of something", "", "SR_SAMPLE (macro definition)"),
    ("// What it says.\n", "", "sr_kind (enumeration)"),
    ("// What it does.\n", "", "sr_sample_c(int x) (function)"),
    ("} sr_kind;", "} sr_kind;\n\ntypedef struct sr_opaque sr_opaque;", "sr_opaque (typedef)"),
]


def warnings_of(header):
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(f"{root}/docs")
        for name in ("Doxyfile", "doxygen_filter.py"):
            shutil.copy(f"{ROOT}/docs/{name}", f"{root}/docs/{name}")
        for name, text in (("serried.h", '// A section: with things.\n#include "sample.h"\n'),
                           ("sample.h", header), ("VERSION", "1.0\n"), ("docs/index.md", "# Page\n")):
            with open(f"{root}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        return make_reference.make(f"{root}/out", root)


def selftest():
    failures = []
    if warnings_of(HEADER):
        failures.append(f"right comments have warnings: {warnings_of(HEADER)}")
    for old, new, expected in BREAKS:
        assert old in HEADER, old
        warnings = warnings_of(HEADER.replace(old, new))
        if expected and not any(expected in line for line in warnings):
            failures.append(f"{expected!r} is missed: {warnings}")
        if not expected and warnings:
            failures.append(f"{new!r} has warnings: {warnings}")
    print("\n".join(failures + [f"{len(BREAKS) + 1} cases, {len(failures)} failures"]))
    return 1 if failures else 0


def main():
    if not shutil.which("doxygen"):
        print("NOT RUN: doxygen is not installed")
        return 77
    if "--selftest" in sys.argv[1:]:
        return selftest()
    with tempfile.TemporaryDirectory() as out:
        warnings = make_reference.make(out)
        symbols = sum(1 for name in os.listdir(f"{out}/html") if name.startswith("struct"))
    print("\n".join(warnings + [f"{symbols} pages of structs, {len(warnings)} warnings"]))
    return 1 if warnings or symbols < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
