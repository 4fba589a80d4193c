#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accuracies that pages quote belong to the code as it is.

Each line of tests/figures is a run whose accuracy a page quotes, and the digest of 20 short steps of it, with portable
numerics, which every processor reproduces. A digest that changes says that training has changed since: the run is to be
measured again.

  check_figures.py SERRIED            compares the digests
  check_figures.py SERRIED --write    writes those of lines whose digest is "-"
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

import suite

FIGURES = pathlib.Path(__file__).resolve().parents[1] / "figures"
SHORT = ["steps=20", "batch=32", "lanes=4", "seed=1", "numerics.portable=true", "chooser=off", "checkpoint.every=[20it]"]


class Figures(suite.Suite):
    def digest(self, number, words):
        """The digest of 20 steps of the recipe and values in 'words', on rendered pictures."""
        recipe, *values = shlex.split(words)
        run = os.path.join(self.folder, f"run {number}")
        done = subprocess.run([self.serried, "train", recipe, "-n", "1", "-o", run, f"data.train={self.data}", *values,
                               *SHORT], env=suite.environment(SERRIED_CACHE=os.path.join(self.folder, "cache")),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{words}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
            return json.load(file)["digest"]

    def check(self, lines, write):
        """Compares the digest of every line; returns the lines with the digests that were missing."""
        for number, line in enumerate(lines):
            if not line.strip() or line.startswith("#"):
                continue
            words, figure, date, stored = (cell.strip() for cell in line.split("|"))
            digest = self.digest(number, words)
            if write and stored == "-":
                stored = digest
                lines[number] = " | ".join((words, figure, date, stored)) + "\n"
            self.report(digest == stored, f"{words}: {figure} of {date}",
                        f"its digest is {digest}, not {stored}; measure it again, and write the new figure and digest")
        return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("serried")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()

    def check(folder):
        tests = Figures(os.path.abspath(arguments.serried), folder)
        tests.prepare(20)
        lines = tests.check(FIGURES.read_text(encoding="utf-8").splitlines(keepends=True), arguments.write)
        if arguments.write:
            FIGURES.write_text("".join(lines), encoding="utf-8")
        return tests

    suite.run(check)


if __name__ == "__main__":
    main()
