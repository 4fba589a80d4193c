# SPDX-License-Identifier: Apache-2.0
"""The training run of a recipe in PyTorch: the same initial weights, pictures, targets and learning rates, which
run_batches writes; its own network, loss, optimiser, average of the parameters and evaluation.

usage: torch_train.py BUILD RECIPE DATA [--seed N] [--steps N] [--lanes-together] [--f64] [key=value...]

DATA: the pictures beside the packed data that data.train names. Segmentation: images/val/NAME.jpg and
masks/val/NAME.png with the classes' numbers; other numbers than classes count nowhere. Classification:
train/CLASS/NAME.jpg and val/CLASS/NAME.jpg, of the size that the network takes. Prints what is measured on the
validation pictures, and pictures a second of training. Lanes are normalised each on its own, as in serried;
--lanes-together: all at once.
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

    def targets(self):
        b = self.about
        if b["task"] == "classify":
            return self.read("i4", b["samples"])
        return self.read("u1", b["samples"], b["height"], b["width"])

    def __iter__(self):
        b = self.about
        for _ in range(b["steps"]):
            rate, lanes = float(self.read("f8")), []
            for _ in range(b["lanes"]):
                pictures = self.read("u1", b["samples"], b["height"], b["width"], 3)
                lanes.append((self.normalised(pictures), torch.from_numpy(self.targets().astype(numpy.int64))))
            yield rate, lanes

    def stop(self):
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()


class Segmentation:
    def __init__(self, a, batches, recipe):
        self.a, self.batches, self.recipe = a, batches, recipe
        weights = recipe["loss"].get("class_weights")
        self.weights = torch.tensor([float(weight) for weight in weights]) if weights else None

    def make(self, classes):
        model, how = self.recipe["model"], {"backbone": self.recipe["model"]["backbone"]["name"]}
        if "output_stride" in model["backbone"]:
            how["output_stride"] = int(model["backbone"]["output_stride"])
        if model["name"] == "deeplabv3":
            how.update(channels=model["channels"], rates=(6, 12, 18) if how["output_stride"] == 16 else (12, 24, 36))
        made = torch_models.create(model["name"], classes, **how)
        for module in made.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = float(model.get("dropout", 0))
        return made

    def prepare(self, model):
        pass

    def loss(self, logits, masks):
        large = torch.nn.functional.interpolate(logits, size=masks.shape[-2:], mode="bilinear", align_corners=False)
        weights = None if self.weights is None else self.weights.to(logits.dtype)
        return torch.nn.functional.cross_entropy(large, masks, weight=weights, ignore_index=IGNORED)

    def evaluate(self, model):
        classes, side = self.batches.about["classes"], int(self.recipe["eval"]["resize"])
        counts = numpy.zeros((classes, classes), numpy.int64)
        for path in sorted(glob.glob(os.path.join(self.a.data, "images", "val", "*"))):
            name = os.path.splitext(os.path.basename(path))[0]
            mask = numpy.array(Image.open(os.path.join(self.a.data, "masks", "val", name + ".png")))
            picture = Image.open(path).convert("RGB")
            width, height = picture.size
            size = (side, side * height // width) if width <= height else (side * width // height, side)
            x = self.batches.normalised(numpy.array(picture.resize(size, Image.BILINEAR))[None])
            logits = model(x.to(next(model.parameters()).dtype))
            large = torch.nn.functional.interpolate(logits, size=mask.shape, mode="bilinear", align_corners=False)
            found, counted = large[0].argmax(0).numpy(), mask < classes
            counts += numpy.bincount(mask[counted].astype(numpy.int64) * classes + found[counted],
                                     minlength=classes ** 2).reshape(classes, classes)
        both = numpy.diag(counts)
        unions = counts.sum(0) + counts.sum(1) - both
        return f"mIoU {(both[unions > 0] / unions[unions > 0]).mean():.4f}, pixels {both.sum() / counts.sum():.4f}"


class Classification:
    def __init__(self, a, batches, recipe):
        self.a, self.batches, self.recipe = a, batches, recipe

    def make(self, classes):
        return torch_models.create(self.recipe["model"]["name"], classes)

    def pictures(self, part, most=None):
        """Batches of normalised pictures and classes; the first 'most' of each class."""
        names = sorted(os.listdir(os.path.join(self.a.data, part)))
        files = [(path, i) for i, name in enumerate(names)
                 for path in sorted(glob.glob(os.path.join(self.a.data, part, name, "*")))[:most]]
        for start in range(0, len(files), 1000):
            some = files[start:start + 1000]
            pictures = numpy.stack([numpy.array(Image.open(path).convert("RGB")) for path, _ in some])
            yield self.batches.normalised(pictures), numpy.array([i for _, i in some])

    def prepare(self, model):
        """Jordan 2024: filters that whiten 2x2 patches, and their negatives."""
        if not isinstance(model, torch_models.CifarFast):
            return
        x = torch.cat([x for x, _ in self.pictures("train", most=500)]).double()
        patches = torch.nn.functional.unfold(x, 2).permute(0, 2, 1).reshape(-1, 12)
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        filters = (vectors / (values + 5e-4).sqrt()).T.reshape(-1, 3, 2, 2)
        model.whiten.weight.data.copy_(torch.cat((filters, -filters)))

    def loss(self, logits, labels):
        return torch.nn.functional.cross_entropy(logits, labels,
                                                 label_smoothing=float(self.recipe["loss"]["label_smoothing"]))

    def evaluate(self, model):
        right = total = 0
        dtype = next(model.parameters()).dtype
        for x, classes in self.pictures("val"):
            right += (model(x.to(dtype)).argmax(1).numpy() == classes).sum()
            total += len(classes)
        return f"top-1 {right / total:.4f} of {total}"


TASKS = {"segment": Segmentation, "classify": Classification}


def load(model, weights):
    stored = {name: torch.from_numpy(value) for name, value in safetensors.numpy.load_file(weights).items()}
    missing, unexpected = model.load_state_dict(stored, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing), (missing, unexpected)
    return model.to(memory_format=torch.channels_last)


class Optimizer:
    """The recipe's; the rate of each step comes with its batch."""

    def __init__(self, model, recipe, about):
        o = recipe["optimizer"]
        decay, self.about, rows = float(o["weight_decay"]), about, {}
        for name, parameter in model.named_parameters():
            row = next((r for r in o.get("groups", []) if any(part in name for part in r["match"])), None)
            if parameter.requires_grad:
                rows.setdefault(id(row), (row, []))[1].append(parameter)
        groups = [{"params": parameters, "scale": float(row["lr_scale"]) if row else 1,
                   "until": self.samples(row["until"]) if row else 0,
                   "weight_decay": decay * (float(row["decay_scale"]) if row else 1)} for row, parameters in rows.values()]
        if o["name"] == "adamw":
            betas = tuple(float(beta) for beta in o["betas"])
            self.inner = torch.optim.AdamW(groups, lr=1, betas=betas, eps=float(o["eps"]), fused=True)
        else:
            assert o["name"] == "sgd", f"optimizer {o['name']} has no line here"
            self.inner = torch.optim.SGD(groups, lr=1, momentum=float(o["momentum"]), nesterov=o["nesterov"], fused=True)

    def samples(self, length):
        if length == "0it":
            return 0
        assert length.endswith("ep"), f"'{length}' has no line here"
        return float(length[:-2]) * self.about["examples"]

    def step(self, rate, position):
        for group in self.inner.param_groups:
            group["lr"] = rate * group["scale"]
            if group["until"] and position >= group["until"]:
                for parameter in group["params"]:
                    parameter.grad = None
        self.inner.step()


class Average:
    """Every so many steps a lookahead sets the values to their average; other averages have no line here."""

    def __init__(self, model, recipe, steps):
        e = recipe["ema"]
        self.decay, self.every, self.steps = float(e["decay"]), max(1, int(e["every"])), steps
        assert not self.decay or e["lookahead"], "ema without lookahead has no line here"
        self.values = [v for v in model.state_dict().values() if v.is_floating_point()]
        self.mean = [v.clone() for v in self.values]

    def step(self, step):
        if not self.decay or ((step + 1) % self.every and step + 1 != self.steps):
            return
        decay = self.decay * ((step + 1) / self.steps) ** 3
        for mean, value in zip(self.mean, self.values):
            mean.lerp_(value, 1 - decay)
            value.copy_(mean)


def train(a, batches, model, task, recipe):
    optimizer = Optimizer(model, recipe, batches.about)
    average = Average(model, recipe, batches.about["steps"])
    dtype = next(model.parameters()).dtype
    model.train()
    seconds = pictures = 0
    for step, (rate, lanes) in enumerate(batches):
        if step == a.steps:
            break
        start = time.perf_counter()
        if a.lanes_together:
            lanes = [tuple(torch.cat(parts) for parts in zip(*lanes))]
        optimizer.inner.zero_grad(set_to_none=True)
        total = 0
        for x, targets in lanes:
            loss = task.loss(model(x.to(dtype)), targets) / len(lanes)
            loss.backward()
            total += float(loss.detach())
        optimizer.step(rate, step * int(recipe["batch"]))
        with torch.no_grad():
            average.step(step)
        if step >= 3:
            seconds += time.perf_counter() - start
            pictures += sum(len(x) for x, _ in lanes)
        if step < 20 or step % 50 == 0:
            print(f"step {step + 1}: loss {total:.9f}  lr {rate:.6g}", flush=True)
    return pictures / seconds if seconds else 0


def main():
    a = arguments()
    recipe = settings(a)
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "weights.safetensors")
        batches = Batches(a, weights)
        task = TASKS[batches.about["task"]](a, batches, recipe)
        model = load(task.make(batches.about["classes"]), weights)
    task.prepare(model)
    model = model.double() if a.f64 else model
    speed = train(a, batches, model, task, recipe)
    batches.stop()
    model.eval()
    with torch.no_grad():
        measured = task.evaluate(model)
    print(f"torch {torch.__version__}, seed {a.seed}: {measured}, {speed:.2f} pictures/s")


if __name__ == "__main__":
    main()
