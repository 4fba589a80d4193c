#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of the pages in docs/ as printed, with an installed serried.

check_pages.py BUILD SOURCE [--slurm] [PAGE...]

Each page runs in its own folder, in a home where ~/serried is the source tree. Its sh blocks form one bash script; a
text block after one contains lines that must occur in its output in this order ("..." matches anything). A c block
after <!-- FILE --> must be in that file. Blocks marked `sh slurm` run only with --slurm, on a Slurm of one node that
the test starts; those marked `sh torch` run where python3 has PyTorch; those marked `sh whole` and `sh download` are run by
check_quickstart.py and check_convert.py. --selftest checks that wrong pages are detected.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

PAGES = ["index", "README", "own-data", "kplrecord", "recipes", "runs", "pictures", "fine-tuning", "from-pytorch", "augmentation",
         "own-model", "own-task", "segmentation", "inference", "own-loop", "cluster", "inspect", "performance"]
LIMIT = 160  # seconds for one page, beside another one
MARKED = {"sh slurm": "Slurm", "sh torch": "PyTorch",  # blocks that not every machine can run
          "sh download": "the network", "sh whole": "check_quickstart.py", "python": "a fragment of a program"}
BLOCK = re.compile(r"(?:^<!-- (?P<file>\S+) -->\n)?^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)


class Page:
    """A page as steps: [script, lines expected of its output]."""

    def __init__(self, path, source, runs):
        """runs: the kinds of blocks other than sh that run here, such as "sh slurm"."""
        self.name = os.path.basename(path)
        self.steps, self.findings, self.left_out = [], [], []
        with open(path, encoding="utf-8") as file:
            text = file.read()
        ran = False
        for block in BLOCK.finditer(text):
            kind, content = block["kind"], block["text"]
            if kind == "sh" or kind in runs:
                self.steps.append([content, []])
                ran = True
            elif kind in MARKED:
                self.left_out.append(kind)
                ran = False
            elif kind == "text" and ran:
                self.steps[-1][1] += content.splitlines()
            elif kind == "c":
                self.quote(source, block["file"], content)
            elif kind != "text":
                self.findings.append(f"a block of an unknown kind: '{kind}'")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            if not os.path.exists(os.path.join(os.path.dirname(path), target)):
                self.findings.append(f"a link to {target}, which does not exist")

    def quote(self, source, name, content):
        try:
            with open(os.path.join(source, name or ""), encoding="utf-8") as file:
                if content not in file.read():
                    self.findings.append(f"{name} does not have these lines:\n{content}")
        except OSError as error:
            self.findings.append(f"a c block without its file: {error}")

    def script(self, folder):
        lines = ["set -euo pipefail"]
        for number, (text, _) in enumerate(self.steps):
            lines += [f"exec >'{folder}/out.{number}' 2>&1", text]
        return "\n".join(lines) + f"\necho >'{folder}/whole'\n"

    def run(self, folder, environment):
        os.mkdir(folder, 0o755)
        shell = subprocess.Popen(["bash", "-c", self.script(folder)], cwd=folder, env=environment,
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = shell.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            code = f"none after {LIMIT} s"
        for number, (text, expected) in enumerate(self.steps):
            path = os.path.join(folder, f"out.{number}")
            if not os.path.exists(path):
                break
            with open(path, encoding="utf-8", errors="replace") as file:
                output = file.read()
            missing = first_missing(output, expected)
            last = not os.path.exists(os.path.join(folder, f"out.{number + 1}"))
            if last and not os.path.exists(os.path.join(folder, "whole")):
                self.findings.append(f"exit code {code} from\n{text}which said\n{output[-2000:]}")
            elif missing:
                self.findings.append(f"'{missing}' is not in what\n{text}said:\n{output[-2000:]}")


def first_missing(output, expected):
    """The first of the expected lines that does not occur, in order, in the output."""
    lines = iter(output.splitlines())
    for line in expected:
        pattern = re.compile(r"\s*" + ".*".join(re.escape(part.strip()) for part in line.split("...")) + r".*")
        if not any(pattern.fullmatch(candidate) for candidate in lines):
            return line
    return None


class Slurm:
    """munged, slurmctld and slurmd for this machine only; stopped by their process ids."""

    CONFIGURATION = """ClusterName=pages
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES State=UP OverSubscribe=FORCE:4
"""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    @staticmethod
    def missing():
        """The reason why it cannot be started here, or None."""
        for tool in ("munged", "slurmctld", "slurmd", "srun", "sbatch"):
            if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin"):
                return f"{tool} is not installed (Debian: slurm-wlm, munge)"
        if os.geteuid() != 0:
            return "slurmd needs root"
        if (os.cpu_count() or 1) < 2:
            return "two tasks need two processors"
        return None

    def start(self, environment):
        os.mkdir(self.folder, 0o755)
        for name in ("state", "spool"):
            os.mkdir(os.path.join(self.folder, name), 0o755)
        key = os.path.join(self.folder, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(1024))
        path = os.path.join(self.folder, "slurm.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.CONFIGURATION.format(host=socket.gethostname().split(".")[0], folder=self.folder,
                                                 user="root", controller=free_port(), daemon=free_port()))
        with open(os.path.join(self.folder, "cgroup.conf"), "w", encoding="utf-8") as file:
            file.write("CgroupPlugin=cgroup/v1\n")  # none is used; finding out which there are needs them mounted
        environment["SLURM_CONF"] = path
        self.spawn("munged", environment, "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                   f"--key-file={key}", f"--pid-file={self.folder}/munged.pid",
                   f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed")
        wait_for(lambda: os.path.exists(f"{self.folder}/munge.socket"), "munged's socket")
        self.spawn("slurmctld", environment, "-D", "-c")
        self.spawn("slurmd", environment, "-D", "-c")
        wait_for(lambda: "idle" in subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True,
                                                  check=False, env=environment).stdout, "idle node")

    def spawn(self, tool, environment, *arguments):
        path = shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin")
        with open(f"{self.folder}/{tool}.txt", "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen([path, *arguments], env=environment, stdin=subprocess.DEVNULL,
                                                   stdout=log, stderr=subprocess.STDOUT))

    def stop(self, environment):
        subprocess.run(["scancel", "--full", "--user=root"], env=environment, capture_output=True, check=False)
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def python_with_torch():
    """A python3 that can load a PyTorch file without executing it, or None."""
    for python in filter(None, (shutil.which("python3"), "/usr/bin/python3")):
        if os.path.exists(python) and subprocess.run(
                [python, "-c", "import inspect, torch; assert 'weights_only' in inspect.signature(torch.load).parameters"],
                capture_output=True, check=False).returncode == 0:
            return python
    return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, what):
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within 20 s")
        time.sleep(0.1)


def home_of(folder, build, source, python):
    """A home with ~/serried, and the environment of a user who has installed serried there and uses that python."""
    tree = os.path.join(folder, "serried")
    os.makedirs(os.path.join(tree, "build"))
    for name in os.listdir(source):
        if name not in ("build", ".git"):
            os.symlink(os.path.join(source, name), os.path.join(tree, name))
    os.symlink(build, os.path.join(tree, "build", "release"))
    local = os.path.join(folder, ".local")
    if python:
        os.makedirs(os.path.join(local, "bin"))
        os.symlink(python, os.path.join(local, "bin", "python3"))
    return dict(os.environ, HOME=folder, PATH=f"{local}/bin:{os.environ['PATH']}",
                LD_LIBRARY_PATH=f"{local}/lib", PKG_CONFIG_PATH=f"{local}/lib/pkgconfig",
                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_rmaps_base_oversubscribe="1", SERRIED_THREADS="1")


def selftest():
    """Pages with one error each."""
    wrong = {"```sh\nfalse\n```": "exit code 1", "```sh\necho a b\n```\n\n```text\na c\n```": "'a c' is not in",
             "```sh\necho a; echo b\n```\n```text\nb\na\n```": "'a' is not in", "```zsh\n```": "unknown kind",
             "<!-- VERSION -->\n```c\nnot there\n```": "does not have", "```c\nx\n```": "without its file",
             "[x](no-page.md)": "does not exist", "```sh\necho a\n```\n```sh\necho b; exit 3\n```": "exit code 3"}
    right = "```sh\necho a b c; echo d; cd /; x=1\n```\n\n```text\na ... c\nd\n```\n```sh\necho $x $PWD\n```\n```text\n1 /\n```"
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (text, finding) in enumerate([*wrong.items(), (right, None)]):
            path = os.path.join(folder, f"page{number}.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            page = Page(path, source, [])
            page.run(os.path.join(folder, f"run{number}"), dict(os.environ))
            good = any(finding in line for line in page.findings) if finding else not page.findings
            failures += not good
            if not good:
                print(f"{text!r}: {page.findings}, expected {finding!r}")
    print(f"{len(wrong) + 1} cases, {failures} failures")
    return 1 if failures else 0


def check_page(name, source, runs, folder, environment):
    """Runs a page and prints its findings; returns whether there are any."""
    begin = time.monotonic()
    page = Page(os.path.join(source, "" if name == "README" else "docs", name + ".md"), source, runs)
    page.run(os.path.join(folder, name), environment)
    left_out = "".join(f", {page.left_out.count(kind)} for {what} left out" for kind, what in MARKED.items()
                       if kind in page.left_out)
    lines = [f"{page.name}: {len(page.steps)} blocks{left_out}, {len(page.findings)} findings, "
             f"{time.monotonic() - begin:.0f} s", *page.findings]
    text = "\n  ".join(lines) + "\n"
    if "sh torch" in page.left_out:
        text = f"NOT RUN: a block of {page.name}: python3 has no PyTorch 1.13 or newer\n" + text
    print(text, end="", flush=True)
    return bool(page.findings)


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if "--selftest" in sys.argv:
        return selftest()
    build, source = (os.path.abspath(a) for a in arguments[:2])
    slurm = "--slurm" in sys.argv
    python = python_with_torch()
    runs = [kind for kind, can in (("sh slurm", slurm), ("sh torch", python)) if can]
    names = PAGES[:1] + (arguments[2:] or (["cluster"] if slurm else PAGES[1:])) # the first one installs
    reason = Slurm.missing() if slurm else None
    if reason or shutil.which("mpirun") is None:
        print(f"NOT RUN: {reason or 'mpirun is not installed'}")
        return 77
    with tempfile.TemporaryDirectory(prefix="serried-pages-") as folder:
        environment = home_of(os.path.join(folder, "home"), build, source, python)
        cluster = Slurm(os.path.join(folder, "slurm"))
        try:
            if slurm:
                cluster.start(environment)
                listed = subprocess.run(["srun", "--mpi=list"], env=environment, capture_output=True, text=True,
                                        check=False)
                if "pmix" not in listed.stdout + listed.stderr:
                    print("NOT RUN: this Slurm has no pmix")
                    return 77
            def check(name):
                return check_page(name, source, runs, folder, environment)

            failed = check(names[0])
            with ThreadPoolExecutor(1 if slurm else 2) as pool:
                failed += sum(pool.map(check, names[1:]))
        finally:
            cluster.stop(environment) if slurm else None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
