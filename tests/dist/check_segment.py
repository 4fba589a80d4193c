# SPDX-License-Identifier: Apache-2.0
"""Segmentation from pictures with masks to predicted masks: one digest on any number of ranks, also after a stop; an
evaluation that is what counting the predicted PNGs gives, whole, in windows, at several scales and mirrored.

usage: check_segment.py SERRIED RECIPE [losses]
"""
import csv
import glob
import json
import os
import re
import subprocess
import sys
import zlib

import suite

CLASSES, IGNORED, STEPS = 11, 255, 4
VIEWS = {"whole": (), "windows": ("task.window=40", "task.stride=24"),
         "scales and mirrored": ("task.scales=[0.75,1,1.5]", "eval.flip=true"), "resized": ("eval.resize=[56,72]",)}


def paeth(left, up, corner):
    near = left + up - corner
    distance = abs(near - left), abs(near - up), abs(near - corner)
    return (left, up, corner)[distance.index(min(distance))]


def read_ids(path):
    """The numbers of a PNG with 8 bits a pixel (PNG specification, section 9: filters)."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed, width, height, palette = 8, b"", 0, 0, b""
    while at < len(data):
        length, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
            assert body[8] == 8, path
        packed += body if kind == b"IDAT" else b""
        palette = body if kind == b"PLTE" else palette
        at += length + 12
    raw, rows, before = zlib.decompress(packed), [], bytes(width)
    for y in range(height):
        row, kind = bytearray(raw[y * (width + 1) + 1:(y + 1) * (width + 1)]), raw[y * (width + 1)]
        for x in range(width):
            left, up, corner = row[x - 1] if x else 0, before[x], before[x - 1] if x else 0
            row[x] = (row[x] + (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind]) % 256
        rows.append(bytes(row))
        before = bytes(row)
    return rows, palette


def count_iou(pairs):
    """The mean IoU of pairs of maps, class by class."""
    truth, found, both = [0] * CLASSES, [0] * CLASSES, [0] * CLASSES
    for mask, result in pairs:
        for true_row, found_row in zip(mask, result):
            for t, f in zip(true_row, found_row):
                if t != IGNORED:
                    truth[t] += 1
                    found[f] += 1
                    both[t] += t == f
    unions = [(b, t + f - b) for b, t, f in zip(both, truth, found) if t + f]
    return sum(b / union for b, union in unions) / len(unions)


class Segment(suite.Suite):
    def __init__(self, serried, folder, recipe):
        super().__init__(serried, folder)
        self.recipe = recipe

    def call(self, *line, ranks=1):
        return subprocess.run(suite.under_mpirun(ranks, [self.serried, *line]), env=suite.environment(), text=True,
                              capture_output=True, timeout=120 * suite.SLOW, check=False)

    def pack(self):
        self.drawn = os.path.join(self.folder, "drawn")
        self.call("render", self.drawn, "--masks", "--count", "10")
        done = self.call("pack", self.drawn, self.data, "--class-map", os.path.join(self.drawn, "classes.txt"))
        self.report(done.returncode == 0 and f"80 train, 20 val; {CLASSES} classes" in done.stdout, "packed",
                    done.stdout + done.stderr)

    def train(self, name, steps, ranks, *more, where="-o"):
        done = self.call("train", self.recipe, where, os.path.join(self.folder, name), "data.train=" + self.data,
                         f"steps={steps}", *more, ranks=ranks)
        digest = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("digest ")]
        self.report(done.returncode == 0 and len(digest) == 1, f"{name}: {steps} steps on {ranks} ranks", done.stderr[-500:])
        return digest

    def check_views(self, run):
        """What `val` measures is what counting the masks of `predict` gives; the same numbers on three ranks."""
        masks = {os.path.basename(path): read_ids(path)[0] for path in glob.glob(self.drawn + "/masks/val/*.png")}
        for number, (name, overrides) in enumerate(VIEWS.items()):
            one, three = (self.call("val", run, *overrides, ranks=ranks).stdout for ranks in (1, 3))
            values = dict(line.split() for line in one.splitlines() if line.startswith("val_"))
            self.report("val_mIoU" in values and one == three, f"{name}: the same on three ranks", f"{one}\n{three}")
            to = os.path.join(self.folder, f"labels{number}")
            done = self.call("predict", run, *overrides, self.drawn + "/images/val", "-o", to)
            found = {os.path.basename(path): read_ids(path) for path in glob.glob(to + "/*.png")}
            self.report(done.returncode == 0 and found.keys() == masks.keys(), f"{name}: a mask for each picture",
                        done.stderr[-500:])
            self.report(all(len(palette) == 768 for _, palette in found.values()), f"{name}: masks have a palette", "")
            counted = count_iou([(masks[key], rows) for key, (rows, _) in found.items()])
            self.report(f"{counted:.4f}" == values.get("val_mIoU"), f"{name}: mIoU of the masks", f"{counted} {values}")

    def check_files(self, run):
        names = ("classes.csv", "confusion.csv", "results.png", "samples/val.png")
        self.report(all(os.path.exists(os.path.join(run, name)) for name in names), "files of a run", str(os.listdir(run)))
        with open(os.path.join(run, "classes.csv"), encoding="utf-8") as file:
            rows = file.read().splitlines()
        self.report(len(rows) == 1 + CLASSES and rows[0] == "class,iou,accuracy,pixels" and rows[1].startswith("background,"),
                    "IoU of each class", str(rows))

    def check_tables(self, run):
        """`val -o` writes what the last evaluation of the run wrote, on any number of ranks."""
        to = os.path.join(self.folder, "tables")
        done = self.call("val", run, "-o", to, ranks=2)
        for name in ("classes.csv", "confusion.csv"):
            same = [open(os.path.join(folder, name), "rb").read() for folder in (run, to) if done.returncode == 0]
            self.report(len(same) == 2 and same[0] == same[1], f"val writes {name}", done.stderr[-500:])
        done = self.call("val", run, "-o", "/dev/null")
        self.report(done.returncode == 1 and "/dev/null" in done.stderr, "val -o /dev/null is refused", done.stderr[-500:])

    def check_losses(self):
        """A loss that is a list: the sum of its losses, which are logged, of all heads."""
        self.pack()
        digest = self.train("single", STEPS, 2)
        found = self.train("listed", STEPS, 1, "loss=[cross-entropy]")
        self.report(found == digest, "a list of one loss has the digest of that loss", f"{found} {digest}")
        losses = "loss=[cross-entropy, {name: dice, weight: 3}, {name: dice, batch: true, weight: 0.5, as: dice_of_batch}]"
        one = self.train("parts", STEPS, 2, losses)
        self.train("resumed", 2, 1, losses)
        half = self.train("resumed", STEPS, 1, losses, where="--resume")
        self.report(one == half != digest, "several losses: the same digest on one rank, after a stop", f"{one} {half}")
        for name in ("parts", "resumed"):
            run = os.path.join(self.folder, name)
            with open(os.path.join(run, "metrics.csv"), encoding="utf-8") as file:
                rows = [row for row in csv.DictReader(file) if row["train/loss"]]
            with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
                metrics = json.load(file)["metrics"]
            parts = [f"loss_{part}" for part in ("cross-entropy", "dice", "dice_of_batch")]
            sums = [(float(row["train/loss"]), sum(float(row[f"train/{key}"]) for key in parts),
                     float(row["train/loss_main"]) + float(row["train/loss_auxiliary"])) for row in rows]
            sums += [(metrics["train_loss"], sum(metrics[f"train_{key}"] for key in parts), metrics["train_loss"])]
            self.report(len(sums) > 1 and all(abs(whole - other) < 1e-5 * whole for whole, *others in sums for other in others),
                        f"{name}: the parts add up to the loss", str(sums))
            self.report(all(float(rows[-1][f"train/{key}"]) > 0.01 for key in (*parts, "loss_auxiliary")),
                        f"{name}: every part is logged", str(rows[-1]))
            with open(os.path.join(run, "log.txt"), encoding="utf-8") as file:
                said = re.findall(r"train loss \S+ \(cross-entropy \S+, dice (\S+), dice_of_batch \S+\)  val", file.read())
            self.report(said[-1:] == [f"{float(rows[-1]['train/loss_dice']):.4f}"], f"{name}: parts in the log", str(said))
            events = b"".join(open(path, "rb").read() for path in glob.glob(run + "/events*"))
            self.report(b"train/loss_dice_of_batch" in events, f"{name}: parts in TensorBoard", "")
        return self

    def check_refusals(self, run):
        for overrides, message in ((["eval.crop=32"], "task segment evaluates whole pictures: remove eval.crop"),
                                   (["eval.shift=1"], "task segment evaluates whole pictures: remove eval.shift"),
                                   (["loss=margin"], "loss margin is not one of pixels"),
                                   (["loss=[dice, margin]"], "loss margin is not one of pixels"),
                                   (["loss=[{name: dice, as: auxiliary}]"], "task segment itself logs loss_auxiliary"),
                                   (["model={name: resnet18}"], "model resnet18 gives logits [2, 11] f32"),
                                   (["lanes=8", "model.aux=false"], "batch norm")):
            done = self.call("train", self.recipe, "-o", os.path.join(self.folder, "no"), "data.train=" + self.data, "steps=1",
                             *overrides)
            self.report(done.returncode == 2 and message in done.stderr, f"{overrides[0]} is refused", done.stderr[-700:])
        flat = os.path.join(self.folder, "flat")
        self.call("render", flat, "--count", "2")
        done = self.call("pack", flat, flat + "-data")
        done = self.call("train", self.recipe, "-o", os.path.join(self.folder, "no"), f"data.train={flat}-data", "steps=1")
        self.report(done.returncode == 3 and "has no mask" in done.stderr, "pictures without masks are refused", done.stderr[-500:])
        done = self.call("predict", run, flat + "/star/0001.jpg", "--save-pixels", self.folder + "/pixels")
        self.report(done.returncode == 2 and "--save-pixels" in done.stderr, "--save-pixels is refused", done.stderr[-500:])

    def check(self):
        self.pack()
        run = os.path.join(self.folder, "one")
        one, two, three = (self.train(name, STEPS, ranks) for name, ranks in (("one", 1), ("two", 2), ("three", 3)))
        self.report(one == two == three, "the same digest on two and three ranks", f"{one} {two} {three}")
        self.train("half", 2, 2)
        half = self.train("half", STEPS, 1, where="--resume")
        self.report(one == half, "the same digest after a stop", f"{one} {half}")
        one, three = (self.train(f"sync {ranks}", STEPS, ranks, "sync_bn=all") for ranks in (1, 3))
        self.report(one == three != half, "the same digest with common statistics of lanes", f"{one} {three}")
        self.check_files(run)
        self.check_tables(run)
        self.check_views(run)
        self.check_refusals(run)
        return self


def main():
    serried, recipe = (os.path.abspath(path) for path in sys.argv[1:3])
    losses = sys.argv[3:] == ["losses"]
    suite.run(lambda folder: getattr(Segment(serried, folder, recipe), "check_losses" if losses else "check")())


if __name__ == "__main__":
    main()
