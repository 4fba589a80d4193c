#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The key 'profile': a trace of the named steps of all ranks in the run folder, which changes no results.

  check_trace.py SERRIED RECIPE
"""
import json
import os
import subprocess
import sys

import suite

FIRST, LAST, STEPS = 2, 5, 6


def spans(trace, rank, name):
    return [e for e in trace["traceEvents"]
            if e["ph"] == "X" and e["pid"] == rank and e["name"].startswith(name)]


class Traces(suite.Suite):
    def train(self, recipe, ranks, name, *values):
        run = os.path.join(self.folder, name)
        line = [self.serried, "train", recipe, "-o", run, "data.train=" + self.data, f"steps={STEPS}", *values]
        done = subprocess.run(suite.under_mpirun(ranks, line), env=suite.environment(), capture_output=True,
                              text=True, timeout=120, check=False)
        if done.returncode != 0:
            self.report(False, name, f"exit code {done.returncode}:\n{done.stderr[-2000:]}")
            return run, ""
        with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
            return run, json.load(file)["digest"]

    def check(self, recipe, ranks, plain, values, first, last):
        name = f"{ranks} ranks, {' '.join(values)}"
        run, digest = self.train(recipe, ranks, name.replace(" ", "-"), *values)
        self.report(digest == plain, f"{name}: the digest", f"{digest} instead of {plain}")
        path = os.path.join(run, "trace.json")
        if not os.path.exists(path):
            self.report(False, name, "no trace.json")
            return
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        for rank in range(ranks):
            steps = spans(trace, rank, "records and compiles")
            self.report(len(steps) == last - first, f"{name}: steps of rank {rank}", f"{len(steps)} steps")
            kernels = [e for e in spans(trace, rank, "conv2d (") if e["args"]["flops"] > 0 and e["args"]["layer"]
                       and not e["args"]["backward"]]
            self.report(bool(kernels) and bool(spans(trace, rank, "bucket ")), f"{name}: spans of rank {rank}",
                        f"{len(kernels)} convolutions")
        early = [e for e in trace["traceEvents"] if e["ph"] == "X" and (e["ts"] < 0 or e["dur"] < 0)]
        self.report(not early, f"{name}: times", f"{early[:3]}")


def body(folder):
    traces = Traces(sys.argv[1], folder)
    traces.prepare(20)
    run, plain = traces.train(sys.argv[2], 1, "plain")
    traces.report(not os.path.exists(os.path.join(run, "trace.json")), "no trace without the key", run)
    traces.check(sys.argv[2], 1, plain, [f"profile={FIRST}:{LAST}"], FIRST, LAST)
    traces.check(sys.argv[2], 2, plain, [f"profile={FIRST}:{LAST}"], FIRST, LAST)
    traces.check(sys.argv[2], 2, plain, [f"profile=4:{STEPS + 10}"], 4, STEPS)
    return traces


suite.run(body)
