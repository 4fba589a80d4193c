# SPDX-License-Identifier: Apache-2.0
"""A folder of pictures without classes, packed, and a GAN that is trained on it: on any number of ranks, with phases
that do not run in every step, resumed.

usage: check_gan.py SERRIED
"""
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

    def check(self):
        self.pack()
        one, two = self.train("one", STEPS, 1), self.train("two", STEPS, 2)
        self.report(one == two, "the same digest on two ranks", f"{one} {two}")
        self.train("half", 5, 2)
        half = self.train("half", STEPS, 1, "--resume")
        self.report(one == half, "the same digest after a stop between two runs of a phase", f"{one} {half}")
        self.check_files(os.path.join(self.folder, "one"))
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
