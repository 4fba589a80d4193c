# SPDX-License-Identifier: Apache-2.0
"""Event files of runs hold the rows of metrics.csv, the recipe's values and pictures, also after a kill and a resume,
read by their formats alone, and by TensorBoard itself where it is installed.

    check_events.py SERRIED RECIPE
"""
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import event_reader
import suite

LIMIT = 2.0**-23  # nine digits in metrics.csv and f32 in events, each rounded

# Prints scalars, pictures and hyper-parameters of a folder as TensorBoard reads them.
TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
run = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0}).Reload()
content = run.summary_metadata["_hparams_/session_start_info"].plugin_data.content
session = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
print(json.dumps({"scalars": {tag: [(e.step, e.value) for e in run.Scalars(tag)] for tag in run.Tags()["scalars"]},
                  "pictures": {tag: [(e.step, e.width, e.height, len(e.encoded_image_string)) for e in run.Images(tag)]
                               for tag in run.Tags()["images"]},
                  "settings": {key: getattr(value, value.WhichOneof("kind")) for key, value in session.hparams.items()}}))
"""


def leaves(value, name=""):
    """(path as recipes write it, value) of everything in a recipe that is set."""
    children = []
    if isinstance(value, dict):
        children = [(f"{name}.{key}" if name else key, child) for key, child in value.items()]
    elif isinstance(value, list):
        children = [(f"{name}[{index}]", child) for index, child in enumerate(value)]
    elif value is not None:
        yield name, value
    if isinstance(value, (dict, list)) and not value:
        yield name, ""
    for path, child in children:
        yield from leaves(child, path)


class Events(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.run = os.path.join(folder, "run")
        self.line = [serried, "train", recipe, "-o", self.run, f"data.train={self.data}", "steps=60"]

    def train(self, *more, **options):
        done = subprocess.run([*self.line, *more], env=suite.environment(), text=True, capture_output=True, check=False,
                              timeout=300 * suite.SLOW, **options)
        self.report(done.returncode == 0, f"training {' '.join(more)}", done.stderr[-500:])
        return done

    def rows(self):
        with open(os.path.join(self.run, "metrics.csv"), encoding="utf-8", newline="") as file:
            found = {}
            for row in csv.DictReader(file):
                step = int(row.pop("step"))
                row.pop("samples")
                for name, cell in row.items():
                    if cell:
                        found.setdefault(name, {})[step] = float(cell)
        return found

    def same_scalars(self, what, scalars):
        expected = self.rows()
        wrong = sorted(set(expected) ^ set(scalars))
        for name in set(expected) & set(scalars):
            if expected[name].keys() != scalars[name].keys():
                wrong.append(f"steps of {name}: {sorted(scalars[name])} instead of {sorted(expected[name])}")
            else:
                wrong += [f"{name} at step {step}: {value} instead of {expected[name][step]}"
                          for step, value in scalars[name].items()
                          if abs(value - expected[name][step]) > LIMIT * abs(expected[name][step])]
        steps = {step for series in expected.values() for step in series}
        self.report(not wrong and len(steps) > 2, f"{what}: the rows of metrics.csv", "; ".join(map(str, wrong[:5])))

    def same_settings(self, what, settings):
        done = subprocess.run([self.serried, "recipe", "show", os.path.join(self.run, "recipe.yaml"), "--json"], text=True,
                              capture_output=True, check=True)
        expected = dict(leaves(json.loads(done.stdout)))
        wrong = [f"{key}: {settings.get(key)} instead of {expected.get(key)}"
                 for key in sorted(set(settings) | set(expected)) if settings.get(key) != expected.get(key)]
        self.report(not wrong and settings["optimizer.lr"] == 0.05, f"{what}: the recipe's values", "; ".join(wrong[:5]))

    def killed(self):
        """A job that is killed between checkpoints; the next session replaces the rows that it trains again."""
        with subprocess.Popen([*self.line, "checkpoint.every=25it"], env=suite.environment(), stderr=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL) as job:
            until = time.monotonic() + 120 * suite.SLOW
            while time.monotonic() < until and max(self.steps(), default=0) < 35 and job.poll() is None:
                time.sleep(0.01)
            job.send_signal(signal.SIGKILL)
        before = event_reader.Run(self.run)
        self.report(25 < max(before.scalars.get("lr", {0: 0})) < 60, "killed after a checkpoint", str(before.scalars.get("lr")))
        self.train("checkpoint.every=25it")
        after = event_reader.Run(self.run)
        self.report(len(after.files) == 2, "a file of each session", str(after.files))
        self.same_scalars("killed and resumed", after.scalars)

    def steps(self):
        try:
            return [int(line.split(",")[0]) for line in open(os.path.join(self.run, "metrics.csv"), encoding="utf-8")
                    if line[0].isdigit() and line.endswith("\n")]
        except OSError:
            return []

    def whole(self):
        run = event_reader.Run(self.run)
        self.same_settings("events", run.settings)
        evaluated = sorted(run.scalars["val/loss"])
        steps = {name: sorted(series) for name, series in run.pictures.items()}
        self.report(set(steps["val"]) <= set(evaluated) and steps["val"][-1] == evaluated[-1] and
                    steps["results"] == steps["confusion"] == [60] and steps.get("aug_0", [0]) == [0], "steps of pictures", str(steps))
        for name, file in (("val", "samples/val.png"), ("results", "results.png")):
            with open(os.path.join(self.run, file), "rb") as opened:
                content = opened.read()
            found = run.pictures.get(name, {})
            last = found[max(found)] if found else (0, 0, b"")
            self.report(last[2] == content and max(found) == 60 and last[0] == int.from_bytes(content[16:20], "big") and
                        last[1] == int.from_bytes(content[20:24], "big"), f"the picture {file}", f"{sorted(found)}")

    def in_tensorboard(self):
        python = next((p for p in (os.environ.get("SERRIED_PEER_PYTHON"), "python3", "/usr/bin/python3")
                       if p and shutil.which(p) and subprocess.run([p, "-c", "import tensorboard"], capture_output=True,
                                                                  check=False).returncode == 0), None)
        if not python:
            suite.not_run("reading events with TensorBoard: it is not installed")
            return
        done = subprocess.run([python, "-c", TENSORBOARD, self.run], text=True, capture_output=True, check=False)
        if done.returncode != 0:
            self.report(False, "TensorBoard reads the folder", done.stderr[-500:])
            return
        found, own = json.loads(done.stdout), event_reader.Run(self.run)
        self.same_scalars("TensorBoard", {tag: dict(map(tuple, series)) for tag, series in found["scalars"].items()})
        self.same_settings("TensorBoard", found["settings"])
        self.report(found["pictures"] == {tag: [[step, width, height, len(content)] for step, (width, height, content)
                                                in sorted(series.items())] for tag, series in own.pictures.items()},
                    "TensorBoard: the pictures", str(found["pictures"]))


def check(folder):
    tests = Events(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), folder)
    tests.prepare(20)
    tests.killed()
    tests.whole()
    tests.in_tensorboard()
    return tests


if __name__ == "__main__":
    suite.run(check)
