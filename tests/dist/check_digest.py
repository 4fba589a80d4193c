#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One digest, one metric: the bit contract of lanes on the real command.

A small recipe with batch norm, residuals, dropout, random crops and flips, label smoothing, an average of parameters,
an epoch boundary inside and a final evaluation is trained in fp32 and in bf16. From a base run (one rank, one thread)
one factor is varied at a time: ranks, threads, OMP_NUM_THREADS, buckets, data workers, threads instead of processes,
the contents of the chooser's cache, a stop and a resume on another number of ranks; then seeded combinations; and the
ranks again with mixup and CutMix, with what changes during a run, and without `lanes`. Every such run must end with the digest and the metrics of its
base. The bases themselves are not compared and not counted. Every command starts with an empty cache of choices of its
own, except where the factor is the cache.

Without --all, which the long suite has, bf16 varies ranks and threads alone, and what follows the combinations has one
run beside its base, most of them stopped on three ranks and resumed on two.

  check_digest.py SERRIED RECIPE [--device NAME] [--few | --all]
  check_digest.py SERRIED RECIPE --shipped [NAME...]    20 steps of every shipped recipe, or of some, at a small size
"""
import argparse
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time

import suite


class Digests(suite.Suite):
    def __init__(self, serried, recipe, device, everything, folder):
        super().__init__(serried, folder)
        self.recipe, self.device, self.all = recipe, device, everything
        self.base = {}
        self.caches = 0

    def environment(self, threads=1, omp=None, cache=None, variables=()):
        """The environment of one command; without 'cache' in a new folder."""
        self.caches += 1
        more = {"SERRIED_THREADS": str(threads), **dict(variables),
                "SERRIED_CACHE": cache or os.path.join(self.folder, f"cache {self.caches}")}
        if omp:
            more["OMP_NUM_THREADS"] = str(omp)
        if self.device:
            more["SERRIED_TEST_DEVICE"] = self.device
        return suite.environment(**more)

    def command(self, run, ranks, values):
        alone = ["-n", "1"] if ranks == 1 else []  # the default is the number of devices
        return suite.under_mpirun(ranks, [self.serried, "train", self.recipe, *alone, "-o", run,
                                          "data.train=" + self.data, *values])

    def result(self, run):
        with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
            exit_json = json.load(file)
        metrics = {name: value for name, value in exit_json["metrics"].items() if not name.startswith("best_")}
        return exit_json["status"], (exit_json["digest"], metrics)

    def train(self, name, ranks=1, values=(), threads=1, omp=None, cache=None, variables=()):
        run = os.path.join(self.folder, name.replace(" ", "_"))
        done = subprocess.run(self.command(run, ranks, values), env=self.environment(threads, omp, cache, variables),
                              capture_output=True, text=True, timeout=110 * suite.SLOW, check=False)
        if done.returncode != 0:
            print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
            raise SystemExit(f"{name}: exit code {done.returncode}")
        self.timed = done.stderr.count("to choose the fastest of those")
        return self.result(run)[1]

    def chooser(self, precision, values):
        """With a filled cache, with a damaged one, and without: the second run times nothing if the first one timed
        anything."""
        cache = os.path.join(self.folder, f"cache {precision}")
        filling = self.train(f"{precision} c0", 1, values, cache=cache)
        first = self.timed
        if filling != self.base[precision]:
            raise SystemExit(f"{precision}: repeating the base run gives another result: {filling}")
        self.compare(precision, "a filled cache", self.train(f"{precision} c1", 2, values, cache=cache))
        again = self.timed
        for name in os.listdir(cache) if first else ():
            with open(os.path.join(cache, name), "ab") as file:
                file.write(b"x" * (name != "lock"))
        self.compare(precision, "a damaged cache", self.train(f"{precision} c2", 1, values, cache=cache))
        damaged = self.timed
        self.compare(precision, "chooser=off", self.train(f"{precision} c3", 2, values + ["chooser=off"]))
        good = again == 0 and self.timed == 0 and damaged == first
        self.failed += not good
        print(f"{'ok' if good else 'DIFFERS':8} {precision} plans that timed kernels: {first} with an empty cache, "
              f"{again} with a filled one, {damaged} with a damaged one, {self.timed} without", flush=True)

    def start(self, precision, result):
        """Sets the result that the following runs are compared with."""
        self.base[precision] = result
        self.show("base", precision, "1 rank, 1 thread", result)

    def compare(self, precision, name, result):
        self.count += 1
        good = result == self.base[precision]
        self.failed += not good
        self.show("ok" if good else "DIFFERS", precision, name, result)

    def show(self, word, precision, name, result):
        metrics = (f"{key} {value:.9g}" for key, value in result[1].items() if value is not None)
        print(f"{word:8} {precision} {name:34} {result[0][:16]}", *metrics, flush=True)

    def stop(self, run, ranks, values, variables=()):
        """Starts a run and stops it by SIGUSR1 once it trains; returns whether it was still training."""
        job = subprocess.Popen(self.command(run, ranks, values), env=self.environment(variables=variables),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        digests = os.path.join(run, "digests.csv")
        end = time.monotonic() + 100
        while job.poll() is None and time.monotonic() < end:
            if os.path.exists(digests) and os.path.getsize(digests) > 60:
                job.send_signal(signal.SIGUSR1)
                break
            time.sleep(0.002)
        code = job.wait(timeout=100 * suite.SLOW)
        if code not in (0, 75):
            raise SystemExit(f"{run}: the stopped run ended with {code}")
        return code == 75

    def stopped_and_resumed(self, precision, values, first, second, variables=()):
        """Stopped, then the same command on another number of ranks, without the variables. A run that ends before it can be stopped proves
        nothing and is repeated."""
        name = f"{precision} stopped on {first} resumed on {second}"
        for attempt in range(5):
            run = os.path.join(self.folder, f"{name} {attempt}".replace(" ", "_"))
            if self.stop(run, first, values, variables):
                break
        else:
            raise SystemExit(f"{name}: five runs ended before they could be stopped")
        done = subprocess.run(self.command(run, second, values), env=self.environment(),
                              capture_output=True, text=True, timeout=110 * suite.SLOW, check=False)
        if done.returncode != 0:
            print(done.stderr[-2000:], file=sys.stderr)
            raise SystemExit(f"{name}: the resumed run ended with {done.returncode}")
        self.compare(precision, f"stopped {first} -> {second}", self.result(run)[1])

    def one_factor(self, precision, few):
        values = [f"precision={precision}"]
        self.start(precision, self.train(f"{precision} base", 1, values))
        for ranks in ((2, 3) if few else (2, 3, 4)):
            self.compare(precision, f"{ranks} ranks", self.train(f"{precision} r{ranks}", ranks, values))
        self.compare(precision, "3 threads", self.train(f"{precision} t3", 1, values, threads=3))
        for lanes, ranks in ((1, 1), (2, 2), (3, 1)) if self.device else ():
            self.compare(precision, f"{ranks} ranks, {lanes} lanes at once",
                         self.train(f"{precision} at once {lanes}", ranks, values + [f"lanes_at_once={lanes}"]))
        if few:
            return
        self.compare(precision, "2 ranks, 2 threads", self.train(f"{precision} r2t2", 2, values, threads=2))
        self.compare(precision, "OMP_NUM_THREADS=4", self.train(f"{precision} omp", 1, values, omp=4))
        for bucket in ("4KiB", "1GiB"):
            self.compare(precision, f"bucket {bucket}",
                        self.train(f"{precision} b{bucket}", 2, values + [f"exchange.bucket={bucket}"]))
        for workers in (1, 3):
            self.compare(precision, f"{workers} data workers",
                        self.train(f"{precision} w{workers}", 1, values + [f"data.workers={workers}"]))
        self.compare(precision, "data stages as threads",
                    self.train(f"{precision} dt", 2, values + ["data.processes=0"]))
        self.chooser(precision, values)
        self.stopped_and_resumed(precision, values, 1, 3)
        self.stopped_and_resumed(precision, values, 2, 1)

    def combinations(self, precision, count):
        draw = random.Random(f"serried {precision}")
        for i in range(count):
            ranks, threads = draw.choice([(r, t) for r in (1, 2, 3, 4) for t in (1, 2, 3) if r * t > 1])
            values = [f"precision={precision}", f"data.workers={draw.randint(1, 3)}",
                      f"exchange.bucket={draw.choice(['4KiB', '64KiB', '4MiB'])}",
                      f"data.processes={draw.randint(0, 1)}"]
            name = f"{precision} combination {i}"
            self.compare(precision, f"{ranks} ranks x {threads}, " + " ".join(v.split(".")[-1] for v in values[1:])[:24],
                        self.train(name, ranks, values, threads))

    def compare_ranks(self, name, values):
        """On 1 rank, and stopped on 3 and resumed on 2; with --all also on 2 and on 3."""
        self.start(name, self.train(f"{name} 1", 1, values))
        for ranks in (2, 3) if self.all else ():
            self.compare(name, f"{ranks} ranks", self.train(f"{name} {ranks}", ranks, values, threads=ranks))
        self.stopped_and_resumed(name, values, 3, 2)

    def changing(self):
        """What changes during a run: transforms and mixing that begin or end, the size of pictures; lanes with common
        statistics; and other draws of samples."""
        self.compare_ranks("mix", ["mix={mixup: 0.2, cutmix: 1, probability: 0.8}"])
        self.compare_ranks("sizes", ["progressive={from: 16, step: 8, begin: 1it, end: 5it}", "eval.flip=true"])
        self.compare_ranks("sync_bn", ["sync_bn=4"])
        self.compare_ranks("sync_bn of all", ["sync_bn=all", "precision=bf16", "lanes=6", "batch=48"])
        self.compare_ranks("repeats", ["data.repeats=3"])
        self.compare_ranks("balance", ["data.balance=0.5", "data.repeats=2"])
        self.compare_ranks("until", ["mix={mixup: 0.2, until: 50%}", "augment=[{random_resized_crop: {until: 3it}}, "
                                     "{resize: {from: 3it, stretch: true}}, {flip: {until: 4it}}]"])

    def resident(self, few):
        """Pictures that stay on the device change no bit, and a run moves between there and the data pipeline."""
        self.data = os.path.join(self.folder, "pictures of one size")
        self.pack_pictures(self.data, "--max-size", "32")
        values = ["image=32", "augment=[{alternating_flip: {from: 2it}}, {pad_crop: {pad: 3, mode: reflect}}]",
                  "data.resident=never"]
        self.start("resident", self.train("resident never", 1, values))
        values[-1] = "data.resident=always"
        for ranks in (1, 2) if few else (1, 2, 3):
            self.compare("resident", f"{ranks} ranks", self.train(f"resident {ranks}", ranks, values))
        if few:
            return
        self.stopped_and_resumed("resident", values, 3, 2)

    def shipped(self, names):
        """20 steps of every recipe that serried ships, at a small size, or 4 of a network around a backbone, whose steps
        take several times as long: its lengths are shortened so that what begins or ends in the run does so here."""
        def lines(*words):
            return subprocess.run([self.serried, "recipe", *words], check=True, capture_output=True, text=True).stdout

        data = {"segment": self.prepare_masks()}
        for name in names or lines("list", "--names").split():
            recipe = json.loads(lines("show", name, "--json"))
            around = "backbone" in recipe.get("model", {})  # phases have models and schedules of their own
            steps = 4 if around else 20
            values = [f"steps={steps}", "image=32", "batch=8", "lanes=4", f"checkpoint.every=[{steps}it]"]
            if around and "channels" in recipe["model"]:
                values.append("model.channels=32")
            if recipe["progressive"]["from"]:
                values += ["image=48", "progressive={from: 32, step: 8, begin: 5it, end: 15it}"]
            if recipe.get("schedule", {"warmup": "0it"})["warmup"] != "0it":
                values.append(f"schedule.warmup={steps // 4}it")
            if any("multi_scale" in transform for transform in recipe["augment"]):
                values.append("augment=" + json.dumps(self.scaled(recipe["augment"])))
            task = recipe["task"]  # with its options, or only the name of a task without any
            values.append("data.train=" + data.get(task["name"] if isinstance(task, dict) else task, self.data))
            self.recipe = name
            cache = os.path.join(self.folder, "cache of all")
            self.start(name, self.train(f"{name} 1", 1, values, cache=cache))
            for ranks in (2, 3):
                self.compare(name, f"{ranks} ranks", self.train(f"{name} {ranks}", ranks, values, cache=cache))

    def prepare_masks(self):
        """Packs pictures with their masks."""
        pictures, data = (os.path.join(self.folder, name) for name in ("pictures with masks", "masks"))
        for line in (["render", pictures, "--masks", "--count", "5"],
                     ["pack", pictures, data, "--class-map", os.path.join(pictures, "classes.txt")]):
            subprocess.run([self.serried, *line], check=True, capture_output=True)
        return data

    def scaled(self, transforms):
        """A list of transforms whose sizes are in pixels, for pictures of 32."""
        small = {"sizes": [32], "longest": 128}
        return [{name: {key: small.get(key, value) for key, value in options.items()}
                 for name, options in transform.items()} for transform in transforms]

    def portable(self):
        """With portable numerics other processors and kernels change no bit, and a run moves between them."""
        for precision in ("fp32", "bf16"):
            name, values = f"portable {precision}", ["numerics.portable=true", f"precision={precision}"]
            self.start(name, self.train(name, 1, values))
            for mask in ("avx512", "avx2") if self.all else ("avx2",):
                self.compare(name, f"2 ranks without {mask}",
                             self.train(f"{name} {mask}", 2, values, variables={"SERRIED_CPU_MASK": mask}))
            self.compare(name, "the reference's kernels",
                         self.train(f"{name} reference", 1, values, variables={"SERRIED_PROVIDERS": "reference"}))
            if self.all or precision == "bf16":
                self.stopped_and_resumed(name, values, 1, 2, {"SERRIED_CPU_MASK": "avx2"})

    def limited(self, few):
        """Updates that depend on all gradients: a limit of their norm, and fp16, whose first steps overflow and are
        skipped on all ranks; optimizers with norms of tensors, and with matrices that have one owner."""
        scale = ["precision=fp16", "loss_scale.initial=16777216"]
        cases = [("clip_norm", ["optimizer.clip_norm=0.5"]), ("fp16", scale)]
        for name in () if few else ("adamw", "lamb", "muon"):
            cases.append((name, [f"optimizer={{name: {name}, lr: 0.01, momentum: ~}}"]))
        for name, values in cases:
            self.start(name, self.train(f"{name} 1", 1, values))
            for ranks in (2, 3) if self.all or name == "fp16" else (3,):
                self.compare(name, f"{ranks} ranks", self.train(f"{name} {ranks}", ranks, values, threads=ranks))
            if self.all or name == "fp16" and not few:
                self.compare(name, "bucket 4KiB", self.train(f"{name} b", 2, values + ["exchange.bucket=4KiB"]))
                self.stopped_and_resumed(name, values, 2, 3)
        with open(os.path.join(self.folder, "fp16_3", "metrics.csv"), encoding="utf-8") as file:
            last = list(csv.DictReader(file))[-1]
        skipped = int(last["skipped_steps"])
        self.failed += skipped == 0
        print(f"{'ok' if skipped else 'FAILED':8} fp16 {skipped} steps were skipped; the loss scale is now "
              f"{last['loss_scale']}", flush=True)

    def default_lanes(self):
        values = ["lanes=~"]
        self.start("default lanes", self.train("default 1", 1, values))
        self.compare("default lanes", "2 ranks", self.train("default 2", 2, values))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("serried")
    parser.add_argument("recipe")
    parser.add_argument("--device")
    parser.add_argument("--few", action="store_true", help="ranks and threads only")
    parser.add_argument("--all", action="store_true", help="nothing left out")
    parser.add_argument("--shipped", nargs="*", metavar="NAME",
                        help="these shipped recipes, or all, instead of RECIPE, on 1 to 3 ranks")
    arguments = parser.parse_args()

    def check(folder):
        tests = Digests(os.path.abspath(arguments.serried), os.path.abspath(arguments.recipe),
                        arguments.device, arguments.all, folder)
        tests.prepare(20)
        if arguments.shipped is not None:
            tests.shipped(arguments.shipped)
            return tests
        for precision in ("fp32", "bf16"):
            tests.one_factor(precision, arguments.few or precision == "bf16" and not tests.all)
            if not arguments.few:
                tests.combinations(precision, 2)
        tests.limited(arguments.few)
        if not arguments.few:
            tests.changing()
            tests.portable()
            tests.default_lanes()
        tests.resident(arguments.few)
        return tests

    suite.run(check)


if __name__ == "__main__":
    main()
