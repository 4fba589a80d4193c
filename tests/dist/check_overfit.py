# SPDX-License-Identifier: Apache-2.0
"""Every network for segmentation learns eight pictures by heart: after STEPS steps from random weights on scenes of drawn
shapes its mean IoU on the same pictures is at least LEAST, within SECONDS on two cores. MODELS has every model that the
task accepts, with a small backbone and a narrow head.

usage: check_overfit.py SERRIED [--table | MODEL...]; --table checks only that MODELS is complete
"""
import csv
import os
import random
import resource
import subprocess
import sys

import suite
import wild_pictures

SIDE, PICTURES, STEPS, LEAST, SECONDS, CORES = 96, 8, 150, 0.95, 180, 2
COPIES = 10  # of each picture in the train split, because an evaluation follows each epoch
CLASSES = ("background", "disk", "square", "triangle")
RECIPE = f"""
about: eight pictures by heart
task: segment
image: {SIDE}
batch: {PICTURES}
lanes: 1
steps: {STEPS}
data: {{order: sequential}}
optimizer: {{name: adamw, lr: 2e-3}}
schedule: {{name: cosine, warmup: 5it}}
"""
# MobileNetV3 is no backbone here: its running statistics move by a hundredth in each step, too slowly for STEPS.
FINE = "model.backbone={name: resnet18, output_stride: 8}"
COARSE = "model.backbone={name: resnet18, output_stride: 16}"
USUAL = "model.backbone={name: resnet18}"
MODELS = {
    "fcn": (FINE, "model.channels=128", "optimizer.lr=1e-3"),
    "deeplabv3": (FINE, "model.channels=64", "model.dropout=0", "optimizer.lr=1e-3",
                  "schedule={name: poly, power: 0.5, warmup: 5it}"),
    "lraspp": (COARSE, "model.channels=64"),
    "unet": (USUAL, "model.channels=[128, 64, 32, 16, 16]"),
    "deeplabv3plus": (COARSE, "model.channels=64", "model.aux_channels=64", "schedule={name: poly, power: 0.5, warmup: 5it}"),
    "pspnet": (FINE, "model.channels=128", "model.aux_channels=64", "model.dropout=0"),
    "upernet": (USUAL, "model.channels=64", "model.aux_channels=64"),
    "segformer": ("model.backbone={name: mit_b0, drop_path: 0}", "model.channels=128"),
    "ocrnet": ("model.backbone={name: hrnet_w18}", "model.channels=64", "model.context_channels=64", "optimizer.lr=5e-3",
               "schedule={name: poly, power: 0.5, warmup: 15it}"),
}


def inside(shape, x, y):
    """Whether a point is in the shape of radius 1 around the origin."""
    if shape == 1:
        return x * x + y * y < 1
    if shape == 2:
        return max(abs(x), abs(y)) < 0.9
    return -0.8 < y < 1 - 2.2 * abs(x)


def draw_scene(number):
    """Rows of a picture and of its mask: two shapes of different classes on a background of two colours, with noise."""
    rng = random.Random(number)
    mask = [bytearray(SIDE) for _ in range(SIDE)]
    ground = [[rng.randrange(256) for _ in range(3)] for _ in range(2)]
    pixels = [[[(a * (SIDE - y) + b * y) // SIDE for a, b in zip(*ground)] for _ in range(SIDE)] for y in range(SIDE)]
    for shape in rng.sample(range(1, len(CLASSES)), 2):
        ink = [rng.randrange(256) for _ in range(3)]
        radius, left, top = rng.uniform(22, 32), rng.uniform(24, SIDE - 24), rng.uniform(24, SIDE - 24)
        for y in range(SIDE):
            for x in range(SIDE):
                if inside(shape, (x - left) / radius, (y - top) / radius):
                    pixels[y][x], mask[y][x] = ink, shape
    rows = [bytes(min(255, max(0, value + rng.randrange(-12, 13))) for pixel in row for value in pixel) for row in pixels]
    return rows, mask


class Overfit(suite.Suite):
    def call(self, *line):
        return subprocess.run([self.serried, *line], env=suite.environment(SERRIED_THREADS=str(CORES)), text=True,
                              capture_output=True, check=False)

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def pack(self):
        """Both splits have the same pictures."""
        for number in range(PICTURES):
            rows, mask = draw_scene(number)
            for kind, data in (("images", wild_pictures.png_of((SIDE, SIDE), wild_pictures.RGB, rows)),
                               ("masks", wild_pictures.png_of((SIDE, SIDE), wild_pictures.GREY, mask))):
                self.write(f"scenes/{kind}/val/{number}.png", data)
                for copy in range(COPIES):
                    self.write(f"scenes/{kind}/train/{copy}-{number}.png", data)
        names = "".join(f"{number} {name}\n" for number, name in enumerate(CLASSES))
        done = self.call("pack", os.path.join(self.folder, "scenes"), self.data, "--class-map",
                         self.write("classes.txt", names.encode()))
        self.report(done.returncode == 0 and f"{PICTURES * COPIES} train, {PICTURES} val" in done.stdout, "packed",
                    done.stdout + done.stderr)
        self.recipe = self.write("overfit.yaml", RECIPE.encode())

    def train(self, run, *overrides):
        return self.call("train", self.recipe, "-o", os.path.join(self.folder, run), "data.train=" + self.data, *overrides)

    def check_table(self):
        """Of the models that there are, the task accepts those of MODELS and no others."""
        names = [line.split()[0] for line in self.call("info", "models").stdout.splitlines() if line[:1].strip()]
        accepted = {name for name in names if self.train("none", f"model={name}", "--dry-run").returncode == 0}
        self.report(accepted == set(MODELS), f"MODELS has the models for segmentation among {len(names)}",
                    f"without a line: {accepted - set(MODELS)}; not accepted: {set(MODELS) - accepted}")

    def overfit(self, name):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self.train(name, f"model.name={name}", *MODELS[name])
        after, rows = resource.getrusage(resource.RUSAGE_CHILDREN), [(0, 0.0)]
        seconds = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / CORES
        if done.returncode == 0:
            with open(os.path.join(self.folder, name, "metrics.csv"), encoding="utf-8") as file:
                rows = [(int(row["step"]), float(row["val/mIoU"])) for row in csv.DictReader(file) if row["val/mIoU"]]
        reached = next((str(step) for step, iou in rows if iou >= LEAST), "-")
        step, iou = rows[-1]
        self.report(step == STEPS and iou >= LEAST, f"{name:13} mIoU {iou:.4f} after {step} steps, {LEAST} after {reached}, "
                    f"{seconds:.0f} s of {CORES} cores", f"{rows} {done.stderr[-500:]}")
        self.report(seconds <= SECONDS, f"{name:13} at most {SECONDS} s", f"{seconds:.0f}")


def main():
    serried, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or ["--table", *MODELS]

    def body(folder):
        overfit = Overfit(serried, folder)
        overfit.pack()
        for name in names:
            overfit.check_table() if name == "--table" else overfit.overfit(name)
        return overfit

    suite.run(body)


if __name__ == "__main__":
    main()
