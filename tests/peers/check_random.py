# SPDX-License-Identifier: Apache-2.0
"""check_random.py BUILD: random operators and networks of serried, compared with PyTorch in f64.

    --seed N        seed of all draws (default: SERRIED_TEST_SEED, else a new one; printed)
    --cases N       number of cases of single operators (default 2,000)
    --networks N    number of networks (default 200)
    --only KIND     only operator cases of this kind, e.g. conv2d; no networks
    --case N        one operator case (with --only if that was given); no networks
    --network N     one network; no operator cases
    --each N        instead: N cases of each kind in each type, in every way
    --one NUMBER    one of these
    --on WAY        one of the ways to compute below
    --jobs N        processes (default: one for each processor)
    --table         only: every operator of serried is compared, or there is a reason why not
    --selftest      only: a wrong result is reported, for 40 cases (one element by 5 %) and 10
                    networks (one tensor by a factor of two), and so is a process that dies

Each case is computed in every way of WAYS: all providers together, each alone, and without AVX-512. The
error of each result against PyTorch's f64 is at most 4 times (where Winograd's filtering applies, 8
times) PyTorch's own error in the same dtype, or a few roundings (random_compare.py). Exits with 77 if
PyTorch is missing, with 1 if a case fails, and prints how to repeat it.
"""
import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import random
import subprocess
import sys
import time

import random_table

WAYS = {
    "default": {},
    "reference": {"SERRIED_PROVIDERS": "reference"},
    "x86": {"SERRIED_PROVIDERS": "reference,x86"},
    "onednn": {"SERRIED_PROVIDERS": "reference,onednn"},
    "avx2": {"SERRIED_CPU_MASK": "avx512"},
}
REPORTED = 30  # failures that are shown in full; others take one line
NEAREST = 12  # number of results nearest to their limit in the summary
worker = None  # of this process


def options():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--seed", type=int)
    p.add_argument("--cases", type=int, default=2000)
    p.add_argument("--networks", type=int, default=200)
    p.add_argument("--only")
    p.add_argument("--case", type=int)
    p.add_argument("--network", type=int)
    p.add_argument("--each", type=int)
    p.add_argument("--one", type=int)
    p.add_argument("--on", choices=WAYS)
    p.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--table", action="store_true")
    p.add_argument("--selftest", action="store_true")
    found = p.parse_args()
    if found.seed is None:
        found.seed = int(os.environ.get("SERRIED_TEST_SEED") or random.randrange(10**9))
    return found


def check_table(build, kinds):
    listing = subprocess.run([os.path.join(build, "serried"), "info", "ops"], check=True,
                             capture_output=True, text=True).stdout
    operators = [line.split()[0] for line in listing.splitlines() if line[:1].isalpha()]
    found = random_table.problems(operators, kinds)
    for problem in found:
        print(f"FAILED: {problem}")
    print(f"{len(operators)} operators, {len(random_table.COMPARED)} compared, "
          f"{len(random_table.NOT_COMPARED)} with a reason why not")
    return bool(found or not operators)


def jobs_of(chosen):
    """[(word, number)]: the cases to compute."""
    if chosen.one is not None:
        return [("one", chosen.one)]
    if chosen.each is not None:
        import random_cases
        return [("one", n) for n in range(chosen.each * random_cases.combinations())]
    if chosen.case is not None:
        return [("case", chosen.case)]
    if chosen.network is not None:
        return [("network", chosen.network)]
    networks = 0 if chosen.only else chosen.networks
    return [("network", n) for n in range(networks)] + [("case", n) for n in range(chosen.cases)]


# ---- In each process ----

def start_worker(build, seed, only, on):
    global worker
    import random_cases
    clean = {k: v for k, v in os.environ.items()
             if k not in ("SERRIED_PROVIDERS", "SERRIED_CPU_MASK")}
    ways = {on: WAYS[on]} if on else WAYS
    worker = random_cases.Worker(os.path.join(build, "tests", "run_program"),
                                 {n: {**clean, **e} for n, e in ways.items()}, seed, only)


def outcome(job):
    return job, worker.outcome(*job)


# ---- In the first process ----

class Summary:
    def __init__(self, chosen):
        self.chosen, self.started = chosen, time.monotonic()
        self.done, self.worst = collections.Counter(), collections.defaultdict(float)

    def add(self, job, found):
        self.done[job[0]] += 1
        self.done["results"] += found.results
        for way, ratio in found.worst.items():
            key = (found.kind, found.dtype, way)
            self.worst[key] = max(self.worst[key], ratio)
        if found.bad:
            self.done["failed"] += 1
            if self.done["failed"] <= REPORTED:
                self.report(*job, found)
            else:
                print(f"FAILED {job[0]} {job[1]}: {found.kind}, {found.dtype}, {len(found.bad)} results",
                      flush=True)

    def report(self, word, number, found):
        chosen = self.chosen
        only = f" --only {chosen.only}" if chosen.only else ""
        print(f"FAILED {word} {number} of seed {chosen.seed}: {found.kind}, {found.dtype}")
        for line in found.program:
            print(f"    {line}")
        for way, v in found.bad:
            print(f"  {way}: {v}" if isinstance(v, str) else
                  f"  {way}: {v.what} {v.shape} {v.dtype}: {v.measure} of the error {v.ours:.2e}, "
                  f"PyTorch's {v.peers:.2e}, limit {v.limit:.2e}: {v.ratio:.2f} of it")
        print(f"  repeat: {sys.executable} tests/peers/check_random.py {chosen.build} "
              f"--seed {chosen.seed}{only} --{word} {number}", flush=True)

    def close(self):
        print("nearest to the limit, as shares of it:")
        for (kind, dtype, way), ratio in sorted(self.worst.items(),
                                                key=lambda item: -item[1])[:NEAREST]:
            print(f"  {ratio:.2f} {kind} {dtype} {way}")
        print(f"seed {self.chosen.seed}")
        print(f"{self.done['case'] + self.done['one'] + self.done['network']} cases, {self.done['failed']} failed: "
              f"{self.done['case'] + self.done['one']} of operators, {self.done['network']} networks, "
              f"{self.done['results']} results, {time.monotonic() - self.started:.0f} s")
        return self.done["failed"]


def run_all(chosen):
    summary = Summary(chosen)
    with concurrent.futures.ProcessPoolExecutor(
            chosen.jobs, multiprocessing.get_context("spawn"), start_worker,
            (chosen.build, chosen.seed, chosen.only, chosen.on)) as pool:
        for job, found in pool.map(outcome, jobs_of(chosen)):
            summary.add(job, found)
    return summary.close()


def selftest(chosen, cases):
    start_worker(chosen.build, chosen.seed, chosen.only, "reference")
    missed = 0
    for job in [("case", n) for n in range(40)] + [("network", n) for n in range(10)]:
        found = worker.outcome(*job, cases.halved if job[0] == "network" else cases.spoiled)
        if not found.bad:
            missed += 1
            print(f"FAILED: a wrong result of {job[0]} {job[1]} of seed {chosen.seed}, "
                  f"{found.kind} {found.dtype}, is not reported")
    missed += selftest_ended()
    worker.close()
    print(f"50 wrong results and an ended process, {missed} not reported")
    return missed


def selftest_ended():
    """A process that dies fails the case it was computing, and the next case is computed."""
    worker.serried["reference"].process.kill()
    dead, next_one = worker.outcome("case", 0), worker.outcome("case", 0)
    if dead.bad == [("reference", "run_program ended: SIGKILL")] and not next_one.bad:
        return 0
    print(f"FAILED: a killed run_program is reported as {dead.bad}, the case after it as "
          f"{next_one.bad}")
    return 1


def main():
    chosen = options()
    if chosen.table:
        return check_table(chosen.build, {*random_table.COMPARED.values(), *random_table.COMPOSED})
    try:
        import random_cases
    except ImportError as error:
        print(f"NOT RUN: {error}")
        return 77
    if check_table(chosen.build, random_cases.kinds()):
        return 1
    if chosen.only and chosen.only not in random_cases.kinds():
        sys.exit(f"no cases of '{chosen.only}'; there are {', '.join(sorted(random_cases.kinds()))}")
    failed = selftest(chosen, random_cases) if chosen.selftest else run_all(chosen)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
