#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Custom code with an installed serried: the samples of tests/samples are built by pkg-config and by CMake, train to
the same digest on one rank and on two, and every plug-in that must not be loaded is refused by name.

  check_plugins.py BUILD SOURCE [--few]    without crashes, which sanitizers end in their own way
"""
import glob
import json
import os
import shutil
import subprocess
import sys

import suite

PLUGINS = ["model_strided", "model_headed", "transform_channels", "loss_flooded", "op_swish", "optimizer_signum", "task_attributes"]
WARNINGS = ["-std=c17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


class Plugins(suite.Suite):
    def __init__(self, build, source, folder):
        prefix = os.path.join(folder, "prefix")
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
        super().__init__(os.path.join(prefix, "bin", "serried"), folder)
        self.source, self.bin = source, os.path.join(folder, "own")
        packages = next(path for path, _, files in os.walk(prefix) if "serried.pc" in files)
        library = os.path.dirname(packages)
        self.cmake = os.path.join(library, "cmake", "serried")
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "serried"], check=True, text=True,
                               capture_output=True, env=dict(os.environ, PKG_CONFIG_PATH=packages)).stdout
        self.flags = flags.split() + ["-Wl,-rpath," + library]
        os.mkdir(self.bin, 0o755)

    def path(self, name, text=None):
        path = os.path.join(self.bin, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def compile(self, sources, out, *more):
        line = [os.environ.get("CC", "cc"), *WARNINGS, *os.environ.get("CFLAGS", "").split()]
        subprocess.run([*line, *sources, "-o", self.path(out), *more, *self.flags],
                       check=True, cwd=os.path.join(self.source, "tests"))
        return self.path(out)

    def bad(self, out, *macros):
        return self.compile(["dist/bad_plugin.c"], out, "-shared", "-fPIC", "-Wno-infinite-recursion",
                            *("-D" + macro for macro in macros))

    def run(self, line, **more):
        done = subprocess.run(line, env=suite.environment(**more), text=True, capture_output=True, timeout=180 * suite.SLOW,
                              check=False)
        return done.returncode, done.stdout, done.stderr

    def expect(self, what, line, codes, *words):
        code, out, errors = self.run(line)
        self.report(code in codes and all(word in errors for word in words), what,
                    f"exit code {code}, {codes} and {words} expected:\n{out[-500:]}{errors[-2000:]}")

    # -- samples ----------------------------------------------------------------------------------

    def build(self):
        for name in PLUGINS:
            self.compile([f"samples/{name}.c"], name + ".so", "-shared", "-fPIC")
        self.compile(["samples/own_loop.c"], "own_loop")
        self.compile(["samples/own_source.c"], "own_source")
        self.compile(["samples/lenet.c"], "lenet")
        self.compile(["samples/classify.c"], "classify")
        self.compile(["samples/check_swish.c", "samples/op_swish.c"], "check_swish")
        shutil.copy(os.path.join(self.source, "tests/samples/own.yaml"), self.bin)
        tree = self.path("cmake")
        for line in (["cmake", "-S", os.path.join(self.source, "tests/samples"), "-B", tree,
                      "-Dserried_DIR=" + self.cmake], ["cmake", "--build", tree]):
            code, out, errors = self.run(line)
            self.report(code == 0, " ".join(line[:2]) + " of the samples", out[-2000:] + errors[-2000:])
        for name in os.listdir(os.path.join(self.source, "tests/samples")):
            if name.endswith(".c"):
                with open(os.path.join(self.source, "tests/samples", name), encoding="utf-8") as file:
                    lines = len(file.readlines())
                most = 149 if name.startswith("task_") else 100
                self.report(lines <= most, f"{name} has at most {most} lines", str(lines))

    def programs(self):
        self.expect("gradient check of a custom operator", [self.path("check_swish")], [0])
        self.expect("LeNet by the imperative interface", [self.path("lenet")], [0])
        recipe = self.path("source.yaml", "model: tiny\nimage: 32\nbatch: 64\nlanes: 8\nsteps: 20\n"
                           "optimizer: {name: sgd, lr: 0.05, momentum: 0.9}\nema: {decay: 0.8}\n")
        outputs = set()
        for ranks in (1, 2):
            code, out, errors = self.run(suite.under_mpirun(ranks, [self.path("own_source"), recipe]))
            lines = sorted(line.split(", ", 1)[1] for line in out.splitlines() if line.startswith("rank 0, "))
            outputs.add(f"{code}: {lines} {errors[-500:] if code else ''}")
        self.report(len(outputs) == 1 and min(outputs).startswith("0: ['average: "),
                    "a custom lane source, 1 and 2 ranks", str(outputs))

    def classify(self):
        """The classes of `serried predict`, for files and for their pixels; only a damaged picture is left out."""
        run, pixels = self.path("classified"), self.path("pixels.safetensors")
        code, _, errors = self.run([self.serried, "train", os.path.join(self.source, "tests/recipes/tiny.yaml"), "-o", run,
                                    "data.train=" + self.data, "steps=4"])
        self.report(code == 0, "a run to classify with", errors[-500:])
        pictures = sorted(glob.glob(os.path.join(self.folder, "pictures/*/0001.jpg")))
        code, out, errors = self.run([self.serried, "predict", run, f"--save-pixels={pixels}", *pictures])
        expected = [row.split(",")[:3] for row in out.splitlines()[1:]]
        with open(pixels, "rb") as file:
            data = file.read()[8:]
        side = 32 * 32 * 3
        frames = [data[len(data) - (len(pictures) - i) * side:][:side] for i in range(len(pictures))]
        names = [self.path(f"frame-{i}.ppm") for i in range(len(frames))]
        for name, frame in zip(names, frames):
            with open(name, "wb") as file:
                file.write(b"P6\n32 32\n255\n" + frame)
        for what, files in (("files", pictures), ("pixels", names)):
            code, out, errors = self.run([self.path("classify"), run, *files])
            found = [row.split(",") for row in out.splitlines()]
            self.report(code == 0 and len(found) > 5 and [row[1:] for row in found] == [row[1:] for row in expected],
                        f"a custom program classifies {what}", f"{code}: {found} {expected} {errors[-500:]}")
        for name, content in (("cut.jpg", b"\xff\xd8\xff\xe0"), ("cut.ppm", b"P6\n32 32\n255\n" + frames[0][:-1])):
            with open(self.path(name), "wb") as file:
                file.write(content)
            code, out, errors = self.run([self.path("classify"), run, pictures[0], self.path(name), pictures[1]])
            rows = out.splitlines()
            self.report(code == 0 and len(rows) == 3 and ",SR_E_DATA," in rows[1] and "SR_E" not in rows[0] + rows[2] and
                        name in errors, f"{name} beside good pictures", f"{code}: {rows} {errors[-500:]}")
        self.expect("a run that does not exist", [self.path("classify"), self.path("none"), pictures[0]], [2], "none")

    def signum(self):
        recipe, digests = self.path("own.yaml"), set()
        plugins = ", ".join(self.path(name + ".so") for name in PLUGINS)
        for ranks in (1, 2):
            run = self.path(f"signum-{ranks}")
            code, _, errors = self.run(suite.under_mpirun(ranks, [
                self.serried, "train", recipe, "-o", run, "data.train=" + self.data, f"plugins=[{plugins}]",
                "optimizer={name: signum, lr: 0.001}"]))
            try:
                with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
                    digests.add(json.load(file)["digest"])
            except (OSError, KeyError) as error:
                digests.add(f"{code}: {error} {errors[-500:]}")
        self.report(len(digests) == 1 and len(min(digests)) == 64, "a custom optimiser, 1 and 2 ranks",
                    str(digests))

    def task(self):
        """A task with a metric of its own: the same bits on any ranks, in every file and command that shows it."""
        recipe = self.path("attributes.yaml", "base: tiny\nplugins: [task_attributes.so]\n"
                           "task: {name: attributes, count: 2}\nloss: ~\nsteps: 60\nstop: {metric: val/f1}\n")
        shutil.copy(os.path.join(self.source, "tests/recipes/tiny.yaml"), self.bin)
        results, rows = set(), []
        for ranks in (1, 2):
            run = self.path(f"attributes-{ranks}")
            code, _, errors = self.run(suite.under_mpirun(ranks, [
                self.serried, "train", recipe, "-o", run, "data.train=" + self.data]))
            try:
                with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
                    end = json.load(file)
                results.add((end["digest"], end["metrics"]["val_f1"], end["metrics"]["best_val_f1"]))
                with open(os.path.join(run, "metrics.csv"), encoding="utf-8") as file:
                    rows = [line.split(",") for line in file.read().splitlines()]
            except (OSError, KeyError) as error:
                results.add(f"{code}: {error} {errors[-500:]}")
        self.report(len(results) == 1, "a custom task, 1 and 2 ranks", str(results))
        self.report(bool(rows) and "val/f1" in rows[0] and "val/top1" not in rows[0] and
                    float(rows[-1][rows[0].index("val/f1")]) > 0, "a custom metric in metrics.csv", str(rows[:1] + rows[-1:]))
        code, out, errors = self.run([self.serried, "val", self.path("attributes-1"), "-d", self.data, "--allow-plugins",
                                      "--json"])
        value = json.loads(out).get("val_f1") if code == 0 else errors
        self.report(code == 0 and (min(results)[1] == value), "val gives the custom metric", f"{value} {results}")
        picture = sorted(glob.glob(os.path.join(self.folder, "pictures/*/0001.jpg")))[0]
        self.expect("predict refuses a task that does not classify",
                    [self.serried, "predict", self.path("attributes-1"), "--allow-plugins", picture], [2, 4],
                    "task attributes does not classify pictures")
        for key, words in (("checkpoint.metric=val/top1", ["val/f1"]), ("task.count=9", ["count", "8"]),
                           ("task.number=2", ["number", "task.attributes"]), ("task=attribute", ["attributes"])):
            self.expect(f"a custom task refuses {key}", [self.serried, "recipe", "show", recipe, key], [2], *words)

    def digests(self):
        recipe, digests = self.path("own.yaml"), {}
        for name, line in [("own_loop", [self.path("own_loop"), recipe, "data.train=" + self.data]),
                           ("train", [self.serried, "train", recipe, "-o", "", "data.train=" + self.data])]:
            for ranks in (1, 2):
                run = self.path(f"run-{ranks}")
                words = [run if word == "" else word for word in line]
                code, out, errors = self.run(suite.under_mpirun(ranks, words))
                found = [text.split()[1] for text in out.splitlines() if text.startswith("digest ")]
                digests[name, ranks] = found[0] if code == 0 and len(found) == 1 else f"{code}: {errors[-1500:]}"
        self.report(len(set(digests.values())) == 1, "one digest: custom loop and train, 1 and 2 ranks", str(digests))
        val = [self.serried, "val", self.path("run-1"), "-d", self.data]
        self.expect("a run folder's recipe names code", val, [2], "--allow-plugins")
        self.expect("a run folder's recipe, allowed", val + ["--allow-plugins"], [0])
        self.compile(["samples/model_strided.c"], "model_strided.so", "-shared", "-fPIC", "-O2")
        self.expect("a plug-in of other content is another run",
                    [self.serried, "train", recipe, "-o", self.path("run-1"), "data.train=" + self.data], [2],
                    "another")
        self.expect("an operator's kernels lack a dtype",
                    [self.serried, "train", recipe, "--dry-run", "precision=bf16", "data.train=" + self.data], [2],
                    "swish: none of the operator's kernels (swish/own, ...) takes (bf16, bf16)")
        self.expect("info lists what a plug-in brings", [self.serried, "info", "plugins", self.path("op_swish.so")],
                    [0])

    # -- refusals ---------------------------------------------------------------------------------

    def check(self, what, plugin, *words, head="", tail="", codes=(2,), line=None):
        names = plugin if isinstance(plugin, list) else [plugin]
        recipe = self.path("check.yaml", f"{head}base: tiny\nplugins: {names}\n{tail}".replace("'", ""))
        self.expect(what, line or [self.serried, "recipe", "check", recipe], codes, *words)

    def refusals(self):
        shutil.copy(os.path.join(self.source, "tests/recipes/tiny.yaml"), self.bin)
        again = "rebuild it against the installed headers"
        self.check("no such file", "none.so", "check.yaml:2:", "none.so: No such file")
        self.path("text.so", "no library")
        self.check("no library", "text.so", "text.so cannot be loaded: file too short;")
        self.bad("old.so", "ABI=0")
        self.check("older", "old.so", "old.so was built for plug-in interface 0, but this serried has 3", again)
        self.bad("newer.so", "SIZE=4096")
        self.check("larger struct", "newer.so", "newer.so: its struct sr_plugin has 4096 bytes", again)
        self.bad("model.so", "MODEL_ABI=77")
        self.check("model of another interface", "model.so", "model.so: a model for interface 77", again)
        self.bad("size.so", "MODEL_SIZE=8")
        self.check("model of another size", "size.so", "size.so: the descriptor of a model has 8 bytes", again)
        self.bad("entry.so", "NO_ENTRY")
        self.check("no entry", "entry.so", "entry.so has no function sr_plugin_entry")
        self.bad("missing.so", "MISSING")
        self.check("missing symbol", "missing.so", "missing.so cannot be loaded", "sr_this_is_in_no_version")
        self.bad("taken.so", 'NAME="tiny"')
        self.check("name of a shipped model", "taken.so", "taken.so: the model 'tiny' exists already, from serried")
        self.bad("first.so")
        self.bad("second.so")
        self.check("one name twice", ["first.so", "second.so"], "second.so: the model 'bad' exists already, from",
                   "first.so; give it another name")
        self.check("a good one", "first.so", codes=[0])

    def trust(self):
        self.bad("own.so")
        for mode, words in ((0o666, "can be written by everybody"), (0o664, "can be written by a group")):
            os.chmod(self.path("own.so"), mode)
            self.check(f"mode {mode:o}", "own.so", "own.so: the file", words, "chmod go-w")
        os.symlink("own.so", self.path("link.so"))
        self.check("link to such a file", "link.so", "own.so: the file", "a group")
        os.chmod(self.path("own.so"), 0o644)
        self.check("absolute path", self.path("own.so"), codes=[0])
        os.mkdir(self.path("open"))
        os.chmod(self.path("open"), 0o777)
        shutil.copy(self.path("own.so"), self.path("open/own.so"))
        self.check("folder of everybody", "open/own.so", "open/own.so: its folder can be written by everybody")
        self.check("folder of everybody, closed", "open/own.so", "chmod go-w " + self.path("open"))
        os.makedirs(self.path("above/below"))
        shutil.copy(self.path("own.so"), self.path("above/below/own.so"))
        self.check("all folders closed", "above/below/own.so", codes=[0])
        os.chmod(self.path("above"), 0o775)
        self.check("group-writable folder above", "above/below/own.so", "a folder above it can be written by a group",
                   "chmod go-w " + self.path("above"))
        os.symlink("above/below", self.path("way"))
        self.check("by a link in the path", "way/own.so", "a folder above it can be written by a group")
        os.chmod(self.path("above"), 0o1777)
        self.check("sticky folder above", "above/below/own.so", codes=[0] if os.geteuid() == 0 else [2])
        os.chmod(self.path("above"), 0o755)
        self.check("by a link, all closed", "way/own.so", codes=[0])
        if os.geteuid() != 0:
            suite.not_run("files of other owners (only root can make them)")
            return
        os.chown(self.path("own.so"), 12345, -1)
        self.check("file of another user", "own.so", "own.so: the file belongs to user 12345")
        os.chown(self.path("own.so"), 0, -1)
        os.chown(self.path("above"), 12345, -1)
        self.check("folder above of another user", "above/below/own.so", "a folder above it belongs to user 12345")
        os.chown(self.path("above"), 0, -1)
        recipe = self.path("theirs.yaml", "base: tiny\nplugins: [own.so]\nmodel: bad\naugment: []\n")
        os.chown(recipe, 12345, -1)
        train = [self.serried, "train", "--dry-run", recipe, "data.train=" + self.data]
        self.expect("recipe of another user", train, [2], "theirs.yaml:2:", "--allow-plugins")
        self.expect("the same, allowed", train + ["--allow-plugins"], [0])
        self.expect("the same, by override", train + [f"plugins=[{self.path('own.so')}]"], [0])

    # -- crashes ----------------------------------------------------------------------------------

    def crashes(self):
        self.bad("crash.so", "CRASH_LOADING")
        self.check("crash while loading", "crash.so", "SIGSEGV", "crash.so", codes=[-11, 139])
        crash = [-6, -7, -11, 134, 135, 139]
        for what, macro, augment, codes, words in [
                ("crash in a model", "CRASH_BUILD", "", crash, "SIGSEGV in the plug-in"),
                ("endless recursion", "CRASH_DEEP", "", crash, "SIGSEGV in the plug-in"),
                ("crash in what it called", "CRASH_BELOW", "", crash, "SIGSEGV in what was called by the plug-in"),
                ("crash on a thread", "CRASH_TRANSFORM",
                 "augment: [bad, resize: {size: 32}]\ndata: {processes: 0}\n", crash, "SIGSEGV in the plug-in"),
                ("crash in a data process", "CRASH_TRANSFORM", "augment: [bad, resize: {size: 32}]\n", [6],
                 "SIGSEGV in the plug-in")]:
            self.bad("bad.so", macro)
            recipe = self.path("crash.yaml", f"base: tiny\nplugins: [bad.so]\nmodel: bad\n{augment}")
            self.expect(what, [self.serried, "train", recipe, "-n", "1", "-o", self.path("crashed"), "--fresh",
                               "data.train=" + self.data], codes, words, "/bad.so;", "addr2line -fe ")

    # Inside the sandbox of its data process a transform opens no file; as a thread it does.
    def late(self):
        self.bad("bad.so", "OPEN_LATE")
        for processes, codes, words in ((1, [1], ["transform bad of ", "/bad.so: /etc/hostname: ", " record "]),
                                        (0, [0], [])):
            recipe = self.path("late.yaml", "base: tiny\nplugins: [bad.so]\naugment: [random_resized_crop, bad]\n"
                               f"data: {{processes: {processes}}}\n")
            self.expect(f"a transform that opens a file late, data.processes={processes}",
                        [self.serried, "train", recipe, "-n", "1", "-o", self.path("late"), "--fresh",
                         "data.train=" + self.data, "steps=4"], codes, *words)


def main():
    build, source = (os.path.abspath(word) for word in sys.argv[1:3])

    def body(folder):
        os.chmod(folder, 0o755)
        plugins = Plugins(build, source, folder)
        plugins.prepare(20)
        plugins.build()
        plugins.programs()
        plugins.classify()
        plugins.digests()
        plugins.signum()
        plugins.task()
        plugins.refusals()
        plugins.trust()
        if "--few" not in sys.argv:
            plugins.crashes()
        plugins.late()
        return plugins

    suite.run(body)


if __name__ == "__main__":
    main()
