# SPDX-License-Identifier: Apache-2.0
"""Random cases of reductions and of what is computed from whole rows: softmax, order, products, attention."""
import math

import numpy as np
import torch

from random_draw import ELEMENTS
from random_program import KINDS as TYPES
from random_program import smallest_normal
from random_torch import CALLS, SQUARES, ints, same, parameter

WORK = 1e7  # largest number of products


def own_size(case, truth):
    return {}


def terms_norm(x, axes):
    return np.sqrt(np.square(x).sum(axes, keepdims=True))


# ---- Sums over dimensions ----

def draw_axes(d, rank):
    """(keep, count, axes) as numbers, and the axes as they are meant."""
    count = d.integer(0, rank)
    axes = [int(i) for i in d.rng.permutation(rank)[:count]]
    return (d.integer(0, 1), count, *axes, *[0] * (5 - count)), tuple(axes or range(rank))


def expanded(case, what):
    """An array of the result with the dimensions that are reduced, with extent 1."""
    return what.reshape([1 if i in case.axes else n for i, n in enumerate(case.array("x").shape)])


def reduced_like(case, what, truth):
    """The reverse: as the result is."""
    return what.reshape(truth.shape)


def reduction(name, scales, first=lambda d, count: ()):
    def draw(case, d):
        shape = d.shape(d.integer(1, 5), ELEMENTS)
        numbers, case.axes = draw_axes(d, len(shape))
        case.count = math.prod(shape[i] for i in case.axes)
        case.attributes = first(d, case.count)
        case.formula, case.stored = scales, 3
        x = case.input("x", d.data(shape))
        return case.finish(case.program.call(name, (x,), (*case.attributes, *numbers)), "y", ("x",))
    return draw


def var_scales(case, truth):
    x, count = case.array("x"), case.count
    mean = x.mean(case.axes, keepdims=True)
    mean_size = terms_norm(x, case.axes) / count + np.abs(mean)
    left = count - case.attributes[0]
    var = np.square(x - mean).mean(case.axes, keepdims=True)
    size = var + 2 * mean_size * np.sqrt(var) + TYPES["f32"].u * mean_size**2
    narrow = case.draw.dtype in ("bf16", "f16")
    share = TYPES["f32"].u / TYPES[case.draw.dtype].u if narrow else 1
    dy = np.abs(expanded(case, case.array("dy")))
    return {"y": reduced_like(case, size * count / left, truth["y"]),
            "dx": dy * 2 / left * (np.abs(x - mean) + share * mean_size)}


def norm_scales(case, truth):
    terms = terms_norm(case.array("x"), case.axes)
    return {"y": reduced_like(case, terms, truth["y"]) + np.abs(truth["y"])}


def below_largest(case):
    """The distance of each element from the largest of its row, and the sum of exp; exp() amplifies its rounding."""
    x = case.array("x")
    below = x.max(case.axes, keepdims=True) - x
    return below, np.exp(-below).sum(case.axes, keepdims=True)


def logsumexp_scales(case, truth):
    x = case.array("x")
    below, total = below_largest(case)
    p = np.exp(-below) / total
    size = np.abs(x.max(case.axes, keepdims=True)) + 1 + np.log(total) + (p * below).sum(case.axes, keepdims=True)
    # y is stored before the softmax is computed from it, in PyTorch, too
    dy, y = np.abs(expanded(case, case.array("dy"))), np.abs(expanded(case, truth["y"]))
    return {"y": reduced_like(case, size, truth["y"]), "dx": dy * p * (1 + below + y + np.log(total))}


# ---- Softmax ----

def softmax_of(name, scales, stored):
    def draw(case, d):
        if d.chance(0.5):
            k = d.choice((1, 2, 3, 5, 10, 64, 100, 257, 1000, 1000, 4099, 10000, 21841, 100000))
            shape = [d.integer(1, max(1, min(128, 300000 // k))), k]
        else:
            shape = d.shape(d.integer(1, 5), ELEMENTS)
        axis = len(shape) - 1 if d.chance(0.7) else d.integer(0, len(shape) - 1)
        case.axes = (axis,)
        case.formula, case.stored = scales, stored
        x = case.input("x", d.data(shape))
        return case.finish(case.program.call(name, (x,), (axis,)), "y", ("x",))
    return draw


def softmax_scales(case, truth):
    """dx = y (dy - sum y dy): the sum itself, and the 2-norm of its terms, which are rounded independently."""
    below, _ = below_largest(case)
    dy = case.array("dy")
    y = truth["y"] * (1 + below)
    stored = np.maximum(y, smallest_normal(case.draw.dtype))  # as the gradient reads it
    sums = np.abs((truth["y"] * dy).sum(case.axes, keepdims=True)) + terms_norm(stored * dy, case.axes)
    return {"y": y, "dx": stored * (np.abs(dy) + sums)}


def log_softmax_scales(case, truth):
    below, total = below_largest(case)
    dy = case.array("dy")
    size = 1 + below + np.log(total)
    sums = np.abs(dy.sum(case.axes, keepdims=True)) + terms_norm(dy, case.axes)
    return {"y": size, "dx": np.abs(dy) + np.exp(-below) / total * size * sums}


# ---- Order ----

def few_values(d, shape):
    """Often with equal ones."""
    return d.rng.integers(-4, 5, shape) * 0.25 if d.chance(0.5) else d.data(shape)


def extreme(name):
    def draw(case, d):
        shape = d.shape(d.integer(1, 5), ELEMENTS)
        numbers = (d.integer(0, len(shape) - 1), d.integer(0, 1))
        case.formula = own_size
        x = case.input("x", few_values(d, shape))
        found = case.program.call(name, (x,), numbers)
        if name.startswith("arg"):
            return case.finish(found, "index")
        case.reads.append((found[1], "index"))
        return case.finish(found[0], "y", ("x",))
    return draw


def ordered(name):
    def draw(case, d):
        shape = d.shape(d.integer(1, 4), ELEMENTS)
        numbers = (d.integer(1, shape[-1]), d.integer(0, 1)) if name == "topk" else (d.integer(0, 1),)
        case.formula = own_size
        x = case.input("x", few_values(d, shape))
        found = case.program.call(name, (x,), numbers)
        if name == "argsort":
            return case.finish(found, "index")
        case.reads.append((found[1], "index"))
        return case.finish(found[0], "y", ("x",))
    return draw


# ---- Products ----

def matmul(case, d):
    while True:
        m, n, k = (d.size(1031) for _ in range(3))
        batch = [d.integer(1, 6) for _ in range(d.integer(0, 3))]
        if m * n * k * math.prod(batch) <= WORK and math.prod(batch) * max(m * k, k * n, m * n) <= 2 * ELEMENTS:
            break
    transposed = d.integer(0, 1), d.integer(0, 1)
    batches = [[1 if d.chance(0.2) else b for b in batch] for _ in range(2)]
    batches = [b[d.integer(0, len(b)) if all(n == 1 for n in b) else 0:] for b in batches]
    a = case.input("a", d.data([*batches[0], *((k, m) if transposed[0] else (m, k))]))
    b = case.input("b", d.data([*batches[1], *((n, k) if transposed[1] else (k, n))]))
    y = case.program.call("matmul", (a, b), (*transposed, d.choice((0, 1.0, 0.125, -1.7))))
    repeats = math.prod(batch)
    case.terms = {"y": k, "da": n * repeats, "db": m * repeats}
    case.stored = 3
    return case.finish(y, "y", ("a", "b"))


def split_heads(x, heads):
    """[B,N,C] -> [B,heads,N,C / heads]"""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def join_heads(x):
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], -1)


def attention_scales(case, truth):
    """An error e of a logit changes its share p by p e: 'size' is that of the errors of logits, and 1 for p's own."""
    heads, scale = case.heads, case.scale
    q, k, v, dy = (split_heads(case.array(name), heads) for name in ("q", "k", "v", "dy"))
    logits = scale * q @ k.swapaxes(2, 3)
    size = scale * np.sqrt(np.square(q) @ np.square(k).swapaxes(2, 3)) + np.abs(logits)
    if "bias" in case.numbers:
        bias = np.tile(case.array("bias"), (len(q) // len(case.array("bias")), 1, 1, 1))
        logits, size = logits + bias, size + np.abs(bias)
    below = logits.max(3, keepdims=True) - logits
    p = np.exp(-below)
    p = np.maximum(p / p.sum(3, keepdims=True), 2.0**-100)  # so small a share may be rounded to 0
    size = 1 + below + size + (p * size).sum(3, keepdims=True)
    weighted = p * size
    flow = np.abs(dy) @ np.abs(v).swapaxes(2, 3)  # of the gradient of p
    flow = weighted * (flow + (p * flow).sum(3, keepdims=True))
    scales = {"y": join_heads(weighted @ np.abs(v)), "dv": join_heads(weighted.swapaxes(2, 3) @ np.abs(dy)),
              "dq": scale * join_heads(flow @ np.abs(k)), "dk": scale * join_heads(flow.swapaxes(2, 3) @ np.abs(q))}
    if "bias" in case.numbers:
        scales["dbias"] = flow.reshape(-1, *case.array("bias").shape).sum(0)
    return scales


def attention(case, d):
    case.heads = d.choice((1, 1, 2, 3, 4, 8))
    depth = d.choice((1, 2, 8, 16, 17, 32, 64))
    channels = case.heads * depth
    batch = d.choice((1, 2, 3, 4, 6))
    most = max(1, min(200, 20000 // (batch * channels)))
    n, m = d.size(most), d.size(most)
    case.scale = 1 / math.sqrt(depth)
    inputs = []
    for name, rows in (("q", n), ("k", m), ("v", m)):
        case.input(name, d.normal((batch, rows, channels)) * d.choice((0.3, 1, 3)))
        inputs.append(name)
    if d.chance(0.5):
        groups = d.choice([g for g in (1, 2, 3) if batch % g == 0])
        case.parameter("bias", d.data((groups, case.heads, n, m)))
        inputs.append("bias")
    case.formula, case.stored = attention_scales, 3
    case.through = ("dbias",)  # y dy, with y as it is stored
    numbers = [case.numbers.get(name, -1) for name in ("q", "k", "v", "bias")]
    given = d.choice((0, 0, 0.5))
    case.scale = given or case.scale
    return case.finish(case.program.call("attention", numbers, (case.heads, given)), "y", inputs)


def reduce_sum(case, d):
    x = case.input("x", d.data(d.shape(d.integer(0, 5), 300000)))
    return case.finish(case.program.call("reduce_sum", (x,)), "y", ("x",))


# ---- PyTorch's half ----

def axes_of(x, n, first=0):
    keep, count = ints(n, first, 2)
    return ints(n, first + 2, count) if count else tuple(range(x.dim())), bool(keep)


def mean(e, x, n):
    axes, keep = axes_of(x[0], n)
    count = math.prod(x[0].shape[i] for i in axes)
    return x[0].sum(axes, keep) / (count**2 if e.way == SQUARES else count)


def var(e, x, n):
    axes, keep = axes_of(x[0], n, 1)
    left = math.prod(x[0].shape[i] for i in axes) - n[0]
    return (x[0] - x[0].mean(axes, True)).square().sum(axes, keep) / left


def logsumexp(e, x, n):
    return x[0].logsumexp(*axes_of(x[0], n))


def picked(function):
    """Values and indices; of equal elements the first."""
    def call(e, x, n, dtype):
        value, index = function(x[0], n)
        return [(value, dtype), (index.to(e.type), "i32")]
    return call


def first_extreme(sign):
    def find(x, n):
        """PyTorch promises the first one for no device but the CPU, and not in all versions."""
        axis, keep = ints(n, 0, 2)
        equal = (x == (x * sign).amax(axis, True) * sign)
        index = equal.to(torch.uint8).cumsum(axis).eq(1).logical_and(equal).to(torch.uint8).argmax(axis, True)
        value = x.gather(axis, index)
        return (value, index) if keep else (value.squeeze(axis), index.squeeze(axis))
    return find


def in_order(x, descending):
    return torch.sort(x, dim=-1, descending=descending, stable=True)


def topk(x, n):
    value, index = in_order(x, not n[1])
    return value[..., :int(n[0])], index[..., :int(n[0])]


def index_alone(function):
    return lambda e, x, n, dtype: [(function(x[0], n)[1].to(e.type), "i32")]


def torch_matmul(e, x, n):
    a, b = (t.transpose(-1, -2) if flag else t for t, flag in zip(x, n))
    alpha = n[2] or 1
    return torch.matmul(a, b) * (alpha**2 if e.way == SQUARES else alpha)


def torch_attention(e, x, n):
    heads = int(n[0])
    q, k, v = (t.reshape(*t.shape[:2], heads, -1).transpose(1, 2) for t in x[:3])
    logits = (q @ k.transpose(2, 3)) * (n[1] or 1 / math.sqrt(q.shape[3]))
    if x[3] is not None:
        logits = logits + x[3].repeat(len(q) // len(x[3]), 1, 1, 1)
    y = (logits.softmax(3) @ v).transpose(1, 2)
    return y.reshape(*y.shape[:2], -1)


CALLS.update({
    "reduce_sum": parameter(lambda e, x, n: x[0].sum()),
    "sum": same(lambda e, x, n: x[0].sum(*axes_of(x[0], n))), "mean": same(mean), "var": same(var),
    "norm": same(lambda e, x, n: torch.linalg.vector_norm(x[0], n[0], *axes_of(x[0], n, 1))),
    "logsumexp": same(logsumexp),
    "softmax": same(lambda e, x, n: x[0].softmax(int(n[0]))),
    "log_softmax": same(lambda e, x, n: x[0].log_softmax(int(n[0]))),
    "max_over": picked(first_extreme(1)), "min_over": picked(first_extreme(-1)),
    "argmax": index_alone(first_extreme(1)), "argmin": index_alone(first_extreme(-1)),
    "topk": picked(topk), "sort": picked(lambda x, n: in_order(x, bool(n[0]))),
    "argsort": index_alone(lambda x, n: in_order(x, bool(n[0]))),
    "matmul": same(torch_matmul), "attention": same(torch_attention),
})

KINDS = {
    "reduce_sum": reduce_sum,
    "sum": reduction("sum", None), "mean": reduction("mean", None),
    "var": reduction("var", var_scales, lambda d, count: (d.integer(0, 1) if count > 1 else 0,)),
    "norm": reduction("norm", norm_scales, lambda d, count: (d.integer(1, 2),)),
    "logsumexp": reduction("logsumexp", logsumexp_scales),
    "softmax": softmax_of("softmax", softmax_scales, 4),  # y, those in the sum, and the result are rounded
    "log_softmax": softmax_of("log_softmax", log_softmax_scales, 3),
    **{name: extreme(name) for name in ("max_over", "min_over", "argmax", "argmin")},
    **{name: ordered(name) for name in ("topk", "sort", "argsort")},
    "matmul": matmul, "attention": attention,
}
