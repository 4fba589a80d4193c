#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`serried plot`: runs beside each other in one picture, with the values that are in their files.

  check_plot.py SERRIED RECIPE
"""
import csv
import glob
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys

import suite

COLORS = {"first": (0x2F, 0x6F, 0xDE), "second": (0xEE, 0x7B, 0x1A), "third": (0x1C, 0x9C, 0x6C)}


def colors_in(path):
    """The colours of an SVG that cairo wrote, which gives them in percent."""
    with open(path, encoding="utf-8") as file:
        found = re.findall(r"rgb\(\s*([\d.]+)%\s*,\s*([\d.]+)%\s*,\s*([\d.]+)%\s*\)", file.read())
    return {tuple(round(float(part) * 2.55) for part in color) for color in found}


class Plot(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def call(self, *words, **environment):
        return subprocess.run([self.serried, *words], env=suite.environment(**environment), text=True, cwd=self.folder,
                              capture_output=True, timeout=100 * suite.SLOW, check=False)

    def plot(self, *words, **environment):
        return self.call("plot", *words, **environment)

    def expect(self, what, done, code, *words):
        missing = [word for word in words if word not in done.stderr]
        self.report(done.returncode == code and not missing, what,
                    f"exit code {done.returncode}, without {missing}:\n{done.stderr[-1500:]}")

    def train(self, name, *values, recipe=None):
        done = self.call("train", recipe or self.recipe, "-n", "1", "-o", self.path(name), f"data.train={self.data}", *values)
        if done.returncode:
            sys.exit(f"{name}: exit code {done.returncode}\n{done.stderr[-2000:]}")

    def column(self, run, name):
        """The numbers in a column of metrics.csv."""
        with open(self.path(run, "metrics.csv"), encoding="utf-8", newline="") as file:
            return [float(row[name]) for row in csv.DictReader(file) if row[name]]

    def compares(self):
        done = self.plot("one", "two", "--json")
        with open(self.path("plot.png"), "rb") as file:
            size = struct.unpack(">II", file.read(24)[16:])
        self.report(done.returncode == 0 and size == (1200, 800), "a picture of 1200 x 800", f"{size} {done.stderr}")
        found = colors_in(self.path("plot.svg"))
        self.report({COLORS["first"], COLORS["second"]} <= found and COLORS["third"] not in found,
                    "a colour of each run", str(found))
        result = json.loads(done.stdout)
        self.report([result["metric"], result["by"], result["pictures"]] == ["val/top1", "epoch", ["plot.png", "plot.svg"]],
                    "--json says what is shown", done.stdout)
        for run, name in zip(result["runs"], ("one", "two")):
            with open(self.path(name, "exit.json"), encoding="utf-8") as file:
                end = json.load(file)
            wanted = {"name": name, "folder": name, "steps": end["steps"], "best": end["metrics"]["best_val_top1"],
                      "last": end["metrics"]["val_top1"]}
            self.report(run == wanted, f"--json of {name}", f"{run}, not {wanted}")

    def chooses(self):
        for metric, best in (("val/loss", min), ("val/top5", max), ("train/loss", min), ("lr", None)):
            done = self.plot("two", "--json", "--metric", metric, "--by", "seconds", "-o", "chosen.svg")
            run = json.loads(done.stdout)["runs"][0] if done.returncode == 0 else {}
            values = self.column("two", metric)
            self.report(run.get("last") == values[-1] and run.get("best") == (best(values) if best else None),
                        f"--metric {metric}", f"{run} {values}\n{done.stderr}")
        self.report(json.loads(done.stdout)["pictures"] == ["chosen.png", "chosen.svg"] and
                    os.path.exists(self.path("chosen.png")), "-o of an SVG", done.stdout)
        done = self.plot("one")
        self.report(done.returncode == 0 and "val/top1  best" in done.stdout and done.stdout.endswith("plot.png\nplot.svg\n"),
                    "a line of each run", done.stdout + done.stderr)
        os.makedirs(self.path("other"))
        os.symlink("../one", self.path("other", "two"))
        done = self.plot("other/two", "two/", "--json")
        names = [run["name"] for run in json.loads(done.stdout)["runs"]]
        self.report(names == ["other/two", "two"], "names tell runs apart", str(names))

    def other_tasks(self):
        """Columns that a run lacks are left out and named; those of tasks that are not loaded are numbers."""
        self.train("gan", "steps=2", "batch=8", recipe="toy-gan")
        done = self.plot("gan", "one", "--json", "-o", "tasks.png")
        self.expect("runs of two tasks", done, 0, "gan: metrics.csv has no val/loss, val/top1",
                    "one: metrics.csv has no train/D.loss, D.lr")
        runs = json.loads(done.stdout)["runs"]
        self.report(runs[0]["last"] is None and runs[1]["last"] is not None, "a run without the metric", done.stdout)
        shutil.copytree(self.path("one"), self.path("foreign"))
        with open(self.path("one", "recipe.yaml"), encoding="utf-8") as file:
            text = file.read().replace("task: classify", "task: foreign\nplugins: [foreign.so]").replace("plugins: []\n", "")
        with open(self.path("foreign", "recipe.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        done = self.plot("foreign", "--json", "--metric", "val/top1")
        self.expect("a task that is not loaded", done, 0, "foreign: its task is that of a plug-in", "plain numbers")
        run = json.loads(done.stdout or '{"runs": [{}]}')["runs"][0]
        self.report(run.get("last") == self.column("one", "val/top1")[-1] and run["best"] is None, "its numbers", str(run))
        self.expect("a plug-in that is missing", self.plot("foreign", "--allow-plugins"), 2, "foreign.so")

    def refuses(self):
        for what, lacks in (("without metrics.csv", "metrics.csv"), ("without recipe.yaml", "recipe.yaml")):
            run = f"lacks-{lacks}"
            shutil.copytree(self.path("one"), self.path(run))
            os.remove(self.path(run, lacks))
            self.expect(what, self.plot(run), 2, f"{run}: not a run folder: it has no {lacks}")
        shutil.copytree(self.path("one"), self.path("damaged"))
        with open(self.path("damaged", "metrics.csv"), "a", encoding="utf-8") as file:
            file.write("1,2,3\n")
        self.expect("a damaged file", self.plot("one", "damaged"), 3, "damaged/metrics.csv:")
        self.expect("no such folder", self.plot("none"), 2, "none: no such folder")
        self.expect("a run given twice", self.plot("one", "one/"), 2, "one/ is given twice")
        self.expect("too many runs", self.plot(*["one"] * 7), 2, "more than 6 runs")
        self.expect("a column that no run has", self.plot("one", "--metric", "val/top6"), 2, "did you mean 'val/top")
        self.expect("another axis", self.plot("one", "--by", "hours"), 2, "'hours' is not step, epoch or seconds")
        self.expect("no run", self.plot(), 2, "which run folders?")

    def outputs(self):
        """What is not a file stays what it is, and so do files of others."""
        for name in ("/dev/null", "picture", "picture.jpg", ".png"):
            self.expect(f"-o {name}", self.plot("one", "-o", name), 2, "must end in .png or .svg")
        self.expect("-o in no folder", self.plot("one", "-o", "none/plot.png"), 2, "there is no folder none")
        for ending in ("png", "svg"):
            os.symlink("/dev/null", self.path(f"link.{ending}"))
        done = self.plot("one", "-o", "link.png")
        self.report(done.returncode == 0 and stat.S_ISCHR(os.stat("/dev/null").st_mode) and
                    os.path.islink(self.path("link.png")), "a device stays one", done.stderr)
        os.makedirs(self.path("folder", "plot.png"))
        other = self.path("folder", "other.tmp-1-1")
        with open(other, "w", encoding="utf-8") as file:
            file.write("of another process")
        self.expect("a folder of this name", self.plot("one", "-o", "folder/plot.png"), 1, "plot.png was not drawn")
        self.report(os.listdir(self.path("folder", "plot.png")) == [] and
                    sorted(os.listdir(self.path("folder"))) == ["other.tmp-1-1", "plot.png"], "nothing else changes",
                    str(os.listdir(self.path("folder"))))

    def without_module(self):
        library = self.path("library")
        os.makedirs(library)
        for file in glob.glob(os.path.join(os.path.dirname(self.serried), "libserried.so*")):
            shutil.copy(file, library, follow_symlinks=False)
        before = os.environ.get("LD_LIBRARY_PATH")
        done = self.plot("one", "-o", "never.png", LD_LIBRARY_PATH=library + (":" + before if before else ""))
        self.expect("without the module", done, 2, "never.png: serried-plots.so is not installed")
        self.report(not os.path.exists(self.path("never.png")), "no picture", "made")


def check(folder):
    tests = Plot(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), folder)
    tests.prepare(20)
    tests.train("one", "steps=8")
    tests.train("two", "steps=6", "optimizer.lr=0.02")
    tests.without_module()
    if not os.path.exists(os.path.join(os.path.dirname(tests.serried), "serried-plots.so")):
        suite.not_run("serried-plots.so is not built")
        return tests
    tests.compares()
    tests.chooses()
    tests.other_tasks()
    tests.refuses()
    tests.outputs()
    return tests


suite.run(check)
