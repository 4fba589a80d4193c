#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Results may change their bits only together with the version of the code that computes them.

Each section of tests/numerics/digests.txt is headed by what decides the bits below it: versions of
serried's parts and of libraries, and processor features where they matter. Every kernel, two small
networks and the data path are computed with each set of processor features that this machine can
provide (SERRIED_CPU_MASK hides the rest) and compared with the table. Sets of features that share a
section must have the same bits: the section of x86 has no features, so AVX2 and AVX-512 must give one
digest, and so must all sets for networks with portable numerics, whose section has the processor "any".

  check_numerics.py PROGRAM            compare; NOT RUN for what this machine cannot compute, or what
                                       has no section yet
  check_numerics.py PROGRAM --write    write the digests of this machine; refuses changes without a
                                       raised version, and removes other machines' outdated ones
  check_numerics.py PROGRAM --device cuda    compare what another device computes with portable numerics

PROGRAM is numerics_digests of a build. Run in the root of the repository.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import time

TABLE = "tests/numerics/digests.txt"
HEAD = """# Digests of what serried computes; written by tests/numerics/check_numerics.py PROGRAM --write, not by hand.
# A section: what decides the bits; rows: name, numerics class or precision, digest.
"""
# Sets of features that decide bits, and the masks that hide the others. The first part of a mask hides features
# that decide bits; the second those that must not matter.
UNREAD = "vnni,fp16,amx_int8"
SETS = [("plain", "avx2"), ("avx2", "avx512"), ("avx2 avx512", "amx_bf16,bf16," + UNREAD),
        ("avx2 avx512", "amx_bf16,bf16_dot"), ("avx2 avx512 bf16_dot", UNREAD), ("avx2 avx512 bf16_dot", ""),
        ("avx2 avx512 amx_bf16", "bf16," + UNREAD), ("avx2 avx512 amx_bf16", "")]
# oneDNN settings of users, none of which may change a bit.
FOREIGN = {"DNNL_MAX_CPU_ISA": "SSE41", "DNNL_CPU_ISA_HINTS": "PREFER_YMM", "DNNL_DEFAULT_FPMATH_MODE": "ANY"}
VERSIONS = {
    "serried-numerics": "SR_NUMERICS_VERSION in trainer/engine/fingerprint.h",
    "reference": "SR_REFERENCE_NUMERICS in kernels/reference_order.h",
    "onednn": "SR_ONEDNN_NUMERICS in kernels/cpu/onednn/onednn_internal.h",
    "x86": "SR_X86_NUMERICS in kernels/cpu/x86/x86_internal.h",
    "data": "SR_DATA_NUMERICS in dataio/pipeline/data_numerics.h",
}


def parse(text):
    """{heading: {(name, class): digest}}, in order."""
    sections = {}
    for line in text.splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line.strip()[1:-1], {})
        elif line and not line.startswith("#"):
            name, kind, digest = line.split()
            rows[name, kind] = digest
    return sections


def versions(heading):
    """{part: version} of serried's own parts."""
    parts = re.findall(r"(?:^|; )(\S+) (\d+)", heading)
    return {name: int(version) for name, version in parts if name in VERSIONS}


def key(heading):
    """The heading without serried's own versions."""
    return re.sub(r"(^|; )(" + "|".join(VERSIONS) + r") \d+", r"\1\2", heading)


class Check:
    def __init__(self, program, write, device=None):
        self.program, self.write, self.device = program, write, device
        with open(TABLE, encoding="utf-8") as file:
            self.table = parse(file.read())
        self.by_key = {key(heading): heading for heading in self.table}
        self.found = {}  # heading -> {row: (digest, set)}
        self.current = {}
        self.broken = set()
        self.compared = self.failed = self.not_run = 0
        self.cure = f"tests/numerics/check_numerics.py {os.path.relpath(program)} --write"

    def fail(self, text):
        self.failed += 1
        print("FAILED " + text)

    def skip(self, text):
        self.not_run += 1
        print("NOT RUN: " + text)

    def compute(self, job):
        name, mask, providers, parts, variables = job
        env = dict(os.environ, SERRIED_CPU_MASK=mask, **variables)
        if providers:
            env["SERRIED_PROVIDERS"] = providers
        done = subprocess.run([self.program, *parts], env=env, capture_output=True, text=True, timeout=500, check=False)
        if done.returncode != 0:
            raise SystemExit(f"FAILED {self.program} {' '.join(parts)} with {name}, {providers or 'all providers'}: "
                             f"exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
        return name, parse(done.stdout)

    def has(self, name, mask):
        done = subprocess.run([self.program, "features"], env=dict(os.environ, SERRIED_CPU_MASK=mask),
                              capture_output=True, text=True, timeout=60, check=True)
        return (done.stdout.strip() or "plain") == name

    def jobs(self):
        if self.device:
            return [(f"device {self.device}", "", None, ["portable"], {"SERRIED_TEST_DEVICE": self.device})]
        return self.jobs_of_processors()

    def jobs_of_processors(self):
        """One for each set of features and providers, one with variables of oneDNN, and one with libjpeg-turbo's scalar
        code; the reference depends on none of these, and neither do networks with portable numerics."""
        jobs = [("plain", SETS[0][1], None, ["reference", "networks", "portable", "data"], {}),
                ("plain", SETS[0][1], "reference", ["networks", "portable"], {})]
        for name, mask in SETS[1:]:
            if self.has(name, mask):
                jobs.append((name, mask, None, ["providers", "networks", "portable", "data"], {}))
                jobs.append((name, mask, "reference,x86", ["networks"], {}))
        missing = {name for name, _ in SETS} - {job[0] for job in jobs}
        name, mask = jobs[-1][:2]
        jobs.append((f"{name}, with variables of oneDNN's", mask, None, ["networks", "portable"], FOREIGN))
        jobs.append((f"{name}, libjpeg-turbo's without", mask, None, ["data"], {"JSIMD_FORCENONE": "1"}))
        for name in sorted(missing):
            self.skip(f"processor features '{name}': not here; run {self.cure} where they are")
        return jobs

    def collect(self):
        jobs = self.jobs()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for name, sections in pool.map(self.compute, jobs):
                for heading, rows in sections.items():
                    self.current.update(versions(heading))
                    self.add(name, self.found.setdefault(heading, {}), rows)

    def add(self, name, into, rows):
        """Rows that two sets of features have in common must be equal."""
        for row, digest in rows.items():
            known = into.get(row, ("-", name))
            if "-" not in (digest, known[0]) and digest != known[0] and row not in self.broken:
                self.broken.add(row)
                self.fail(f"{row[0]} ({row[1]}) gives other bits with features '{name}' ({digest}) than with "
                          f"'{known[1]}' ({known[0]}): they are promised equal")
            if known[0] == "-":
                into[row] = (digest, name)

    def moved(self, heading, row, digest):
        parts = versions(heading)
        if "serried-numerics" in parts:
            advice = "the version of what changed: where no kernel's digest moved, " + VERSIONS["serried-numerics"]
        else:
            advice = VERSIONS[next(iter(parts))]
        self.fail(f"{row[0]}: bits of class {row[1]} moved ({digest}, not {self.table[heading][row]}) but the version "
                  f"did not: [{heading}]; if that is meant, raise {advice}, and run {self.cure} to write the new digest")

    def compare(self, heading, rows):
        old = self.by_key.get(key(heading))
        if old is None:
            self.skip(f"[{heading}]: has no digests; run {self.cure} on this machine and commit {TABLE}")
            return
        if old != heading:
            raised = [f"{name} {versions(old)[name]} -> {version}" for name, version in versions(heading).items()
                      if versions(old)[name] != version]
            self.fail(f"[{heading}]: raised ({', '.join(raised)}) without new digests; run {self.cure}")
            return
        for row, (digest, _) in rows.items():
            want = self.table[heading].get(row)
            if digest == "-":
                continue
            self.compared += 1
            if want is None:
                self.fail(f"{row[0]} ({row[1]}) of [{heading}] has no digest; run {self.cure}")
            elif want != digest:
                self.moved(heading, row, digest)
        for row in self.table[heading].keys() - rows.keys():
            self.fail(f"{row[0]} ({row[1]}) of [{heading}] is computed no more; run {self.cure}")

    def stale(self, heading):
        """Whether a section that was not computed here has other versions than this build."""
        return any(self.current.get(name, version) != version for name, version in versions(heading).items())

    def compare_all(self):
        for heading, rows in self.found.items():
            self.compare(heading, rows)
        if self.device:
            return
        for heading in self.table:
            if key(heading) not in map(key, self.found) and self.stale(heading):
                self.fail(f"[{heading}]: is of other versions than this build; run {self.cure}, which removes it")

    def write_all(self):
        kept = {heading: rows for heading, rows in self.table.items()
                if heading not in self.found and not self.stale(heading)}
        for heading, rows in self.found.items():
            old = self.table.get(heading, {})
            for row, (digest, _) in rows.items():
                if digest != "-" and old.get(row, digest) != digest:
                    self.moved(heading, row, digest)
            # A row that cannot be computed here is kept if it has these versions.
            merged = {row: digest if digest != "-" else old.get(row, "-") for row, (digest, _) in rows.items()}
            kept[heading] = {row: digest for row, digest in merged.items() if digest != "-"}
        if self.failed:
            return
        for heading in self.table.keys() - kept.keys():
            print(f"removed [{heading}]")
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(HEAD)
            for heading in sorted(kept):
                file.write(f"\n[{heading}]\n")
                file.writelines(f"{name} {kind} {digest}\n" for (name, kind), digest in kept[heading].items())
        print(f"wrote {sum(map(len, kept.values()))} digests to {TABLE}")


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--write"], ["--device", sys.argv[-1]]):
        sys.exit(__doc__)
    begin = time.monotonic()
    check = Check(sys.argv[1], sys.argv[2:] == ["--write"], sys.argv[3] if len(sys.argv) > 3 else None)
    check.collect()
    if check.write:
        check.write_all()
    else:
        check.compare_all()
    print(f"{check.compared} digests compared, {check.failed} failures, {check.not_run} not run, "
          f"{time.monotonic() - begin:.1f} s")
    sys.exit(1 if check.failed else 0 if check.compared or check.write else 77)


if __name__ == "__main__":
    main()
