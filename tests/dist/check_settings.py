#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every key that help lists is accepted, and every accepted key is listed: each key of a recipe with its default,
another value and every choice, and refused outside of its range; every key that `recipe show` prints; every format and
precision that the help of commands names.

  check_settings.py SERRIED RECIPE
"""
import glob
import json
import os
import re
import subprocess
import sys

import suite

# Values for keys whose type does not determine a valid one. A new key that needs a value fails until it is added here.
VALUES = {
    "base": "resnet18", "model": "tiny", "optimizer": "sgd", "schedule": "linear", "loss": "cross-entropy",
    "phases": "{D: {model: toy-critic}, G: {model: {name: toy-generator}}}", "augment": "[flip]",
    "expected": "{top1: 76.1}", "optimizer.groups": "[{match: bias}]", "optimizer.groups[].match": "[norm, 'conv*']",
    "data.mean": "[0.1,0.2,0.3]", "data.std": "[0.1,0.2,0.3]", "data.on_corrupt": "skip:3", "image": "48", "batch": "16",
    "lanes": "4", "sync_bn": "all", "device": "cpu", "checkpoint.every": "[5it]", "checkpoint.metric": "val/top5", "stop.metric": "val/loss", "profile": "1:2",
    "ema.decay": "0.5", "deadline.report": "9s", "deadline.act": "90s", "eval.batch": "16", "schedule.warmup": "1it",
    "optimizer.lr_per": "32", "phases.NAME.set": "D", "ema.sets": "[G]", "plugins": "[]", "model.widths": "[16, 32, 32]", "schedule.milestones": "[0.5]",
    "schedule.of": "90", "schedule.gamma": "0.5", "fill": "[1, 2, 3]", "levels": "17", "gaussian_blur.size": "7", "multi_scale.sizes": "[32, 64]",
    "pad.size": "[1, 2, 3, 4]", "expand.ratio": "[1, 2]", "iou_crop.overlaps": "[0.5, 1]",
    "unet.channels": "[64, 32, 16, 16, 16]", "loss.class_weights": str([0.5] * 1000), "optimizer.no_decay": "[norm]", "progressive.from": "16",
}
PER_TYPE = {"text": "x", "texts": "[x]", "integer": "1", "integers": "[32,32]", "number": "0.5", "size": "1MiB",
            "true|false": "true", "duration": "50s", "length": "1it", "numbers": "[0.25, 0.5]"}
UNITS = {"size": "B", "duration": "s", "length": "it"}
# Keys that require another one, or would not suit the recipes in which they are tried.
WITH = {"optimizer.nesterov": {"optimizer.momentum": "0.5"}, "optimizer.dampening": {"optimizer.nesterov": "false"},
        "progressive.from": {"progressive.step": "8"},
        "loss[].weight": {"loss[].name": "cross-entropy"}, "loss[].as": {"loss[].name": "cross-entropy"},
        "model.aux_logits": {"image": "299"},
        "weights_reset": {"weights": "{run}/last/model.safetensors", "data.train": "{data}"},
        "optimizer.groups[].elementwise": {"optimizer.name": "muon", "optimizer.lr": "0.1"},
        "optimizer.groups[].frozen": {"optimizer.groups[].match": "bias"}}
OPTIMIZERS = ("adam", "adamw", "rmsprop", "lion", "lars", "lamb", "muon")
# Models and losses of the task segment.
MAPS = ("fcn", "deeplabv3", "lraspp", "unet", "deeplabv3plus", "pspnet", "upernet", "segformer", "ocrnet")
PIXELS = ("ohem", "dice", "lovasz")
SEGMENT = {"task": "segment", "model.name": "fcn", "model.backbone": "resnet18", "image": "64"}
WITH["loss.boundary_weight"] = SEGMENT
WITH_OF = {"step": {"schedule.milestones": "[0.25]"}, **{name: {"optimizer.lr": "0.1"} for name in OPTIMIZERS},
           **{name: SEGMENT for name in ("segment", *PIXELS)}}
GAN = ("toy-generator", "toy-critic")
SHIPPED = ("recipes/cifar10-fast.yaml", "recipes/toy-gan.yaml")


def quick_models():
    """Those that short tests compare, or that only serried has: others take minutes and gigabytes."""
    with open("tests/models/cases.txt", encoding="ascii") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    return [name for name, _, how in lines if how in ("short", "own")]


def lay(tree, key, value):
    """Puts the value at a dotted key; NAME[] is a list with one element."""
    *sections, last = key.split(".")
    for section in sections:
        name = section.removesuffix("[]")
        below = [{}] if name != section else {}
        if not isinstance(tree.get(name), type(below)):
            tree[name] = below
        tree = tree[name][0] if name != section else tree[name]
    tree[last] = value


def flow(tree):
    """YAML in flow style; strings are YAML already."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key}: {flow(value)}" for key, value in tree.items()) + "}"
    return "[" + ", ".join(flow(item) for item in tree) + "]" if isinstance(tree, list) else tree


def keys_of(value, key=""):
    """Dotted keys of a recipe as JSON, as `info options` writes them."""
    if isinstance(value, dict) and value and key != "expected":
        for name, inner in value.items():
            yield from keys_of(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from keys_of(item, key + "[]")
    else:
        key = {"task.name": "task", "model.backbone.name": "model.backbone"}.get(key, key)
        key = re.sub(r"^loss\[\]\.(?!weight$|as$)", "loss.", key)  # a loss of a list has the options of any loss
        key = re.sub(r"^model\.backbone\.", "model.", key)  # a model inside another one has the options of any model
        phase = re.match(r"phases\.\w+\.(.*)", key)
        yield f"phases.NAME.{phase[1]}" if phase and phase[1] in ("set", "every") else phase[1] if phase else key


class Settings(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe, self.run, self.files = recipe, os.path.join(folder, "run"), 0

    def call(self, line):
        return subprocess.run(line, env=suite.environment(), text=True, capture_output=True, timeout=280 * suite.SLOW,
                              check=False)

    def prepare_run(self):
        """Packs data, and trains weights to start from."""
        self.prepare(2)
        done = self.call([self.serried, "train", self.recipe, "-o", self.run, "data.train=" + self.data, "steps=1",
                          "batch=16", "lanes=4", "schedule.warmup=0it"])
        self.report(done.returncode == 0, "a run of one step", done.stderr[-500:])
        self.values = dict(VALUES, **{"data.train": self.data, "data.val": self.data,
                                      "weights": self.run + "/last/model.safetensors"})

    # -- recipes, one file each --------------------------------------------------------------------

    def write(self, base, tree):
        self.files += 1
        path = os.path.join(self.folder, f"{self.files}.yaml")
        tree = tree if "base" in tree else {"base": os.path.abspath(base), **tree}
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{key}: {flow(value)}\n" for key, value in tree.items())
        return path

    def recipes_with(self, row, value):
        """Paths of recipes with the value at the row's key; one of them has to be accepted. A GAN has different keys,
        and a length is given in steps or in epochs."""
        key = row["key"].replace("[].NAME.", "[].flip.").replace("phases.NAME.", "phases.D.")
        of = (row["of"] or "").split(", ")
        tree, section = {}, re.split(r"[.\[]", key)[0]
        more = {**WITH.get(key, {}), **WITH_OF.get(of[0] or value, {})}
        if of[0] and section != "augment":
            more[section + ".name"] = of[0]
        if section == "model" and of[0] not in ("cifar-fast", "tiny", *GAN) and value not in GAN:
            more.setdefault("image", "128")
        if {of[0], value} & set(MAPS):
            more["task"] = "segment"
        if key == "weights":
            more["data.train"] = "{data}"
        for name, other in more.items():
            lay(tree, name, other.format(run=self.run, data=self.data) if "/" in other or other == "{data}" else other)
        lay(tree, key, value)
        if key.startswith("optimizer.groups[]."):
            tree["optimizer"]["groups"][0].setdefault("match", "bias")
        if section == "phases":
            return [self.write(SHIPPED[1], tree)]
        if of[0] in GAN:
            return [self.write(SHIPPED[1], {"phases": {"G" if name == GAN[0] else "D": {
                "model": {**tree["model"], "name": name}}}}) for name in of]
        if key == "model.name":
            phase = "D" if value == GAN[1] else "G"
            return [self.write(self.recipe, tree), self.write(SHIPPED[1], {"phases": {phase: tree}})]
        if of[0]:
            # Two of those that share a table: tens of models do, and the last ones are large.
            trees = [{**tree, section: {**tree[section], "name": name}} for name in of[:2]] if section != "augment" else [tree]
            return [self.write(self.recipe, one) for one in trees]
        return [self.write(recipe, tree) for recipe in (self.recipe, *SHIPPED)]

    def verdicts(self, paths):
        """{path: None or the error message} of `recipe check`."""
        done = self.call([self.serried, "recipe", "check", *paths])
        verdicts = {path: "no message about it" for path in paths}
        verdicts.update({path: None for path in re.findall(r"^(.*): ok$", done.stdout, re.M)})
        for path, message in reversed(re.findall(r"^(/\S+?\.yaml)\b(.*(?:\n  .*)*)", done.stderr, re.M)):
            verdicts[path] = message  # the first of several
        return verdicts

    # -- what is listed is accepted ----------------------------------------------------------------

    def another_value(self, row):
        """Looked up by MODEL.OPTION or the like, by the key, by TRANSFORM.OPTION, by a transform's option, or by type."""
        short = row["key"].removeprefix("augment[].")
        option = short.split(".")[-1] if short != row["key"] else short
        return self.values.get(f"{row['of']}.{option.split('.')[-1]}") or self.values.get(short) or \
            self.values.get(option) or PER_TYPE.get(row["type"])

    def values_to_accept(self, row):
        if row["key"] == "model.name":
            return sorted({*quick_models(), *MAPS})
        values = row["choices"] or [value for value in (row["default"], self.another_value(row)) if value is not None]
        return [f"'{value}'" if row["choices"] and value in ("on", "off") else value for value in values]

    def accepted(self, rows):
        cases = [(row, value, self.recipes_with(row, value)) for row in rows for value in self.values_to_accept(row)]
        verdicts = self.verdicts([paths[0] for _, _, paths in cases])
        verdicts.update(self.verdicts([path for row, _, paths in cases for path in paths[1:] if row["of"] or verdicts[paths[0]]]))
        tried = {row["key"] for row, _, _ in cases}
        self.report(tried == {row["key"] for row in rows}, "every key has a value to try",
                    str(sorted({row["key"] for row in rows} - tried)))
        for row, value, paths in cases:
            every = row["of"] and not row["key"].startswith("augment")  # each of the descriptors that share the table
            found = [verdicts[path] for path in paths if path in verdicts]
            good = (all if every else any)(message is None for message in found)
            self.report(good, f"{row['key']}: {value}", " | ".join(message or "ok" for message in found))

    def beyond(self, row):
        """Values just outside of the range."""
        unit = UNITS.get(row["type"], "")
        least, most = row["min"], row["max"]
        below = [] if least is None or (unit and least <= 0) else [least - 1 if least < 1 else 0]
        above = [] if most is None else [most + 1 if most < 2**50 else most * 2]
        texts = [f"{value:.17g}{unit}" for value in below + above]
        return [f"[{text}, {text}, {text}]" if row["type"] in ("integers", "numbers") else text for text in texts]

    def refused(self, rows):
        cases = [(row, value, self.recipes_with(row, value)[0]) for row in rows if row["range"]
                 for value in self.beyond(row)]
        verdicts = self.verdicts([path for _, _, path in cases])
        for row, value, path in cases:
            expected = f"must be {row['range'].removeprefix('each ')}"
            self.report(expected in (verdicts[path] or ""), f"{row['key']}: {value} is refused",
                        f"'{expected}' expected: {verdicts[path]}")
        self.report(len(cases) > 80, "ranges are listed", str(len(cases)))

    # -- what is accepted is listed ----------------------------------------------------------------

    def listed(self, rows):
        """Every key that `recipe show` prints, for recipes that together make every choice."""
        known = {}
        for row in rows:
            known.setdefault(row["key"], set()).update((row["of"] or "any").split(", "))
        paths = sorted(glob.glob("recipes/*.yaml")) + [self.recipe]
        for row in rows:
            if row["key"].endswith(".name") or row["key"] in ("optimizer.groups[].match", "loss[].as"):
                paths += [self.recipes_with(row, value)[-1 if value in GAN else 0] for value in self.values_to_accept(row)]
        seen = self.keys_of_transforms()
        for path in paths:
            done = self.call([self.serried, "recipe", "show", "--json", path])
            if done.returncode != 0:
                self.report(False, f"recipe show {path}", done.stderr[-400:])
                continue
            keys = set(keys_of(json.loads(done.stdout)))
            missing = sorted(key for key in keys if key not in known and not (  # a transform without options
                key.startswith("augment[].") and key.count(".") == 1))
            self.report(not missing, f"the keys of {os.path.basename(path)} are listed", str(missing))
            seen |= keys
        seen |= {key for key in known if ".NAME." in key}  # of every transform, if they are given
        unseen = sorted(set(known) - seen - {"base", "expected", "phases", "optimizer.groups", "augment", "model", "loss",
                                             "optimizer", "schedule"})
        self.report(not unseen, "every listed key is shown by a recipe that has it", str(unseen))
        self.report(seen <= set(known) | {key for key in seen if key.count(".") == 1}, "every option of a transform is listed",
                    str(sorted(seen - set(known))))

    def keys_of_transforms(self):
        """All of them, as `info transforms` lists them; `recipe show` prints only the given options."""
        keys, name = set(), None
        for line in self.call([self.serried, "info", "transforms"]).stdout.splitlines():
            option = re.match(r"    (\w+): ", line)
            name = name if option else line.split()[0]
            keys |= {f"augment[].{name}.{option[1]}"} if option else set()
        self.report(len(keys) > 80, "options of transforms", str(keys))
        return keys

    def recipe_keys(self):
        done = self.call([self.serried, "info", "options", "--json"])
        rows = json.loads(done.stdout)
        text = self.call([self.serried, "info", "options"]).stdout
        self.report(len(rows) > 150, "the keys of a recipe are listed", done.stderr)
        self.report([row["key"] for row in rows] == re.findall(r"^([a-zA-Z_.0-9\[\]]+): ", text, re.M),
                    "as text and as JSON", text[:500])
        for row in rows:
            first = row["help"][:1]
            self.report(first and not first.isupper() or row["help"].split()[0].isupper() or "IoU" in row["help"],
                        f"{row['key']} has a meaning", row["help"])
        self.accepted(rows)
        self.refused(rows)
        self.listed(rows)

    def commands(self):
        """Choices that the help of an option lists."""
        text = self.call([self.serried, "pack", "--help"]).stdout
        formats = re.findall(r"shards|kpl-dir|lmdb", re.search(r"--format=NAME(.*?)-j", text, re.S).group(1))
        for name in sorted(set(formats)):
            done = self.call([self.serried, "pack", os.path.join(self.folder, "pictures"),
                              os.path.join(self.folder, "as-" + name), "--format", name])
            self.report(done.returncode == 0, f"pack --format {name}", done.stderr[-400:])
        names = re.search(r"--format-in=NAME.*?detecting it: (.*?)\n +-", text, re.S).group(1)
        for name in [*re.split(r",\s+|\s+or\s+", names), "clases"]:
            done = self.call([self.serried, "pack", os.path.join(self.folder, "pictures"),
                              os.path.join(self.folder, "in-" + name), "--format-in", name])
            first = done.stdout.partition("\n")[0]
            right = name == "classes" and done.returncode == 0 and "read as classes, class folders: " in first or \
                name == "clases" and done.returncode == 2 and "did you mean 'classes'?" in done.stderr or \
                done.returncode == 3 and f"cannot be read as {name}, " in done.stderr
            self.report(right, f"pack --format-in {name}", f"{done.returncode} {first} {done.stderr[-400:]}")
        text = self.call([self.serried, "bench", "step", "--help"]).stdout
        kinds = re.search(r"--precision=P\s+(.*?) \(", text, re.S).group(1).replace(" or ", ", ").split(", ")
        for kind in kinds:
            done = self.call([self.serried, "bench", "step", self.recipe, "--no-peer", "--steps", "1", "--blocks", "1",
                              "--batch", "8", "-p", kind])
            self.report(done.returncode == 0 and len(kinds) == 3, f"bench step -p {kind}", done.stderr[-400:])


def check(folder):
    tests = Settings(os.path.abspath(sys.argv[1]), sys.argv[2], folder)
    tests.prepare_run()
    tests.recipe_keys()
    tests.commands()
    return tests


if __name__ == "__main__":
    suite.run(check)
