#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One flipped bit in any file that the command reads is detected, named and reported by the right exit code, and a
run continues from the previous checkpoint to the undisturbed digest.

  check_damage.py SERRIED RECIPE [--count N] [--seed S]   N cases (12, one of each kind) from this seed
                                                          (a fixed one; 'random': a new one, printed)
"""
import argparse
import json
import os
import shutil
import subprocess

import suite

GENERATION = os.path.join("checkpoints", "00000002")  # the newest of the whole run
OLDER = os.path.join("checkpoints", "00000001")
WEIGHTS = ("model.safetensors", "model_ema.safetensors", "optimizer-00000-of-00001.safetensors")
CODES = range(7)  # exit codes of a command if the damaged file may still be valid


class Damage(suite.Suite):
    def __init__(self, serried, recipe, folder, dice):
        super().__init__(serried, folder)
        self.recipe, self.dice = recipe, dice
        self.whole = os.path.join(folder, "whole")
        self.digest = ""
        self.case = ""

    # ---- actions ----

    def call(self, *words, ranks=1):
        line = suite.under_mpirun(ranks, [self.serried, *words])
        return subprocess.run(line, env=suite.environment(), capture_output=True, text=True, errors="replace",
                              timeout=100 * suite.SLOW, check=False)

    def train(self, folder, *values, data=None, ranks=1):
        return self.call("train", self.recipe, "-o", folder, "data.train=" + (data or self.data),
                         "checkpoint.every=[3it]", *values, ranks=ranks)

    def copy(self, source):
        target = os.path.join(self.folder, f"case-{self.count}-{self.dice.randrange(1 << 30)}")
        shutil.copytree(source, target, symlinks=True)
        return target

    def flip(self, *path):
        path = os.path.join(*path)
        with open(path, "r+b") as file:
            content = file.read()
            bit = self.dice.randrange(8 * len(content))
            file.seek(bit // 8)
            file.write(bytes([content[bit // 8] ^ 1 << bit % 8]))
        self.case += f" {os.path.basename(path)} bit {bit % 8} of byte {bit // 8};"
        return os.path.basename(path)

    # ---- checks ----

    def expect(self, what, done, codes, *words):
        """Expects one of the codes and all the words, also for failures whose message is not serried's own."""
        codes = codes if isinstance(codes, (tuple, range)) else (codes,)
        output = done.stdout + done.stderr
        good = done.returncode in codes and all(word in output for word in words)
        good = good and (done.returncode == 0 or done.stderr.strip()) and "AddressSanitizer" not in output
        self.report(good, f"{what}:{self.case}", f"exit code {done.returncode}, wanted {words}:\n{output[-1500:]}")

    def goes_on(self, run, *words, ranks=1):
        """The run reaches the digest of the undisturbed run, and prints these words."""
        if os.path.exists(os.path.join(run, "exit.json")):
            os.remove(os.path.join(run, "exit.json"))
        done = self.train(run, ranks=ranks)
        self.expect("train continues", done, 0, *words)
        self.same_digest(run, done)

    def same_digest(self, run, done):
        if done.returncode != 0:
            return
        with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
            digest = json.load(file)["digest"]
        self.report(digest == self.digest, f"the same result:{self.case}", f"{digest} instead of {self.digest}")

    # ---- kinds of files ----

    def train_shard(self):
        data = self.copy(self.data)
        shard = self.flip(data, "train-00000.kpl")
        self.expect("verify", self.call("verify", data), 3, shard)
        self.expect("train", self.train(data + ".run", data=data), 3, shard)

    def val_shard(self):
        data = self.copy(self.data)
        shard = self.flip(data, "val-00000.kpl")
        self.expect("verify", self.call("verify", data), 3, shard)
        self.expect("val", self.call("val", self.whole, "data.val=" + data), 3, shard)

    def checkpoint(self, name):
        run = self.copy(self.whole)
        self.flip(run, GENERATION, name)
        last = os.path.join(run, "last")
        where = () if name == "manifest.json" else ("bytes ",)
        self.expect("verify", self.call("verify", run), 3, name, *where)
        self.expect("val of it", self.call("val", last), 3, name)
        self.expect("show of it", self.call("show", last), 3, name)
        self.expect("stat of it", self.call("stat", last), 3, name)
        self.expect("val of the run", self.call("val", run), 0, "is skipped", name)
        self.goes_on(run, "is skipped", name, ranks=self.dice.choice((1, 2)))
        self.expect("verify afterwards", self.call("verify", run), 0)

    def manifest(self):
        self.checkpoint("manifest.json")

    def weights(self):
        self.checkpoint(self.dice.choice(WEIGHTS[:2]))

    def optimizer(self):
        self.checkpoint(WEIGHTS[2])

    def weights_by_path(self):
        run = self.copy(self.whole)
        name = self.flip(run, GENERATION, WEIGHTS[0])
        weights = "weights=" + os.path.join(run, GENERATION, name)
        self.expect("train from it", self.train(run + ".run", weights), 3, name)

    def both_checkpoints(self):
        run = self.copy(self.whole)
        self.flip(run, GENERATION, self.dice.choice(WEIGHTS))
        name = self.flip(run, OLDER, self.dice.choice(WEIGHTS))
        os.remove(os.path.join(run, "exit.json"))
        self.expect("train", self.train(run, ranks=self.dice.choice((1, 2))), 3, "none of its 2 checkpoints is complete", name)
        self.expect("val", self.call("val", run), 3, name)
        self.expect("verify", self.call("verify", run), 3, name)

    def identity(self):
        run = self.copy(self.whole)
        self.flip(run, "identity")
        self.goes_on(run, "identity is damaged")
        self.goes_on(run)

    def run_recipe(self):
        """A recipe that differs from the run's is reported when evaluating, and repaired when training continues."""
        run = self.copy(self.whole)
        with open(os.path.join(run, "recipe.yaml"), "rb") as file:
            before = file.read()
        self.flip(run, "recipe.yaml")
        done = self.call("val", run)
        self.expect("val", done, CODES)
        self.goes_on(run)
        with open(os.path.join(run, "recipe.yaml"), "rb") as file:
            mended = file.read() == before
        if done.returncode == 0 and "damaged or changed" in done.stderr:
            self.report(mended, f"repaired:{self.case}", "the recipe is still the damaged one")

    def tables(self):
        run = self.copy(self.whole)
        self.flip(run, "metrics.csv")
        self.flip(run, "digests.csv")
        self.goes_on(run)

    def exit_file(self):
        run = self.copy(self.whole)
        self.flip(run, "exit.json")
        done = self.train(run)
        self.expect("train", done, (0, 2))
        self.same_digest(run, done)

    def user_recipe(self):
        folder = self.copy(os.path.dirname(self.recipe))
        name = self.flip(folder, os.path.basename(self.recipe))
        path = os.path.join(folder, name)
        checked = self.call("recipe", "check", path)
        self.expect("recipe check", checked, (0, 2), *([] if checked.returncode == 0 else [name + ":"]))
        planned = self.call("train", path, "--dry-run", "data.train=" + self.data)
        self.expect("train --dry-run", planned, (0, 2))

    def all(self, count):
        kinds = (self.train_shard, self.val_shard, self.manifest, self.weights, self.optimizer, self.weights_by_path,
                 self.both_checkpoints, self.identity, self.run_recipe, self.tables, self.exit_file, self.user_recipe)
        for number in range(count):
            self.case = ""
            try:
                kinds[number % len(kinds)]()
            except subprocess.TimeoutExpired as error:
                self.report(False, self.case, f"hangs: {error.cmd}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("serried")
    parser.add_argument("recipe")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    dice = suite.show_seed(suite.new_seed() if arguments.seed == "random" else int(arguments.seed))

    def check(folder):
        tests = Damage(os.path.abspath(arguments.serried), os.path.abspath(arguments.recipe), folder, dice)
        tests.prepare(20)
        tests.expect("whole", tests.train(tests.whole), 0)
        with open(os.path.join(tests.whole, "exit.json"), encoding="utf-8") as file:
            tests.digest = json.load(file)["digest"]
        tests.all(arguments.count)
        return tests

    suite.run(check)


if __name__ == "__main__":
    main()
