#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluation: metrics counted by hand from the rows of `predict`, when there is one, the pictures that the model sees,
results that are not finite.

check_evaluation.py SERRIED
"""
import csv
import io
import json
import math
import os
import random
import struct
import subprocess
import sys
import zlib

import suite

RECIPE = """model: {name: tiny, width: 8}
image: %s
batch: 16
lanes: 2
epochs: 1
seed: 3
optimizer: {name: sgd, lr: 0.002}
augment: [{resize: {stretch: true}}]
device: cpu
"""
CLASSES = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch")


def png(width, height, pixels):
    """The bytes of a PNG file of these RGB bytes."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def read_tensors(path):
    """Shapes and bytes of the tensors of a safetensors file."""
    with open(path, "rb") as file:
        content = file.read()
    begin = 8 + int.from_bytes(content[:8], "little")
    return {name: (tensor["shape"], content[begin + tensor["data_offsets"][0]:begin + tensor["data_offsets"][1]])
            for name, tensor in json.loads(content[8:begin]).items() if name != "__metadata__"}


def cubic(d):
    """Keys's cubic convolution with a = -1/2."""
    d = abs(d)
    if d < 1:
        return (1.5 * d - 2.5) * d * d + 1
    return ((-0.5 * d + 2.5) * d - 4) * d + 2 if d < 2 else 0.0


def triangle(d):
    return max(0.0, 1 - abs(d))


def taps(size, output, weight, reach):
    """For each output, the inputs and weights of an antialiased filter, as Pillow defines it."""
    scale = size / output
    unit = max(scale, 1.0)
    for i in range(output):
        centre = (i + 0.5) * scale
        found = [(k, weight((k + 0.5 - centre) / unit)) for k in range(size) if abs(k + 0.5 - centre) < reach * unit]
        total = sum(w for _, w in found)
        yield [(k, w / total) for k, w in found]


def resized(pixels, width, height, to_width, to_height, weight, reach):
    columns, rows = list(taps(width, to_width, weight, reach)), list(taps(height, to_height, weight, reach))
    out = []
    for row in rows:
        for column in columns:
            for c in range(3):
                value = sum(wy * wx * pixels[(y * width + x) * 3 + c] for y, wy in row for x, wx in column)
                out.append(min(255.0, max(0.0, value)))
    return out


class Evaluation(suite.Suite):
    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, *words, ranks=1):
        done = subprocess.run(suite.under_mpirun(ranks, [self.serried, *words]), env=suite.environment(), text=True,
                              capture_output=True, timeout=100 * suite.SLOW, check=False)
        return done.returncode, done.stdout, done.stderr

    def draw(self, count, width, height, split, rng):
        """Random pictures of each class with its own colour, as PNG."""
        for number, name in enumerate(CLASSES):
            os.makedirs(self.path("pictures", split, name), exist_ok=True)
            base = [(37 * number + 80 * c) % 200 for c in range(3)]
            for i in range(count):
                pixels = bytes(base[k % 3] + rng.randrange(56) for k in range(width * height * 3))
                with open(self.path("pictures", split, name, f"{i}.png"), "wb") as file:
                    file.write(png(width, height, pixels))

    def train(self, name, image, *values, ranks=1):
        with open(self.path(f"{name}.yaml"), "w", encoding="utf-8") as file:
            file.write(RECIPE % image)
        return self.run("train", self.path(f"{name}.yaml"), "data.train=" + self.data, "-o", self.path(name), *values,
                        ranks=ranks)

    def by_hand(self, model, *values, split="val"):
        """Numbers of a split from the rows of `predict`: samples, top-1, top-5, loss, confusion."""
        code, out, errors = self.run("predict", model, *values, self.path("pictures", split), "--json",
                                     f"--top={len(CLASSES)}")
        rows = [json.loads(line) for line in out.splitlines()]
        self.report(code == 0 and rows, f"predict {values}", errors[-800:])
        counts, first, five, loss = {}, 0, 0, 0.0
        for row in rows:
            truth = row["file"].split("/")[-2]
            best = [item["class"] for item in row["top"]]
            counts[truth, best[0]] = counts.get((truth, best[0]), 0) + 1
            first += best[0] == truth
            five += truth in best[:5]
            loss -= math.log(max(row["top"][best.index(truth)]["probability"], 1e-6))
        return len(rows), first, five, loss / max(len(rows), 1), counts

    def compare(self, what, hand, samples, top1, top5, loss):
        good = (samples in (hand[0], None) and abs(top1 * hand[0] - hand[1]) < 1e-6 and
                abs(top5 * hand[0] - hand[2]) < 1e-6 and abs(loss - hand[3]) < 1e-4)
        self.report(good, what, f"{samples} {top1} {top5} {loss}; by hand {hand[:4]}")

    def val(self, what, model, hand, *values, ranks=1):
        code, out, errors = self.run("val", model, "--json", *values, ranks=ranks)
        if code != 0:
            return self.report(False, what, f"{code}: {errors[-800:]}")
        m = json.loads(out)
        return self.compare(what, hand, m["samples"], m["val_top1"], m["val_top5"], m["val_loss"])

    def of_run(self, name, hand):
        """What the run itself found at its end: metrics.csv, exit.json and confusion.csv."""
        with open(self.path(name, "metrics.csv"), encoding="utf-8") as file:
            row = list(csv.DictReader(file))[-1]
        self.compare(f"{name}: metrics.csv", hand, None, *(float(row[key]) for key in ("val/top1", "val/top5", "val/loss")))
        with open(self.path(name, "confusion.csv"), encoding="utf-8") as file:
            counts = {(row["truth"], row["predicted"]): int(row["count"]) for row in csv.DictReader(file)}
        self.report(counts == hand[4], f"{name}: confusion.csv", f"{counts}; by hand {hand[4]}")

    def metrics(self):
        """21 val pictures fill no batch of 16 or 64, and of 8 lanes of 8 only two are full and most are empty."""
        for ranks in (1, 2):
            name = f"run-{ranks}"
            code, _, errors = self.train(name, "16", "lanes=4", f"eval.batch={16 if ranks == 1 else 64}", ranks=ranks)
            self.report(code == 0, f"train on {ranks}", errors[-800:])
            hand = self.by_hand(self.path(name))
            self.of_run(name, hand)
        run = self.path("run-1")
        self.report(0 < hand[1] < hand[2] < hand[0] == 21, "top-1 and top-5 differ", str(hand[:4]))
        self.val("val, one batch", run, hand := self.by_hand(run), "eval.batch=32")
        self.val("val, padded batch", run, hand, "eval.batch=64", "lanes=8", "batch=32")
        self.val("val, 3 ranks", run, hand, "eval.batch=64", "lanes=8", "batch=32", ranks=3)
        self.val("val, batches of one sample a lane", run, hand, "eval.batch=4")
        views = ("eval.flip=true", "eval.shift=3")
        self.val("val, moved and mirrored", run, moved := self.by_hand(run, *views), *views)
        self.report(moved[3] != hand[3], "views make a difference", str(moved))

    def seldom(self):
        """eval.every leaves out evaluations, except the last one, and changes nothing else."""
        digests = []
        for every, evaluated in ((1, [1, 2, 3]), (2, [2, 3]), (9, [3])):
            name = f"every-{every}"
            code, out, errors = self.train(name, "16", "epochs=3", f"eval.every={every}")
            with open(self.path(name, "metrics.csv"), encoding="utf-8") as file:
                epochs = [round(float(row["epoch"])) for row in csv.DictReader(file) if row["val/loss"]]
            self.report(code == 0 and epochs == evaluated, f"eval.every={every}", f"epochs {epochs}; {errors[-500:]}")
            digests += [line for line in out.splitlines() if line.startswith("digest ")]
        self.report(len(digests) == 3 and len(set(digests)) == 1, "the same digest", str(digests))

    def training_metrics(self):
        """train/loss and train/top1 over 16 passes of 49 pictures in 49 batches of 16, of a network without dropout and
        batch norm that a rate of 0 leaves as it is."""
        model = ["model=deit_tiny_patch16_224", "chooser=off"]
        code, _, errors = self.train("still", "16", *model, "optimizer.lr=0.01", "eval.resize=[16, 16]")
        weights = "weights=" + self.path("still/last/model.safetensors")
        hand = self.by_hand(self.path("still"), split="train")
        for ranks, values in ((1, ["lanes=2"]), (2, ["lanes=4", "data.order=chunks"])):
            code, _, errors = self.train(f"still-{ranks}", "16", *model, weights, "optimizer.lr=1e-20", "epochs=16", *values,
                                         ranks=ranks)
            self.report(code == 0, f"train at a rate of 0, {ranks} ranks", errors[-800:])
            with open(self.path(f"still-{ranks}", "metrics.csv"), encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            sizes = [int(b["samples"]) - int(a["samples"]) for a, b in zip([{"samples": 0}, *rows], rows)]
            loss, top1 = (sum(size * float(row[key]) for size, row in zip(sizes, rows)) / sum(sizes)
                          for key in ("train/loss", "train/top1"))
            self.report(sum(sizes) == 784 and abs(loss - hand[3]) < 1e-4 and abs(49 * top1 - hand[1]) < 1e-6,
                        f"train/loss and train/top1, {ranks} ranks", f"{sizes} {loss} {top1}; by hand {hand[:4]}")

    def pixels(self, model, files, *values):
        out = self.path("pixels.safetensors")
        code, text, errors = self.run("predict", model, *values, *files, f"--save-pixels={out}")
        rows = list(csv.reader(io.StringIO(text)))[1:]
        shape, content = read_tensors(out)["pixels"] if os.path.exists(out) else ([0], b"")
        return code, [row[0] for row in rows], shape, content, errors

    def rectangle(self):
        """A rectangular image evaluates the rectangle: `predict`, `val` and the run itself alike."""
        code, _, errors = self.train("wide", "[16, 40]")
        self.report(code == 0, "train on [16, 40]", errors[-800:])
        self.of_run("wide", hand := self.by_hand(self.path("wide")))
        self.val("val on [16, 40]", self.path("wide"), hand)
        rng = random.Random(1)
        source = [rng.randrange(256) for _ in range(40 * 16 * 3)]
        with open(self.path("wide.png"), "wb") as file:
            file.write(png(40, 16, bytes(source)))
        for values, shape, same in (((), [1, 16, 40, 3], True), (("eval.resize=[32, 80]",), [1, 16, 40, 3], False),
                                    (("eval.crop=[16, 20]",), [1, 16, 20, 3], False),
                                    (("eval.crop=16", "eval.resize=16"), [1, 16, 16, 3], False)):
            code, _, found, content, errors = self.pixels(self.path("wide"), [self.path("wide.png")], *values)
            self.report(code == 0 and found == shape and (content == bytes(source)) == same, f"pixels of {values}",
                        f"{code}: {found} {errors[-500:]}")

    def filters(self):
        """eval.filter and eval.exact give the numbers of the filters' definitions, at a reduction and an enlargement."""
        width, height = 30, 45
        rng = random.Random(2)
        source = bytes(rng.randrange(256) for _ in range(width * height * 3))
        with open(self.path("noise.png"), "wb") as file:
            file.write(png(width, height, source))
        for side in (12, 40):
            for name, weight, reach in (("bilinear", triangle, 1), ("bicubic", cubic, 2)):
                code, _, shape, content, errors = self.pixels(
                    self.path("run-1"), [self.path("noise.png")], f"eval.filter={name}", f"eval.resize={side}",
                    f"eval.crop=[{side * height // width}, {side}]")
                expected = resized(source, width, height, side, side * height // width, weight, reach)
                worst = max((abs(a - b) for a, b in zip(content, expected)), default=256)
                self.report(code == 0 and len(content) == len(expected) and worst <= 1.01, f"{name} to {side}",
                            f"{code}: {shape}, up to {worst} off; {errors[-500:]}")
        subprocess.run([self.serried, "render", self.path("shapes"), "--count", "1"], check=True, capture_output=True)
        jpeg = next(os.path.join(folder, names[0]) for folder, _, names in sorted(os.walk(self.path("shapes"))) if names)
        whole = self.pixels(self.path("run-1"), [jpeg], "eval.resize=32", "eval.crop=32")[3]
        exact = self.pixels(self.path("run-1"), [jpeg], "eval.resize=8", "eval.crop=8", "eval.exact=true")[3]
        scaled = self.pixels(self.path("run-1"), [jpeg], "eval.resize=8", "eval.crop=8")[3]
        expected = resized(whole, 32, 32, 8, 8, triangle, 1)
        worst = max((abs(a - b) for a, b in zip(exact, expected)), default=256)
        self.report(len(exact) == len(expected) and worst <= 1.01 and scaled != exact, "eval.exact", f"up to {worst} off")

    def rows(self):
        """Row i of the pixels is that of row i of the CSV, whichever files have none."""
        good = [self.path("pictures/val", name, "0.png") for name in CLASSES[:3]]
        with open(self.path("cut.png"), "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n")
        with open(self.path("empty.jpg"), "wb"):
            pass
        single = b"".join(self.pixels(self.path("run-1"), [name])[3] for name in good)
        files = [self.path("none.png"), good[0], self.path("cut.png"), good[1], self.path("empty.jpg"), good[2]]
        code, names, shape, content, errors = self.pixels(self.path("run-1"), files)
        self.report(code == 3 and names == good and shape == [3, 16, 16, 3] and content == single, "rows of pixels",
                    f"{code}: {names} {shape} {errors[-500:]}")
        code, names, shape, content, errors = self.pixels(self.path("run-1"), files[:1])
        self.report(code == 3 and not names and shape == [0, 16, 16, 3], "no rows", f"{code}: {names} {shape}")

    def changed(self, name, **tensors):
        """A copy of the weights of run-1 in which tensors begin with these values."""
        with open(self.path("run-1/last/model.safetensors"), "rb") as file:
            content = bytearray(file.read())
        begin = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:begin])
        for tensor, values in tensors.items():
            struct.pack_into(f"<{len(values)}f", content, begin + header[tensor]["data_offsets"][0], *values)
        with open(self.path(name), "wb") as file:
            file.write(content)
        return "weights=" + self.path(name)

    def not_finite(self):
        """Exit code 5, with the tensor or the sample, and nothing on stdout that is no JSON."""
        recipe, data = self.path("run-1.yaml"), "data.val=" + self.data
        picture = self.path("pictures/val/ash/0.png")
        for what, values, where in (("NaN", (math.nan,), "conv2.weight"), ("infinity", (1.0, -math.inf), "fc.weight")):
            weights = self.changed("broken.safetensors", **{where: values})
            for words in (("predict", recipe, weights, data, picture, "--json"), ("val", recipe, weights, data, "--json"),
                          ("train", recipe, weights, "data.train=" + self.data, "-o", self.path("broken " + what), "--json")):
                code, out, errors = self.run(*words)
                objects = [json.loads(line) for line in out.splitlines()]
                self.report(code == 5 and f"{where} has values that are not finite" in errors and
                            all(item.get("exit_code") == 5 for item in objects),
                            f"{words[0]} with {what} in {where}", f"{code}: {out} {errors[-500:]}")
        overflow = self.changed("overflow.safetensors", **{"fc.bias": (3e38, 3e38, -3e38)})
        code, out, errors = self.run("predict", recipe, overflow, data, picture, "--json")
        self.report(code == 0 and json.loads(out)["probability"] == 0.5, "large values that are finite", f"{code}: {out}")
        overflow = self.changed("overflow.safetensors", **{"fc.weight": (3e38,) * 20})
        code, out, errors = self.run("predict", recipe, overflow, data, picture, "--json")
        self.report(code == 5 and out == "" and f"{picture}: the model's result is not finite" in errors,
                    "predict that overflows", f"{code}: {out} {errors[-500:]}")
        for ranks in (1, 2):
            code, out, errors = self.run("val", recipe, overflow, data, "--json", ranks=ranks)
            self.report(code == 5 and out == "" and "21 of 21 val samples are not finite; the first is sample 0" in errors,
                        f"val that overflows, {ranks} ranks", f"{code}: {out} {errors[-800:]}")

    def not_finite_aside(self):
        """Running statistics that overflow in evaluation alone: the run ends with 5, its results are JSON."""
        weights = self.changed("statistics.safetensors", **{"bn3.running_mean": (-3e38,) * 8, "bn3.weight": (100,) * 8})
        for ranks in (1, 2):
            name = f"aside-{ranks}"
            code, out, errors = self.train(name, "16", weights, "--json", "optimizer.lr=1e-20", ranks=ranks)
            with open(self.path(name, "exit.json"), encoding="utf-8") as file:
                result = json.load(file)
            self.report(code == 5 and result["exit_code"] == 5 and "the evaluation of epoch 1." in errors and
                        "21 of 21 val samples" in errors and "the checkpoint of step" in errors and
                        json.loads(out.splitlines()[-1])["exit_code"] == 5,
                        f"a run whose evaluation is not finite, {ranks} ranks", f"{code}: {out} {result} {errors[-800:]}")

    def names(self):
        """Control characters of names do not reach stdout or files; names of files stay apart."""
        pictures, data = self.path("odd"), self.path("odd-data")
        for name in ("\x1b[31mred", 'a,"b"', "caf\u0085e"):
            os.makedirs(os.path.join(pictures, name))
            for i in range(4):
                with open(os.path.join(pictures, name, f"{i}\x9b\x07.png"), "wb") as file:
                    file.write(png(16, 16, bytes((i * 40 + k * len(name)) % 256 for k in range(768))))
        outputs = [self.run("pack", pictures, data, "--val-fraction=0.5")]
        self.data, kept = data, self.data
        outputs.append(self.train("odd-run", "16", "batch=4", "lanes=1"))
        self.data = kept
        run = self.path("odd-run")
        outputs += [self.run(*words) for words in (
            ("predict", run, pictures), ("predict", run, pictures, "--json"), ("val", run), ("stat", data), ("stat", run),
            ("stat", data, "--json"), ("stat", run, "--json"), ("verify", data), ("verify", run), ("stat", pictures),
            ("train", self.path("odd-run.yaml"), "data.train=" + data, "data.balance=1", "--dry-run"),
            ("train", self.path("odd-run.yaml"), "data.train=" + data, "data.val=" + self.data, "-o", self.path("other")),
            ("val", run, "--data=" + self.data), ("stat", self.path("\x1b[31m")), ("verify", self.path("\x9b")))]
        rows = list(csv.reader(io.StringIO(outputs[2][1])))
        with open(os.path.join(pictures, "\x1b[31mred", "cut\x07.png"), "wb") as file:
            file.write(b"\x89PNG")
        refused = self.path("odd-refused")
        outputs.append(self.run("pack", pictures, refused, "--allow-refused=1"))
        outputs.append((0, open(os.path.join(refused, "refused.csv"), encoding="utf-8").read(), ""))
        self.report(outputs[2][0] == 0 and len(rows) == 13 and all(len(row) == 4 for row in rows) and
                    {row[1] for row in rows[1:]} <= {"\\x1b[31mred", 'a,"b"', "caf\\x85e"}, "odd names in CSV", str(rows))
        outputs += [(0, open(os.path.join(run, name), encoding="utf-8").read(), "")
                    for name in ("confusion.csv", "exit.json", "events.jsonl", "log") if os.path.exists(os.path.join(run, name))]
        raw = [line for _, out, errors in outputs for line in (out + errors).split("\n")
               if any(c < " " and c not in "\t\r" or "\x7f" <= c < "\xa0" for c in line)]
        self.report(not raw, "control characters", repr(raw)[:1500])


    def other_encodings(self):
        """A class name of a foreign data set that is not UTF-8 is written as \\xNN by every command alike."""
        data, run = self.path("latin"), self.path("latin-run")
        subprocess.run([self.serried, "pack", self.path("pictures"), data, "--format=kpl-dir"], check=True,
                       capture_output=True)
        for folder, _, names in os.walk(data):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(".sums"):
                    os.remove(path)
                elif name.endswith(".prop"):
                    with open(path, "rb") as file:
                        content = file.read()
                    with open(path, "wb") as file:
                        file.write(content.replace(b"hazel", b"h\xe4zel"))
        kept, self.data = self.data, data
        results = [self.train("latin-run", "16", "data.val=" + data)]
        self.data = kept
        results += [self.run(*words) for words in (("val", run), ("predict", run, self.path("pictures/val/elm"), "--top=7"),
                                                   ("stat", data, "--json"), ("verify", run))]
        self.report(all(code == 0 for code, _, _ in results) and "h\\xe4zel" in results[2][1] and
                    "h\\\\xe4zel" in results[3][1], "class names that are not UTF-8", repr(results)[-1500:])


def body(folder):
    tests = Evaluation(sys.argv[1], folder)
    rng = random.Random(1)
    tests.draw(7, 24, 20, "train", rng)
    tests.draw(3, 24, 20, "val", rng)
    subprocess.run([tests.serried, "pack", tests.path("pictures"), tests.data], check=True, capture_output=True)
    tests.metrics()
    tests.seldom()
    tests.training_metrics()
    tests.rectangle()
    tests.filters()
    tests.rows()
    tests.not_finite()
    tests.not_finite_aside()
    tests.names()
    tests.other_encodings()
    return tests


if __name__ == "__main__":
    suite.run(body)
