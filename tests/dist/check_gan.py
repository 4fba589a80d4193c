# SPDX-License-Identifier: Apache-2.0
"""A folder of pictures without classes, packed, and a GAN that is trained on it: on any number of ranks, with phases
that do not run in every step, resumed.

usage: check_gan.py SERRIED
"""
import csv
import glob
import json
import os
import shutil
import subprocess
import sys

import suite

STEPS, RUN = 9, ("phases.D.every=2", "phases.R1={set: D, every: 4}", "ema.decay=0.9", "optimizer.name=adam", "optimizer.lr=0.001")


class Gan(suite.Suite):
    def call(self, *line, ranks=1):
        return subprocess.run(suite.under_mpirun(ranks, [self.serried, *line]), env=suite.environment(), text=True,
                              capture_output=True, timeout=120 * suite.SLOW, check=False)

    def pack(self):
        drawn, flat = os.path.join(self.folder, "drawn"), os.path.join(self.folder, "flat")
        self.call("render", drawn, "--count", "20")
        os.mkdir(flat)
        for parent, _, names in os.walk(drawn):
            for name in names:
                shutil.move(os.path.join(parent, name), os.path.join(flat, os.path.basename(parent) + name))
        done = self.call("pack", flat, self.data)
        self.report(done.returncode == 0 and "read as pictures, pictures without classes" in done.stdout
                    and "200 train; " in done.stdout and "no picture has a class" in done.stderr,
                    "pictures without classes are packed", done.stdout + done.stderr)

    def train(self, name, steps, ranks, where="-o"):
        done = self.call("train", "toy-gan", where, os.path.join(self.folder, name), "data.train=" + self.data,
                         f"steps={steps}", *RUN, ranks=ranks)
        digest = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("digest ")]
        self.report(done.returncode == 0 and len(digest) == 1, f"{name}: {steps} steps on {ranks} ranks", done.stderr[-500:])
        return digest

    def check_files(self, folder):
        """G infers: it names the model and comes first in both files of weights."""
        for name in ("model", "model_ema"):
            with open(os.path.join(folder, "last", name + ".safetensors"), "rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            about = header.pop("__metadata__")
            sets = list(dict.fromkeys(key.split(".")[0] for key in header))
            self.report(about["serried.model"] == "toy-generator" and sets == ["G", "D"], f"{name}: G comes first",
                        f"{sets} {about}")

    def rows(self, name):
        """The columns of the phases in metrics.csv, as written."""
        with open(os.path.join(self.folder, name, "metrics.csv"), encoding="utf-8", newline="") as file:
            return [{key: cell for key, cell in row.items() if key.startswith(("train/", "D.", "G.", "R1."))}
                    for row in csv.DictReader(file)]

    def check_columns(self):
        """Every phase has its loss and rate, D also the parts of its loss, which add up to it; also after a stop."""
        one, half = self.rows("one"), self.rows("half")
        wanted = {"train/D.loss", "train/R1.loss", "train/G.loss", "train/D.real", "train/D.fake", "D.lr", "G.lr", "R1.lr"}
        self.report(wanted <= set(one[0]), "columns of phases", str(sorted(one[0])))
        parts = [abs(float(row["train/D.loss"]) - float(row["train/D.real"]) - float(row["train/D.fake"]))
                 for row in one if row["train/D.loss"]]
        self.report(0 < len(parts) < len(one) and max(parts) < 1e-5, "the parts of D's loss add up to it", str(parts))
        self.report(one == half, "the same rows after a stop", f"{one}\n{half}")

    def check_pictures(self):
        """What G draws from fixed noise after each epoch: the same picture on any number of ranks, also in TensorBoard's file."""
        pictures = []
        for name in ("one", "two"):
            with open(os.path.join(self.folder, name, "samples", "generated.png"), "rb") as file:
                pictures.append(file.read())
        self.report(pictures[0] == pictures[1] and pictures[0][:4] == b"\x89PNG", "generated pictures on two ranks",
                    str([len(picture) for picture in pictures]))
        events = glob.glob(os.path.join(self.folder, "one", "events.out.tfevents.*"))
        with open(events[0], "rb") as file:
            self.report(len(events) == 1 and b"generated" in file.read(), "generated pictures for TensorBoard", str(events))

    def check(self):
        self.pack()
        one, two = self.train("one", STEPS, 1), self.train("two", STEPS, 2)
        self.report(one == two, "the same digest on two ranks", f"{one} {two}")
        self.train("half", 5, 2)
        half = self.train("half", STEPS, 1, "--resume")
        self.report(one == half, "the same digest after a stop between two runs of a phase", f"{one} {half}")
        self.check_files(os.path.join(self.folder, "one"))
        self.check_columns()
        self.check_pictures()
        done = self.call("train", "resnet18", "-o", os.path.join(self.folder, "no"), "data.train=" + self.data, "steps=1")
        self.report(done.returncode == 3 and "has no class" in done.stderr, "a classifier is refused", done.stderr[-500:])
        for line, message in ((["val", "--data", self.data], "task gan has no metric"),
                              (["predict"], "task gan does not classify pictures")):
            pictures = [os.path.join(self.folder, "flat", "star0001.jpg")] if line == ["predict"] else []
            done = self.call(line[0], os.path.join(self.folder, "one"), *line[1:], *pictures)
            self.report(done.returncode != 0 and message in done.stderr, f"{line[0]} is refused", done.stderr[-500:])
        return self


def main():
    serried = os.path.abspath(sys.argv[1])
    suite.run(lambda folder: Gan(serried, folder).check())


if __name__ == "__main__":
    main()
