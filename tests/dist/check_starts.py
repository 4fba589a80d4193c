#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The start of a run: settings that would fail later are refused before the first step, what makes training weak is
warned of, a run resumes with its own data only, and `best` is the state of the best evaluation.

  check_starts.py SERRIED RECIPE
"""
import csv
import hashlib
import json
import math
import os
import re
import struct
import subprocess
import sys

import suite


class Starts(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = os.path.abspath(recipe)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def command(self, *words, folder=None, ranks=1):
        return subprocess.run(suite.under_mpirun(ranks, [self.serried, *words]), env=suite.environment(), text=True,
                              capture_output=True, timeout=100 * suite.SLOW, check=False, cwd=folder or self.folder)

    def train(self, run, *values, option="-o", recipe=None):
        return self.command("train", recipe or self.recipe, option, run, *values)

    def expect(self, what, done, code, *words):
        missing = [word for word in words if word not in done.stderr + done.stdout]
        self.report(done.returncode == code and not missing, what,
                    f"exit code {done.returncode}, without {missing}:\n{done.stdout[-500:]}{done.stderr[-1500:]}")

    def manifest(self, run, generation="last"):
        with open(self.path(run, generation, "manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def best(self):
        """`best` does not depend on checkpoint.every, and starts over with another metric."""
        values = ["data.train=data", "epochs=4", "optimizer.lr=0.4", "checkpoint.metric=val/loss"]
        for run, every in (("often", "[1ep]"), ("seldom", "[1h]"), ("coarse", "[3ep]")):
            done = self.train(run, *values, f"checkpoint.every={every}")
            with open(self.path(run, "metrics.csv"), encoding="utf-8") as file:
                rows = [(float(row["val/loss"]), int(row["step"])) for row in csv.DictReader(file) if row["val/loss"]]
            best = self.manifest(run, "best")
            self.report(done.returncode == 0 and len(rows) == 4 and best["step"] == min(rows)[1] and
                        best["best_step"] == best["step"] and self.manifest(run)["best_step"] == best["step"],
                        f"best with checkpoint.every={every}", f"{rows} {best['step']}\n{done.stderr[-500:]}")
        values[1], values[3] = "epochs=5", "checkpoint.metric=val/top1"
        done = self.train("seldom", *values, option="--resume")
        self.expect("another metric", done, 0, "checkpoint.metric changed since the last checkpoint: 'best' starts over")
        self.report(self.manifest("seldom", "best")["step"] > 5, "its best", str(self.manifest("seldom", "best")["step"]))

    def lengths(self):
        """Products of numbers of a recipe that no 64 bits hold."""
        for steps in (9000000000000000, 4503599627370499):
            for option in (["--dry-run"], ["-o", "far"]):
                done = self.command("train", self.recipe, *option, "data.train=data", "batch=4096", f"steps={steps}")
                self.expect(f"{steps} steps of 4096 samples, {option[0]}", done, 2, "a run has at most 9e+15: lower steps")
        self.expect("positions beyond 64 bits",
                    self.train("beyond", "data.train=data", "steps=1", "progressive={from: 16, step: 16, end: 9e15ep}",
                               "mix={mixup: 1, until: 9e15ep}", "schedule.warmup=0it"), 0)
        self.expect("a transform from beyond 64 bits",
                    self.train("late", "data.train=data", "steps=1", "schedule.warmup=0it",
                               "augment=[{flip: {from: 9e15ep}}]"), 2,
                    "flip is never applied")
        for augment in ("[flip, color_jitter]", "[pad_crop, {pad: {size: 2}}, random_crop]", "[{resize: {size: 20}}]"):
            self.expect(f"resident pictures with {augment}",
                        self.train("stays", "data.train=data", "steps=1", "schedule.warmup=0it", f"augment={augment}",
                                   "data.resident=always"), 2, "data.resident")
        for augment, code, words in (("[flip, color_jitter]", 2, "data.resident"),
                                     ("[flip, pad_crop]", 0, "training pictures stay on the device if")):
            done = self.command("train", self.recipe, "--dry-run", "data.train=data", f"augment={augment}", "data.resident=always")
            self.report(done.returncode == code and words in done.stdout + done.stderr, f"resident pictures, dry, with {augment}",
                        f"{done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
        self.expect("resident pictures of several sizes",
                    self.train("stays", "data.train=data", "steps=1", "schedule.warmup=0it", "augment=[pad_crop]",
                               "data.resident=always"), 2, "cannot stay on the device: ")
        self.expect("infinite rate", self.train("rate", "data.train=data", "optimizer.lr_per=1e-308",
                                                "optimizer.lr=1000"), 2, "is too large for a batch of 64")

    def progress(self):
        """A manifest whose numbers disagree, with a checksum that matches."""
        self.train("odd", "data.train=data", "steps=4", "checkpoint.every=[2it]")
        path = self.path("odd", "checkpoints", "00000002", "manifest.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        os.remove(self.path("odd", "exit.json"))
        for key, value in (("position", "255"), ("step", "5"), ("step", "-4"), ("batch", "0"), ("best_step", "9")):
            body = re.sub(rf'"{key}": [0-9]+', f'"{key}": {value}', text[:text.rindex(',\n"sha256"')])
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'{body},\n"sha256": "{hashlib.sha256(body.encode()).hexdigest()}"}}\n')
            done = self.command("verify", "odd")
            self.report(done.returncode == 3 and "damaged: " in done.stdout, f"{key} {value}", done.stdout + done.stderr)
        done = self.train("odd", "data.train=data", "steps=4", "checkpoint.every=[2it]")
        self.expect("goes on from the generation before", done, 0, "resuming odd at step 2 of 4")

    def pack(self, data, source, *options, folder=None):
        done = self.command("pack", self.path(source), data, *options, folder=folder)
        self.report(done.returncode == 0, f"pack {data}", done.stderr)

    def permuted(self):
        """The classes of a run keep their numbers: data in which they are others are other data, however long the run."""
        names = sorted(os.listdir(self.path("pictures")))
        for name, order in (("reversed", names[::-1]), ("swapped", [names[1], names[0], *names[2:]])):
            with open(self.path(name + ".txt"), "w", encoding="utf-8") as file:
                file.write("".join(f"{name}\n" for name in order))
            self.pack(name, "pictures", "--val-fraction", "0.2", "--classes", self.path(name + ".txt"))
        self.train("kept", "data.train=data", "epochs=1")
        for data, epochs in (("reversed", "2"), ("swapped", "3"), ("reversed", "1")):
            done = self.train("kept", f"data.train={data}", f"epochs={epochs}", option="--resume")
            self.expect(f"classes {data}, epochs={epochs}", done, 2, "was started with other options, seed or data")
        os.remove(self.path("kept", "identity"))
        with open(self.path("kept", "identity"), "w", encoding="utf-8") as file:
            file.write("0" * 64 + "\n")
        done = self.train("kept", "data.train=reversed", "epochs=2", option="--resume")
        self.expect("the same without an identity", done, 2, "was started with other options, seed or data")
        done = self.train("kept", f"data.train={self.data}", "epochs=2", option="--resume")
        self.expect("its own data by another path", done, 0, "resuming kept at step")

    def found(self):
        """`val` and `train --resume` use the data of the run, wherever they are started; others only if they are named."""
        for name, count in (("p", "6"), ("q", "8")):
            os.mkdir(self.path(name))
            subprocess.run([self.serried, "render", self.path(name, "pictures"), "--count", count], check=True,
                           capture_output=True)
            self.pack("data", self.path(name, "pictures"), "--val-fraction", "0.5", folder=self.path(name))
        short = ["data.train=data", "steps=2"]
        self.command("train", self.recipe, "-o", "run", *short, folder=self.path("p"))
        want = self.command("val", "run", folder=self.path("p"))
        self.report(want.returncode == 0 and "samples 30" in want.stdout, "val where it was started",
                    want.stdout + want.stderr)
        for folder, run in (("q", "../p/run"), ("", "p/run/last"), ("p/run", ".")):
            done = self.command("val", run, folder=self.path(folder))
            self.report(done.stdout == want.stdout and done.returncode == 0 and "damaged" not in done.stderr,
                        f"val {run} in '{folder}'", f"{done.stdout} {done.stderr}")
        for words in (["--data", "data"], ["data.train=data"]):
            done = self.command("val", "../p/run", *words, folder=self.path("q"))
            self.expect(f"val {words}", done, 0, "samples 40")
        # The run's own recipe, which is not the one that it was started with by its name.
        name = os.path.splitext(os.path.basename(self.recipe))[0]
        self.command("train", self.recipe, "-o", "again", *short, folder=self.path("p"))
        for folder, run, steps in (("p", "run", 3), ("q", "../p/again", 3), ("", "p/again", 4), ("p/again", ".", 5)):
            done = self.command("train", "--resume", run, f"steps={steps}", folder=self.path(folder))
            self.expect(f"--resume {run} in '{folder}'", done, 0, f"{name}: tiny", f"at step {steps - 1} of {steps}")
        self.report(self.manifest("p/again")["recipe"] == name, "the recipe's name", self.manifest("p/again")["recipe"])
        for folder in ("none", "p"):
            self.expect(f"--resume {folder}", self.command("train", "--resume", folder), 2,
                        f"--resume {folder}: not a run folder")
        # A session from another folder: the recipe of the run has its paths from there on.
        weights = ["weights=run/last/model.safetensors", *short, "data.val=../q/data"]
        self.command("train", self.recipe, "-o", "tuned", *weights, folder=self.path("p"))
        done = self.command("val", "p/tuned")
        self.expect("data.val and weights", done, 0, "samples 40")
        self.report("damaged" not in done.stderr, "weights are found, too", done.stderr)
        done = self.command("train", self.recipe, "--resume", "p/tuned", "steps=4", "data.train=p/data",
                            "data.val=p/data", "weights=p/run/last/model.safetensors")
        self.expect("resumed elsewhere", done, 0, "'best' starts over")
        self.expect("val afterwards", self.command("val", "../p/tuned", folder=self.path("q")), 0, "samples 30")
        os.rename(self.path("p", "data"), self.path("p", "away"))
        self.expect("val without the run's data", self.command("val", "run", folder=self.path("p")), 2,
                    "data: No such file or directory; name the data set to evaluate with --data DATA")
        os.rename(self.path("p", "away"), self.path("p", "data"))
        os.rename(self.path("p"), self.path("moved"))
        done = self.command("val", "run", folder=self.path("moved"))
        self.expect("all folders were moved", done, 0, "samples 30")
        done = self.command("val", "../moved/run", folder=self.path("q"))
        self.expect("other data at the path", done, 2, "data does not have the val split that the run was evaluated on",
                    "--data DATA")

    def weights(self):
        """Weights that do not fit leave no run folder."""
        first = sorted(os.listdir(self.path("pictures")))[0]
        for name, classes in (("fewer", lambda names: names[1:]), ("renamed", lambda names: ["zebra", *names[1:]])):
            os.mkdir(self.path("pictures-" + name))
            for source, target in zip(sorted(os.listdir(self.path("pictures")))[::-1],
                                      classes(sorted(os.listdir(self.path("pictures"))))[::-1]):
                os.symlink(self.path("pictures", source), self.path("pictures-" + name, target))
            self.pack(name, "pictures-" + name)
        self.train("source", "data.train=data", "steps=2")
        good = self.path("source", "last", "model.safetensors")
        with open(good, "rb") as file:
            content = bytearray(file.read())
        data = 8 + int.from_bytes(content[:8], "little")
        begin = json.loads(content[8:data])["conv1.weight"]["data_offsets"][0]
        content[data + begin:data + begin + 4] = struct.pack("<f", math.inf)
        for name, bytes_ in (("infinite", content), ("short", content[:-1]), ("empty", b"")):
            with open(self.path(name + ".safetensors"), "wb") as file:
                file.write(bytes_)
        for what, code, words, values in (
                ("fewer classes", 2, "weights_reset", ["data.train=fewer", f"weights={good}"]),
                ("another class", 2, f"'{first}'", ["data.train=renamed", f"weights={good}"]),
                ("another width", 2, "of another shape: conv1.weight", [f"weights={good}", "model={name: tiny, width: 8}"]),
                ("another model", 2, "does not fit the model", [f"weights={good}", "model=resnet18"]),
                ("infinite", 5, "conv1.weight", ["weights=infinite.safetensors"]),
                ("short", 3, "short.safetensors", ["weights=short.safetensors"]),
                ("empty", 3, "empty.safetensors", ["weights=empty.safetensors"])):
            for ranks, option in ((2 if what == "infinite" else 1, ["-o", "unfit"]), (1, ["--dry-run"])):
                done = self.command("train", self.recipe, *option, "data.train=data", "steps=2", *values, ranks=ranks)
                self.expect(f"weights of {what}, {option[0]}, {ranks} ranks", done, code, words)
                self.report(not os.path.exists(self.path("unfit")), f"no run with weights of {what}", "there is a folder")

    def lanes(self):
        """What --dry-run says of lanes that are too small for batch norm, training says in its first lines."""
        small = ["data.train=data", "device=cpu", "image=32", "augment=[resize, center_crop]", "steps=1", "lanes=8",
                 "schedule.warmup=0it"]
        rows = [
            ("resnet18", ["batch=8"], 2, "one value for each channel"),
            ("resnet18", ["batch=8", "image=64", "progressive.from=32"], 2, "one value for each channel"),
            ("mobilenet-v3-large", ["batch=8"], 2, "give lanes=1 and a larger batch"),
            (self.recipe, ["batch=32"], 0, "the statistics of 4 samples, which are noisy below 16: give lanes=2, or "
             "sync_bn=all"),
            (self.recipe, ["batch=256"], 0, ""),
            (self.recipe, ["batch=32", "sync_bn=4"], 0, ""),
            ("resnet18", ["batch=8", "sync_bn=2"], 0, "the statistics of 2 samples, which are noisy below 16"),
            ("vit-8.yaml", ["batch=8", "lanes=4"], 0, ""),
        ]
        with open(self.path("vit-8.yaml"), "w", encoding="utf-8") as file:
            file.write("base: deit-small\nmodel: {name: vit_tiny_patch16_224}\nmix: ~\n"
                       "data: {repeats: 1}\n")
        for recipe, values, code, words in rows:
            for option in (["--dry-run"], ["-o", f"lanes-{len(os.listdir(self.folder))}"]):
                done = self.command("train", recipe, *option, *small, *values)
                what = f"{os.path.basename(recipe)} {values} {option[0]}"
                self.expect(what, done, code, words)
                warned = [line for line in done.stderr.splitlines() if "batch norm" in line]
                self.report(bool(warned) == bool(words), what + ": warned", done.stderr[-800:])

    def milestones(self):
        """Milestones of a recipe are epochs of its own run, whatever length those of its base are meant for."""
        with open(self.path("mine.yaml"), "w", encoding="utf-8") as file:
            file.write("base: resnet18\nmodel: tiny\nimage: 32\nbatch: 80\nlanes: 1\nepochs: 6\ndata: {train: data}\n"
                       "device: cpu\naugment: [resize, center_crop]\noptimizer: {lr: 0.1, lr_per: ~}\n"
                       "schedule: {name: step, milestones: [2, 4]}\n")
        done = self.train("stairs", recipe="mine.yaml")
        with open(self.path("stairs", "metrics.csv"), encoding="utf-8") as file:
            rates = [float(f"{float(row['lr']):.3g}") for row in csv.DictReader(file)]
        self.report(rates == [0.1, 0.1, 0.01, 0.01, 0.001, 0.001], "milestones", f"{rates} {done.stderr[-800:]}")
        done = self.train("slow", "data.train=data", "steps=3")
        self.expect("a long warm-up", done, 0, "schedule.warmup takes 67 % of this run")

    def unequal(self):
        """Ranks that were given other neutral keys would wait for each other at other steps."""
        rows = [("eval.batch=64", "eval.batch=32", "eval.batch: rank 1"),
                ("checkpoint.every=[1it]", "checkpoint.every=[3it]", "checkpoint.every[0]: rank 1"),
                ("profile=1:2", "seed=0", "profile: rank 1"),
                ("exchange.bucket=4096", "exchange.bucket=8192", "exchange.bucket: rank 1"),
                ("data.workers=1", "data.workers=2", "")]
        start = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        for number, (one, two, words) in enumerate(rows):
            line = [self.serried, "train", self.recipe, "-o", f"unequal-{number}", "data.train=data", "steps=3"]
            done = subprocess.run([*start, "-np", "1", *line, one, ":", "-np", "1", *line, two],
                                  env=suite.environment(), text=True, capture_output=True, check=False,
                                  timeout=100 * suite.SLOW, cwd=self.folder)
            self.expect(f"{one} and {two}", done, 2 if words else 0, words and f"ranks disagree on {words}")

    def evaluation(self):
        """Settings of evaluation that cannot work are refused before the first step; a corrected one is the same run."""
        rows = [("eval.batch=50", "eval.batch 50 cannot be divided into 8 equal lanes; give 48 or 56"),
                ("eval.batch=4", "eval.batch 4 cannot be divided into 8 equal lanes; give 8"),
                ("eval.crop=1", "error: evaluation: "), ("eval.crop=65536", "error: evaluation: "),
                ("eval.resize=65536", "eval.resize makes pictures of at least 65536 x 65536"),
                ("eval.resize=[4096,32769]", "of at least 4096 x 32769"), ("eval.batch=16777216", "lower eval.batch")]
        for value, words in rows:
            for option in (["--dry-run"], ["-o", "never"]):
                done = self.command("train", "cifar10-fast", *option, "data.train=data", "image=32", "batch=80", "lanes=8",
                                    "epochs=1", value)
                self.expect(f"{value} {option[0]}", done, 2, words)
        self.report(not os.path.exists(self.path("never")), "no run folder", "there is one")
        values = ["data.train=data", "steps=3"]
        for run, more in (("first", []), ("second", ["eval.batch=16", "eval.crop=24", "eval.flip=true"])):
            self.train(run, *values, *more)
        files = []
        for run in ("first", "second"):
            with open(self.path(run, "identity"), encoding="utf-8") as file:
                files.append(file.read())
        digests = [self.manifest(run)["digest"] for run in ("first", "second")]
        self.report(files[0] == files[1] and digests[0] == digests[1], "another evaluation is the same run",
                    f"{files} {digests}")
        os.remove(self.path("first", "exit.json"))
        done = self.train("first", *values, "eval.crop=24")
        self.expect("resumed with another crop", done, 0, "resuming first at step 3 of 3",
                    "evaluation settings (eval) changed since the last checkpoint: 'best' starts over")
        with open(self.path("first", "recipe.yaml"), encoding="utf-8") as file:
            self.report("crop: 24" in file.read(), "recipe.yaml has it", "no")

    def all(self):
        self.prepare(10)
        self.evaluation()
        self.lanes()
        self.milestones()
        self.unequal()
        self.permuted()
        self.found()
        self.weights()
        self.best()
        self.lengths()
        self.progress()


def check(folder):
    starts = Starts(os.path.abspath(sys.argv[1]), sys.argv[2], folder)
    starts.all()
    return starts


suite.run(check)
