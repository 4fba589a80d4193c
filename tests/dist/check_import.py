#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packing large inputs: a COCO file in bounded memory, broken ones reported with their position, and many samples packed
with kills at random times, byte for byte as undisturbed.

  check_import.py SERRIED [--all] [--seed N]

With --all the COCO file has 500 MB and there are a million samples of 32 x 32; without, 4 MB and 20,000.
"""
import argparse
import filecmp
import os
import re
import shutil
import struct
import subprocess
import sys
import time

import suite

HERE = os.path.dirname(os.path.abspath(__file__))
RSS_LIMIT = 256 << 10  # KiB


def resumable(folder):
    """Whether an interrupted pack has shards that its recorded progress counts."""
    try:
        with open(os.path.join(folder, "pack.txt")) as file:
            text = file.read()
    except FileNotFoundError:
        return False
    shards = re.search(r"^shards (\d+)$", text, re.MULTILINE)
    return "\nstate packing\n" in text and shards is not None and int(shards[1]) > 0


class Import(suite.Suite):
    def run(self, *line):
        """Returns the exit code, the output, and the largest resident set in KiB."""
        process = subprocess.Popen([self.serried, *line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, output, usage.ru_maxrss

    # -- COCO ----------------------------------------------------------------------------------

    def coco(self, megabytes):
        top = os.path.join(self.folder, "coco")
        json = os.path.join(top, "annotations", "instances_train2017.json")
        self.run("render", os.path.join(top, "train2017"), "--count", "50")
        os.makedirs(os.path.dirname(json))
        for order in ((), ("--annotations-first",)):
            made = subprocess.run([sys.executable, os.path.join(HERE, "make_coco.py"), os.path.join(top, "train2017"),
                                   json, str(megabytes), *order], check=True, capture_output=True, text=True)
            data = os.path.join(self.folder, "coco-packed")
            begin = time.monotonic()
            code, output, rss = self.run("pack", top, data)
            print(f"        {os.path.getsize(json) / 1e6:.0f} MB of JSON: {time.monotonic() - begin:.1f} s, "
                  f"{rss / 1024:.0f} MiB resident")
            self.report(code == 0 and "500 train; 4 classes" in output and f"{made.stdout.strip()} boxes" in output,
                        f"COCO of {megabytes} MB {' '.join(order)}", output[-600:])
            self.report(rss < RSS_LIMIT, f"in less than {RSS_LIMIT >> 10} MiB", f"{rss} KiB")
            shutil.rmtree(data, ignore_errors=True)
        self.broken(top, json)
        shutil.rmtree(top)

    def broken(self, top, json):
        """The same file truncated or with one byte changed, which ends packing, and with a value of another type, which
        refuses one picture."""
        with open(json, "rb") as file:
            whole = file.read(3_000_000)
        data = os.path.join(self.folder, "broken-packed")
        line = whole.count(b"\n", 0, whole.index(b'"bbox"', 1_000_000)) + 1
        at = whole.index(b'"bbox": [', 1_000_000)
        one_string = os.path.join(self.folder, "one-string.json")
        with open(json, "rb") as file, open(one_string, "wb") as out:
            out.write(file.read(at + 9) + b'"x",')
            shutil.copyfileobj(file, out)
        for name, spoilt, place in (
                ("cut off", whole[:1_500_000], whole.count(b"\n", 0, 1_500_000) + 1),
                ("a letter for a number", whole[:at + 9] + b"x" + whole[at + 10:], line)):
            with open(json, "wb") as file:
                file.write(spoilt)
            code, output, _ = self.run("pack", top, data)
            good = code == 3 and re.search(rf"instances_train2017\.json:{place}:\d+: ", output) and not os.path.exists(data)
            self.report(good, f"broken COCO: {name}, line {place}", f"exit code {code}: {output[-300:]}")
        os.replace(one_string, json)
        code, output, _ = self.run("pack", top, data)
        refused = ""
        if os.path.exists(os.path.join(data, "refused.csv")):
            with open(os.path.join(data, "refused.csv"), encoding="utf-8") as file:
                refused = file.read()
        good = code == 3 and "1 file was refused" in output and \
            re.search(rf"annotation id \d+ of image id \d+, .*instances_train2017\.json:{line}:\d+: a string", refused)
        self.report(good, f"broken COCO: a string for a number, line {line}", f"exit code {code}: {output[-300:]}{refused}")

    # -- many samples --------------------------------------------------------------------------

    def million(self, count, kills, rng):
        source = os.path.join(self.folder, "idx")
        os.makedirs(source)
        block = rng.randbytes(1024 * 1000)
        with open(os.path.join(source, "train-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, 32, 32))
            for i in range(count // 1000):
                file.write(block[i % 1000:] + block[:i % 1000])
        with open(os.path.join(source, "train-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(i % 7 for i in range(count)))
        whole, killed = os.path.join(self.folder, "whole"), os.path.join(self.folder, "killed")
        line = ["pack", source, None, "--val-fraction", "0.01", "--shard-size", f"{max(1, count // 50000)}MiB"]
        begin = time.monotonic()
        code, output, rss = self.run(*[whole if word is None else word for word in line])
        seconds = time.monotonic() - begin
        print(f"        {count} samples: {seconds:.1f} s, {rss / 1024:.0f} MiB resident")
        self.report(code == 0 and "7 classes" in output, f"packs {count} samples", output[-600:])
        left, spent = False, 0  # whether something is left to resume; kills that left something
        for _ in range(10 * kills):
            # Other processes come first, so that a busy machine does not let it end before it is killed.
            process = subprocess.Popen(["nice", "-n", "19", self.serried, *[killed if word is None else word for word in line]],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # The first kill as soon as there is something to resume, the others at any time.
            until = time.monotonic() + (rng.uniform(0.02, seconds * 0.6) if left else 60)
            while process.poll() is None and time.monotonic() < until and (left or not resumable(killed)):
                time.sleep(0.002)
            process.kill()
            process.wait()
            left = resumable(killed)
            spent += left
            if spent == kills:
                break
            if not left:  # it ended before the kill, which proves nothing
                shutil.rmtree(killed)
        code, output, _ = self.run(*[killed if word is None else word for word in line])
        self.report(code == 0 and spent == kills and "resumed after" in output, f"resumes after {spent} kills", output[-600:])
        names = sorted(os.listdir(whole))
        same = names == sorted(os.listdir(killed)) and not filecmp.cmpfiles(whole, killed, names, shallow=False)[1]
        self.report(same, "byte for byte as undisturbed", str(sorted(os.listdir(killed))))
        for folder in (source, whole, killed):
            shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("serried")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    dice = suite.show_seed(options.seed if options.seed is not None else suite.new_seed() if options.all else 1)

    def body(folder):
        checks = Import(options.serried, folder)
        checks.coco(500 if options.all else 4)
        checks.million(1_000_000 if options.all else 21_000, 10, dice)
        return checks

    suite.run(body)


if __name__ == "__main__":
    main()
