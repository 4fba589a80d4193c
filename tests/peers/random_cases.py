# SPDX-License-Identifier: Apache-2.0
"""One random case: drawn, computed by serried and PyTorch, compared, and described if it fails."""
import collections

import numpy as np

import random_networks
import random_operators
import random_torch
from random_compare import FACTOR, LIBRARY_CHAIN, WINOGRAD_FACTOR, compare
from random_draw import Draw
from random_program import Refused, Serried

STREAMS = {"case": 0, "network": 1, "one": 2}  # of draws
TYPES = ("f32", "bf16", "f16", "f64")
# Ways without kernels that add all products of an element in one chain: a library has them, and provider x86 where
# the processor multiplies pairs of bf16.
SHORT_CHAINS = {"reference": TYPES, "x86": ("f32", "f16")}

# kind, dtype; {way: largest share of a limit}; number of results; [(way, verdict or message)]
Outcome = collections.namedtuple("Outcome", "kind dtype worst results bad program")


def kinds():
    return random_operators.KINDS_OF_CASES


def combinations():
    return len(kinds()) * len(TYPES)


def combination(number):
    """The kind of case and the type of the cases that are drawn from all combinations in turn."""
    kind, dtype = divmod(number % combinations(), len(TYPES))
    return list(kinds())[kind], TYPES[dtype]


class Worker:
    """Computes cases in one process: a resident serried for each way."""

    def __init__(self, program, environments, seed, only):
        random_torch.torch.set_num_threads(1)
        self.seed, self.only = seed, only
        self.serried = {way: Serried(program, e) for way, e in environments.items()}

    def close(self):
        for process in self.serried.values():
            process.close()

    def outcome(self, word, number, change=None):
        """The outcome of a case; 'change' may modify serried's results, for the self-test."""
        draw = Draw(self.seed, STREAMS[word], number)
        only = self.only
        if word == "one":
            only, draw.dtype = combination(number)
        if word == "network":
            case = random_networks.draw_network(draw)
            comparison = random_networks.Comparison(case)
        else:
            case = random_operators.draw_case(draw, only)
            comparison = Comparison(case)
        worst, bad, results = {}, [], 0
        for way in self.ways_of(draw.dtype):
            def run(program, numbers, way=way):
                found = self.serried[way].run(program, numbers)
                return change(found) if change else found
            try:
                verdicts = comparison.verdicts(run, draw.dtype in SHORT_CHAINS.get(way, ()))
            except Refused as error:
                bad.append((way, str(error)))
                continue
            worst[way] = max(v.ratio for v in verdicts)
            results += len(verdicts)
            bad += [(way, v) for v in verdicts if not v.ratio <= 1]
        return Outcome(case.kind, draw.dtype, worst, results, bad,
                       case.program.describe() if bad else [])

    def ways_of(self, dtype):
        """Only the reference computes f64, whatever the way."""
        names = list(self.serried)
        return names[:1] if dtype == "f64" else names


def chain_roundings(case, what):
    return LIBRARY_CHAIN * case.terms.get(what, 0)**0.5


class Comparison:
    """Compares one operator case; PyTorch's side is computed once for all ways."""

    def __init__(self, case):
        self.case = case
        self.truth = self.single = self.scales = None

    def verdicts(self, run, short):
        """'short': sums of products have short chains."""
        case = self.case
        numbers = [n for n, _ in case.reads]
        found = run(case.program, numbers)
        if self.truth is None:
            ours = {n: array for n, (_, array) in found.items()}
            self.truth, self.single = (random_torch.evaluate(case.program, numbers, way, ours)
                                       for way in (random_torch.TRUTH, random_torch.SINGLE))
            self.scales = case.scales(self.truth, ours)
        factor = WINOGRAD_FACTOR if case.winograd else FACTOR
        return [compare(what, found[n][1], found[n][0], self.truth[n], self.single[n],
                        self.scales[n], factor, case.stored,
                        case.computed if short else max(case.computed, chain_roundings(case, what)),
                        case.draw.dtype if what in case.through else None)
                for n, what in case.reads]


def spoiled(found):
    """serried's results with the largest element of the largest result wrong by a twentieth."""
    number = max(found, key=lambda n: found[n][1].size)
    dtype, array = found[number]
    array = array.copy()
    place = np.unravel_index(np.argmax(np.abs(array)), array.shape)
    array[place] = array[place] * 1.05 or 1
    return {**found, number: (dtype, array)}


def halved(found):
    """serried's results with the largest one halved."""
    number = max(found, key=lambda n: found[n][1].size)
    dtype, array = found[number]
    return {**found, number: (dtype, array / 2)}
