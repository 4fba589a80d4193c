#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_numerics.py detects what it should, tested with a program whose output each case defines."""
import contextlib
import io
import os
import sys
import tempfile

import check_numerics

# For a processor with AVX-512: prints the file of a set of features, or of another device.
PROGRAM = """#!/bin/sh
folder=%s
if [ "$SERRIED_TEST_DEVICE" = other ]; then exec cat "$folder/other"; fi
case ",$SERRIED_CPU_MASK," in
*,avx2,*) features=plain ;;
*,avx512,*) features=avx2 ;;
*) features='avx2 avx512' ;;
esac
if [ "$1" = features ]; then echo "$features"; else cat "$folder/$features"; fi
"""
X86 = "[x86 2]\nrelu/x86 reference aa\ngelu/x86 x86-f32 bb\n"


class Selftest:
    def __init__(self, folder):
        self.folder = folder
        self.program = os.path.join(folder, "program")
        check_numerics.TABLE = os.path.join(folder, "digests.txt")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(PROGRAM % folder)
        os.chmod(self.program, 0o755)
        self.failed = 0

    def run(self, table, texts, write=False, device=None):
        """The output, the check, and the table after it."""
        with open(check_numerics.TABLE, "w", encoding="utf-8") as file:
            file.write(table)
        for features in ("plain", "avx2", "avx2 avx512", "other"):
            with open(os.path.join(self.folder, features), "w", encoding="utf-8") as file:
                file.write(texts.get(features, ""))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            check = check_numerics.Check(self.program, write, device)
            check.collect()
            if write:
                check.write_all()
            else:
                check.compare_all()
        with open(check_numerics.TABLE, encoding="utf-8") as file:
            return out.getvalue(), check, file.read()

    def expect(self, what, result, failed, words=()):
        text, check, _ = result
        good = check.failed == failed and all(w in text for w in words)
        self.failed += not good
        print(f"{'ok' if good else 'FAILED':7} {what}{'' if good else f': {check.failed} failures' + chr(10) + text}")

    def all(self):
        both = {"avx2": X86, "avx2 avx512": X86}
        self.expect("equal bits", self.run(X86, both), 0, ["NOT RUN: processor features 'avx2 avx512 amx_bf16'"])
        self.expect("no section", self.run("", both), 0, ["NOT RUN: [x86 2]: has no digests"])
        other = X86.replace("bb", "cc")
        moved = {"avx2": other, "avx2 avx512": other}
        self.expect("bits moved", self.run(X86, moved), 1,
                    ["gelu/x86: bits of class x86-f32 moved", "raise SR_X86_NUMERICS", "--write"])
        self.expect("not written over", self.run(X86, moved, True), 1, ["raise SR_X86_NUMERICS"])
        raised = {name: text.replace("x86 2]", "x86 3]") for name, text in moved.items()}
        self.expect("raised without digests", self.run(X86, raised), 1, ["raised (x86 2 -> 3) without new digests"])
        result = self.run(X86, raised, True)
        self.expect("raised and written", result, 0, ["removed [x86 2]"])
        self.expect("what was written passes", self.run(result[2], raised), 0)
        self.expect("sets that differ", self.run(X86, {"avx2": X86, "avx2 avx512": other}), 1, ["promised equal"])
        self.expect("sets that differ, written", self.run(X86, {"avx2": X86, "avx2 avx512": other}, True), 1)
        more = {name: text + "tanh/x86 x86-f32 dd\n" for name, text in both.items()}
        self.expect("a new kernel", self.run(X86, more), 1, ["tanh/x86 (x86-f32) of [x86 2] has no digest"])
        self.expect("a removed kernel", self.run(more["avx2"], both), 1, ["tanh/x86 (x86-f32) of [x86 2] is computed no"])
        wide = {"avx2": X86.replace("bb", "-"), "avx2 avx512": X86}
        self.expect("a kernel that needs more", self.run(X86, wide), 0)
        away = "[onednn 1, oneDNN 9; processor avx2 avx512 amx_bf16]\nconv2d/onednn x ee\n"
        here = {name: text + "[onednn 2, oneDNN 9; processor avx2]\nconv2d/onednn x ff\n" for name, text in both.items()}
        self.expect("another machine's old section", self.run(here["avx2"] + away, here), 1,
                    ["is of other versions than this build"])
        result = self.run(here["avx2"] + away.replace("onednn 1", "onednn 2"), here, True)
        self.expect("another machine's section stays", result, 0)
        self.failed += "amx_bf16]" not in result[2]
        self.expect("another device", self.run(X86 + away, {"other": X86}, device="other"), 0)
        self.expect("another device with other bits", self.run(X86, {"other": other}, device="other"), 1,
                    ["gelu/x86: bits of class x86-f32 moved"])


def main():
    with tempfile.TemporaryDirectory(prefix="serried-") as folder:
        test = Selftest(folder)
        test.all()
    print(f"{test.failed} failures")
    sys.exit(1 if test.failed else 0)


if __name__ == "__main__":
    main()
