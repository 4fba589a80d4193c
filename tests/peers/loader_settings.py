#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the fastest settings of a data loader on one core; data_peers.py has the results as defaults.

    PYTHON tests/peers/loader_settings.py {ffcv|dali} FOLDER [--rounds N] [--kind u8|float] [--cpu N]

FOLDER contains JPEG files or NumPy arrays. Every setting is a separate process, warm, which takes an epoch in turns
with the others and is stopped in between. Prints images/s by the clock and by processor time, the fastest first.
"""
import argparse
import glob
import itertools
import os
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = {"ffcv": ((8, 1), (16, 1), (16, 3), (32, 1), (64, 1), (64, 3), (256, 3)),
        "dali": ((16, 2), (32, 1), (32, 2), (64, 2), (256, 2))}  # batch, ahead
FURTHER = {"ffcv": (["--order", "sequential"], ["--own-cache"], ["--own-cache", "--order", "quasi_random"]),
           "dali": (["--fast-idct"],)}


def settings_of(peer, raw):
    for (batch, ahead), pinned in itertools.product(BASE[peer], (True, False)):
        yield ["--batch", str(batch), "--ahead", str(ahead)], pinned
    for words in FURTHER[peer] if not raw or peer == "ffcv" else (["--source"],):
        yield words, True


class Loader:
    def __init__(self, options, number, words, pinned):
        every = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        self.title = " ".join(words) + (", pinned" if pinned else ", not pinned")
        self.rates, self.costs = [], []
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "data_peers.py"), options.peer, options.folder, "--kind", options.kind,
             "--name", str(number), "--cpus", str(options.cpu) if pinned else every, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.alive = self.process.stdout.readline().startswith("ready")
        self.process.send_signal(signal.SIGSTOP)

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def take_turn(self, pictures):
        before = self.processor_seconds()
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write("run 1\n")
        self.process.stdin.flush()
        self.rates.append(pictures / float(self.process.stdout.readline()))
        self.costs.append(pictures / max(self.processor_seconds() - before, 1e-2))
        self.process.send_signal(signal.SIGSTOP)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=sorted(BASE))
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=("u8", "float"), default="u8")
    parser.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)), help="of those that are pinned")
    options = parser.parse_args()
    raw = any(name.endswith(".npy") for name in os.listdir(options.folder))
    loaders = [Loader(options, i, *s) for i, s in enumerate(settings_of(options.peer, raw))]
    for loader in (l for _ in range(options.rounds) for l in loaders if l.alive):
        loader.take_turn(2400)
    for loader in loaders:
        loader.process.kill()
        loader.process.wait()
        if not loader.alive:
            print(f"{loader.title}: did not start")
    for path in glob.glob(os.path.join(glob.escape(options.folder), ".*.beton")):  # FFCV's copies
        os.remove(path)
    for loader in sorted((l for l in loaders if l.alive), key=lambda l: -statistics.median(l.rates)):
        print(f"{statistics.median(loader.rates):8.0f} images/s {statistics.median(loader.costs):8.0f} "
              f"a processor second  {loader.title}")


if __name__ == "__main__":
    main()
