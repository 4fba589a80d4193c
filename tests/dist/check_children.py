#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that a rank starts: those that draw may die in any way, and those of another build are refused.

    check_children.py SERRIED RECIPE

The library is replaced by a copy whose build ID is another, and the module that draws by one that ends its process.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import suite

# In place of serried-plots.so: what happens when it is opened.
MODULE = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void start(void) {
    const char *how = getenv("HOW");
    fputs("creating thread 'pool': not available\\n", stderr);
    if (*how == 'a') abort();
    if (*how == 't') raise(SIGTRAP);
    if (*how == 's') *(int *)8 = 0;
    if (*how == 'e') _exit(3);
    if (*how == 'k') raise(SIGKILL);
    if (*how == 'h') for (;;) pause();
}
"""


def children(of, title):
    """Process numbers of the children of a process whose command line begins with 'title'."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{process}/cmdline", encoding="utf-8", errors="replace") as file:
                line = file.read()
        except OSError:
            continue
        if parent == of and line.startswith(title):
            found.append(int(process))
    return found


def lives(process):
    """A dead process whose new parent has not looked yet does not count."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Children(suite.Suite):
    def __init__(self, serried, recipe, folder):
        super().__init__(serried, folder)
        self.recipe = recipe
        self.library = os.path.join(folder, "library")
        os.makedirs(self.library)
        build = os.path.dirname(serried)
        names = [name for name in os.listdir(build) if name.startswith("libserried.so.")]
        for name in names:
            shutil.copy(os.path.join(build, name), os.path.join(self.library, name))  # not as links
        self.names = names

    def start(self, name, *values, how=None):
        line = [self.serried, "train", self.recipe, f"data.train={self.data}", "-o", os.path.join(self.folder, name),
                "checkpoint.every=10it", *values]
        before = os.environ.get("LD_LIBRARY_PATH")
        own = suite.environment(LD_LIBRARY_PATH=self.library + (":" + before if before else ""), HOW=how or "")
        return subprocess.Popen(line, env=own, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def end(self, process):
        try:
            return process.communicate(timeout=100 * suite.SLOW)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[1]

    def wait_for(self, process, condition):
        end = time.monotonic() + 60 * suite.SLOW
        while process.poll() is None and time.monotonic() < end and not condition():
            time.sleep(0.02)
        return condition()

    def make_module(self):
        source = os.path.join(self.folder, "module.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(MODULE)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", os.path.join(self.library, "serried-plots.so"),
                        source], check=True)

    def drawing_dies(self):
        """Whatever ends the process that draws, the run goes on to its end, and says so."""
        self.make_module()
        for how, words in (("abort", "signal 6"), ("segv", "signal 11"), ("exit", ""), ("kill", "signal 9")):
            process = self.start("dies-" + how, "steps=4", how=how)
            errors = self.end(process)
            told = [line for line in errors.splitlines() if "results.png was not drawn" in line]
            good = len(told) == 1 and words in told[0] and "creating thread 'pool': not available" in told[0]
            left = [name for _, _, files in os.walk(os.path.join(self.folder, "dies-" + how)) for name in files
                    if ".tmp-" in name or name.startswith("core")]
            self.report(process.returncode == 0 and good and not left, f"drawing ends by {how}",
                        f"{process.returncode} {left}\n{errors[-1200:]}")

    def sheet_dies(self):
        """`show` writes its picture in any case, and says where it has another font."""
        before = os.environ.get("LD_LIBRARY_PATH")
        own = {"LD_LIBRARY_PATH": self.library + (":" + before if before else "")}
        for how, words in (("abort", "signal 6"), ("trap", "signal 5"), ("segv", "signal 11"), ("exit", "creating thread"),
                           ("kill", "signal 9")):
            path = os.path.join(self.folder, f"sheet-{how}.png")
            done = subprocess.run([self.serried, "show", self.data, "-n", "4", "-o", path], text=True, capture_output=True,
                                  env=suite.environment(HOW=how, **own), timeout=100 * suite.SLOW, check=False)
            told = [line for line in done.stderr.splitlines() if "warning: " in line]
            good = len(told) == 2 and "was not drawn" in told[0] and words in told[0] and "plain font" in told[1]
            with open(path, "rb") as file:
                content = file.read()
            self.report(done.returncode == 0 and good and content.endswith(b"IEND\xaeB`\x82") and path in done.stdout,
                        f"show, drawing ends by {how}", f"{done.returncode} {len(content)}\n{done.stderr[-1200:]}")

    def drawing_hangs(self):
        """A run does not wait for a picture between steps, and not for long at its end; a picture ends with its run."""
        for kill in (False, True):
            process = self.start(f"hangs-{kill}", "steps=1000000", how="hang")
            last = os.path.join(self.folder, f"hangs-{kill}", "last")
            ready = self.wait_for(process, lambda: os.path.exists(last) and children(process.pid, "serried-draw"))
            drawing = children(process.pid, "serried-draw")
            begin = time.monotonic()
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            errors = self.end(process)
            seconds = time.monotonic() - begin
            time.sleep(0.3)
            left = [pid for pid in drawing if lives(pid)]
            said = kill or "the run does not wait longer than 10 s for its pictures" in errors
            self.report(ready and len(drawing) == 1 and process.returncode == (-9 if kill else 75) and said and not left,
                        f"drawing hangs, {'killed' if kill else 'stopped'}",
                        f"{process.returncode} {seconds:.1f} s, {drawing} {left}\n{errors[-800:]}")
        os.remove(os.path.join(self.library, "serried-plots.so"))

    def replaced(self):
        """A data process of another build than its rank is refused."""
        process = self.start("replaced", "steps=1000000", "data.workers=1")
        self.wait_for(process, lambda: os.path.exists(os.path.join(self.folder, "replaced", "last")))
        for name in self.names:
            path = os.path.join(self.library, name)
            with open(path, "rb") as file:
                content = bytearray(file.read())
            at = content.index(b"GNU\0", content.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")) + 4
            content[at] ^= 1  # of its build ID
            with open(path + ".new", "wb") as file:
                file.write(content)
            os.chmod(path + ".new", 0o755)
            os.rename(path + ".new", path)
        for pid in children(process.pid, "serried-data"):
            with contextlib.suppress(ProcessLookupError):  # one may end because the other has
                os.kill(pid, signal.SIGKILL)
        errors = self.end(process)
        self.report(process.returncode == 4 and "serried was replaced by another build" in errors and
                    "libserried.so" in errors, "library replaced", f"{process.returncode}\n{errors[-800:]}")
        process = self.start("replaced", "steps=1000000")
        last = os.path.join(self.folder, "replaced", "last")
        before = os.readlink(last)
        self.wait_for(process, lambda: os.readlink(last) != before)
        process.send_signal(signal.SIGTERM)
        errors = self.end(process)
        self.report(process.returncode == 75, "resumed with the new build", f"{process.returncode}\n{errors[-800:]}")


def check(folder):
    serried, recipe = (os.path.abspath(path) for path in sys.argv[1:3])
    tests = Children(serried, recipe, folder)
    tests.prepare(10)
    tests.drawing_dies()
    tests.sheet_dies()
    tests.drawing_hangs()
    tests.replaced()
    return tests


if __name__ == "__main__":
    suite.run(check)
