#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `serried train -n N` prints when it cannot run: one message that names the cause, the documented exit code, no
processes and no files in /dev/shm left. Errors in recipes and paths on one and on two ranks; jobs that are stopped,
killed or in conflict with each other on two.

  check_messages.py SERRIED RECIPE
"""
import os
import shutil
import signal
import subprocess
import sys
import time

import suite

TINY = 300 << 10  # bytes of the file system, too few for a run


class Messages(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def line(self, recipe, ranks, run, values=()):
        return [self.serried, "train", recipe, "-n", str(ranks), "-o", run, "data.train=" + self.data, *values]

    def judge(self, what, pid, code, errors, want, words, quiet=False):
        """The only message in the text contains the words; 'quiet': it is not accompanied by a warning."""
        lines = [line for line in errors.splitlines()
                 if "error:" in line or line.startswith("serried") or quiet and "warning:" in line and
                 not any(words in line for words in ("running as root", " share ", "batch norm has the statistics of 8"))]
        left = [name for name in os.listdir("/dev/shm") if name.startswith(f"serried-{os.geteuid()}-{pid}-")]
        good = code == want and len(lines) == 1 and words in lines[0] and not left
        self.report(good, what, f"exit code {code}, {len(lines)} messages, '{words}' expected, left {left}:\n"
                                f"{errors[-2000:]}")

    def expect(self, what, line, want, words, quiet=True, **more):
        job = subprocess.Popen(line, env=suite.environment(**more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)
        try:
            _, errors = job.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            job.kill()
            _, errors = job.communicate()
            errors += "\nhangs"
        self.judge(what, job.pid, job.returncode, errors, want, words, quiet)

    # -- recipes and paths ------------------------------------------------------------------------

    def recipes(self, ranks):
        base = f"base: {self.recipe}\n"
        for what, recipe, values, words in [
                ("unknown recipe", "cifar10-fsat", [], "did you mean 'cifar10-fast'?"),
                ("no such file", self.path("none.yaml"), [], "no such recipe file"),
                ("a folder as recipe", self.folder, [], "Is a directory"),
                ("syntax", self.path("syntax.yaml", base + "batch: [64\nlanes: 8\n"), [],
                 "syntax.yaml:4:1: error: flow sequence without a closing bracket"),
                ("tab", self.path("tab.yaml", base + "eval:\n\tresize: 32\n"), [],
                 "tab.yaml:3:1: error: this line is indented with a tab"),
                ("unknown model", self.path("model.yaml", base + "model: tyny\n"), [],
                 "model.yaml:2:8: error: unknown model 'tyny'; did you mean 'tiny'?"),
                ("unknown optimizer before its rate", self.recipe, ["optimizer=adamant"],
                 "unknown optimizer 'adamant'; available: sgd, adam, "),
                ("no rate", self.recipe, ["optimizer.lr=~"], "'optimizer.lr' is missing: there is no good default"),
                ("rate of nothing", self.recipe, ["optimizer.lr=0"], "'optimizer.lr' is 0, so nothing would be learned"),
                ("unset variable", self.recipe, ["batch="], "'batch' has no value; 'batch=~' removes"),
                ("range", self.path("range.yaml", base + "batch: -3\n"), [],
                 "range.yaml:2:8: error: batch: must be 1 to"),
                ("range, by value", self.recipe, ["optimizer.momentum=7"], "must be 0 to 0.9999, got '7'"),
                ("more ranks than lanes", self.recipe, ["lanes=1"] if ranks == 2 else ["lanes=0"],
                 "2 ranks need at least 2 lanes" if ranks == 2 else "lanes: must be")]:
            self.expect(f"{what}, {ranks} ranks", self.line(recipe, ranks, self.path("run"), values), 2, words)

    def places(self, ranks):
        file = self.path("file", "no folder")
        self.expect(f"output is a file, {ranks} ranks", self.line(self.recipe, ranks, file), 2,
                    "is not a run folder of serried")
        self.expect(f"output cannot be made, {ranks} ranks", self.line(self.recipe, ranks, "/sys/serried-run"), 1,
                    "/sys/serried-run: cannot make the folder")
        cut = self.path(f"cut{ranks}")
        shutil.copytree(self.data, cut)
        os.remove(os.path.join(cut, "train-00000.kpl"))
        line = self.line(self.recipe, ranks, self.path("run"), ["data.train=" + cut])
        self.expect(f"no train shards, {ranks} ranks", line, 2, "has no split 'train'")

    def mounts(self, ranks):
        """Read-only and full file systems, in a private mount namespace."""
        place = self.path("mount")
        os.makedirs(place, exist_ok=True)
        inside = ["unshare", "-m", *([] if os.geteuid() == 0 else ["-r"]), "sh", "-c"]
        options = f"size={TINY}"
        if subprocess.run([*inside, f"mount -t tmpfs -o {options} tmpfs {place}"], capture_output=True,
                          check=False).returncode != 0:
            suite.not_run(f"read-only and full file systems, {ranks} ranks: this user may not mount")
            return
        line = self.line(self.recipe, ranks, os.path.join(place, "run"))
        for what, mount, words in [("read-only", "ro," + options, "Read-only file system"),
                                   ("full", options, "disk full")]:
            # The previous checkpoint stays complete: the same command would continue from it.
            after = f'; code=$?; ls {place}/run/checkpoints >&2; exit $code' if what == "full" else ""
            script = f"mount -t tmpfs -o {mount} tmpfs {place} && \"$@\"{after}"
            self.expect(f"{what} file system, {ranks} ranks", [*inside, script, "sh", *line], 1, words, quiet=False)

    def late_writer(self):
        """The disk is full for rank 0 while rank 1, slowed down, still writes its shard: one cause, one code."""
        place = self.path("mount")
        inside = ["unshare", "-m", *([] if os.geteuid() == 0 else ["-r"]), "sh", "-c"]
        slow = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e",
                "inject=fsync:delay_enter=300000"]
        for tool in ([*inside, f"mount -t tmpfs tmpfs {place}"], [*slow, "true"]):
            if subprocess.run(tool, capture_output=True, check=False).returncode != 0:
                suite.not_run("full file system, a late rank: this user may not mount or trace")
                return
        one = ["-np", "1"]
        line = self.line(self.recipe, 2, os.path.join(place, "run"))
        job = ["mpirun", "--oversubscribe", "--bind-to", "none", "--quiet", *one, *line, ":", *one, *slow, *line]
        script = (f'mount -t tmpfs -o size={TINY + (44 << 10)} tmpfs {place} && "$@"; code=$?; '
                  f'grep -h "No such file" {place}/run/log/* >&2 && exit 99; exit $code')
        self.expect("full file system, a late rank", [*inside, script, "sh", *job], 1, "disk full", quiet=False)

    def starting(self):
        for ranks in ("0", "x", "70000"):
            self.expect(f"-n {ranks}", self.line(self.recipe, ranks, self.path("run")), 2, "-n: ")
        self.expect("no mpirun", self.line(self.recipe, 2, self.path("run")), 1,
                    "mpirun was not found in PATH (/nowhere); install Open MPI", PATH="/nowhere")

    # -- jobs -------------------------------------------------------------------------------------

    def start(self, name):
        """Starts a long job of two ranks, and returns its process, its file of messages and its ranks once it trains."""
        out = open(self.path(name + ".err"), "w+", encoding="utf-8")
        run = self.path(name)
        job = subprocess.Popen(self.line(self.recipe, 2, run, ["steps=100000"]), env=suite.environment(),
                               stdout=subprocess.DEVNULL, stderr=out)
        end = time.monotonic() + 60
        while time.monotonic() < end and job.poll() is None and not os.path.exists(os.path.join(run, "last")):
            time.sleep(0.01)
        ranks = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if run.encode() in words and any(v.startswith(b"OMPI_COMM_WORLD_RANK=") for v in variables):
                ranks.append(int(pid))
        return job, out, sorted(ranks)

    def ended(self, job, out):
        try:
            code = job.wait(timeout=60)
        except subprocess.TimeoutExpired:
            job.kill()
            code = "hangs"
        out.seek(0)
        with out:
            return code, out.read()

    def second_job(self):
        job, out, _ = self.start("busy")
        for ranks in (1, 2):
            self.expect(f"a second job in its folder, {ranks} ranks",
                        self.line(self.recipe, ranks, self.path("busy"), ["steps=100000"]), 2,
                        "another job is writing to this run folder")
        job.send_signal(signal.SIGTERM)
        code, errors = self.ended(job, out)
        self.report(code == 75 and "stopped at step" in errors, "the first one continues, and stops at SIGTERM",
                    f"exit code {code}:\n{errors[-1500:]}")

    def killed(self):
        for which in (0, 1):
            job, out, ranks = self.start(f"killed{which}")
            os.kill(ranks[which], signal.SIGKILL)
            code, errors = self.ended(job, out)
            self.judge(f"killed rank {which} of 2", job.pid, code, errors, 6,
                       "was killed by signal 9 (Killed); run the same command again")

    def twice(self):
        """A rank that no longer responds: the first signal requests a stop, the second one ends it."""
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            job, out, ranks = self.start(f"twice{number}")
            os.kill(ranks[1], signal.SIGSTOP)
            for words in ("stopping: the ranks write a checkpoint", "ending at once, without a checkpoint"):
                job.send_signal(number)
                end = time.monotonic() + 20
                while time.monotonic() < end and words not in open(out.name, encoding="utf-8").read():
                    time.sleep(0.01)
            got, errors = self.ended(job, out)
            end = time.monotonic() + 10  # mpirun kills and does not wait
            while time.monotonic() < end and any(os.path.exists(f"/proc/{pid}") for pid in ranks):
                time.sleep(0.01)
            alive = [pid for pid in ranks if os.path.exists(f"/proc/{pid}")]
            self.report(got == code and not alive and "error:" not in errors, f"{number.name} twice",
                        f"exit code {got}, alive {alive}:\n{errors[-1500:]}")


def check(folder):
    serried, recipe = (os.path.abspath(path) for path in sys.argv[1:3])
    tests = Messages(serried, recipe, folder)
    tests.prepare(10)
    for ranks in (1, 2):
        tests.recipes(ranks)
        tests.places(ranks)
        tests.mounts(ranks)
    tests.late_writer()
    tests.starting()
    tests.second_job()
    tests.killed()
    tests.twice()
    return tests


if __name__ == "__main__":
    suite.run(check)
