#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starting, resuming and extending runs: bad inputs are refused before training starts, also by --dry-run; so are
checkpoints of other runs; damaged or exchanged evaluation data do not lose training results.

  check_runs.py SERRIED RECIPE
"""
import csv
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib

import suite


class Runs(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe

    def command(self, *words):
        return subprocess.run([self.serried, *words], env=suite.environment(), text=True, capture_output=True,
                              timeout=100 * suite.SLOW, check=False)

    def train(self, name, *values, data=None, options=("-o",)):
        folder = os.path.join(self.folder, name)
        where = [*options, folder] if options else []
        return self.command("train", self.recipe, *where, f"data.train={data or self.data}", *values)

    def expect(self, what, done, code, words):
        good = done.returncode == code and words in done.stderr
        self.report(good, what, f"exit code {done.returncode}, without '{words}':\n{done.stderr[-1500:]}")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def exit_file(self, name):
        with open(self.path(name, "exit.json"), encoding="utf-8") as file:
            return json.load(file)

    def pack(self, name, classes=None, fraction="0.2"):
        """A packed folder of fewer pictures, of all classes or of this many."""
        pictures, data = self.path(name + "-pictures"), self.path(name)
        subprocess.run([self.serried, "render", pictures, "--count", "5"], check=True, capture_output=True)
        for number, shape in enumerate(sorted(os.listdir(pictures))):
            if classes is not None and number >= classes:
                shutil.rmtree(os.path.join(pictures, shape))
        subprocess.run([self.serried, "pack", pictures, data, "--val-fraction", fraction], check=True,
                       capture_output=True)
        return data

    def classes_file(self, classes):
        """A safetensors file without tensors that records its classes."""
        header = json.dumps({"__metadata__": {"serried.classes": json.dumps(classes)}}).encode()
        with open(self.path("classes.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
        return self.path("classes.safetensors")

    def kinds(self):
        """Data of another kind than the task's is refused by train, --dry-run and recipe check alike."""
        for kind, made in (("boxes", self.boxes), ("mask", self.masks)):
            data = self.path(f"of-{kind}")
            packed = self.command("pack", made(), data, "--val-fraction", "0.25")
            recipe = self.path(f"{kind}.yaml")
            with open(recipe, "w", encoding="utf-8") as file:
                file.write(f"base: {os.path.abspath(self.recipe)}\ndata: {{train: {data}}}\n")
            for what, done in (("train", self.command("train", recipe, "-o", self.path("never"))),
                               ("train -n 2", self.command("train", recipe, "-n", "2", "-o", self.path("never"))),
                               ("--dry-run", self.command("train", recipe, "--dry-run")),
                               ("recipe check", self.command("recipe", "check", recipe))):
                self.expect(f"{what} on {kind}", done, 3, "task classify cannot be trained on it")
                self.report(kind in done.stderr, f"{what} names {kind}", packed.stderr[-500:] + done.stderr[-500:])
        self.report(not os.path.exists(self.path("never")), "no run folder", "made")
        for names, words in ((["x", "y"], "class 0 is 'x' in it and 'arrow' in the data"),
                             (["arrow", "circle"], "has 2 classes and the data 10; only the data has 'crescent'")):
            done = self.train("never", f"weights={self.classes_file(names)}", options=("--dry-run", "-o"))
            self.expect("weights of other classes", done, 2, words)

    def boxes(self):
        """Four pictures with a box each, in YOLO's format."""
        top = self.path("yolo")
        subprocess.run([self.serried, "render", os.path.join(top, "drawn"), "--count", "4"], check=True, capture_output=True)
        for part in ("images", "labels"):
            os.makedirs(os.path.join(top, part))
        for number in range(4):
            shutil.move(os.path.join(top, "drawn", "circle", f"000{number}.jpg"), os.path.join(top, "images", f"{number}.jpg"))
            with open(os.path.join(top, "labels", f"{number}.txt"), "w", encoding="ascii") as file:
                file.write("0 0.5 0.5 0.4 0.4\n")
        shutil.rmtree(os.path.join(top, "drawn"))
        with open(os.path.join(top, "data.yaml"), "w", encoding="ascii") as file:
            file.write("{train: images, names: {0: circle}}\n")
        return top

    def masks(self):
        """The same with a mask each."""
        top = self.path("masked")
        shutil.copytree(self.path("yolo", "images"), os.path.join(top, "images"))
        os.makedirs(os.path.join(top, "masks"))
        rows = b"".join(b"\0" + bytes(64) for _ in range(64))

        def chunk(name, data):
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

        for number in range(4):
            with open(os.path.join(top, "masks", f"{number}.png"), "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)) +
                           chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        return top

    def refused(self):
        """Refused before the first step and without a run folder, with the same message by training and --dry-run."""
        few = self.pack("few", classes=9)
        unsplit = self.pack("unsplit", fraction="0")
        rows = [
            ("weights that are missing", ["weights=none.safetensors"], None, "none.safetensors does not exist"),
            ("weights of another program", ["weights=net.pth"], None, "serried-convert net.pth FILE.safetensors"),
            ("val set that is missing", ["data.val=nowhere"], None, "nowhere does not exist"),
            ("val set without a split", [f"data.val={unsplit}"], None, "val"),
            ("val set of fewer classes", [f"data.val={few}"], None, "has 9 classes"),
            ("batch beyond memory", ["batch=16000000", "lanes=2"], None, "lower batch"),
            ("patience without evaluations", ["stop.patience=1"], unsplit, "stop.patience"),
            ("patience by another metric", ["stop={metric: val/top3, patience: 1}"], None, "val/top"),
            ("unknown device", ["device=cpux"], None, "unknown device 'cpux'"),
            ("device whose module is missing", ["device=cuda"], None, "libserried-cuda.so is not installed"),
        ]
        for what, values, data, words in rows:
            begin = time.monotonic()
            self.expect(what, self.train("refused", *values, data=data), 2, words)
            self.expect(what + ", --dry-run", self.train("refused", *values, data=data, options=("--dry-run", "-o")), 2,
                        words)
            self.report(time.monotonic() - begin < 20 * suite.SLOW, what + ": at once", f"{time.monotonic() - begin} s")
        self.report(not os.path.exists(self.path("refused")), "no run folder", "there is one")
        recipe = self.path("missing.yaml")
        with open(recipe, "w", encoding="utf-8") as file:
            file.write(f"base: {os.path.abspath(self.recipe)}\nweights: none.safetensors\n")
        self.expect("recipe check", self.command("recipe", "check", recipe), 2, "missing.yaml:2:10")

    def foreign(self):
        """A checkpoint that was copied from another run is neither resumed from nor reported as intact."""
        for name, seed in (("one", 1), ("two", 2)):
            self.train(name, "steps=4", "checkpoint.every=[2it]", f"seed={seed}")
        os.remove(self.path("two", "exit.json"))
        shutil.rmtree(self.path("two", "checkpoints", "00000002"))
        shutil.copytree(self.path("one", "checkpoints", "00000002"), self.path("two", "checkpoints", "00000002"))
        done = self.train("two", "steps=4", "checkpoint.every=[2it]", "seed=2")
        self.expect("checkpoint of another seed", done, 2, "a checkpoint of another run, with another seed")
        done = self.command("verify", self.path("two"))
        self.report(done.returncode == 3 and "FOREIGN" in done.stdout, "verify names it", done.stdout + done.stderr)
        done = self.command("verify", "--json", self.path("two"))
        states = {g["generation"]: g["state"] for g in json.loads(done.stdout)["generations"]}
        self.report(done.returncode == 3 and states == {2: "foreign", 1: "whole"}, "verify --json names it", done.stdout)
        shutil.rmtree(self.path("two", "checkpoints", "00000002"))
        done = self.train("two", "steps=4", "checkpoint.every=[2it]", "seed=2")
        self.report(done.returncode == 0, "moved out", done.stderr[-800:])
        os.remove(self.path("two", "checkpoints", "00000002", "model.safetensors"))
        done = self.command("verify", self.path("two"))
        self.report(done.returncode == 3 and "model.safetensors: missing" in done.stdout, "verify of a missing file",
                    f"{done.returncode} {done.stdout}{done.stderr}")

    def evaluation(self):
        """Damaged pictures for evaluation lose no training results; exchanged ones start `best` over."""
        self.train("whole", "epochs=2")
        data = self.path("damaged")
        shutil.copytree(self.data, data)
        shard = os.path.join(data, "val-00000.kpl")
        with open(shard, "r+b") as file:
            content = bytearray(file.read())
            content[len(content) // 2] ^= 4
            file.seek(0)
            file.write(content)
        done = self.train("hurt", "epochs=2", data=data)
        self.expect("damaged picture for evaluation", done, 3, "an evaluation counts every picture once")
        self.report(os.path.exists(self.path("hurt", "last", "manifest.json")), "the epoch's checkpoint", "is missing")
        shutil.copy(os.path.join(self.data, "val-00000.kpl"), shard)
        done = self.train("hurt", "epochs=2", data=data)
        whole, hurt = self.exit_file("whole"), self.exit_file("hurt")
        self.report(done.returncode == 0 and hurt["digest"] == whole["digest"] and hurt["metrics"] == whole["metrics"],
                    "resumes with the evaluation", f"{hurt} {whole}\n{done.stderr[-800:]}")
        steps = []
        for name in ("whole", "hurt"):
            with open(self.path(name, "metrics.csv"), encoding="utf-8") as file:
                steps.append([(row["step"], row["val/top1"]) for row in csv.DictReader(file)])
        self.report(steps[0] == steps[1], "rows of metrics.csv", str(steps))
        accuracy = whole["metrics"]["val_top1"]
        self.report(0 < accuracy <= 1 and abs(float(steps[0][-1][1]) - accuracy) < 1e-8,
                    "metrics.csv and exit.json have one unit", f"{steps[0]} {accuracy}")
        other = self.pack("other")
        os.rename(self.path("hurt", "exit.json"), self.path("exit.json"))
        done = self.train("hurt", "epochs=3", f"data.val={other}", data=data, options=("--resume",))
        self.expect("other pictures for evaluation", done, 0, "'best' starts over")

    def older_columns(self, name):
        """metrics.csv as written by versions that stored accuracies in percent."""
        path = self.path(name, "metrics.csv")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("images_per_s", "img_s"))

    def extended(self):
        """--resume DIR with more epochs, also of a finished run; not with fewer."""
        self.train("longer", "epochs=2")
        before = self.exit_file("longer")
        self.expect("the same length", self.train("longer", "epochs=2", options=("--resume",)), 2, "is finished")
        self.expect("shorter", self.train("longer", "epochs=1.6", options=("--resume",)), 2, "give more to extend it")
        self.expect("another rate", self.train("longer", "epochs=4", "optimizer.lr=0.3", options=("--resume",)), 2,
                    "other options")
        self.older_columns("longer")
        done = self.command("train", "--resume", self.path("longer"), "epochs=4") # by the run's own recipe
        self.expect("metrics.csv of an older version", done, 0, "metrics.csv.old")
        after = self.exit_file("longer")
        self.report(done.returncode == 0 and before["samples"] < 240 and after["samples"] >= 320, "longer",
                    f"{before['samples']} {after['samples']}\n{done.stderr[-800:]}")
        self.report("val top-1 " in done.stderr, "what the accuracy is of", done.stderr[-800:])
        self.report(self.command("verify", self.path("longer")).returncode == 0, "verify", "damaged")
        self.expect("from before", self.train("longer", "epochs=4", options=("--resume",)), 2, "is finished")

    def lookahead(self):
        """The steps after the last move to the average count, too."""
        sums = []
        for number, rate in enumerate(("0.01", "0.02")):
            done = self.train(f"lookahead{number}", "steps=3", f"optimizer.lr={rate}",
                              "ema={decay: 0.9, every: 5, lookahead: true}")
            with open(self.path(f"lookahead{number}", "last", "model.safetensors"), "rb") as file:
                sums.append(hashlib.sha256(file.read()).hexdigest())
        self.report(sums[0] != sums[1], "lookahead over few steps", "ends on the first weights")
        self.expect("lookahead over few steps: warning", done, 0, "learns little")

    def start_and_wait(self, ranks, line):
        """Starts a run that does not end by itself, and waits for its next checkpoint."""
        folder = line[line.index("-o") + 1] if "-o" in line else line[line.index("--resume") + 1]
        last = os.path.join(folder, "last")
        before = os.readlink(last) if os.path.islink(last) else None
        process = subprocess.Popen(suite.under_mpirun(ranks, line), env=suite.environment(), text=True,
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60 * suite.SLOW
        while process.poll() is None and time.monotonic() < end and \
                (not os.path.islink(last) or os.readlink(last) == before):
            time.sleep(0.02)
        return process

    def end(self, process):
        try:
            _, errors = process.communicate(timeout=60 * suite.SLOW)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
        return errors

    def removed(self):
        """A run whose folder is moved or removed ends with an error, leaves nothing, and can do what it advises."""
        for ranks, moved in ((2, True), (1, False)):
            what = f"run folder {'moved' if moved else 'removed'}, {ranks} ranks"
            folder = self.path(what.replace(" ", "-").replace(",", ""))
            line = [self.serried, "train", self.recipe, f"data.train={self.data}", "steps=100000", "checkpoint.every=[20it]"]
            process = self.start_and_wait(ranks, [*line, "-o", folder])
            os.rename(folder, folder + "-elsewhere")
            if not moved:
                shutil.rmtree(folder + "-elsewhere")
            errors = self.end(process)
            words = f"was moved to {folder}-elsewhere" if moved else "was removed"
            self.report(process.returncode in (1, 6) and words in errors and not os.path.exists(folder), what,
                        f"{process.returncode} {os.path.exists(folder)} {errors[-800:]}")
            advice = [["--resume", folder + "-elsewhere"], ["-o", folder]][0 if moved else 1]
            process = self.start_and_wait(1, [*line, *advice])
            process.send_signal(signal.SIGTERM)
            errors = self.end(process)
            self.report(process.returncode == 75, what + ": the advice", f"{process.returncode} {errors[-800:]}")

    def few_addresses(self):
        """ulimit -v below the size of memory: only the necessary address space is reserved."""
        if suite.SLOW > 1:
            suite.not_run("ulimit -v: sanitizers reserve terabytes")
            return
        line = [self.serried, "train", self.recipe, "-o", self.path("few-addresses"), f"data.train={self.data}", "steps=2"]
        done = subprocess.run(["bash", "-c", 'ulimit -v 3000000 && exec "$@"', "bash", *line], env=suite.environment(),
                              text=True, capture_output=True, timeout=100, check=False)
        self.report(done.returncode == 0, "ulimit -v", done.stderr[-800:])

    def small_stack(self):
        """ulimit -s of 96 KiB: the limit is raised where it may be, also for mpirun, and otherwise refused."""
        values = [self.recipe, f"data.train={self.data}", "steps=2"]
        for what, words, hard in (("two ranks", ["train", "-n", "2", "-o", self.path("small-stack"), *values], "S"),
                                  ("a picture", ["show", self.data, "-o", self.path("stack.png")], "S"),
                                  ("a hard limit", ["show", self.data, "-o", self.path("hard.png")], "")):
            done = subprocess.run(["bash", "-c", f'ulimit -{hard}s 96 && exec "$@"', "bash", self.serried, *words],
                                  env=suite.environment(), text=True, capture_output=True, timeout=100 * suite.SLOW, check=False)
            refused = done.returncode == 1 and "the stack size limit is 96 KiB" in done.stderr
            self.report(done.returncode == 0 or (refused and not hard), f"ulimit -s, {what}",
                        f"{done.returncode} {done.stderr[-800:]}")

    def long_paths(self):
        """Paths longer than a thousand bytes are not cut."""
        deep = os.path.join(self.folder, *["long" * 50] * 6)
        data, run = os.path.join(deep, "data"), os.path.join(deep, "run")
        shutil.copytree(self.data, data)
        line = [self.serried, "train", self.recipe, f"data.train={data}", "steps=2", "profile=1:2", "-o", run]
        for what, words in (("train", suite.under_mpirun(2, line)), ("val", [self.serried, "val", run]),
                            ("verify", [self.serried, "verify", run])):
            done = subprocess.run(words, env=suite.environment(), text=True, capture_output=True, timeout=100 * suite.SLOW,
                                  check=False)
            self.report(done.returncode == 0, f"long paths: {what}", f"{done.returncode} {done.stderr[-1500:]}")
        missing = [name for name in ("log.txt", "exit.json", "trace.json", "log/rank-0001.txt", "samples/aug_0.png")
                   if not os.path.exists(os.path.join(run, name))]
        self.report(not missing, "long paths: files", f"{missing}")

    def small_machine(self):
        """Limits that mpirun would not survive are refused before it starts; a soft limit is raised."""
        line = [self.serried, "train", self.recipe, "-n", "2", f"data.train={self.data}", "steps=2", "-o"]
        for limit, code, words in (("ulimit -n 28", 1, "mpirun needs 36 open files for 2 ranks, and the limit is 28"),
                                   ("ulimit -Sn 28", 0, "")):
            done = subprocess.run(["bash", "-c", limit + ' && exec "$@"', "bash", *line, self.path(limit.replace(" ", ""))],
                                  env=suite.environment(), text=True, capture_output=True, timeout=100 * suite.SLOW,
                                  check=False)
            self.expect(limit, done, code, words)
        own = "mount -t tmpfs -o size=12m tmpfs /dev/shm"
        if subprocess.run(["unshare", "-m", "sh", "-c", own], capture_output=True, check=False).returncode != 0:
            suite.not_run("a full /dev/shm: needs the right to mount")
            return
        full = own + ' && head -c 8M /dev/zero > /dev/shm/full && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", full, "sh", *line, self.path("full-shm")],
                              env=suite.environment(), text=True, capture_output=True, timeout=100 * suite.SLOW,
                              check=False)
        self.expect("full /dev/shm", done, 1, "/dev/shm has 4.0 MiB free, and 2 ranks need 9.2 MiB")

    def no_place(self):
        """An unwritable folder is refused before anything else is done."""
        with open(self.path("in-the-way"), "w", encoding="utf-8"):
            done = self.train("in-the-way/run")
        self.expect("-o that cannot be made", done, 1, "in-the-way: cannot make the folder: File exists")
        self.report("to choose the fastest of those" not in done.stderr, "-o that cannot be made, early", done.stderr)

    def full_output(self):
        """Results that cannot be printed are a failure, also under mpirun."""
        for ranks in (1, 2):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([self.serried, "train", self.recipe, "-n", str(ranks), "-o",
                                       self.path(f"full{ranks}"), f"data.train={self.data}", "steps=3"],
                                      env=suite.environment(), text=True, stdout=full, stderr=subprocess.PIPE,
                                      timeout=100 * suite.SLOW, check=False)
            self.report(done.returncode == 1 and "cannot write the results to stdout" in done.stderr,
                        f"/dev/full, {ranks} ranks", f"{done.returncode} {done.stderr[-500:]}")

    def pictures(self):
        """The first batch, mixed as the network gets it, and the examples of an evaluation are the same on any ranks."""
        drawn = []
        for ranks in (1, 3):
            name = f"pictures-{ranks}"
            done = self.train(name, "mix.cutmix=1", "mix.mixup=0.4", options=("-n", str(ranks), "-o"))
            self.report(done.returncode == 0, f"pictures on {ranks} ranks", done.stderr[-800:])
            drawn.append([open(self.path(name, "samples", picture), "rb").read() for picture in ("aug_0.png", "val.png")])
        self.report(drawn[0] == drawn[1], "pictures of any ranks", str([[len(data) for data in two] for two in drawn]))
        plain = self.train("pictures-plain")
        with open(self.path("pictures-plain", "samples", "aug_0.png"), "rb") as file:
            self.report(plain.returncode == 0 and file.read() != drawn[0][0], "first batch without a mix", plain.stderr)

    def closed(self):
        """Closed standard files: results are not written into a file of the run, and lost output is a failure."""
        for ranks in (1, 2):
            name = f"closed{ranks}"
            done = subprocess.run(["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", self.serried, "train", self.recipe, "-n",
                                   str(ranks), "-o", self.path(name), f"data.train={self.data}", "steps=3"],
                                  env=suite.environment(), timeout=100 * suite.SLOW, check=False)
            with open(self.path(name, "log.jsonl"), encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.report(done.returncode == 1 and all(line.startswith("{") for line in lines),
                        f"closed standard files, {ranks} ranks", f"{done.returncode} {lines}")

    def controls(self):
        """Control characters in a recipe or an argument are not printed to the terminal."""
        recipe = self.path("controls.yaml")
        with open(recipe, "w", encoding="utf-8") as file:
            file.write(f"base: {os.path.abspath(self.recipe)}\nabout: \x1b]0;title\x07\n")
        for done in (self.command("recipe", "check", recipe), self.train("controls", "steps=2\x1b[31m")):
            self.report(done.returncode == 2 and "\x1b" not in done.stderr and "\x07" not in done.stderr,
                        "control characters", repr(done.stderr))

    def stopped_exit(self):
        """A rank that is stopped when its run has ended does not keep the job from ending."""
        shim = os.path.join(os.path.dirname(os.path.abspath(self.serried)), "tests", "liblate_stop.so")
        if not os.path.exists(shim):
            suite.not_run("a rank stopped as it exits: liblate_stop.so is built without sanitizers only")
            return
        command = ["env", f"LD_PRELOAD={shim}", self.serried, "train", self.recipe, "-n", "2", "-o", self.path("late"),
                   f"data.train={self.data}", "steps=3", "deadline.act=1s"]
        done = subprocess.run(command, env=suite.environment(), text=True, capture_output=True, timeout=60, check=False)
        self.expect("rank stopped as it exits", done, 6, "after the end of the run (deadline.act): it is stopped (SIGSTOP)")
        self.report(self.exit_file("late")["status"] == "finished", "what it had done", str(self.exit_file("late")))

    def bare(self):
        """An empty environment."""
        done = subprocess.run(["env", "-i", self.serried, "train", self.recipe, "-n", "2", "-o", self.path("bare"),
                               f"data.train={self.data}", "steps=3", "--json"], text=True, capture_output=True,
                              timeout=100 * suite.SLOW, check=False)
        self.report(done.returncode == 0 and json.loads(done.stdout.splitlines()[-1])["exit_code"] == 0, "env -i",
                    f"{done.returncode} {done.stderr[-500:]}")

    def json(self):
        done = self.train("json", "steps=2", options=("--json", "-o"))
        parsed, kept = json.loads(done.stdout.splitlines()[-1]), self.exit_file("json")
        self.report(parsed.pop("run") == self.path("json") and parsed["digest"] == kept["digest"] and
                    parsed["metrics"] == kept["metrics"], "train --json", done.stdout)
        done = self.train("json-not-finite", "steps=30", "optimizer.lr=1e6", options=("--json", "-o"))
        parsed = json.loads(done.stdout.splitlines()[-1])
        self.report(done.returncode == parsed["exit_code"] == 5, "train --json of a failure", done.stdout)

    def early(self):
        """A run that becomes no better ends early, and is finished; one that was killed before its end ends there, too."""
        values = ["epochs=20", "optimizer.lr=1e-20", "ema=~", "stop={metric: val/loss, patience: 2}", "checkpoint.every=[1ep]"]
        done, ends = self.train("early", *values), []
        ends.append(self.exit_file("early"))
        self.report(done.returncode == 0 and ends[0]["status"] == "finished" and 0 < ends[0]["steps"] < 50 and
                    "stop.patience" in done.stderr, "a run that becomes no better", f"{ends} {done.stderr[-500:]}")
        os.remove(self.path("early", "exit.json"))
        again = self.train("early", *values)
        ends.append(self.exit_file("early"))
        ranks = self.train("early-2", *values, options=("-n", "2", "-o"))
        ends.append(self.exit_file("early-2"))
        self.report(again.returncode == ranks.returncode == 0 and
                    len({(end["digest"], end["steps"], end["metrics"]["val_loss"]) for end in ends}) == 1,
                    "ended early: killed before exit.json, and on 2 ranks", f"{ends} {again.stderr[-300:]}")
        done = self.train("patient", *values[:-2], "stop.patience=0", "checkpoint.every=[1ep]", "epochs=4")
        self.report("epoch 4/4  step 5/5" in done.stderr, "without patience: to the end", done.stderr[-300:])

    def not_finite(self):
        """The message says where it happened and which checkpoint to resume from; rows up to the failure are kept."""
        done = self.train("burst", "steps=30", "optimizer.lr=1e6", "schedule.warmup=8it", "checkpoint.every=[100it]",
                          data=self.path("unsplit"))
        self.expect("not finite", done, 5, "there is no checkpoint yet")
        self.expect("not finite: where", done, 5, "the first is sample " if "evaluation of epoch" in done.stderr else "first in ")
        with open(self.path("burst", "metrics.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        step = re.search(r"(?:not finite at|evaluation of epoch \S+) step (\d+)", done.stderr)
        self.report(step is not None and rows[-1]["step"] == step[1], "not finite: rows", f"{done.stderr[-300:]} {rows}")
        self.report(os.path.getsize(self.path("burst", "results.png")) > 1000, "not finite: picture", "none")

    def all(self):
        self.prepare(10)
        self.refused()
        self.kinds()
        self.foreign()
        self.evaluation()
        self.extended()
        self.lookahead()
        self.not_finite()
        self.early()
        self.json()
        self.pictures()
        self.few_addresses()
        self.small_stack()
        self.long_paths()
        self.small_machine()
        self.no_place()
        self.full_output()
        self.bare()
        self.stopped_exit()
        self.closed()
        self.controls()
        self.removed()


def check(folder):
    runs = Runs(sys.argv[1], sys.argv[2], folder)
    runs.all()
    return runs


suite.run(check)
