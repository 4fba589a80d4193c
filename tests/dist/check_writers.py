#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command that writes a file respects what exists at its path: devices and FIFOs are written to, the target of a
symbolic link is replaced or created, a file keeps its owner and mode.

  check_writers.py SERRIED RECIPE

Devices are our own nodes in a temporary folder, never those of the machine. The last case fails if a command writes a
file that is in no row below.
"""
import errno
import os
import shutil
import stat
import subprocess
import sys
import threading

import suite

OLD_TIME = 10 ** 9  # modification time of the old files, in seconds
OWNER, GROUP = 12345, 23456
VALUES = ["batch=16", "steps=4", "checkpoint.every=[1it]", "profile=3:4"]
ALL = ("device", "fifo", "link", "dangling", "mode")
FILE = ("link", "dangling", "mode")  # for files that are read back and so cannot be streams
# Files of a run folder, and the shapes in which a resumed job finds them.
RUN_FILES = {
    "log.txt": ALL, "log.jsonl": ALL, "digests.csv": ALL, "env.json": ALL, "trace.json": ALL,
    "exit.json": ALL, "confusion.csv": ALL, "confusion.png": ALL, "confusion.svg": ALL, "results.png": ALL,
    "results.svg": ALL, "metrics.csv": FILE, "recipe.yaml": FILE, "identity": ("link", "mode"),
}
# Not results: a lock, our own links, folders of generations and event files, which have new names in each session,
# pictures of the first step (which a resumed job does not draw again).
ASIDE = ("run.lock", "last", "best", "checkpoints", "samples", "events.out.tfevents")
UNTOUCHED = ("recipe.yaml", "identity")  # a resumed job does not write these again if they are intact


class Shape:
    """What exists at a path before a command writes it, and whether it is kept."""

    def __init__(self, kind, path, aside, content=b"old"):
        self.kind, self.path, self.received = kind, path, b""
        self.target = os.path.join(aside, "target-of-" + os.path.basename(path))
        self.reader = None
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.remove(path)
        if kind == "device":
            os.mknod(path, stat.S_IFCHR | 0o640, os.makedev(1, 3))
            os.chmod(path, 0o640)
        elif kind == "fifo":
            os.mkfifo(path, 0o640)
            self.reader = threading.Thread(target=self.read, daemon=True)
            self.reader.start()
        else:
            end = path if kind == "mode" else self.target
            if kind != "dangling":
                with open(end, "wb") as file:
                    file.write(content)
                os.chmod(end, 0o640)
            if kind == "mode" and os.geteuid() == 0:
                os.chown(end, OWNER, GROUP)
            if kind != "dangling":
                os.utime(end, (OLD_TIME, OLD_TIME))
            if kind != "mode":
                os.symlink(os.path.relpath(self.target, os.path.dirname(path)), path)
        self.before = os.lstat(path)

    def read(self):
        """Reads until the end of the test, because a log is opened, written and closed more than once."""
        while True:
            with open(self.path, "rb") as file:
                while True:
                    data = file.read(1 << 16)
                    if not data:
                        break
                    self.received += data

    def stays(self, written=True):
        """None, or a description of what is wrong."""
        now = os.lstat(self.path)
        same = (now.st_mode, now.st_uid, now.st_gid) == (self.before.st_mode, self.before.st_uid, self.before.st_gid)
        if not same:
            return f"{stat.filemode(self.before.st_mode)} became {stat.filemode(now.st_mode)}, owner {now.st_uid}"
        if self.kind != "mode" and now.st_ino != self.before.st_ino:
            return "is another node"
        if self.kind == "device":
            return None if now.st_rdev == os.makedev(1, 3) else "is another device"
        if self.kind == "fifo":
            self.reader.join(0.3)  # the last bytes
            return None if self.received else "nothing came through"
        try:
            end = os.stat(self.path)
        except OSError as error:
            return str(error)
        if not stat.S_ISREG(end.st_mode) or (written and (end.st_size == 0 or end.st_mtime == OLD_TIME)):
            return "the file was not written"
        return None


class Writers(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe, self.number = recipe, 0
        self.kinds = list(ALL)
        try:
            os.mknod(os.path.join(folder, "probe"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
            with open(os.path.join(folder, "probe"), "wb"):
                pass
        except OSError as error:
            print(f"NOT RUN: devices as targets: {os.strerror(error.errno or errno.EPERM)}")
            self.kinds.remove("device")
        if os.geteuid() != 0:
            print("NOT RUN: files of other owners (only root can make them)")

    def call(self, line, **more):
        try:
            # The targets of links are outside of the data sets.
            more.setdefault("SERRIED_DATA_LINKS", self.folder)
            return subprocess.run(line, env=suite.environment(**more), text=True, capture_output=True, timeout=60,
                                  check=False)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(line, 124, "", "hangs")

    def new_folder(self):
        self.number += 1
        folder = os.path.join(self.folder, f"case-{self.number}")
        os.makedirs(os.path.join(folder, "aside"))
        return folder

    def judge(self, what, done, shapes, written=None):
        """The exit code is 0, all shapes are kept, and no temporary file is left next to them or their targets."""
        wrong = [f"{os.path.basename(s.path)}: {s.stays(written is None or os.path.basename(s.path) in written)}"
                 for s in shapes if s.stays(written is None or os.path.basename(s.path) in written)]
        folders = {os.path.dirname(s.path) for s in shapes} | {os.path.dirname(s.target) for s in shapes}
        wrong += [name for folder in folders for name in os.listdir(folder) if ".tmp-" in name]
        self.report(done.returncode == 0 and not wrong, what,
                    f"exit code {done.returncode}; {'; '.join(wrong)}\n{done.stderr[-1200:]}")
        for shape in (shape for shape in shapes if shape.kind == "fifo"):
            os.remove(shape.path)  # a later walk through the folder would wait for a writer

    # -- one file that the user names ------------------------------------------------------------

    def named(self, what, line, kinds=ALL, name="out"):
        """line(path) is the command that writes the path."""
        for kind in (kind for kind in kinds if kind in self.kinds):
            folder = self.new_folder()
            shape = Shape(kind, os.path.join(folder, name), os.path.join(folder, "aside"))
            self.judge(f"{what}: {kind}", self.call(line(shape.path)), [shape])

    def to_descriptor(self):
        """/dev/fd/N, like /dev/stdout, is a link of /proc that names an open file, whatever its path."""
        path = os.path.join(self.folder, "opened.png")
        with open(path, "w+b") as file:
            os.remove(path)
            fd = file.fileno()
            done = subprocess.run([self.serried, "show", self.data, "-n", "2", "-o", f"/dev/fd/{fd}"], pass_fds=(fd,),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            head = file.read(8)
        stray = [name for name in os.listdir(self.folder) if name.startswith("opened")]
        self.report(done.returncode == 0 and not stray and b"PNG" in head, "show -o /dev/fd/N",
                    f"exit code {done.returncode}, {head}, {stray}\n{done.stderr[-500:]}")

    # -- run folders -----------------------------------------------------------------------------

    def begin_run(self):
        """Makes a run that was killed after step 3 of 4; checks that the table has all of its files."""
        self.half = os.path.join(self.folder, "half")
        done = self.call(self.train_line(self.half))
        files = sorted(os.listdir(self.half))
        unknown = [name for name in files if name not in RUN_FILES and not name.startswith(ASIDE)]
        missing = [name for name in RUN_FILES if name not in files]
        self.report(done.returncode == 0 and not unknown and not missing, "the table has all files of a run folder",
                    f"not in the table: {unknown}, not written: {missing}\n{done.stderr[-800:]}")
        os.remove(os.path.join(self.half, "exit.json"))
        shutil.rmtree(os.path.join(self.half, "checkpoints", "00000004"))

    def train_line(self, run):
        return [self.serried, "train", self.recipe, "-o", run, "data.train=" + self.data, *VALUES]

    def run_folder(self, kind):
        folder = self.new_folder()
        run = os.path.join(folder, "run")
        shutil.copytree(self.half, run, symlinks=True)
        shapes, written = [], []
        for name in (name for name, kinds in RUN_FILES.items() if kind in kinds):
            path, content = os.path.join(run, name), b"{}"
            if os.path.exists(path):
                with open(path, "rb") as file:
                    content = file.read()
            shapes.append(Shape(kind, path, os.path.join(folder, "aside"), content))
            if name not in UNTOUCHED or kind == "dangling":
                written.append(name)
        self.judge(f"files of a run folder: {kind}", self.call(self.train_line(run)), shapes, written)

    def rows(self, kind):
        """metrics.csv, from which plots are drawn if it is a file; a stream gets the header, too."""
        folder = self.new_folder()
        run = os.path.join(folder, "run")
        shutil.copytree(self.half, run, symlinks=True)
        shape = Shape(kind, os.path.join(run, "metrics.csv"), os.path.join(folder, "aside"))
        self.judge(f"metrics.csv: {kind}", self.call(self.train_line(run)), [shape])
        lines = shape.received.decode().splitlines()
        if kind == "fifo":
            self.report(len(lines) == 2 and lines[0].startswith("step,"), "metrics.csv: fifo: rows", str(lines))

    def linked_folders(self):
        """A run folder and a data set through dangling links; --fresh moves one of them aside."""
        folder = self.new_folder()
        link, far = os.path.join(folder, "run"), os.path.join(folder, "far")
        os.symlink("far", link)
        first = self.call(self.train_line(link))
        again = self.call([*self.train_line(link), "--fresh"])
        kept = [name for name in os.listdir(folder) if name.startswith("far.old-")]
        good = first.returncode == again.returncode == 0 and os.path.islink(link) and len(kept) == 1
        self.report(good and os.path.isfile(os.path.join(far, "exit.json")), "a run folder through a link",
                    f"exit codes {first.returncode} {again.returncode}, {os.listdir(folder)}\n"
                    f"{first.stderr[-500:]}{again.stderr[-500:]}")
        os.symlink("there", os.path.join(folder, "packed"))
        done = self.call([self.serried, "pack", self.pictures, os.path.join(folder, "packed")])
        self.report(done.returncode == 0 and os.path.isfile(os.path.join(folder, "there", "train-00000.kpl")),
                    "a data set through a link", done.stderr[-800:])

    def foreign(self):
        """Links that lead out of a run folder or a data set are not written through, whoever made them."""
        for name in ("metrics.csv", "log.txt", "run.lock", "samples/new.png", "checkpoints/00000004"):
            folder = self.new_folder()
            run, target = os.path.join(folder, "run"), os.path.join(folder, "outside")
            shutil.copytree(self.half, run, symlinks=True)
            path = os.path.join(run, name)
            if os.path.lexists(path):
                os.remove(path)
            os.symlink(os.path.relpath(target, os.path.dirname(path)), path)
            for line in (self.train_line(run), [self.serried, "train", self.recipe, "--resume", run, "data.train=" + self.data, *VALUES]):
                done = self.call(line, SERRIED_DATA_LINKS="")
                self.report(done.returncode == 2 and "leads out of the run folder" in done.stderr and name in done.stderr
                            and not os.path.lexists(target), f"{name}: a link out of the run folder",
                            f"exit code {done.returncode}, {os.listdir(folder)}\n{done.stderr[-800:]}")
            os.remove(path)
        folder = self.new_folder()
        packed, target = os.path.join(folder, "packed"), os.path.join(folder, "outside")
        os.mkdir(packed)
        os.symlink(target, os.path.join(packed, "train-00000.kpl"))
        done = self.call([self.serried, "pack", self.pictures, packed], SERRIED_DATA_LINKS="")
        self.report(done.returncode == 2 and "leads out of the data set" in done.stderr and not os.path.lexists(target),
                    "a link out of the folder to pack into", f"exit code {done.returncode}\n{done.stderr[-800:]}")

    # -- files that no argument names ------------------------------------------------------------

    def journal(self):
        """pack.txt of a pack that starts over."""
        for kind in ("link", "mode"):
            folder = self.new_folder()
            packed = os.path.join(folder, "packed")
            self.call([self.serried, "pack", self.pictures, packed])
            path = os.path.join(packed, "pack.txt")
            with open(path, "rb") as file:
                content = file.read().replace(b"state complete", b"state packing")
            shape = Shape(kind, path, os.path.join(folder, "aside"), content)
            self.judge(f"pack.txt: {kind}", self.call([self.serried, "pack", self.pictures, packed]), [shape])

    def sums(self):
        """root.sums, which is written when a KPLRecord directory without it is opened for the first time, but never
        through a link: the directory may be somebody else's."""
        packed = os.path.join(self.folder, "kpl")
        self.call([self.serried, "pack", self.pictures, packed, "--format", "kpl-dir"])
        folder = self.new_folder()
        shape = Shape("dangling", os.path.join(packed, "train", "root.sums"), os.path.join(folder, "aside"))
        done = self.call([self.serried, "stat", packed], SERRIED_CACHE=os.path.join(folder, "cache"))
        cached = [name for name in os.listdir(os.path.join(folder, "cache")) if name.startswith("sums-")]
        self.report(done.returncode == 0 and os.path.islink(shape.path) and not os.path.exists(shape.target)
                    and len(cached) == 1, "root.sums: dangling", f"{cached} {done.stderr[-800:]}")

    def chooser(self):
        """The chooser's cache; its mode is always 0600."""
        cache = os.path.join(self.folder, "cache")
        line = [self.serried, "bench", "step", "cifar10-fast", "--batch", "2", "--steps", "1", "--blocks", "1", "--no-peer"]
        self.call(line, SERRIED_CACHE=cache)
        names = [name for name in os.listdir(cache) if name.startswith("chooser-")]
        self.report(len(names) == 1, "the chooser writes its cache", str(os.listdir(cache)))
        for kind in (kind for kind in ("device", "fifo", "link", "dangling") if kind in self.kinds and names):
            folder = self.new_folder()
            shape = Shape(kind, os.path.join(cache, names[0]), os.path.join(folder, "aside"), b"no cache")
            self.judge(f"the chooser's cache: {kind}", self.call(line, SERRIED_CACHE=cache), [shape])


def check(folder):
    serried, recipe = os.path.abspath(sys.argv[1]), sys.argv[2]
    tests = Writers(serried, recipe, folder)
    tests.prepare(5)
    tests.pictures = os.path.join(folder, "pictures")
    picture = os.path.join(tests.pictures, "circle", "0000.jpg")
    tests.begin_run()
    tests.named("show -o", lambda path: [serried, "show", tests.data, "-n", "2", "-o", path])
    tests.to_descriptor()
    tests.named("predict --save-pixels", lambda path: [serried, "predict", "--save-pixels", path, tests.half, picture])
    bench = [serried, "bench", "step", recipe, "--steps", "1", "--blocks", "1", "--no-peer"]
    tests.named("bench step --trace", lambda path: [*bench, "--trace", path])
    tests.named("bench step --memory-picture", lambda path: [*bench, "--memory-picture", path])
    tests.named("render", lambda path: [serried, "render", os.path.dirname(os.path.dirname(path)), "--count", "1"],
                name="pictures/circle/0000.jpg")
    for kind in tests.kinds:
        tests.run_folder(kind)
        if kind in ("device", "fifo"):
            tests.rows(kind)
    tests.linked_folders()
    tests.foreign()
    tests.journal()
    tests.sums()
    tests.chooser()
    return tests


if __name__ == "__main__":
    suite.run(check)
