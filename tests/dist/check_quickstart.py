#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md promises for the first hour: its blocks marked `sh whole` run as printed in a fresh copy of the tree, the
files that the quickstart names are there, its next commands work, and what it built can be installed.

  check_quickstart.py SOURCE

The compiler's cache makes the builds short; without ccache nothing is run.
"""
import os
import re
import shutil
import subprocess
import sys
import time

import suite

# Commands that would install packages, take too long or contain this test.
INSTEAD = {"./launcher/quickstart": "./launcher/quickstart --no-install --minutes 4",
           "./tests/run": "./tests/run --help"}
PICTURES = ("results.png", "confusion.png", "samples/val.png")


class Quickstart(suite.Suite):
    def __init__(self, source, folder):
        super().__init__(None, folder)
        self.tree = os.path.join(folder, "serried")
        names = subprocess.run(["git", "-C", source, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        for name in names:
            target = os.path.join(self.tree, name)
            if os.path.isfile(os.path.join(source, name)):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(os.path.join(source, name), target, follow_symlinks=False)
        self.environment = suite.environment(CMAKE_C_COMPILER_LAUNCHER="ccache", CMAKE_CXX_COMPILER_LAUNCHER="ccache",
                                             CCACHE_BASEDIR=self.tree, CCACHE_NOHASHDIR="1")
        for name in ("SERRIED_THREADS", "OMPI_MCA_rmaps_base_oversubscribe", "OMPI_ALLOW_RUN_AS_ROOT",
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
            self.environment.pop(name, None)  # a user has not set these

    def run(self, what, script):
        """Runs a script in the tree; returns all that it printed."""
        begin = time.monotonic()
        done = subprocess.run(["bash", "-c", "set -euo pipefail\n" + script], cwd=self.tree, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.report(done.returncode == 0, f"{what}, {time.monotonic() - begin:.0f} s",
                    f"exit code {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout

    def readme(self):
        """The `sh whole` blocks of README.md: lists of commands."""
        with open(os.path.join(self.tree, "README.md"), encoding="utf-8") as file:
            blocks = re.findall(r"^```sh whole\n(.*?)^```$", file.read(), re.M | re.S)
        commands = [[re.sub(r"\s+#.*", "", line) for line in block.splitlines()] for block in blocks]
        missing = set(INSTEAD) - {command for block in commands for command in block}
        self.report(len(blocks) > 1 and not missing, "README.md has the blocks", f"{len(blocks)}, without {missing}")
        return [[INSTEAD.get(command, command) for command in block] for block in commands]

    def results(self, said, wanted):
        """The files that are listed after "Results are in RUN" exist, 'wanted' among them. Runs what is to be typed next."""
        found = re.search(r"^Results are in (.*)\n((?:  .*\n)*)Next:\n((?:  .*\n)*)", said, re.M)
        if not found:
            self.report(False, "results are listed", said[-1000:])
            return []
        run, files = os.path.join(self.tree, found[1]), [line.split()[0] for line in found[2].splitlines()]
        bad = [name for name in files if not os.path.isfile(os.path.join(run, name))]
        self.report(not bad and not set(wanted) - set(files), "the files of the run are there", f"{files}, not there: {bad}")
        for name in filter(lambda name: name.endswith(".png"), files):
            with open(os.path.join(run, name), "rb") as file:
                self.report(file.read(8) == b"\x89PNG\r\n\x1a\n", f"{name} is a picture", "no PNG")
        commands = found[3].splitlines()
        for command in commands:
            self.run(command.split("/")[-1], command)
        return commands

    def rendered(self, block):
        said = self.run("the quickstart", "\n".join(block))
        self.report(len(re.findall(r"^ +\d+ % of \d+ steps, \d+ s so far, about \d+ s more", said, re.M)) > 5,
                    "the build shows its progress", said[:2000])
        self.report(re.search(r"^== training .*, about \d+ (s|minutes) at \d+ pictures/s$", said, re.M),
                    "the time of training is measured first", said[:4000])
        self.results(said, (*PICTURES, "metrics.csv", "log.txt", "best/model.safetensors"))
        # A tenth is chance.
        top1 = re.findall(r"^val_top1 (\d\.\d+)", said, re.M)
        self.report(top1 and float(top1[-1]) > 0.3, "the network has learned", f"top-1 {top1}")

    def installs(self):
        prefix = os.path.join(self.folder, "prefix")
        self.run("what the quickstart built installs", f"cmake --install build/release --prefix '{prefix}' >/dev/null\n"
                 f"'{prefix}/bin/serried' version\ntest -e \"$(find '{prefix}' -name serried-plots.so)\"")

    def without_val(self):
        """Classes of one picture have no val split, so there is nothing to evaluate."""
        for shape in ("circle", "square"):
            os.makedirs(os.path.join(self.folder, "few", shape))
            shutil.copy(os.path.join(self.tree, "runs/data/shapes-pictures", shape, "0000.jpg"),
                        os.path.join(self.folder, "few", shape))
        said = self.run("two pictures", f"./launcher/quickstart --no-install --minutes 1 -o few --data '{self.folder}/few'")
        commands = self.results(said, ("results.png", "metrics.csv", "last/model.safetensors"))
        self.report(commands and not any(" val " in command for command in commands), "no evaluation is advised",
                    f"{commands}")


def check(folder):
    checks = Quickstart(os.path.abspath(sys.argv[1]), folder)
    blocks = checks.readme()
    checks.rendered(blocks[0])
    checks.installs()
    checks.without_val()
    for block in blocks[1:]:
        checks.run(block[0], "\n".join(block) + "\nserried version")
    return checks


if __name__ == "__main__":
    if not shutil.which("ccache"):
        suite.not_run("README.md's blocks: ccache is not installed")
        sys.exit(77)
    suite.run(check)
