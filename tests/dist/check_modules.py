#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Devices of modules, by the real command: training on one, what is said of them, and what is refused.

    tests/dist/check_modules.py SERRIED RECIPE MODULES

MODULES has three folders of modules (tests/CMakeLists.txt): modules, modules-default, modules-unusable. The stand-in's
kernels have the bits of the reference, so portable numerics give one digest on the CPU and on it.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import suite  # noqa: E402


class Modules(suite.Suite):
    def __init__(self, serried, recipe, modules, folder):
        super().__init__(serried, folder)
        self.recipe, self.modules = recipe, modules

    def environment(self, modules, **more):
        before = os.environ.get("LD_LIBRARY_PATH")
        path = os.path.join(self.modules, modules) + (":" + before if before else "")
        own = suite.environment(LD_LIBRARY_PATH=path, **more)
        own.pop("SERRIED_TEST_DEVICE", None)  # which is the default in its place
        return own

    def call(self, *words, modules="modules", **more):
        return subprocess.run([self.serried, *words], env=self.environment(modules, **more), text=True,
                              capture_output=True, timeout=100 * suite.SLOW, check=False)

    def train(self, name, *values, ranks=1, modules="modules"):
        """A run of this name; its exit.json, or {} if it failed."""
        folder = os.path.join(self.folder, name)
        line = suite.under_mpirun(ranks, [self.serried, "train", self.recipe, f"data.train={self.data}", "-o", folder,
                                          *values])
        done = subprocess.run(line, env=self.environment(modules), text=True, capture_output=True,
                              timeout=100 * suite.SLOW, check=False)
        self.report(done.returncode == 0, f"train {name}", done.stderr[-1500:])
        if done.returncode != 0:
            return {}, done.stderr
        with open(os.path.join(folder, "exit.json"), encoding="utf-8") as file:
            return json.load(file), done.stderr

    def expect(self, what, done, code, *words):
        good = done.returncode == code and all(word in done.stdout + done.stderr for word in words)
        self.report(good, what, f"exit code {done.returncode}:\n{done.stdout[-800:]}{done.stderr[-800:]}")

    def digests(self):
        """One digest on the CPU and on the module's device, which lanes go through one after the other."""
        portable = "numerics.portable=true"
        cpu, _ = self.train("cpu", "device=cpu", portable)
        for name, ranks, values in (("own", 1, ["device=test-device", portable]),
                                    ("two", 2, ["device=test-device", portable]),
                                    ("numbered", 1, ["device=test-device:2", portable])):
            other, _ = self.train(name, *values, ranks=ranks)
            self.report(cpu and cpu.get("digest") == other.get("digest"), f"digest of {name}", f"{cpu} {other}")
        fast, _ = self.train("fast", "device=test-device")
        self.report(fast != {}, "without portable numerics", str(fast))
        done = self.call("train", self.recipe, f"data.train={self.data}", "--resume", os.path.join(self.folder, "fast"),
                         "steps=8", "device=cpu")
        self.expect("resumed on another device", done, 4, "stand-in: 7 in the checkpoint and nothing here",
                    "--allow-numerics-change")
        done = self.call("val", os.path.join(self.folder, "own"), "device=test-device")
        self.expect("val", done, 0)
        line = suite.under_mpirun(2, [self.serried, "val", os.path.join(self.folder, "own"), "device=test-device"])
        done = subprocess.run(line, env=self.environment("modules"), text=True, capture_output=True,
                              timeout=100 * suite.SLOW, check=False)
        self.expect("val on two ranks", done, 0)

    def default(self):
        """A module of the list is the default where it has a device; otherwise the CPU is, with one line of why."""
        own, errors = self.train("default", modules="modules-default")
        with open(os.path.join(self.folder, "default", "env.json"), encoding="utf-8") as file:
            text = file.read()
        self.report(own and "stand-in 7" in text, "the default is the module's", text[:800] + errors[-500:])
        none, errors = self.train("none", modules="modules-unusable")
        with open(os.path.join(self.folder, "none", "env.json"), encoding="utf-8") as file:
            text = file.read()
        words = "computing on the CPU: device 'cuda' cannot be used: no driver is loaded; install one"
        self.report(none and "processor " in text and errors.count(words) == 1, "without a device the CPU",
                    text[:800] + errors[-800:])
        done = self.call("train", self.recipe, f"data.train={self.data}", "device=cuda", modules="modules-unusable")
        self.expect("asked for without a device", done, 2, "no driver is loaded; install one, or give device=cpu")

    def reports(self):
        done = self.call("info", "devices")
        self.expect("info devices", done, 0, "test-device", "stand-in 0, 256", "is of serried 0.0.1",
                    "libserried-cuda.so is not installed")
        done = self.call("doctor", "--json")
        checks = [c for c in json.loads(done.stdout)["checks"] if c["name"] == "device"]
        ok = [c["text"] for c in checks if c["state"] == "ok"]
        notes = [c["text"] for c in checks if c["state"] == "note"]
        self.report(any(t.startswith("cpu: 1, ") for t in ok) and any(
            t.startswith("test-device: 3, stand-in 0; 256.0 MiB (device test-device); 1 lane at a time") for t in ok),
            "doctor: devices", str(ok))
        self.report(any("libserried-cuda.so is not installed" in t for t in notes) and
                    any("no driver is loaded" in t for t in notes) and len(checks) == len(ok) + len(notes),
                    "doctor: devices that cannot be used", str(notes))
        for device, line in (("test-device", "device test-device:0: stand-in 0, memory 256.0 MiB (device test-device:0)"),
                             ("cpu", "device cpu: ")):
            done = self.call("train", self.recipe, f"data.train={self.data}", f"device={device}", "--dry-run")
            self.expect(f"--dry-run on {device}", done, 0, line)
        done = self.call("train", self.recipe, f"data.train={self.data}", "device=test-device", "batch=8192", "image=64",
                         "--dry-run")
        self.expect("batch beyond the device's memory", done, 2, "device test-device:0 has 256.0 MiB", "lower batch")

    def refused(self):
        for device, words in (("test-version", "is of serried 0.0.1"), ("test-abi", "module interface 77"),
                              ("test-device:3", "this machine has 3 devices"), ("test-devise", "unknown device"),
                              ("cuda", "put it beside libserried")):
            done = self.call("train", self.recipe, f"data.train={self.data}", f"device={device}")
            self.expect(f"device={device}", done, 2, words)

    def unequal(self):
        """A rank on another kind of device than rank 0's."""
        command = [self.serried, "train", self.recipe, f"data.train={self.data}", "-o",
                   os.path.join(self.folder, "unequal")]
        line = suite.under_mpirun(2, command)
        options = line[3:line.index(self.serried)]
        line = ["mpirun", *options, "-np", "1", *command, ":", "-np", "1", "-x", "SERRIED_TEST_DEVICE=test-device",
                *command]
        done = subprocess.run(line, env=self.environment("modules"), text=True, capture_output=True,
                              timeout=100 * suite.SLOW, check=False)
        self.expect("ranks on other devices", done, 4, "rank 1 (", ") computes on device 'test-device:1', but rank 0 (")


def check(folder):
    tests = Modules(os.path.abspath(sys.argv[1]), sys.argv[2], os.path.abspath(sys.argv[3]), folder)
    tests.prepare(20)
    tests.digests()
    tests.default()
    tests.reports()
    tests.refused()
    tests.unequal()
    return tests


if __name__ == "__main__":
    suite.run(check)
