# SPDX-License-Identifier: Apache-2.0
"""results.py FOLDER: writes FOLDER/RESULTS.md from FOLDER/results/*.tsv, which tests/gpu/run fills.
results.py FOLDER --add FROM: first adds the rows of FROM/results, such as of an archive's tests/gpu.
results.py --run RECIPE FOLDER: turns the folder of a training run into a row of runs.tsv.
results.py --bench: turns the JSON of `serried bench step`, on stdin, into a row of bench.tsv.

Only rows of those files appear; anything else is marked as not measured. A line that begins with '#'
in a file says when, where and by which command the rows after it were measured.
"""
import csv
import json
import os
import statistics
import sys

SECTIONS = (
    ("tests", "Tests", "Parts of `tests/gpu/run`, and the last line that each printed.",
     ("part", "outcome", "seconds", "last line")),
    ("bench", "Training steps", "`serried bench step` and PyTorch in turns on the same GPU, images/s: "
     "medians of blocks, and the slowest and the fastest.",
     ("recipe", "type", "px", "batch", "serried", "slowest", "fastest", "PyTorch", "slowest", "fastest",
      "ratio", "PyTorch's setting", "GPU", "kernels")),
    ("runs", "Whole runs", "`serried train` from its start to its end, with evaluation; images/s and the share of time "
     "spent waiting for data: medians of the rows of metrics.csv, of 50 steps each.",
     ("recipe", "steps", "batch", "seconds", "images/s", "waiting for data")),
    ("ceilings", "What the device can do", "Limits that a share of the limit refers to.",
     ("what", "figure", "unit", "how")),
    ("torch", "PyTorch", "Training at 224 px: ResNet-50 of torchvision, other networks of timm.",
     ("network", "mode", "type", "batch", "images/s", "slowest block", "fastest block",
                   "GiB allocated", "GiB reserved", "versions")),
    ("lanes", "Lanes side by side in cuDNN", "Whether a lane's samples have the same bits alone and among those "
     "of other lanes, by the same engine and knobs: engines that the heuristics list for the lane alone, those "
     "of them with equal bits, and the first engine.",
     ("pattern", "type", "samples", "shape", "engines", "equal", "first")),
    ("cudnn", "cuDNN's support matrix", "For each pattern of operations (probe_cudnn.c), type and "
     "convolution of ResNet-50: engines that work, microseconds of the heuristics' first choice, of "
     "the best engine, of the best deterministic one.",
     ("pattern", "type", "batch", "shape", "ok", "engines", "first us", "best us",
      "deterministic us", "GFLOP", "why not")),
)


def read(folder, name):
    """Pairs of when, where and how, and the rows measured then."""
    path = os.path.join(folder, "results", name + ".tsv")
    groups = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in (line.rstrip("\n") for line in file if line.strip()):
                if line.startswith("#"):
                    groups.append((line[1:].strip(), []))
                else:
                    groups[-1][1].append(line.split("\t"))
    return join_parts([(mark, rows) for mark, rows in groups if rows])


def join_parts(groups):
    """One group for the parts of a day, commit and device; a mark is DATE[TIME], REST PART."""
    out = []
    for mark, rows in groups:
        when, _, rest = mark.partition(", ")
        if "T" not in when:  # entered by hand
            out.append(("", mark, rows))
            continue
        how, _, part = rest.rpartition(" ")
        key = f"{when.partition('T')[0]}, {how}"
        if out and out[-1][0] == key:
            out[-1] = (key, f"{out[-1][1]} {part}" if part not in out[-1][1].split() else out[-1][1], out[-1][2] + rows)
        else:
            out.append((key, f"{key} {part}", rows))
    return [(mark, rows) for _, mark, rows in out]


def table(heads, rows):
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        cells = (row + [""] * len(heads))[:len(heads)]
        yield "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def deterministic_cost(rows):
    """Time of all weight gradients of a step, with the fastest engine and with the fastest deterministic."""
    heads = ("type", "batch", "shapes", "best us", "deterministic us", "ratio", "without one")
    out = []
    for kind in sorted({r[1] for r in rows}):
        for batch in sorted({r[2] for r in rows if r[1] == kind}, key=int):
            own = [r for r in rows if r[:3] == ["wgrad", kind, batch] and r[4] == "ok"]
            both = [(float(r[7]), float(r[8])) for r in own if float(r[8]) > 0]
            if not both:
                continue
            best, fixed = (sum(column) for column in zip(*both))
            out.append([kind, batch, str(len(both)), f"{best:.0f}", f"{fixed:.0f}",
                        f"{fixed / best:.3f}", str(len(own) - len(both))])
    return heads, out


def join_unsupported(rows):
    """One row for all shapes of a pattern, type and batch that no engine supports, instead of a row each."""
    refused = {}
    for row in rows:
        if row[4] == "no":
            refused.setdefault(tuple(row[:3]), []).append(row)
    return [row for row in rows if row[4] != "no"] + [
        [*key, f"{len(those)} shapes" if len(those) > 1 else those[0][3], "no", "", "", "", "", "",
         those[0][10].partition(" {")[0]] for key, those in refused.items()]


def section(folder, name, title, about, heads):
    groups = read(folder, name)
    yield f"## {title}"
    yield ""
    yield about
    yield ""
    if not groups:
        yield "Not measured yet."
        yield ""
    for mark, rows in groups:
        yield mark
        yield ""
        yield from table(heads, join_unsupported(rows) if name == "cudnn" else rows)
        yield ""
    if name == "cudnn":
        yield "### What determinism costs in weight gradients"
        yield ""
        yield "The different shapes once each, those that have a deterministic engine."
        yield ""
        yield from table(*deterministic_cost([row for _, rows in groups for row in rows]))
        yield ""


def bench_row(found):
    def speeds(side):
        return [f"{side[key]:.1f}" for key in ("images_per_s", "images_per_s_min", "images_per_s_max")]

    peer = found["peer"]
    theirs = [*speeds(peer), f"{found['ratio']:.3f}", peer["setting"] + ", PyTorch " + peer["about"]["torch"]] \
        if peer else ["", "", "", "", "not measured: " + found["peer_not_measured"]]
    batch, lanes = f"{found['batch']:.0f}", found["lanes"]
    if lanes > 1:
        batch += f" in {lanes:.0f} lanes, {found['lanes_at_once']:.0f} at once"
    return [found["recipe"], found["precision"], f"{found['image']:.0f}", batch, *speeds(found),
            *theirs, found["device_model"], found["kernels"]]


def run_row(recipe, folder):
    with open(os.path.join(folder, "exit.json"), encoding="utf-8") as file:
        end = json.load(file)
    with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    def median(column):
        return statistics.median([float(row[column]) for row in rows if row[column]])

    return [recipe, str(end["steps"]), str(end["samples"] // end["steps"]), f"{end['wall_seconds']:.2f}",
            f"{median('images_per_s'):.0f}", f"{100 * median('data_wait'):.1f} %"]


def add(folder, other):
    for name in sorted(os.listdir(os.path.join(other, "results"))):
        with open(os.path.join(other, "results", name), encoding="utf-8") as file:
            rows = file.read()
        if name.endswith(".tsv"):
            with open(os.path.join(folder, "results", name), "a", encoding="utf-8") as file:
                file.write(rows)
        elif name.endswith(".json"):
            with open(os.path.join(folder, "results", name), "w", encoding="utf-8") as file:
                file.write(rows)


def main():
    if sys.argv[1] == "--bench":
        print("\t".join(bench_row(json.load(sys.stdin))))
        return
    if sys.argv[1] == "--run":
        print("\t".join(run_row(*sys.argv[2:4])))
        return
    folder = sys.argv[1]
    if sys.argv[2:3] == ["--add"]:
        add(folder, sys.argv[3])
    lines = ["# GPU results", "",
             "Written by `results.py` from `results/*.tsv`, to which `tests/gpu/run` adds what it measures. Each list of rows "
             "begins with date, commit, machine and command.", ""]
    for name, *rest in SECTIONS:
        lines += section(folder, name, *rest)
    device = os.path.exists(os.path.join(folder, "results", "cudnn_device.json"))
    lines += ["## The device's properties", "",
              "`results/cudnn_device.json`: cuDNN's own description, with which its heuristics run "
              "without a GPU." if device else "Not measured yet."]
    with open(os.path.join(folder, "RESULTS.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


main()
