#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serried-convert: weights converted to PyTorch and back are the same bytes, names lose the prefixes of wrappers, files
that are not weights are refused by name, files appear complete or not at all; serried starts from the output.

  check_convert.py SERRIED RECIPE

Runs everywhere with a small stand-in for PyTorch (torch_stub), and with the PyTorch of /usr/bin/python3 or python3
where it is installed.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys

import suite

STUB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_stub")
# Makes files of PyTorch; run by the python3 that has PyTorch.
MAKE = """
import argparse, sys, torch
folder, source = sys.argv[1:]
state = torch.load(source, map_location="cpu", weights_only=True)
first = next(iter(state))
wide = {k: v for k, v in state.items()}
save = lambda value, name: torch.save(value, f"{folder}/{name}.pth")
save({"module." + k: v for k, v in wide.items()}, "ddp")
save({"state_dict": {"module._orig_mod." + k: v for k, v in wide.items()}, "epoch": 3}, "compiled")
save({"n_averaged": torch.empty((), dtype=torch.int64), **{"module." + k: v for k, v in wide.items()}}, "averaged")
save({"model": wide, "optimizer": {}, "epoch": 3}, "checkpoint")
save({"net": {"backbone._orig_mod." + k: v for k, v in wide.items()}}, "inner")
save({"weights": wide, "epoch": 3}, "other")
save({"model": wide, "state_dict": wide}, "two")
save({**wide, "epoch": 3}, "number")
save({**wide, "module.x": wide[first], "x": wide[first]}, "mixed")
save({"module.x": wide[first], "module._orig_mod.x": wide[first]}, "twice")
save([1, 2], "list")
save({}, "nothing")
save({"model": wide, "args": argparse.ArgumentParser}, "code")
"""
PACKAGE = """
def save_file(tensors, path, metadata=None):
    with open(path, "w") as file:
        file.write(f"{len(tensors)} tensors, {metadata}")
"""


def parts(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    at = 8 + struct.unpack_from("<Q", data)[0]
    return {name: (t["dtype"], t["shape"], data[at + t["data_offsets"][0]:at + t["data_offsets"][1]])
            for name, t in json.loads(data[8:at]).items() if name != "__metadata__"}


class Convert(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe, self.script = recipe, os.path.join(os.path.dirname(serried), "serried-convert")

    def train(self):
        self.prepare(2)
        done = self.call([self.serried, "train", self.recipe, "-o", self.path("run"), "data.train=" + self.data, "steps=1",
                          "batch=16", "lanes=4", "schedule.warmup=0it"])
        self.report(done.returncode == 0, "a run of one step", done.stderr[-500:])
        self.weights = self.path("run/last/model.safetensors")
        return done.returncode == 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, line, **more):
        return subprocess.run(line, env=suite.environment(**more), text=True, capture_output=True,
                              timeout=120 * suite.SLOW, check=False)

    def use(self, what, python, stub):
        self.what, self.python, self.stub = what, python, stub

    def run(self, *words, **more):
        path = {"PYTHONPATH": os.pathsep.join([*more.pop("first", []), *([STUB] if self.stub else [])])}
        return self.call([self.python, *words], PYTHONDONTWRITEBYTECODE="1", **path, **more)

    def expect(self, what, words, code, text, **more):
        done = self.run(self.script, *words, **more)
        self.report(done.returncode == code and text in done.stdout + done.stderr, f"{self.what}: {what}",
                    f"exit code {done.returncode}, {code} and '{text}' expected:\n{done.stdout}{done.stderr}")

    def same(self, what, path):
        expected = parts(self.weights)
        self.report(os.path.exists(path) and parts(path) == expected, f"{self.what}: {what}: the same tensors",
                    f"{path} differs")

    # -- both ways --------------------------------------------------------------------------------

    def forth_and_back(self):
        count = len(parts(self.weights))
        self.expect("to PyTorch", [self.weights, self.path("a.pth")], 0, f"a.pth: {count} tensors")
        self.expect("and back", [self.path("a.pth"), self.path("a.safetensors")], 0, f"a.safetensors: {count} tensors")
        self.same("there and back", self.path("a.safetensors"))
        done = self.call([self.serried, "train", self.recipe, "--dry-run", "data.train=" + self.data,
                          "weights=" + self.path("a.safetensors")])
        self.report(done.returncode == 0 and "0 missing, 0 unexpected" in done.stderr,
                    f"{self.what}: serried starts from it", done.stderr[-500:])

    def wrapped(self):
        done = self.run("-c", MAKE, self.folder, self.path("a.pth"))
        self.report(done.returncode == 0, f"{self.what}: files of PyTorch", done.stderr[-500:])
        for name, message, *more in [("ddp", "'module."), ("compiled", "weights of the entry 'state_dict'"), ("averaged", "(left out)"),
                                  ("checkpoint", "weights of the entry 'model'"), ("inner", "weights of the entry 'net'",
                                                                                   "--strip=backbone."),
                                  ("other", "tensors", "--key=weights"), ("two", "tensors", "--key=state_dict")]:
            target = self.path("t.safetensors")
            self.expect(name, [*more, self.path(name + ".pth"), target], 0, message)
            self.same(name, target)
            os.unlink(target)

    def refused(self):
        target = self.path("refused.safetensors")
        for name, message, *more in [
                ("number", "number.pth: 'epoch' is of type int, not a tensor"),
                ("other", "'weights' is a dict of "), ("other", "--key=weights"), ("two", "choose one with --key=state_dict or --key=model"),
                ("checkpoint", "it has no dictionary 'ema'; it contains: model, optimizer, epoch", "--key=ema"),
                ("twice", "tensor 'module._orig_mod.x' would be named 'x', like another one"),
                ("list", "of type list instead of a dictionary of tensors"), ("nothing", "it contains no tensors"),
                ("code", "code.pth: PyTorch cannot load it with weights_only: Unsupported ")]:
            self.expect(f"{name}.pth {more}", [*more, self.path(name + ".pth"), target], 3, message)
        with open(self.path("damaged.pth"), "wb") as file:
            file.write(b"PK\x03\x04 no zip")
        self.expect("damaged.pth", [self.path("damaged.pth"), target], 3, "PyTorch cannot load it with weights_only")
        with open(self.weights, "rb") as file:
            data = file.read()
        for name, content, message in [("short", data[:-5], "lies outside the file"), ("head", data[:50], "header is longer"),
                                    ("empty", b"", "header is longer"), ("text", struct.pack("<Q", 4) + b"abcd", "invalid header"),
                                    ("dtype", data.replace(b'"F32"', b'"F99"'), "has dtype 'F99'")]:
            with open(self.path(name + ".safetensors"), "wb") as file:
                file.write(content)
            self.expect(name + ".safetensors", [self.path(name + ".safetensors"), self.path("refused.pth")], 3, message)
        self.expect("a prefix that does not occur", ["--strip=net.", self.path("a.pth"), target], 2, "begins with 'net.'")
        self.expect("two of one kind", [self.path("a.pth"), self.path("b.pth")], 2, "one of SOURCE and TARGET")
        self.expect("no such file", [self.path("none.pth"), target], 2, "none.pth: no such file")
        self.expect("one word", ["a.pth"], 2, "SOURCE and TARGET are needed")
        self.expect("an option", ["--wrong", "a.pth", "b.safetensors"], 2, "--wrong")
        left = [name for name in os.listdir(self.folder) if "refused" in name or ".part" in name]
        self.report(not left, f"{self.what}: nothing is left of what was refused", str(left))

    def whole(self):
        target = self.path("kept.safetensors")
        shutil.copy(self.weights, target)
        self.expect("a full disk", [self.path("a.pth"), "/dev/full/x.safetensors"], 1, "/dev/full")
        # A file size limit of the shell stands for a full disk: the old file is kept.
        done = self.run("-c", "import os, resource, signal, sys\n"
                        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
                        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
                        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])", self.script, self.path("a.pth"), target)
        self.report(done.returncode == 1 and "File too large" in done.stderr, f"{self.what}: a write that fails", done.stderr)
        self.same("a file that could not be replaced", target)
        # The existing file keeps its kind, owner and mode: a link's target is written, and a device stays one.
        link, device = self.path("link.safetensors"), self.path("device.safetensors")
        os.chmod(target, 0o640)
        os.symlink(target, link)
        os.symlink("/dev/null", device)
        for name in (link, device):
            done = self.run(self.script, self.path("a.pth"), name)
            self.report(done.returncode == 0 and os.path.islink(name), f"{self.what}: {os.path.basename(name)}", done.stderr)
        self.report(os.stat(target).st_mode & 0o777 == 0o640 and not os.path.isfile("/dev/null"),
                    f"{self.what}: what a link leads to", oct(os.stat(target).st_mode))
        os.unlink(link)
        os.unlink(device)
        self.report(not [name for name in os.listdir(self.folder) if name.endswith(".part")],
                    f"{self.what}: nothing is left of it", str(os.listdir(self.folder)))

    def all_of_it(self, what, python, stub):
        self.use(what, python, stub)
        self.forth_and_back()
        self.wrapped()
        self.refused()
        self.whole()

    # -- what only the stand-in can test ----------------------------------------------------------

    def versions(self):
        self.use("stand-in", sys.executable, True)
        self.expect("before 1.13", [self.path("a.pth"), self.path("x.safetensors")], 1,
                    "PyTorch 1.12.0 can only load a file by running code in it", TORCH_STUB="old")
        os.makedirs(self.path("package/safetensors"))
        with open(self.path("package/safetensors/torch.py"), "w", encoding="utf-8") as file:
            file.write(PACKAGE)
        with open(self.path("package/safetensors/__init__.py"), "w", encoding="utf-8"):
            pass
        target = self.path("package.safetensors")
        self.expect("with the package safetensors", [self.path("a.pth"), target], 0, "tensors", first=[self.path("package")])
        with open(target, encoding="utf-8") as file:
            self.report(file.read().endswith("tensors, {'format': 'pt'}"), "the package writes the file", target)
        self.use("without PyTorch", sys.executable, False)
        with open(self.path("package/torch.py"), "w", encoding="utf-8") as file:
            file.write("raise ImportError('not here')\n")
        self.expect("said", [self.path("a.pth"), target], 1, "PyTorch could not be imported", first=[self.path("package")])
        self.expect("help", ["--help"], 0, "Usage: serried-convert", first=[self.path("package")])


def python_with_torch():
    for python in ("/usr/bin/python3", "python3"):
        done = subprocess.run([python, "-c", "import inspect, torch; assert 'weights_only' in "
                               "inspect.signature(torch.load).parameters"], capture_output=True, check=False) \
            if shutil.which(python) else None
        if done and done.returncode == 0:
            return python
    return None


def write_parts(path, found, metadata):
    """The inverse of parts."""
    header, at = {"__metadata__": metadata}, 0
    for name, (kind, shape, data) in found.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in found.values()))


def from_timm(tests):
    """The command of docs/fine-tuning.md takes a file as timm publishes it: timm's names, 1000 classes, no class names."""
    with open(os.path.join("docs", "fine-tuning.md"), encoding="utf-8") as file:
        text = re.search(r"```sh download\n.*?^serried (.*?)^```", file.read(), re.M | re.S)[1]
    words = text.replace("\\\n", " ").split()
    small = ["image=32", "batch=8", "lanes=1", "steps=1", "schedule=constant"]
    made = tests.call([tests.serried, *words[:3], "-o", tests.path("made"), f"data.train={tests.data}", "data.repeats=1",
                       *small])
    found = parts(tests.path("made/last/model.safetensors")) if made.returncode == 0 else {}
    for name in [name for name in found if name.startswith("head.")]:
        kind, shape, data = found[name]
        found[name] = (kind, [1000, *shape[1:]], data * (1000 // shape[0]))
    write_parts(tests.path("timm.safetensors"), found, {"format": "pt"})
    values = {"weights": tests.path("timm.safetensors"), "data.train": tests.data}
    line = [tests.serried]
    for word in words:
        key, equals, _ = word.partition("=")
        if key not in ("epochs", "schedule.warmup"):
            line.append(f"{key}={values[key]}" if equals and key in values else word)
    done = tests.call([*line, "-o", tests.path("from-timm"), *small])
    said = re.search(r"(\d+) tensors loaded", done.stderr)
    tests.report(done.returncode == 0 and said and int(said[1]) == len(found) - 2, "a file of timm as it is",
                 f"{made.stderr[-800:]}\n{done.stderr[-2000:]}")
    done = tests.call([*(word for word in line if not word.startswith("weights_reset")), "--dry-run", *small])
    tests.report(done.returncode == 2 and "weights_reset" in done.stderr, "its last layer has to be named", done.stderr[-800:])


def check(folder):
    tests = Convert(os.path.abspath(sys.argv[1]), sys.argv[2], folder)
    if not tests.train():
        return tests
    tests.all_of_it("stand-in", sys.executable, True)
    from_timm(tests)
    tests.versions()
    python = python_with_torch()
    if python:
        tests.all_of_it("PyTorch", python, False)
    else:
        suite.not_run("serried-convert with PyTorch: no python3 here has torch 1.13 or newer")
    return tests


if __name__ == "__main__":
    suite.run(check)
