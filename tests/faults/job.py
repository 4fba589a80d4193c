# SPDX-License-Identifier: Apache-2.0
"""A job under test: its processes by kind, the files it leaves behind, and how it ended."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid

MARK = "SERRIED_FAULT_JOB"  # in the environment of every process of a job, whatever its parent is now


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes(token):
    """{pid: (kind, state)} of all living processes of a job."""
    found = {}
    wanted = f"{MARK}={token}".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or wanted not in read(f"/proc/{name}/environ").split(b"\0"):
            continue
        stat = read(f"/proc/{name}/stat").decode(errors="replace")
        if ")" not in stat:
            continue
        comm, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
        if rest[0] not in "ZX":
            found[int(name)] = (comm.split(" ")[0], rest[0])
    return found


def result_of(run):
    """Digest and metrics of a run folder whose run is finished, else None."""
    try:
        with open(os.path.join(run, "exit.json"), encoding="utf-8") as file:
            parsed = json.load(file)
    except (OSError, ValueError):
        return None
    return (parsed["digest"], parsed["metrics"]) if parsed["status"] == "finished" else None


class Job:
    """One command with its output and all its processes. It has its own folder for temporary files."""

    def __init__(self, line, environment):
        self.token = uuid.uuid4().hex
        # With "-n 2" it starts mpirun; alone it is the rank itself.
        self.starts_ranks = "-n" in line and line[line.index("-n") + 1] != "1"
        self.temporary = tempfile.TemporaryDirectory(prefix="fault-")
        surroundings = dict(environment, **{MARK: self.token, "TMPDIR": self.temporary.name})
        self.process = subprocess.Popen(line, env=surroundings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.begin = time.monotonic()
        self.out, self.err, self.err_times = [], [], []
        self.readers = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            lines.append(line)
            if lines is self.err:
                self.err_times.append(time.monotonic())

    def of_kind(self, kind):
        """Pids of 'parent', 'guard', 'mpirun', 'rank', 'reader', 'iterator', 'transformer', in order."""
        if kind == "parent":
            return [self.process.pid] if self.process.poll() is None else []
        found = processes(self.token)
        if kind == "rank":
            return sorted(pid for pid, (name, _) in found.items()
                          if name == "serried" and not (self.starts_ranks and pid == self.process.pid))
        names = {"mpirun": ("mpirun", "orterun"), "guard": ("serried-guard",)}.get(kind, (kind,))
        return sorted(pid for pid, (name, _) in found.items() if name in names)

    def await_kind(self, kind, limit=20):
        """The same, as soon as there is one; [] if the job ends first."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            pids = self.of_kind(kind)
            if pids or self.process.poll() is not None:
                return pids
            time.sleep(0.002)
        return []

    def everybody(self):
        return sorted(processes(self.token))

    def wait(self, limit):
        """Exit code, or None if it is still running."""
        try:
            return self.process.wait(timeout=max(0.0, limit))
        except subprocess.TimeoutExpired:
            return None

    def wait_gone(self, limit):
        """Waits for all processes of the job; returns the seconds that it took, or None."""
        begin = time.monotonic()
        while time.monotonic() - begin < limit:
            if not processes(self.token):
                return time.monotonic() - begin
            time.sleep(0.02)
        return None

    def left(self):
        """What a job that has ended should have cleaned up: processes and files (except Open MPI's own)."""
        folders = [name for name in os.listdir("/dev/shm") if name.startswith(f"serried-{os.geteuid()}-{self.process.pid}-")]
        files = [name for name in os.listdir(self.temporary.name) if not name.startswith("ompi.")]
        return [f"process {pid} {what}" for pid, what in processes(self.token).items()] + folders + files

    def text(self):
        for reader in self.readers:
            reader.join(timeout=2)
        return "".join(self.err)

    def was_unborn(self, code):
        """Whether a signal ended it before the program's first line, where no handler can be installed."""
        return code in (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGUSR1) and not self.text()

    def had_unborn_rank(self, code):
        """The same for a rank under bare mpirun, which returns 128 and the signal's number."""
        return code in (128 + signal.SIGTERM, 128 + signal.SIGUSR1) and "run folder" not in self.text()

    def first_line(self, word):
        """Seconds from the job's start to the first line on stderr with this word; None if there is none."""
        for line, when in zip(list(self.err), list(self.err_times)):
            if word in line:
                return when - self.begin
        return None

    def portrait(self):
        """What every process of a hanging job is waiting for; the stacks of its threads if gdb is installed."""
        report = []
        for pid, (name, state) in sorted(processes(self.token).items()):
            report.append(f"-- {pid} {name} {state}, in {read(f'/proc/{pid}/wchan').decode(errors='replace')}")
            if shutil.which("gdb") and state not in "Tt":
                report.append(subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 12"],
                                           capture_output=True, text=True, check=False).stdout)
        return "\n".join(report)

    def end(self):
        for pid in self.everybody():
            for number in (signal.SIGCONT, signal.SIGKILL):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
        self.process.wait()
