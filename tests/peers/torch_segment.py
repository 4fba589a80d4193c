# SPDX-License-Identifier: Apache-2.0
"""The training run of a recipe for segmentation in PyTorch: the same initial weights, pictures, masks and learning rates,
which run_batches writes; its own network, loss, optimiser and evaluation.

usage: torch_segment.py BUILD RECIPE DATA [--seed N] [--steps N] [--lanes-together] [--f64] [key=value...]

DATA: a folder of images/val/NAME.jpg and masks/val/NAME.png with the classes' numbers beside the packed data that
data.train names; other numbers than classes count nowhere. Prints the mean IoU, the share of right pixels, and pictures
a second of training. Lanes are normalised each on its own, as in serried; --lanes-together: all at once.
"""
import argparse
import glob
import json
import os
import subprocess
import tempfile
import time

import numpy
import torch
import yaml
from PIL import Image

import safetensors.numpy
import torch_models

IGNORED = 255


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build")
    p.add_argument("recipe")
    p.add_argument("data")
    p.add_argument("overrides", nargs="*")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, help="stop after so many")
    p.add_argument("--lanes-together", action="store_true")
    p.add_argument("--f64", action="store_true", help="computes in f64")
    return p.parse_args()


def settings(a):
    """The resolved recipe."""
    shown = subprocess.run([os.path.join(a.build, "serried"), "recipe", "show", a.recipe, *a.overrides], text=True,
                           capture_output=True, check=True).stdout
    return yaml.safe_load(shown)


def make_model(recipe, classes, weights):
    model, how = recipe["model"], {"backbone": recipe["model"]["backbone"]["name"]}
    if "output_stride" in model["backbone"]:
        how["output_stride"] = int(model["backbone"]["output_stride"])
    if model["name"] == "deeplabv3":
        how.update(channels=model["channels"], rates=(6, 12, 18) if how["output_stride"] == 16 else (12, 24, 36))
    made = torch_models.create(model["name"], classes, **how)
    for module in made.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = float(model.get("dropout", 0))
    stored = {name: torch.from_numpy(value) for name, value in safetensors.numpy.load_file(weights).items()}
    missing, unexpected = made.load_state_dict(stored, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing), (missing, unexpected)
    return made.to(memory_format=torch.channels_last)


class Batches:
    def __init__(self, a, weights):
        command = [os.path.join(a.build, "tests", "run_batches"), a.recipe, weights, f"seed={a.seed}", *a.overrides]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.about = json.loads(self.process.stdout.readline())
        self.mean, self.std = (numpy.array(self.about[key], dtype=numpy.float32) for key in ("mean", "std"))

    def read(self, dtype, *shape):
        count = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        return numpy.frombuffer(self.process.stdout.read(count), dtype).reshape(shape)

    def normalised(self, pictures):
        values = (pictures.astype(numpy.float32) / 255 - self.mean) / self.std
        return torch.from_numpy(values).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)

    def __iter__(self):
        b = self.about
        for _ in range(b["steps"]):
            rate, lanes = float(self.read("f8")), []
            for _ in range(b["lanes"]):
                pictures = self.read("u1", b["samples"], b["height"], b["width"], 3)
                masks = self.read("u1", b["samples"], b["height"], b["width"])
                lanes.append((self.normalised(pictures), torch.from_numpy(masks.astype(numpy.int64))))
            yield rate, lanes

    def stop(self):
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()


def loss_of(logits, masks, weights):
    large = torch.nn.functional.interpolate(logits, size=masks.shape[-2:], mode="bilinear", align_corners=False)
    return torch.nn.functional.cross_entropy(large, masks, weight=weights, ignore_index=IGNORED)


def make_optimizer(parameters, o):
    """The recipe's; the rate of each step comes with its batch."""
    decay = float(o["weight_decay"])
    if o["name"] == "adamw":
        betas = tuple(float(beta) for beta in o["betas"])
        return torch.optim.AdamW(parameters, lr=1, betas=betas, eps=float(o["eps"]), weight_decay=decay, fused=True)
    assert o["name"] == "sgd", f"optimizer {o['name']} has no line here"
    return torch.optim.SGD(parameters, lr=1, momentum=float(o["momentum"]), weight_decay=decay, fused=True)


def train(a, batches, model, recipe):
    optimizer = make_optimizer(model.parameters(), recipe["optimizer"])
    dtype, weights = next(model.parameters()).dtype, recipe["loss"].get("class_weights")
    weights = torch.tensor([float(weight) for weight in weights], dtype=dtype) if weights else None
    model.train()
    seconds = pictures = 0
    for step, (rate, lanes) in enumerate(batches):
        if step == a.steps:
            break
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = rate
        if a.lanes_together:
            lanes = [tuple(torch.cat(parts) for parts in zip(*lanes))]
        optimizer.zero_grad(set_to_none=True)
        total = 0
        for x, masks in lanes:
            loss = loss_of(model(x.to(dtype)), masks, weights) / len(lanes)
            loss.backward()
            total += float(loss.detach())
        optimizer.step()
        if step >= 3:
            seconds += time.perf_counter() - start
            pictures += sum(len(x) for x, _ in lanes)
        if step < 20 or step % 50 == 0:
            print(f"step {step + 1}: loss {total:.9f}  lr {rate:.6g}", flush=True)
    return pictures / seconds if seconds else 0


def evaluate(a, batches, model, recipe):
    classes, side = batches.about["classes"], int(recipe["eval"]["resize"])
    counts = numpy.zeros((classes, classes), numpy.int64)
    model.eval()
    for path in sorted(glob.glob(os.path.join(a.data, "images", "val", "*"))):
        name = os.path.splitext(os.path.basename(path))[0]
        mask = numpy.array(Image.open(os.path.join(a.data, "masks", "val", name + ".png")))
        picture = Image.open(path).convert("RGB")
        width, height = picture.size
        size = (side, side * height // width) if width <= height else (side * width // height, side)
        x = batches.normalised(numpy.array(picture.resize(size, Image.BILINEAR))[None])
        with torch.no_grad():
            logits = model(x.to(next(model.parameters()).dtype))
            large = torch.nn.functional.interpolate(logits, size=mask.shape, mode="bilinear", align_corners=False)
        found, counted = large[0].argmax(0).numpy(), mask < classes
        counts += numpy.bincount(mask[counted].astype(numpy.int64) * classes + found[counted],
                                 minlength=classes ** 2).reshape(classes, classes)
    both = numpy.diag(counts)
    unions = counts.sum(0) + counts.sum(1) - both
    return (both[unions > 0] / unions[unions > 0]).mean(), both.sum() / counts.sum()


def main():
    a = arguments()
    recipe = settings(a)
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "weights.safetensors")
        batches = Batches(a, weights)
        model = make_model(recipe, batches.about["classes"], weights)
    model = model.double() if a.f64 else model
    speed = train(a, batches, model, recipe)
    batches.stop()
    iou, right = evaluate(a, batches, model, recipe)
    print(f"torch {torch.__version__}, seed {a.seed}: mIoU {iou:.4f}, pixels {right:.4f}, {speed:.2f} pictures/s")


if __name__ == "__main__":
    main()
