#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What help lists is accepted: every key of a recipe with a value that is not its default, every choice of a key, and
every format and precision that commands name.

  check_settings.py SERRIED RECIPE
"""
import os
import re
import subprocess
import sys

import suite

# Values for keys whose type does not say which is right. A key that is new and needs one fails until it is here.
VALUES = {
    "data.mean": "[0.1,0.2,0.3]", "data.std": "[0.1,0.2,0.3]", "data.on_corrupt": "skip:3", "image": "48", "batch": "16",
    "lanes": "4", "device": "cpu", "checkpoint.every": "[5it]", "checkpoint.metric": "val/top5", "profile": "1:2",
    "ema.decay": "0.5", "deadline.report": "9s", "deadline.act": "90s", "eval.batch": "16", "schedule.warmup": "1it",
    "optimizer.lr_per": "32",
}
PER_TYPE = {"text": "x", "texts": "[x]", "integer": "1", "integers": "[32,32]", "number": "0.5", "size": "1MiB",
            "yes or no": "true", "flag": "true", "duration": "50s", "length": "1it", "numbers": "[1]"}
# Keys that name a file or folder, which has to be there.
FILES = {"weights", "plugins", "data.train"}
SHIPPED = ("recipes/cifar10-fast.yaml", "recipes/toy-gan.yaml")


class Settings(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe

    def call(self, line):
        return subprocess.run(line, env=suite.environment(), text=True, capture_output=True, timeout=120, check=False)

    def keys(self):
        """(key, type or choices) of `serried info options`."""
        listing = self.call([self.serried, "info", "options"]).stdout
        rows = re.findall(r"^([a-z_.0-9]+): (.*?)(?: = .*?)?(?:  +.*)?$", listing, re.M)
        self.report(len(rows) > 40, "the keys of a recipe are listed", listing[:500])
        return rows

    def check_recipe(self, base, key, value):
        path = os.path.join(self.folder, "one.yaml")
        *sections, name = key.split(".")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"# SPDX-License-Identifier: Apache-2.0\nbase: {os.path.abspath(base)}\n")
            for depth, section in enumerate(sections):
                file.write("  " * depth + section + ":\n")
            file.write("  " * len(sections) + f"{name}: {value}\n")
        return self.call([self.serried, "recipe", "check", path])

    def accepted(self, key, value):
        """By one of some recipes: a GAN has keys of its own, and a length is given in steps or in epochs."""
        answers = [self.check_recipe(recipe, key, value) for recipe in (self.recipe, *SHIPPED)]
        self.report(any(done.returncode == 0 for done in answers), f"{key}={value}", answers[0].stderr[-400:])

    def recipe_keys(self):
        for key, kind in self.keys():
            if key in FILES:
                continue
            if "|" in kind:
                for choice in kind.split("|"):
                    self.accepted(key, choice)
            else:
                self.accepted(key, VALUES.get(key, PER_TYPE.get(kind, "1")))

    def commands(self):
        """Choices that the help of an option lists."""
        text = self.call([self.serried, "pack", "--help"]).stdout
        formats = re.findall(r"shards|kpl-dir|lmdb", re.search(r"--format=NAME(.*?)-j", text, re.S).group(1))
        for name in sorted(set(formats)):
            done = self.call([self.serried, "pack", os.path.join(self.folder, "pictures"),
                              os.path.join(self.folder, "as-" + name), "--format", name])
            self.report(done.returncode == 0, f"pack --format {name}", done.stderr[-400:])
        text = self.call([self.serried, "bench", "step", "--help"]).stdout
        kinds = re.search(r"--precision=P\s+(.*?) \(", text, re.S).group(1).split(" or ")
        for kind in kinds:
            done = self.call([self.serried, "bench", "step", self.recipe, "--no-peer", "--steps", "1", "--blocks", "1",
                              "--batch", "8", "-p", kind])
            self.report(done.returncode == 0 and len(kinds) == 2, f"bench step -p {kind}", done.stderr[-400:])


def check(folder):
    tests = Settings(os.path.abspath(sys.argv[1]), sys.argv[2], folder)
    tests.prepare(2)
    tests.recipe_keys()
    tests.commands()
    return tests


if __name__ == "__main__":
    suite.run(check)
