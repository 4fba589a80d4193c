# SPDX-License-Identifier: Apache-2.0
"""The table of faults: what is done to which process, on how many ranks, and the expected outcome.

A line for each pair of fault and kind of process. 'do(job, pid)' causes it; the outcome is one of
  ENDS_OR_GOES_ON  the job ends within its limit with one of the codes, or finishes
  NAMED_AND_ENDED  it is named on stderr in time, and the job ends with code 6
  NO_HARM          the job finishes as if undisturbed
  CHECKPOINTED     the job ends with code 75, or had finished
After each of them the job must leave nothing behind, and the same command must reach the undisturbed
digest. A new component that can fail in a new way adds its line here.
"""
import os
import signal
import time
from dataclasses import dataclass

ENDS_OR_GOES_ON, NAMED_AND_ENDED, NO_HARM, CHECKPOINTED = "ends or goes on", "named and ended", "no harm", "checkpointed"


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill(_, pid):
    send(pid, signal.SIGKILL)


def stop(_, pid):
    send(pid, signal.SIGSTOP)


def stop_for(seconds):
    def do(_, pid):
        send(pid, signal.SIGSTOP)
        time.sleep(seconds)
        send(pid, signal.SIGCONT)
    return do


def stop_all(seconds):
    def do(job, _):
        everybody = job.everybody()
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in everybody:
                send(pid, number)
            time.sleep(seconds if number == signal.SIGSTOP else 0)
    return do


def suspend(seconds):
    """Ctrl-Z and fg: the ranks are stopped in between, or wait if they have only just started."""
    def do(job, pid):
        send(pid, signal.SIGTSTP)
        time.sleep(seconds / 2)
        before = {rank: rank_time(rank) for rank in job.of_kind("rank")}
        time.sleep(seconds / 2)
        after = {rank: rank_time(rank) for rank in before}
        job.notes = [f"{rank} from {used} to {after[rank]} ticks" for rank, used in before.items()
                     if after[rank] is None or after[rank] > used + 1]
        send(pid, signal.SIGCONT)
    return do


def kill_suspended(_, pid):
    """The starter dies between Ctrl-Z and fg, while its ranks are stopped."""
    send(pid, signal.SIGTSTP)
    time.sleep(SHORT)
    send(pid, signal.SIGKILL)


def rank_time(pid):
    """CPU time of a process in ticks of 10 ms, its threads included; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    return sum(map(int, text[text.rindex(")") + 2:].split()[11:13]))


def ask(number):
    def do(_, pid):
        send(pid, number)
    return do


@dataclass
class Fault:
    name: str
    kind: str
    do: object
    outcome: str
    ranks: tuple = (1, 2, 3)
    codes: tuple = (0, 6)  # exit codes of a job that ends
    words: str = ""  # NAMED_AND_ENDED: what stderr must contain
    bare: bool = False        # under mpirun itself instead of `serried train -n`
    evaluating: bool = False  # with a split so large that the job spends most of its time evaluating


KINDS = ("reader", "transformer", "iterator")
# Long and short compared with deadline.act=2s, whose report is printed after 1 s.
LONG, SHORT = 3.0, 0.4

TABLE = [
    *[Fault(f"SIGKILL of the {kind}", kind, kill, ENDS_OR_GOES_ON, codes=(0,)) for kind in KINDS],
    Fault("SIGKILL of a rank", "rank", kill, ENDS_OR_GOES_ON, codes=(0, 6, -9)),
    Fault("SIGKILL of mpirun", "mpirun", kill, ENDS_OR_GOES_ON, ranks=(2, 3)),
    Fault("SIGKILL of the parent", "parent", kill, ENDS_OR_GOES_ON, ranks=(2, 3), codes=(0, -9)),
    Fault("SIGKILL of the parent in a Ctrl-Z", "parent", kill_suspended, ENDS_OR_GOES_ON, ranks=(2, 3), codes=(0, -9)),
    Fault("SIGKILL of the guard", "guard", kill, NO_HARM, ranks=(2,)),
    Fault("SIGKILL of a rank, bare mpirun", "rank", kill, ENDS_OR_GOES_ON, ranks=(2, 3), codes=(0, 137), bare=True),
    Fault("SIGKILL of mpirun, bare", "mpirun", kill, ENDS_OR_GOES_ON, ranks=(2, 3), codes=(0, -9), bare=True),
    *[Fault(f"long SIGSTOP of the {kind}", kind, stop, NAMED_AND_ENDED, words=f"{kind}", ranks=(1, 2))
      for kind in KINDS],
    Fault("long SIGSTOP of a rank", "rank", stop, NAMED_AND_ENDED, ranks=(2, 3), words="rank"),
    Fault("long SIGSTOP of a rank, bare mpirun", "rank", stop, NAMED_AND_ENDED, ranks=(2, 3), words="rank", bare=True),
    *[Fault(f"short SIGSTOP of the {kind}", kind, stop_for(SHORT), NO_HARM) for kind in (*KINDS, "rank")],
    Fault("long SIGSTOP of mpirun", "mpirun", stop_for(LONG), NO_HARM, ranks=(2,)),
    Fault("long SIGSTOP of the parent", "parent", stop_for(LONG), NO_HARM, ranks=(2,)),
    Fault("long SIGSTOP of everything", "parent", stop_all(LONG), NO_HARM),
    Fault("Ctrl-Z and fg", "parent", suspend(LONG), NO_HARM, ranks=(2, 3)),
    *[Fault(f"{name} to the parent", "parent", ask(number), CHECKPOINTED)
      for name, number in (("SIGINT", signal.SIGINT), ("SIGTERM", signal.SIGTERM), ("SIGUSR1", signal.SIGUSR1))],
    Fault("SIGHUP to the parent", "parent", ask(signal.SIGHUP), CHECKPOINTED, ranks=(2,)),
    Fault("SIGUSR1 to the parent in an evaluation", "parent", ask(signal.SIGUSR1), CHECKPOINTED, ranks=(1, 2),
          evaluating=True),
    Fault("SIGUSR1 to a rank in an evaluation", "rank", ask(signal.SIGUSR1), CHECKPOINTED, ranks=(2,), evaluating=True),
    Fault("SIGUSR1 to a rank", "rank", ask(signal.SIGUSR1), CHECKPOINTED),
    Fault("SIGTERM to a rank", "rank", ask(signal.SIGTERM), CHECKPOINTED),
    Fault("SIGUSR1 to mpirun", "mpirun", ask(signal.SIGUSR1), CHECKPOINTED, ranks=(2, 3), bare=True),
]
