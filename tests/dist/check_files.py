#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packing and training on a failing file system: killed before any call that changes a file, with any call failing,
with a disk that is full at any 64 KiB, read-only folders, limits, and two jobs at once. Afterwards the same command ends
as if nothing had happened.

  check_files.py SERRIED FILE_FAULTS RECIPE [--all] [PART...]

Without --all every part takes a sample of the calls, with it all of them (on two ranks a larger sample). The parts are
those in PARTS below.
"""
import csv
import ctypes
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import suite

ESSENTIAL = re.compile(r"(openat|write|fsync|rename) .*/(checkpoints/.*|identity|recipe\.yaml|exit\.json)\.tmp-")
SPACE = re.compile(r"needs? .*[0-9.]+ ?(bytes|[KMGT]iB)|[0-9]+ bytes needed|about [0-9.]+ [KMGT]iB are needed")
STEP = 64 << 10  # the disk is full at every multiple of it
VALUES = ["batch=16", "steps=4", "checkpoint.every=[1it]", "data.processes=0"]


def contents(folder):
    """What is in a folder, by path: bytes of files, targets of links."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            if os.path.islink(path):
                found[os.path.relpath(path, folder)] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


def temporary_files(folder):
    return [path for path in contents(folder) if ".tmp-" in path]


class Files(suite.Suite):
    def __init__(self, serried, faults, recipe, everything, folder):
        super().__init__(serried, folder)
        self.faults, self.recipe, self.everything = faults, recipe, everything
        self.calls = []
        self.mounted = False

    def places(self, total, sample, offset, most=10000):
        """Which of 'total' calls get a fault: about 'sample' of them, or with --all 'most'."""
        stride = max(1, total // (most if self.everything else sample))
        return range(1 + offset % stride, total + 1, stride)

    def faulty(self, root, fault, n, line):
        """Runs the line under file_faults; self.calls are its calls that changed files below root."""
        listing = os.path.join(self.folder, "calls")
        done = subprocess.run([self.faults, root, listing, fault, str(n), *line], env=suite.environment(), text=True,
                              capture_output=True, timeout=120, check=False)
        if done.returncode == 77:
            print(done.stdout, end="")
            sys.exit(77)
        with open(listing, encoding="utf-8") as file:
            self.calls = [row.rstrip("\n").split(" ", 3) for row in file]
        return done

    def plain(self, line):
        return subprocess.run(line, env=suite.environment(), text=True, capture_output=True, timeout=120, check=False)

    def call(self, n):
        return " ".join(self.calls[n - 1][2:]) if 0 < n <= len(self.calls) else "?"

    # -- packing -------------------------------------------------------------------------------

    def pack_line(self, destination, workers=1):
        return [self.serried, "pack", self.pictures, destination, "--val-fraction", "0.25", "--allow-refused", "9",
                "-j", str(workers)]

    def prepare(self, count):
        """Pictures of ten classes, two of them damaged, and the data set packed from them."""
        self.pictures = os.path.join(self.folder, "pictures")
        self.plain([self.serried, "render", self.pictures, "--count", str(count)])
        spoilt = os.path.join(self.pictures, sorted(os.listdir(self.pictures))[0])
        for name in ("broken.jpg", "short.jpg"):
            with open(os.path.join(spoilt, name), "wb") as file:
                file.write(b"\xff\xd8\xff\xe0 no picture")
        done = self.plain(self.pack_line(self.data))
        self.packed = contents(self.data)
        self.report(done.returncode == 0 and "refused.csv" in self.packed, "packs undisturbed", done.stderr)

    def finishes_pack(self, what, destination):
        done = self.plain(self.pack_line(destination, 2))
        same = done.returncode == 0 and contents(destination) == self.packed
        if not same:
            self.report(False, what, f"the same command again: exit code {done.returncode}, "
                        f"{sorted(contents(destination))}\n{done.stderr[-800:]}")
        return same

    def pack(self):
        destination = os.path.join(self.folder, "packed")
        self.faulty(destination, "none", 0, self.pack_line(destination))
        total = len(self.calls)
        self.report(total > 50 and contents(destination) == self.packed, "pack: calls counted", str(total))
        self.faulty(destination, "none", 0, self.pack_line(destination))
        changed = [call for call in self.calls if call[2] != "mkdir"]  # that says "it exists"
        self.report(not changed, "pack: a complete folder is not touched", str(changed))
        for fault, code in (("kill", 99), ("eio", 1), ("eio+", 1), ("full+", 1)):
            good = tried = 0
            for n in self.places(total, 8, len(fault)):
                shutil.rmtree(destination, ignore_errors=True)
                done = self.faulty(destination, fault, n, self.pack_line(destination))
                what = f"pack: {fault} at call {n} ({self.call(n)})"
                tried += 1
                if fault == "full+" and done.returncode == 0 and contents(destination) == self.packed:
                    good += 1  # no call after this one takes space
                    continue
                named = destination in done.stderr and (fault != "full+" or "free" in done.stderr)
                if done.returncode != code or (code == 1 and not named):
                    self.report(False, what, f"exit code {done.returncode}\n{done.stderr[-800:]}")
                    continue
                if fault == "eio" and temporary_files(destination):
                    self.report(False, what, f"leaves {temporary_files(destination)}")
                good += self.finishes_pack(what, destination)
            self.report(good == tried, f"pack: {fault} at {tried} of {total} calls", f"{good} good")

    # -- training ------------------------------------------------------------------------------

    def train_line(self, run, ranks):
        line = [self.serried, "train", self.recipe, "-o", run, "data.train=" + self.data, *VALUES]
        return suite.under_mpirun(ranks, line)

    def finished(self, run):
        try:
            with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
                return json.load(file)["status"] == "finished"
        except FileNotFoundError:
            return False

    def step_of(self, checkpoint):
        try:
            with open(os.path.join(checkpoint, "manifest.json"), encoding="utf-8") as file:
                return json.load(file)["step"]
        except FileNotFoundError:
            return None

    def results(self, run):
        """The results that must not depend on interruptions."""
        with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
            parsed = json.load(file)
        with open(os.path.join(run, "metrics.csv"), encoding="utf-8") as file:
            rows = [{key: value for key, value in row.items()
                     if key in ("step", "samples", "epoch", "lr") or key.startswith(("train/", "val/"))}
                    for row in csv.DictReader(file)]
        with open(os.path.join(run, "digests.csv"), encoding="utf-8") as file:
            digests = file.read()
        steps = [self.step_of(os.path.join(run, name)) for name in ("last", "best")]
        return parsed["status"], parsed["digest"], parsed["metrics"], rows, digests, steps

    def unfit(self, run):
        """What is wrong with the folder of a finished run, whatever interrupted it; '' if nothing is."""
        found = contents(run)
        with open(os.path.join(run, "log.jsonl"), encoding="utf-8") as file:
            try:
                for row in file:
                    json.loads(row)
            except ValueError as error:
                return f"log.jsonl: {error}"
        if temporary_files(run):
            return f"leaves {temporary_files(run)}"
        kept = {path.split("/")[1] for path in found if path.startswith("checkpoints/")}
        return f"keeps {sorted(kept)}" if len(kept) > 3 else ""

    def judge(self, what, run, want, done, warned=False):
        """A run that has ended with 0 has the undisturbed results, except for links whose failure was reported."""
        if done.returncode != 0:
            self.report(False, what, f"exit code {done.returncode}\n{done.stderr[-1200:]}")
            return False
        try:
            got = self.results(run)
            if warned and "cannot be linked" in done.stderr:
                got = (*got[:-1], want[-1])
        except OSError as error:
            got = str(error)
        wrong = (not warned and self.unfit(run)) or ("" if got == want else f"other results\n{want}\n{got}")
        if wrong:
            self.report(False, what, wrong)
        return not wrong

    def train(self, ranks, sample, most):
        run = os.path.join(self.folder, f"run-{ranks}")
        line = self.train_line(run, ranks)
        done = self.faulty(run, "none", 0, line)
        total = len(self.calls)
        want = self.results(run)
        self.report(done.returncode == 0 and total > 200 and not self.unfit(run), f"train, {ranks} ranks: calls counted",
                    f"{total}: {self.unfit(run)}")
        for fault in ("kill", "eio", "eio+", "full+"):
            good = tried = 0
            for n in self.places(total, sample, len(fault), most):
                shutil.rmtree(run, ignore_errors=True)
                done = self.faulty(run, fault, n, line)
                if len(self.calls) < n:  # a picture that waits for an earlier one is not drawn if a newer one replaces it
                    self.report(done.returncode == 0, f"train, {ranks} ranks: no call {n} this time", done.stderr[-800:])
                    continue
                call = self.call(n)
                what = f"train, {ranks} ranks: {fault} at call {n} ({call})"
                tried += 1
                if fault == "kill":
                    if done.returncode != 99 and ranks == 1:
                        self.report(False, what, f"exit code {done.returncode}\n{done.stderr[-800:]}")
                        continue
                elif done.returncode == 0:
                    if ESSENTIAL.match(call) and fault != "full+":
                        self.report(False, what, f"goes on\n{done.stderr[-800:]}")
                elif done.returncode != 1 or run not in done.stderr:
                    self.report(False, what, f"exit code {done.returncode}\n{done.stderr[-800:]}")
                    continue
                warned = done.returncode == 0 and "warning" in done.stderr
                if done.returncode != 0 and self.finished(run):
                    done.returncode = 0  # killed at its very end
                elif done.returncode != 0:
                    done = self.plain(line)
                good += self.judge(what, run, want, done, warned)
            self.report(good == tried > 0, f"train, {ranks} ranks: {fault} at {tried} of {total} calls",
                        f"{good} good")

    # -- a disk that is full ---------------------------------------------------------------------

    def finds_room(self, what, line, left, ends_well, small):
        """Runs the line in self.place with only 'left' bytes free, and again without the ballast."""
        ballast = os.path.join(self.place, "ballast")
        info = os.statvfs(self.place)
        with open(ballast, "wb") as file:
            file.write(b"\0" * max(0, info.f_bavail * info.f_frsize - left))
        done = self.plain(line)
        tight = done.returncode
        if tight != 0:
            errors = [row for row in done.stderr.splitlines() if self.place in row and re.search("free|full|space", row)]
            large = "checkpoints" in done.stderr or "pack" in line
            if tight != 1 or not errors or (large and not SPACE.search(done.stderr)):
                self.report(False, what, f"exit code {tight}\n{done.stderr[-1200:]}")
                return False
            if not small():
                self.report(False, what, "what was there before is damaged")
                return False
        os.remove(ballast)
        if tight == 0 and "warning" not in done.stderr:
            return ends_well(what, done)
        if tight != 0:
            done = self.plain(line)
        return ends_well(what, done, tight == 0)

    def room_for(self, line, folder):
        """The largest number of bytes that the line takes, in steps."""
        shutil.rmtree(folder, ignore_errors=True)
        before = os.statvfs(self.place).f_bfree
        self.plain(line)
        used = before - os.statvfs(self.place).f_bfree
        return used * os.statvfs(self.place).f_frsize

    def full(self):
        if not self.mount("size=24m"):
            return
        pictures = os.path.join(self.folder, "more-pictures")
        self.plain([self.serried, "render", pictures, "--count", "60"])
        old, new = (os.path.join(self.place, name) for name in ("old", "new"))
        self.plain(self.pack_line(old))
        line = [self.serried, "pack", pictures, new, "--max-size", "4000", "-j", "2"]  # sizes cannot be foretold
        room = self.room_for(line, new)
        want = contents(new)
        steps = range(0, room + STEP, STEP if self.everything else room // 4)
        good = 0
        for left in steps:
            shutil.rmtree(new, ignore_errors=True)
            good += self.finds_room(f"pack with {left} bytes left", line, left,
                                    lambda what, done, _=False: self.equal(what, done, contents(new), want),
                                    lambda: contents(old) == self.packed)
        self.report(good == len(steps) > 3 and len(want) == 2, f"pack: disk full at {len(steps)} sizes", f"{good} good")
        shutil.rmtree(new)
        self.full_train()
        self.unmount()

    def equal(self, what, done, got, want):
        good = done.returncode == 0 and got == want
        if not good:
            self.report(False, what, f"exit code {done.returncode}, {sorted(got)}\n{done.stderr[-800:]}")
        return good

    def full_train(self):
        run = os.path.join(self.place, "run")
        line = self.train_line(run, 1)
        room = self.room_for(line, run)
        want = self.results(run)
        steps = range(0, room + STEP, STEP if self.everything else room // 4)
        good = 0
        for left in steps:
            shutil.rmtree(run, ignore_errors=True)
            good += self.finds_room(f"train with {left} bytes left", line, left,
                                    lambda what, done, warned=False: self.judge(what, run, want, done, warned),
                                    lambda: self.verified(run))
        self.report(good == len(steps) > 3, f"train: disk full at {len(steps)} sizes", f"{good} good")

    def verified(self, run):
        """All existing checkpoints, if any, are complete."""
        return not os.path.exists(os.path.join(run, "last")) or self.plain([self.serried, "verify", run]).returncode == 0

    def unmount(self):
        ctypes.CDLL(None).umount2(self.place.encode(), 2)  # MNT_DETACH

    def mount(self, options):
        """Mounts a private file system at self.place; returns False if that is not permitted."""
        self.place = os.path.join(self.folder, "place")
        os.makedirs(self.place, exist_ok=True)
        libc = ctypes.CDLL(None, use_errno=True)
        new_mounts, new_user, private, everywhere = 0x20000, 0x10000000, 1 << 18, 1 << 14
        user, group = os.getuid(), os.getgid()
        if not self.mounted:
            if libc.unshare(new_mounts) != 0:
                if libc.unshare(new_mounts | new_user) == 0:
                    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
                        with open("/proc/self/" + name, "w", encoding="ascii") as file:
                            file.write(text)
            self.mounted = libc.mount(b"none", b"/", None, private | everywhere, None) == 0
        if self.mounted and libc.mount(b"none", self.place.encode(), b"tmpfs", 0, options.encode()) == 0:
            return True
        suite.not_run(f"a private file system: mount: {os.strerror(ctypes.get_errno())}")
        return False

    # -- folders that cannot be written, limits ---------------------------------------------------

    def refused(self, what, line, words, code=1, before=None):
        done = subprocess.run(line, env=suite.environment(), text=True, capture_output=True, timeout=60, check=False,
                              preexec_fn=before)
        good = done.returncode == code and all(word in done.stderr for word in words)
        self.report(good, what, f"exit code {done.returncode}\n{done.stderr[-800:]}")

    def closed(self):
        """A file size limit, and folders that are read-only."""
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 10, 20 << 10))
        limited = os.path.join(self.folder, "limited")
        words = ["File too large", "file sizes is 20 KiB (ulimit -f)", "ulimit -f unlimited"]
        self.refused("pack: over ulimit -f", self.pack_line(limited), [*words, limited], 1, small_files)
        for name, values in (("processes", []), ("threads", ["data.processes=0"])):
            run = os.path.join(self.folder, "limited-" + name)
            line = [self.serried, "train", self.recipe, "-o", run, "data.train=" + self.data, "batch=16", "steps=4"]
            self.refused(f"train: over ulimit -f, {name}", [*line, *values], words, 1, small_files)
        self.report(not temporary_files(limited) and self.finishes_pack("after ulimit -f", limited),
                    "pack: after ulimit -f", str(temporary_files(limited)))
        if not self.mount("size=24m"):
            return
        run, other = os.path.join(self.place, "run"), os.path.join(self.place, "other")
        self.plain(self.pack_line(os.path.join(self.place, "data")))
        values = ["steps=2"]
        self.plain([*self.train_line(run, 1), *values])
        os.remove(os.path.join(run, "exit.json"))
        ctypes.CDLL(None).mount(b"none", self.place.encode(), None, 32 | 1, None)  # MS_REMOUNT | MS_RDONLY
        self.refused("pack: read-only", self.pack_line(other), [other, "Read-only"])
        self.refused("train: read-only", self.train_line(other, 1), [other, "Read-only"])
        self.refused("train, 2 ranks: read-only", self.train_line(other, 2), [other, "Read-only"])
        self.refused("train: read-only run", [*self.train_line(run, 1), *values], [run, "Read-only"])
        self.report(self.plain([self.serried, "pack", self.pictures, os.path.join(self.place, "data"), "--val-fraction",
                                "0.25", "--allow-refused", "9"]).returncode == 0, "pack: read-only, complete", "")
        read = self.plain([self.serried, "val", run])
        self.report(read.returncode == 0, "val: read-only run", read.stderr)
        self.unmount()

    # -- two jobs at once --------------------------------------------------------------------------

    def wait_for(self, path, job):
        end = time.monotonic() + 60
        while time.monotonic() < end and job.poll() is None and not os.path.exists(path):
            time.sleep(0.005)

    def twice(self):
        for ranks in (1, 2):
            run = os.path.join(self.folder, f"twice-{ranks}")
            line = [*self.train_line(run, ranks), "steps=100000"]
            job = subprocess.Popen(line, env=suite.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait_for(os.path.join(run, "last"), job)
            with open(os.path.join(run, "run.lock"), encoding="ascii") as file:
                holder = file.read().strip()
            self.refused(f"a second job in a run folder, {ranks} ranks", line, [holder, "another job"], 2)
            job.send_signal(signal.SIGINT if ranks == 1 else signal.SIGUSR1)
            self.report(job.wait(60) == 75, f"the first job continues, {ranks} ranks", str(job.returncode))
        twice = os.path.join(self.folder, "twice")
        self.faulty(twice, "kill", 10, self.pack_line(twice))  # leaves what a pack at work has written
        folder = os.open(twice, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        with open(os.path.join(twice, "pack.txt"), encoding="utf-8") as file:
            holder = re.search("host .*, pid .*, since .*", file.read()).group()
        self.refused("a second pack into a folder", self.pack_line(twice), [holder, twice, "another pack"], 2)
        os.close(folder)
        self.report(self.finishes_pack("a pack after another", twice), "a pack after another", "")


    # -- file systems with other locks --------------------------------------------------------------

    def locks(self):
        """NFS, where a folder cannot be locked, and file systems without any lock (by LD_PRELOAD)."""
        shim = os.path.join(os.path.dirname(self.faults), "libno_locks.so")
        for mode in ("nfs", "none"):
            more = {"LD_PRELOAD": shim, "TEST_LOCKS": mode}
            packed, run = os.path.join(self.folder, "packed-" + mode), os.path.join(self.folder, "run-" + mode)
            os.makedirs(packed)
            for folder, line, what in ((packed, self.pack_line(packed), "pack"),
                                       (run, [*self.train_line(run, 1), "data.order=chunks"], "train")):
                done = subprocess.run(line, env=suite.environment(**more), text=True, capture_output=True, timeout=120,
                                      check=False)
                warnings = [line for line in done.stderr.splitlines() if "has no locks" in line and folder in line]
                self.report(done.returncode == 0 and len(warnings) == (mode == "none"), f"{what}, locks: {mode}",
                            f"exit code {done.returncode}, {len(warnings)} warnings\n{done.stderr[-800:]}")
            self.report(contents(packed) == self.packed, f"pack, locks: {mode}: same files", str(sorted(contents(packed))))
            if mode == "none":
                continue
            with open(os.path.join(packed, "pack.lock"), "w", encoding="ascii") as file, \
                    open(os.path.join(run, "run.lock"), "r+", encoding="ascii") as held:
                for lock in (file, held):
                    fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
                for line, words in ((self.pack_line(packed), "another pack"), (self.train_line(run, 1), "another job")):
                    done = subprocess.run(line, env=suite.environment(**more), text=True, capture_output=True,
                                          timeout=60, check=False)
                    self.report(done.returncode == 2 and words in done.stderr, f"{words}, locks: {mode}",
                                f"exit code {done.returncode}\n{done.stderr[-800:]}")
            self.report(os.path.exists(os.path.join(packed, "pack.lock")), "the other pack's lock is kept", "it is gone")


PARTS = {"pack": lambda tests: tests.pack(),
         "train1": lambda tests: tests.train(1, 6, 10000),
         "train2": lambda tests: tests.train(2, 3, 50),
         "twice": lambda tests: tests.twice(),
         "locks": lambda tests: tests.locks(),
         "closed": lambda tests: tests.closed(),
         "full": lambda tests: tests.full()}


def check(folder):
    words = [word for word in sys.argv[1:] if word != "--all"]
    serried, faults, recipe = (os.path.abspath(path) for path in words[:3])
    tests = Files(serried, faults, recipe, "--all" in sys.argv, folder)
    tests.prepare(4)
    for part in words[3:] or PARTS:
        PARTS[part](tests)
    return tests


if __name__ == "__main__":
    suite.run(check)
