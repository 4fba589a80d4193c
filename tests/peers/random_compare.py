# SPDX-License-Identifier: Apache-2.0
"""Decides when a result of serried is too inaccurate, given PyTorch's accuracy.

Errors are absolute differences from PyTorch's f64. A result's scale is the size of its terms (for
instance the 2-norm of the terms of a sum), in units of which rounding errors are measured.
"""
import collections

import numpy as np

from random_program import KINDS

FACTOR, WINOGRAD_FACTOR = 4, 8
# A result this accurate is never wrong: this many half units in the last place of the stored type, and
# of fp32 arithmetic, relative to the scale.
STORED, COMPUTED = 2, 16
# The same for sums: 64 equal terms after a large one all round alike, and this is the longest chain
# of theirs. Chains of 32, as in pooling, need no more than COMPUTED.
SUMMED = 32
# oneDNN adds the products of a convolution or of a linear layer in one chain. Roundings of its partial
# sums, which grow with the root of their number, have a standard deviation of 0.4 sqrt(terms); five
# of them are allowed, because the worst of many elements is checked.
LIBRARY_CHAIN = 2
# Winograd's transforms add up to ten terms of both signs for each, twice: its worst elements are
# three times as inaccurate as COMPUTED (measured relative to direct sums).
WINOGRAD_COMPUTED = 48
# f64 is for testing formulas, whose errors are far larger. PyTorch's error in it is that of its f32,
# scaled; f64 itself is taken as exact here, but has errors of its own.
F64_SLACK = 1024

Verdict = collections.namedtuple("Verdict", "what ratio measure ours peers limit shape dtype")


def floor_of(dtype, stored=STORED, computed=COMPUTED):
    """The floor for results in this dtype, relative to their scale."""
    if dtype == "f64":
        return computed * F64_SLACK * KINDS["f64"].u
    narrow = KINDS[dtype].u if dtype in ("bf16", "f16") else 0
    return stored * narrow + computed * KINDS["f32"].u


def peers_error(single, truth, dtype):
    error = np.abs(single - truth)
    return error * (KINDS["f64"].u / KINDS["f32"].u * F64_SLACK) if dtype == "f64" else error


def countable(truth, dtype):
    """Elements within the dtype's range: beyond it there is only infinity."""
    return np.abs(truth) < KINDS[dtype].largest * (1 - 2 * KINDS[dtype].u)


def own_error(ours, truth):
    return np.where(np.isfinite(ours), np.abs(ours - truth), np.inf)


def compare(what, ours, dtype, truth, single, scale, factor, stored, computed, through=None):
    """The worse of two verdicts: the largest element's error, and the norm of all errors. 'stored'
    values of a narrow type are rounded on the way to a result: its own, or 'through'."""
    good = countable(truth, through or dtype) & np.isfinite(single)
    # Below a type's normal numbers a rounding error is half of 'tiny', whatever the value.
    shape, tiny = list(truth.shape), KINDS[through or dtype].tiny * stored / STORED
    if ours.shape != truth.shape:
        return Verdict(what, np.inf, f"shape {list(ours.shape)}", 0, 0, 0, shape, dtype)
    if not good.any():
        return Verdict(what, 0.0, "beyond range", 0, 0, 0, shape, dtype)
    mine, peers = own_error(ours, truth)[good], peers_error(single, truth, dtype)[good]
    size = np.broadcast_to(scale, truth.shape)[good]
    floor = floor_of(through or dtype, stored, computed)
    return max(verdict_of_elements(what, mine, peers, size, floor, factor, tiny, shape, dtype),
               verdict_of_norm(what, mine, peers, size, floor, factor, tiny, shape, dtype),
               key=lambda v: v.ratio)


def verdict_of_elements(what, mine, peers, size, floor, factor, tiny, shape, dtype):
    """Errors relative to each element's scale; the limit is the worst of PyTorch's."""
    safe = np.maximum(size, tiny / floor)
    theirs = float((peers / safe).max())
    limit = max(factor * theirs, floor)
    ours = float((mine / safe).max())
    return Verdict(what, ours / limit, "worst element", ours, theirs, limit, shape, dtype)


def norm(x):
    return float(np.sqrt(np.square(x).sum()))


def verdict_of_norm(what, mine, peers, size, floor, factor, tiny, shape, dtype):
    base = max(norm(size), tiny / floor * len(size)**0.5)
    ours, theirs = norm(mine) / base, norm(peers) / base
    limit = max(factor * theirs, floor)
    return Verdict(what, ours / limit, "norm", ours, theirs, limit, shape, dtype)


def compare_sampled(what, ours, dtype, truth, peers, factor):
    """For whole networks: 'peers' are norms of PyTorch's error, each on slightly different inputs, so
    that one accurate run by chance does not determine the limit. With few elements our own norm varies
    by chance, too: the limit is wider by a factor of 1 + 4 / their number."""
    good = np.isfinite(truth)
    floor = floor_of(dtype)
    if ours.shape != truth.shape:
        return Verdict(what, np.inf, f"shape {list(ours.shape)}", 0, 0, 0, list(truth.shape), dtype)
    base = max(norm(truth[good]), KINDS[dtype].tiny / floor)
    theirs = float(np.sqrt(np.mean(np.square(peers)))) / base
    if dtype == "f64":
        theirs *= KINDS["f64"].u / KINDS["f32"].u * F64_SLACK
    limit = max(factor * (1 + 4 / max(1, truth.size)) * theirs, floor)
    mine = norm(own_error(ours, truth)[good]) / base
    return Verdict(what, mine / limit, "norm", mine, theirs, limit, list(truth.shape), dtype)
