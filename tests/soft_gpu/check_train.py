#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on the software GPU by the real command: the CPU's digest, and every fault on demand.

    tests/soft_gpu/check_train.py SERRIED RECIPE

With portable numerics one, two and three ranks on its two devices end with the digest and the metrics of a CPU, also with
training pictures in their memory. After
each fault (SOFT_GPU_FAULT, README.md) the command has named what failed and ended with its exit code, the last
checkpoint is whole, and the same command goes on and ends as if undisturbed. Where faults are placed follows from the
events of an undisturbed run.
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "dist"))
import suite  # noqa: E402

# With 40 pictures an epoch ends, and with it comes an evaluation, which needs more memory, in the third of these steps.
VALUES = ["batch=16", "steps=5", "checkpoint.every=[1it]", "numerics.portable=true", "eval.resize=32", "eval.crop=32"]
# "model_tiny.c:20: conv2d", or "sum over lanes" where no line of a model is behind it.
SITE = r"(\S+\.c:\d+: )?[a-z]\w+( \w+)*"
# What is noticed later: all kernels that it may have been.
SUSPECTS = f"(one of \\d+ kernels, from {SITE} to )?{SITE}"


STAYS = "the training pictures stay on"


class Train(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe
        self.counts = os.path.join(folder, "counts")

    def line(self, name, ranks, device="cuda", values=()):
        alone = ["-n", "1"] if ranks == 1 else []  # the default is the number of devices
        return suite.under_mpirun(ranks, [self.serried, "train", self.recipe, *alone, "-o", self.run_folder(name),
                                          "data.train=" + self.data, f"device={device}", *VALUES, *values])

    def run_folder(self, name):
        return os.path.join(self.folder, name.replace(" ", "_"))

    def call(self, line, **variables):
        surroundings = suite.environment(**variables)
        surroundings.pop("SERRIED_TEST_DEVICE", None)
        return subprocess.run(line, env=surroundings, text=True, capture_output=True, timeout=100 * suite.SLOW, check=False)

    def result(self, name):
        with open(os.path.join(self.run_folder(name), "exit.json"), encoding="utf-8") as file:
            parsed = json.load(file)
        return parsed["status"], parsed["digest"], parsed["metrics"]

    def digests(self):
        done = self.call(self.line("cpu", 1, "cpu"))
        self.report(done.returncode == 0, "on the CPU", done.stderr[-1500:])
        self.base = self.result("cpu")
        for ranks in (1, 2, 3):
            name = f"{ranks} ranks"
            done = self.call(self.line(name, ranks), SOFT_GPU_COUNTS=self.counts)
            self.report(done.returncode == 0 and self.result(name) == self.base, f"{name}: the CPU's digest",
                        f"exit code {done.returncode}: {done.stderr[-1500:]}")

    def resident(self):
        """Pictures stay on the device where all have the image's size; the CPU's are those of the data pipeline."""
        data = os.path.join(self.folder, "pictures of one size")
        self.pack_pictures(data, "--max-size", "32")
        values = ["data.train=" + data, "image=32", "augment=[{pad_crop: {pad: 2}}, flip]"]
        done = self.call(self.line("pipeline", 1, "cpu", values))
        self.report(done.returncode == 0 and STAYS not in done.stderr, "on the CPU pictures do not stay", done.stderr[-1500:])
        for ranks, where in ((1, "auto"), (2, "auto"), (2, "never")):
            name = f"resident {where} {ranks}"
            done = self.call(self.line(name, ranks, "cuda", [*values, f"data.resident={where}"]))
            good = done.returncode == 0 and self.result(name) == self.result("pipeline")
            self.report(good and (STAYS in done.stderr) == (where == "auto"), f"{name}: the CPU's digest",
                        f"exit code {done.returncode}: {done.stderr[-1500:]}")

    def events(self):
        """Of each process so far, a dictionary by kind."""
        with open(self.counts, encoding="ascii") as file:
            rows = [line.split() for line in file]
        return [dict(zip(row[::2], map(int, row[1::2]))) for row in rows]

    def expect_whole(self, what, name):
        """The last committed checkpoint, if there is one; returns whether there is."""
        if not os.path.exists(os.path.join(self.run_folder(name), "last")):
            return False
        done = self.call([self.serried, "verify", self.run_folder(name)])
        self.report(done.returncode == 0, f"{what}: the checkpoint is whole", done.stdout[-500:] + done.stderr[-500:])
        return True

    def expect_resumed(self, what, name, ranks, saved):
        done = self.call(self.line(name, ranks))
        good = done.returncode == 0 and self.result(name) == self.base and ("resuming" in done.stderr) == saved
        self.report(good, f"{what}: again, {'from the checkpoint' if saved else 'from the start'}, the same digest",
                    f"exit code {done.returncode}: {done.stderr[-1500:]}")

    def fault(self, fault, code, words, saved):
        """One rank. 'words' must be found in one line of its message; 'saved': there is a checkpoint by then."""
        name = fault.replace(":", "-")
        done = self.call(self.line(name, 1), SOFT_GPU_FAULT=fault)
        errors = [line for line in done.stderr.splitlines() if "error" in line and re.search(words, line)]
        self.report(done.returncode == code and len(errors) == 1, f"{fault}: {errors[0] if errors else ''}",
                    f"exit code {done.returncode}, not {code} with '{words}':\n{done.stderr[-1500:]}")
        found = self.expect_whole(fault, name)
        self.report(found == saved, f"{fault}: {'with' if saved else 'without'} a checkpoint", str(found))
        self.expect_resumed(fault, name, 1, found)

    def fault_of_rank_1(self, fault, code, words):
        """On two ranks the message names the rank, too."""
        name = "rank-1-" + fault.replace(":", "-")
        line = self.line(name, 2)
        command = line[line.index(self.serried):]
        options = line[3:line.index(self.serried)]
        line = ["mpirun", *options, "-np", "1", *command, ":", "-np", "1", "-x", f"SOFT_GPU_FAULT={fault}", *command]
        done = self.call(line)
        words = r"rank 1 \(.*" + words
        self.report(done.returncode == code and re.search(words, done.stderr) is not None, f"{fault} on rank 1 of 2",
                    f"exit code {done.returncode}, not {code} with '{words}':\n{done.stderr[-1500:]}")
        found = self.expect_whole(f"{fault} on rank 1", name)
        self.expect_resumed(f"{fault} on rank 1", name, 2, found)

    def faults(self):
        alone, second = self.events()[0], self.events()[1]
        self.report(alone["launch"] > 100 and alone["memory"] > 5, "events of a run", str(alone))
        late = {kind: number * 2 // 3 for kind, number in alone.items()}
        self.fault("memory:1", 4, "memory left", False)
        self.fault(f"memory:{alone['memory']}", 4, "memory left", True)
        self.fault("launch:1", 4, "unspecified launch failure", False)
        self.fault(f"launch:{late['launch']}", 4, f"cuda:0: {SUSPECTS}.*: unspecified launch failure", True)
        self.fault(f"lost:{late['lost']}", 4, f"{SITE}: .*busy or unavailable", True)
        self.fault(f"copy:{late['copy']}", 4, "uncorrectable ECC error", True)
        self.fault_of_rank_1(f"launch:{second['launch'] * 2 // 3}", 4, f"cuda:1: {SUSPECTS}.*: unspecified launch failure")
        self.fault_of_rank_1("memory:1", 4, "memory left")


def check(folder):
    tests = Train(os.path.abspath(sys.argv[1]), sys.argv[2], folder)
    tests.prepare(5)
    tests.digests()
    tests.resident()
    tests.faults()
    return tests


if __name__ == "__main__":
    suite.run(check)
