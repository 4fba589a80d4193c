#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every kind of failure ends, on one and on two ranks, with one clear message and the right exit code.

  check_failures.py SERRIED RECIPE [--few]    only the first ones
"""
import csv
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import suite


def flip_middle(content):
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1:]


class Failures(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe

    def run_folder(self, name, ranks):
        return os.path.join(self.folder, f"{name}-{ranks}".replace(" ", "-"))

    def line(self, name, ranks, values, data=None):
        line = [self.serried, "train", self.recipe, "-o", self.run_folder(name, ranks),
                "data.train=" + (data or self.data), *values]
        return suite.under_mpirun(ranks, line)

    def expect(self, name, ranks, code, words, values=(), data=None):
        """Expects one message on stderr with the words, this exit code, and an end within the time limit."""
        try:
            done = subprocess.run(self.line(name, ranks, values, data), env=suite.environment(), text=True,
                                  capture_output=True, timeout=60 * suite.SLOW, check=False)
        except subprocess.TimeoutExpired:
            self.report(False, f"{name}, {ranks} ranks", "hangs")
            return
        errors = [line for line in done.stderr.splitlines() if "error" in line and words in line]
        good = done.returncode == code and len(errors) == 1
        self.report(good, f"{name}, {ranks} ranks",
                    f"exit code {done.returncode}, {len(errors)} lines with '{words}':\n{done.stderr[-1500:]}")

    def damaged(self, name, change):
        data = os.path.join(self.folder, "damaged-" + name)
        shutil.copytree(self.data, data)
        shard = os.path.join(data, "train-00000.kpl")
        with open(shard, "r+b") as file:
            content = bytearray(file.read())
            content = change(content)
            file.seek(0)
            file.truncate()
            file.write(content)
        return data

    def result(self, name, ranks):
        with open(os.path.join(self.run_folder(name, ranks), "exit.json"), encoding="utf-8") as file:
            parsed = json.load(file)
        return parsed["digest"], parsed["metrics"]

    def rows(self, name, ranks):
        """metrics.csv without the columns that depend on a clock or an allocator."""
        with open(os.path.join(self.run_folder(name, ranks), "metrics.csv"), encoding="utf-8") as file:
            return [{key: value for key, value in row.items()
                     if key in ("step", "samples", "epoch", "lr") or key.startswith(("train/", "val/"))}
                    for row in csv.DictReader(file)]

    def best(self):
        """best/ is the checkpoint with the best value of checkpoint.metric, not the best evaluation."""
        values = ["epochs=6", "checkpoint.every=[2ep]", "optimizer.lr=0.5"]
        for metric, sign in (("val/loss", -1), ("val/top1", 1)):
            name = "best " + metric.replace("/", "-")
            done = subprocess.run(self.line(name, 1, [*values, f"checkpoint.metric={metric}"]), env=suite.environment(),
                                  text=True, capture_output=True, timeout=100 * suite.SLOW, check=False)
            folder = self.run_folder(name, 1)
            with open(os.path.join(folder, "digests.csv"), encoding="utf-8") as file:
                saved = {row["step"] for row in csv.DictReader(file)}
            candidates = [(sign * float(row[metric]), -int(row["step"])) for row in self.rows(name, 1)
                          if row[metric] and row["step"] in saved]
            with open(os.path.join(folder, "best", "manifest.json"), encoding="utf-8") as file:
                parsed = json.load(file)
            good = done.returncode == 0 and parsed["metric"] == metric and parsed["step"] == -max(candidates)[1]
            self.report(good, f"best by {metric}", f"{candidates} {parsed['metric']} {parsed['step']}\n{done.stderr[-800:]}")
        self.expect("unknown metric", 1, 2, "did you mean 'val/top1'", ["checkpoint.metric=val/top2"])

    def success(self, what, line):
        done = subprocess.run(line, env=suite.environment(), text=True, capture_output=True, timeout=100 * suite.SLOW, check=False)
        self.report(done.returncode == 0, what,
                    f"exit code {done.returncode}:\n{done.stderr[-1500:]}")

    def classes(self):
        """Weights of other classes are refused in `train` and `val`, unless the last layer is reset."""
        pictures, other = os.path.join(self.folder, "other-pictures"), os.path.join(self.folder, "other")
        subprocess.run([self.serried, "render", pictures, "--count", "5"], check=True, capture_output=True)
        first = sorted(os.listdir(pictures))[0]
        os.rename(os.path.join(pictures, first), os.path.join(pictures, "zebra"))
        subprocess.run([self.serried, "pack", pictures, other, "--val-fraction", "0.2"], check=True,
                       capture_output=True)
        subprocess.run(self.line("weights", 1, []), env=suite.environment(), capture_output=True, timeout=100 * suite.SLOW, check=True)
        weights = "weights=" + os.path.join(self.run_folder("weights", 1), "last", "model.safetensors")
        self.expect("weights of other classes", 1, 2, "weights_reset", [weights], data=other)
        self.success("weights of other classes, last layer reset",
                     self.line("anew", 1, [weights, "weights_reset=[fc]", "steps=2"], other))
        self.success("weights of the same classes", self.line("same", 1, [weights, "steps=2"]))
        done = subprocess.run([self.serried, "val", self.run_folder("weights", 1), "data.val=" + other],
                              env=suite.environment(), text=True, capture_output=True, timeout=100 * suite.SLOW, check=False)
        self.report(done.returncode == 2 and f"in the model it is '{first}'" in done.stderr, "evaluated on other classes",
                    f"exit code {done.returncode}:\n{done.stderr[-800:]}")

    def latest(self):
        """`latest` points to the newest run that trains: weights may come from it, and a failed start keeps it."""
        folder = os.path.join(self.folder, "latest")
        os.makedirs(folder)
        link = os.path.join(folder, "runs", os.path.basename(self.recipe).split(".")[0], "latest")
        weights = "weights=" + os.path.join(os.path.relpath(link, folder), "last", "model.safetensors")
        found = []
        for words, code in ((["seed=1"], 0), (["seed=2", weights], 0), (["seed=3", "weights=none.safetensors"], 2)):
            done = subprocess.run([self.serried, "train", self.recipe, f"data.train={self.data}", "steps=2", *words],
                                  cwd=folder, env=suite.environment(), text=True, capture_output=True,
                                  timeout=100 * suite.SLOW, check=False)
            found.append(os.readlink(link))
            self.report(done.returncode == code, f"start with {words[-1]}",
                        f"exit code {done.returncode}:\n{done.stderr[-1500:]}")
        self.report(found[0] != found[1] and found[1] == found[2], "latest", str(found))

    def not_finite_aside(self):
        """A value that is not finite (a running variance) is not saved either, even if the loss is finite."""
        large = os.path.join(self.folder, "large.safetensors")
        with open(os.path.join(self.run_folder("weights", 1), "last", "model.safetensors"), "rb") as file:
            content = bytearray(file.read())
        data = 8 + int.from_bytes(content[:8], "little")
        begin = json.loads(content[8:data])["conv1.weight"]["data_offsets"][0]
        struct.pack_into("<27f", content, data + begin, *[1e30] * 27)  # the squares overflow
        with open(large, "wb") as file:
            file.write(content)
        self.expect("not finite except the loss", 1, 5, "bn1.running_var is not finite", ["weights=" + large, "steps=1", "schedule.warmup=0it"])
        self.report(not os.path.exists(os.path.join(self.run_folder("not finite except the loss", 1), "last")),
                    "not finite except the loss: not saved", "there is a checkpoint")

    def first_values(self):
        """First values computed from data: from pictures of other shapes, and despite damaged pictures."""
        for shape in ("[32,48]", "[48,32]"):
            values = ["model=cifar-fast", "steps=2", f"image={shape}", "eval.crop=32"]
            self.success(f"first values of {shape} pictures", self.line(f"shape {shape[1:3]}", 1, values))
        values = ["model=cifar-fast", "steps=2", "data.on_corrupt=skip:3"]
        self.success("first values from damaged data", self.line("first", 1, values, self.damaged("first", flip_middle)))
        # A rank that believes to be a data process refuses to start any: before the run begins, so for first values.
        done = subprocess.run(self.line("sandboxed", 1, ["model=cifar-fast", "steps=2"]), text=True, capture_output=True,
                              env=suite.environment(SERRIED_DATA_PROCESS="1"), timeout=60 * suite.SLOW, check=False)
        self.report(done.returncode == 2 and "a data process of this program" in done.stderr and "2 steps" not in done.stderr,
                    "first values come from a data process", f"exit code {done.returncode}:\n{done.stderr[-1500:]}")

    def replaced(self):
        """Other data under the same path are noticed by the next evaluation; a copy of the same data is not."""
        other, data = os.path.join(self.folder, "replacement"), os.path.join(self.folder, "replaced")
        subprocess.run([self.serried, "pack", os.path.join(self.folder, "pictures"), other, "--val-fraction", "0.3"],
                       check=True, capture_output=True)
        for name, source, code, words in (("copied", self.data, 0, ""), ("other", other, 3, "was replaced while this job")):
            shutil.copytree(self.data, data)
            job = subprocess.Popen(self.line("replaced " + name, 1, ["epochs=4" if code == 0 else "epochs=10000"], data),
                                   env=suite.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            metrics = os.path.join(self.run_folder("replaced " + name, 1), "metrics.csv")
            while job.poll() is None and not os.path.exists(metrics):
                time.sleep(0.01)
            shutil.copytree(source, data + ".new")
            os.rename(data, data + ".old")
            os.rename(data + ".new", data)
            try:
                _, errors = job.communicate(timeout=100 * suite.SLOW)
            except subprocess.TimeoutExpired:
                job.kill()
                _, errors = job.communicate()
            self.report(job.returncode == code and words in errors, f"data that are replaced: {name}",
                        f"exit code {job.returncode}:\n{errors[-1500:]}")
            shutil.rmtree(data)
            shutil.rmtree(data + ".old")

    def two_apart(self, name, values, first, second, variables=()):
        """Runs two ranks with different settings: values of each, environment of rank 1."""
        line = self.line(name, 2, values)
        at = line.index("-np")
        options, command = line[at + 2:line.index(self.serried)], line[line.index(self.serried):]
        extra = [word for variable in variables for word in ("-x", variable)]
        line = ["mpirun", *options, "-np", "1", *command, *first, ":", "-np", "1", *extra, *command, *second]
        return subprocess.run(line, env=suite.environment(), text=True, capture_output=True, timeout=100 * suite.SLOW,
                              check=False)

    def has_avx2(self):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            has = "avx2" in file.read()
        if not has:
            suite.not_run("unequal processors: this one has no feature to hide")
        return has

    def unequal_val(self):
        """A rank with another val split, which is not part of the run, would give metrics of a mixture."""
        pictures, other, half = (os.path.join(self.folder, name) for name in ("pictures", "other-val", "half-val"))
        changed = os.path.join(self.folder, "val-pictures")
        shutil.copytree(pictures, changed)
        for folder in os.listdir(changed):  # as many, of the same names, but other ones
            names = sorted(os.listdir(os.path.join(changed, folder)))
            shutil.copy(os.path.join(pictures, folder, names[0]), os.path.join(changed, folder, names[-1]))
            shutil.copy(os.path.join(pictures, folder, names[-1]), os.path.join(changed, folder, names[0]))
        for source, packed, fraction in ((changed, other, "0.2"), (pictures, half, "0.5")):
            subprocess.run([self.serried, "pack", source, packed, "--val-fraction", fraction], check=True, capture_output=True)
        for name, data in (("other", other), ("half", half)):
            done = self.two_apart("val-" + name, ["steps=2"], ["data.val=" + self.data], ["data.val=" + data])
            self.report(done.returncode == 2 and done.stderr.count("a different val split from rank 0's") == 1,
                        f"unequal val splits, {name}", f"exit code {done.returncode}:\n{done.stderr[-1500:]}")
        run = self.line("val-of", 1, ["steps=2"])
        subprocess.run(run, env=suite.environment(), check=True, capture_output=True)
        line = suite.under_mpirun(2, [self.serried, "val", self.run_folder("val-of", 1)])
        at = line.index("-np")
        line = ["mpirun", *line[at + 2:-3], "-np", "1", *line[-3:], "-d", self.data, ":", "-np", "1", *line[-3:], "-d", half]
        done = subprocess.run(line, env=suite.environment(), text=True, capture_output=True, timeout=100 * suite.SLOW,
                              check=False)
        self.report(done.returncode == 2 and "a different val split from rank 0's" in done.stderr, "val of unequal splits",
                    f"exit code {done.returncode}:\n{done.stderr[-1500:]}")

    def unequal(self):
        """Ranks that differ are detected before the first step, or use only what they have in common."""
        done = self.two_apart("recipes", [], ["optimizer.lr=0.05"], ["optimizer.lr=0.06"])
        self.report(done.returncode == 2 and done.stderr.count("ranks disagree on optimizer.lr: rank 1 (") == 1, "unequal recipes",
                    f"exit code {done.returncode}:\n{done.stderr[-1500:]}")
        self.unequal_val()
        if not self.has_avx2():
            return
        mask = ["SERRIED_CPU_MASK=avx2"]
        plain = self.two_apart("equal", [], [], [])
        hidden = self.two_apart("processors", [], [], [], mask)
        self.report(plain.returncode == hidden.returncode == 0 and "processors differ" in hidden.stderr and
                    "processors differ" not in plain.stderr, "unequal processors",
                    f"exit codes {plain.returncode} {hidden.returncode}:\n{hidden.stderr[-1500:]}")
        own = self.two_apart("providers", [], [], [], ["SERRIED_PROVIDERS=reference"])
        self.report(own.returncode == 4 and own.stderr.count("computes different bits from rank 0: ") == 1 and
                    "x86: nothing there and " in own.stderr, "unequal kernels",
                    f"exit code {own.returncode}:\n{own.stderr[-1500:]}")
        portable = self.two_apart("portable", ["numerics.portable=true"], [], [], mask)
        self.report(portable.returncode == 0 and "processors differ" not in portable.stderr,
                    "unequal processors, portable", f"exit code {portable.returncode}:\n{portable.stderr[-1500:]}")
        strict = self.two_apart("strict", ["numerics.strict=true"], [], [], mask)
        self.report(strict.returncode == 4 and strict.stderr.count("numerics.strict is set") == 1,
                    "unequal processors, strict", f"exit code {strict.returncode}:\n{strict.stderr[-1500:]}")

    def patience(self):
        """A rank that is delayed between steps for longer than deadline.act (here by a log that nobody reads) is waited
        for; and a run whose last session died before exit.json ends with all its metrics."""
        values = ["deadline.act=1s"]
        whole = subprocess.run(self.line("delayed", 2, []), env=suite.environment(), capture_output=True, timeout=100 * suite.SLOW,
                               check=False)
        before = self.result("delayed", 2)
        folder = self.run_folder("delayed", 2)
        log = os.path.join(folder, "log.jsonl")
        os.remove(os.path.join(folder, "exit.json"))
        os.remove(log)
        os.mkfifo(log)
        job = subprocess.Popen(self.line("delayed", 2, values), env=suite.environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        time.sleep(2.5)
        with open(log, encoding="utf-8"):
            _, errors = job.communicate(timeout=60 * suite.SLOW)
        code = job.returncode
        self.report(whole.returncode == code == 0, "delayed between steps", f"exit code {code}:\n{errors[-1500:]}")
        if code == 0:
            after = self.result("delayed", 2)
            self.report(before == after, "ended without exit.json", f"{before}\n{after}")

    def other_numerics(self):
        """A checkpoint with other numerics is refused, naming the difference and the cure; with the cure training
        continues. The second case is a checkpoint from before parts had versions."""
        values = ["steps=60", "checkpoint.every=[1000it]"]
        job = subprocess.Popen(self.line("numerics", 1, values), env=suite.environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        folder = self.run_folder("numerics", 1)
        end = time.monotonic() + 60
        while time.monotonic() < end and job.poll() is None and not os.path.exists(os.path.join(folder, "log.txt")):
            time.sleep(0.005)
        job.send_signal(signal.SIGUSR1)
        code = job.wait(timeout=60 * suite.SLOW)
        self.report(code == 75, "stopped to change numerics", f"exit code {code}")
        if self.has_avx2():
            self.refused("bits of another processor", values, {"SERRIED_CPU_MASK": "avx2"},
                         ["processor: avx2", " in the checkpoint and plain here"])
        path = os.path.join(folder, "last", "manifest.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        head = re.sub('"fingerprint": "[^"]*"',
                      '"fingerprint": "serried-numerics 1; avx2; reference; oneDNN 2.6.3; x86"',
                      text[:text.rindex(',\n"sha256"')])
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'{head},\n"sha256": "{hashlib.sha256(head.encode()).hexdigest()}"}}\n')
        self.refused("bits of an earlier version", values, {},
                     ["serried-numerics: 1 in the checkpoint and ", "reference: 1 in the checkpoint and "])
        done = subprocess.run(self.line("numerics", 1, [*values, "--allow-numerics-change"]), env=suite.environment(),
                              text=True, capture_output=True, timeout=100 * suite.SLOW, check=False)
        self.report(done.returncode == 0 and done.stderr.count("was computed with different numerics") == 1,
                    "other numerics allowed", f"exit code {done.returncode}:\n{done.stderr[-1500:]}")

    def refused(self, what, values, variables, words):
        done = subprocess.run(self.line("numerics", 1, values), env=suite.environment(**variables), text=True,
                              capture_output=True, timeout=100 * suite.SLOW, check=False)
        good = done.returncode == 4 and all(w in done.stderr for w in [*words, "--allow-numerics-change"])
        self.report(good, what, f"exit code {done.returncode}:\n{done.stderr[-1500:]}")

    def killed(self, ranks):
        """SIGKILL of a rank in the middle; the same command reaches the undisturbed digest and metrics."""
        values = ["steps=60", "checkpoint.every=[3it]"]
        job = subprocess.Popen(self.line("killed", ranks, values), env=suite.environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        folder = self.run_folder("killed", ranks)
        end = time.monotonic() + 60
        while time.monotonic() < end and job.poll() is None and not os.path.exists(os.path.join(folder, "last")):
            time.sleep(0.002)
        with open(os.path.join(folder, "run.lock"), encoding="ascii") as file:
            os.kill(int(file.read().split("pid ")[1].split(",")[0]), signal.SIGKILL)
        code = job.wait(timeout=60 * suite.SLOW)
        again = subprocess.run(self.line("killed", ranks, values), env=suite.environment(), capture_output=True,
                               text=True, timeout=100 * suite.SLOW, check=False)
        good = code not in (0, 75) and again.returncode == 0 and "resuming" in again.stderr
        self.report(good, f"killed and resumed, {ranks} ranks", f"codes {code} {again.returncode}\n{again.stderr[-800:]}")
        if good:
            want, got = self.result("whole", ranks), self.result("killed", ranks)
            self.report(want == got, f"killed and resumed, {ranks} ranks: the same result", f"{want}\n{got}")

    def interrupt(self, ranks):
        """Ctrl-C writes a checkpoint and ends with code 75; the same command reaches the undisturbed digest."""
        values = ["steps=60", "checkpoint.every=[1000it]"]
        whole = subprocess.run(self.line("whole", ranks, values), env=suite.environment(), capture_output=True,
                               timeout=100 * suite.SLOW, check=False)
        job = subprocess.Popen(self.line("stopped", ranks, values), env=suite.environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        metrics = os.path.join(self.run_folder("stopped", ranks), "log.txt")
        end = time.monotonic() + 60
        while time.monotonic() < end and job.poll() is None and not os.path.exists(metrics):
            time.sleep(0.005)
        time.sleep(0.15)
        job.send_signal(signal.SIGINT if ranks == 1 else signal.SIGUSR1)
        _, errors = job.communicate(timeout=60 * suite.SLOW)
        stopped = job.returncode
        again = subprocess.run(self.line("stopped", ranks, values), env=suite.environment(), capture_output=True,
                               timeout=100 * suite.SLOW, check=False)
        digests = []
        for name in ("whole", "stopped"):
            with open(os.path.join(self.run_folder(name, ranks), "exit.json"), encoding="utf-8") as file:
                digests.append(json.load(file)["digest"])
        good = (whole.returncode == 0 and stopped == 75 and again.returncode == 0 and
                digests[0] == digests[1] and self.rows("whole", ranks) == self.rows("stopped", ranks))
        self.report(good, f"interrupted and resumed, {ranks} ranks",
                    f"codes {whole.returncode} {stopped} {again.returncode}, digests {digests}\n{errors[-800:]}")

    def finish(self, process):
        """Returns its stderr; a process that does not end is killed, and the guard ends its job."""
        try:
            _, output = process.communicate(timeout=60 * suite.SLOW)
        except subprocess.TimeoutExpired:
            process.kill()
            _, output = process.communicate()
        return output

    def listening(self, name):
        """TCP sockets on which processes of the run listen, apart from mpirun's own."""
        sockets, found = set(), []
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            if os.path.exists(table):
                with open(table, encoding="ascii") as file:
                    rows = [line.split() for line in file][1:]
                sockets.update(f"socket:[{row[9]}]" for row in rows if row[3] == "0A")
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/cmdline", encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
                if self.run_folder(name, 1) in words and os.path.basename(words[0]) != "mpirun":
                    files = [os.readlink(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd")]
                    found += [(process, file) for file in files if file in sockets]
            except OSError:
                pass  # it has ended
        return found

    def hung_up(self, ranks):
        """Closing the terminal requests a checkpoint, but not under nohup."""
        for what, ignored, code in (("hung up", False, 75), ("hung up under nohup", True, 0)):
            name = f"{what.replace(' ', '-')}-{ranks}"
            steps = "steps=100" if ignored else "steps=1000000"
            job = subprocess.Popen(
                [*self.line(name, 1, [steps, "checkpoint.every=[100it]"]), "-n", str(ranks)], env=suite.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                preexec_fn=(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None)
            while job.poll() is None and not os.path.exists(os.path.join(self.run_folder(name, 1), "metrics.csv")):
                time.sleep(0.01)
            listening = self.listening(name) if ranks > 1 else []
            job.send_signal(signal.SIGHUP)
            output = self.finish(job)
            self.report(not listening, f"{what}, {ranks} ranks: they listen on no port", f"{listening}")
            self.report(job.returncode == code, f"{what}, {ranks} ranks", f"exit code {job.returncode}:\n{output[-800:]}")

    def other_mpirun(self, name, script, *values):
        """`serried train -n 2` with our own mpirun in PATH."""
        folder = os.path.join(self.folder, "mpirun-" + name)
        os.makedirs(folder)
        path = os.path.join(folder, "mpirun")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        line = [self.serried, "train", self.recipe, "-n", "2", "-o", self.run_folder("mpirun-" + name, 2),
                "data.train=" + self.data, "steps=2", *values]
        return subprocess.Popen(line, env=suite.environment(PATH=folder + ":" + os.environ["PATH"]), text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def mpirun_hangs(self):
        """mpirun has no deadlines: one that outlives its ranks is ended, and a stop ends one without ranks."""
        process = self.other_mpirun("stays", f'{shutil.which("mpirun")} "$@"\nexec sleep 1000\n')
        _, output = process.communicate(timeout=60 * suite.SLOW)
        self.report(process.returncode == 6 and "did not exit within 5 s" in output, "mpirun that stays",
                    f"exit code {process.returncode}:\n{output[-800:]}")
        process = self.other_mpirun("idle", f"echo $$ > {self.folder}/idle\nexec sleep 1000\n")
        while not os.path.exists(os.path.join(self.folder, "idle")):
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=60 * suite.SLOW)
        self.report(process.returncode == 75, "mpirun that a stop ends", f"exit code {process.returncode}:\n{output[-800:]}")
        # mpirun drops a request that arrives before its ranks are started; this one always drops it.
        process = self.other_mpirun("deaf", f"trap : USR1\ntouch {self.folder}/deaf\nsleep 1\ntrap - USR1\n"
                                    f'exec {shutil.which("mpirun")} "$@"\n', "steps=1000000")
        while not os.path.exists(os.path.join(self.folder, "deaf")):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output = self.finish(process)
        self.report(process.returncode == 75, "stop that mpirun drops", f"exit code {process.returncode}:\n{output[-800:]}")

    def mpirun_fails(self):
        """mpirun's last words are shown if it fails before a rank can say anything."""
        host = socket.gethostname()
        slurm = {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_NNODES": "1", "SLURM_JOB_NUM_NODES": "1",
                 "SLURM_NODELIST": host, "SLURM_JOB_NODELIST": host, "SLURM_TASKS_PER_NODE": "1",
                 "OMPI_MCA_rmaps_base_oversubscribe": "0"}
        tries = [("an unknown transport", {"OMPI_MCA_btl": "foo"}, "----------"),
                 ("an unknown launcher", {"OMPI_MCA_plm": "foo"}, "Component: foo")]
        if len(os.sched_getaffinity(0)) > 1:  # a machine with one core is oversubscribed anyway
            tries.append(("an allocation of one slot", slurm, "not enough slots"))
        for what, environment, words in tries:
            done = subprocess.run([*self.line("silent", 1, ["steps=1"]), "-n", "2"], capture_output=True, text=True,
                                  env=suite.environment(**environment), timeout=60 * suite.SLOW, check=False)
            said = words in done.stderr or "ORTE_ERROR_LOG" in done.stderr  # what it says if it loses its message
            self.report(done.returncode == 1 and said and "error: mpirun failed" in done.stderr,
                        f"mpirun with {what}", f"exit code {done.returncode}:\n{done.stderr[-800:]}")
        for code, again, words in ((243, "exit 243", "mpirun failed with exit code 243"), (7, "exit 0", "a second try worked"),
                                   (9, "echo no luck >&2; exit 9", "no luck")):
            process = self.other_mpirun(f"fails-{code}", f"[ -e $0.ran ] && {{ {again}; }}\n> $0.ran\nexit {code}\n")
            _, output = process.communicate(timeout=60 * suite.SLOW)
            self.report(process.returncode == 1 and words in output, f"mpirun that fails with {code}",
                        f"exit code {process.returncode}:\n{output[-800:]}")

    def all(self, ranks):
        self.expect("unknown key", ranks, 2, "did you mean 'optimizer'", ["optimzier.lr=1"])
        self.expect("wrong type", ranks, 2, "batch", ["batch=many"])
        self.expect("nesterov without momentum", ranks, 2, "nesterov needs",
                    ["optimizer.nesterov=true", "optimizer.momentum=0"])
        self.expect("unknown model", ranks, 2, "did you mean 'resnet50'", ["model=resnet5O"])
        self.expect("missing data", ranks, 2, "does not exist", data="/nowhere/data")
        self.expect("unpacked folder", ranks, 2, "serried pack", data=os.path.dirname(self.recipe))
        self.expect("indivisible batch", ranks, 2, "equal lanes", ["batch=63"])
        self.expect("not finite", ranks, 5, "not finite", ["optimizer.lr=1e6", "steps=20"])
        self.expect("flipped bit", ranks, 3, "train-00000.kpl", data=self.damaged(f"bit{ranks}", flip_middle))
        self.expect("cut shard", ranks, 3, "train-00000.kpl",
                    data=self.damaged(f"cut{ranks}", lambda c: c[:len(c) * 2 // 3]))
        self.interrupt(ranks)
        self.killed(ranks)
        self.hung_up(ranks)


def check(folder):
    few = "--few" in sys.argv
    serried, recipe = (os.path.abspath(path) for path in sys.argv[1:3])
    tests = Failures(serried, recipe, folder)
    tests.prepare(20)
    for ranks in (1, 2):
        tests.all(ranks)
    tests.expect("more ranks than lanes", 3, 2, "3 ranks need at least 3 lanes", ["lanes=2"])
    if few:
        return tests
    tests.best()
    tests.classes()
    tests.latest()
    tests.not_finite_aside()
    tests.first_values()
    tests.replaced()
    tests.unequal()
    tests.other_numerics()
    tests.patience()
    tests.mpirun_hangs()
    tests.mpirun_fails()
    return tests


if __name__ == "__main__":
    suite.run(check)
