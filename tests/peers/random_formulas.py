# SPDX-License-Identifier: Apache-2.0
"""Random cases of elementwise formulas: a row of FORMULAS each.

A result's scale is its own size, and that of a gradient the size of dy times the derivative that PyTorch finds, where
a row does not say that they are differences of larger terms. Inputs broadcast; the gradient of a repeated one is a sum,
whose scale is the 2-norm of its terms.
"""
import collections
import math

import numpy as np
import torch
from torch.nn import functional as F

from random_compare import STORED, SUMMED
from random_draw import ELEMENTS
from random_program import smallest_normal
from random_torch import CALLS, same

# function (x, n): PyTorch's, of the list of inputs and the attributes.
# inputs: {name: domain}; a domain draws values of a shape (d, shape, n).
# numbers (d): draws the attributes.
# size (v, n), slopes (v, n): the size of the terms of y, and of those of the derivative in each input; v are the
#     inputs in f64. None: the value's own size.
# lost (v): what multiplies a value on the way to a gradient that may be below a type's normal numbers, for each input.
# stored: roundings to a narrow type on the way to a gradient, and one more.
Formula = collections.namedtuple("Formula", "function inputs numbers size slopes lost stored",
                                 defaults=(lambda d: (), None, None, None, STORED))


# ---- Domains ----

def anything(d, shape, n):
    return d.data(shape)


def moderate(d, shape, n):
    """Neither functions like e^x nor their derivatives leave the range of f16."""
    return np.clip(d.normal(shape) * d.choice((0.1, 1, 3)), -9, 9)


def positive(d, shape, n):
    return np.exp(np.clip(d.normal(shape) * d.choice((0.1, 1)), -3, 3))


def any_nonzero(d, shape, n):
    return positive(d, shape, n) * d.choice((-1.0, 1.0)) * np.where(d.rng.random(shape) < 0.5, -1, 1)


def with_ties(d, shape, n):
    """Many values are equal to each other, to 0 and to bounds."""
    return d.rng.integers(-3, 4, shape) * 0.5 if d.chance(0.6) else d.data(shape)


def apart_from_three(d, shape, n):
    """PyTorch's versions disagree about the derivatives at -3 and 3."""
    x = d.data(shape)
    return np.where(np.abs(x) == 3, x / 2, x)


def of_power(d, shape, n):
    return any_nonzero(d, shape, n) if n[0] in (0, 1, 2, 3, -1) else positive(d, shape, n)


def of_erf(d, shape, n):
    """The factor exp(-x^2) of the gradient is a normal number of f16."""
    x = d.data(shape)
    return np.clip(x, -2.5, 2.5) if d.dtype == "f16" else x


def condition(d, shape, n):
    return d.rng.integers(-1, 2, shape).astype(float)


# ---- Terms ----

def logistic(x):
    return np.exp(-np.logaddexp(0, -x))


def silu_slopes(v, n):
    s = logistic(v[0])
    return [s * (1 + np.abs(v[0]) * logistic(-v[0]))]


def gelu_tanh(x, n):
    """In PyTorch's own words; its kernel for f32 is the same."""
    return 0.5 * x[0] * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x[0] + 0.044715 * x[0] ** 3)))


def gelu_tanh_slopes(v, n):
    x = np.clip(v[0], -30, 30)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    change = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    # tanh' = 1 - tanh^2 is a difference from 1, of the size of its rounding at least
    return [1 + np.abs(x * change) / np.cosh(np.clip(inner, -300, 300))**2]


def mish_slopes(v, n):
    t = np.tanh(np.logaddexp(0, v[0]))
    return [t + np.abs(v[0]) * (1 - t * t) * logistic(v[0])]


def hard_sigmoid(x, n):
    """PyTorch's own multiplies by 1 / 6 in f32, also in f64."""
    return torch.clamp(x[0] + 3, 0, 6) / 6


def inside(x):
    return np.abs(x) < 3


def erf_slopes(v, n):
    """x^2 is rounded before its exponential is taken, in PyTorch, too."""
    x = np.clip(v[0], -20, 20)
    return [2 / math.sqrt(math.pi) * np.exp(-x * x) * (1 + x * x)]


def pow_slopes(v, n):
    """b - 1 is rounded before the power is taken."""
    a, b = v
    logs = np.abs(np.log(a))
    return [np.abs(b) * a**(b - 1) * (1 + logs * (1 + np.abs(b))), a**b * logs]


def clip(x, n):
    """The gradient is passed on at the limits, too, as PyTorch did before 2.14."""
    return torch.where((x[0] < n[0]) | (x[0] > n[1]), x[0].detach().clamp(n[0], n[1]), x[0])


X = {"x": anything}
A_B = {"a": anything, "b": anything}
TIES = {"a": with_ties, "b": with_ties}

FORMULAS = {
    "silu": Formula(lambda x, n: F.silu(x[0]), X, slopes=silu_slopes),
    "gelu_tanh": Formula(gelu_tanh, X, size=lambda v, n: np.abs(v[0]), slopes=gelu_tanh_slopes),
    "mish": Formula(lambda x, n: F.mish(x[0]), X, slopes=mish_slopes),
    "hard_sigmoid": Formula(hard_sigmoid, {"x": apart_from_three},
                            size=lambda v, n: np.where(inside(v[0]), (np.abs(v[0]) + 3) / 6, 1)),
    "hard_swish": Formula(lambda x, n: x[0] * hard_sigmoid(x, n), {"x": apart_from_three},
                          size=lambda v, n: np.where(inside(v[0]), np.abs(v[0]) * (np.abs(v[0]) + 3) / 6, np.abs(v[0])),
                          slopes=lambda v, n: [np.where(inside(v[0]), np.abs(v[0]) / 3 + 0.5, v[0] > 0)]),
    "elu": Formula(lambda x, n: F.elu(x[0], n[0]), X, lambda d: (d.choice((1.0, 0.1, 2.5)),)),
    "abs": Formula(lambda x, n: x[0].abs(), {"x": with_ties}),
    "square": Formula(lambda x, n: x[0].square(), X),
    "sqrt": Formula(lambda x, n: x[0].sqrt(), {"x": positive}, stored=3),
    "rsqrt": Formula(lambda x, n: x[0].rsqrt(), {"x": positive}, stored=5),
    "reciprocal": Formula(lambda x, n: x[0].reciprocal(), {"x": any_nonzero}, stored=4),
    "power": Formula(lambda x, n: x[0].pow(n[0]), {"x": of_power},
                     lambda d: (d.choice((0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 1.7)),)),
    "exp": Formula(lambda x, n: x[0].exp(), {"x": moderate}, stored=3),
    "log": Formula(lambda x, n: x[0].log(), {"x": positive}),
    "sin": Formula(lambda x, n: x[0].sin(), X, stored=3),
    "cos": Formula(lambda x, n: x[0].cos(), X, stored=3),
    "atan": Formula(lambda x, n: x[0].atan(), X),
    "erf": Formula(lambda x, n: x[0].erf(), {"x": of_erf}, slopes=erf_slopes),
    "clip": Formula(clip, {"x": with_ties}, lambda d: d.choice(((-1.0, 1.0), (0.0, 6.0)))),
    "div": Formula(lambda x, n: x[0] / x[1], {"a": anything, "b": any_nonzero},
                   lost=lambda v: [0 * v[0], np.abs(v[0] / v[1])]),
    "pow": Formula(lambda x, n: x[0] ** x[1], {"a": positive, "b": lambda d, s, n: np.clip(d.normal(s), -3, 3)},
                   slopes=pow_slopes, stored=3),
    "maximum": Formula(lambda x, n: torch.maximum(*x), TIES),
    "minimum": Formula(lambda x, n: torch.minimum(*x), TIES),
    "greater": Formula(lambda x, n: (x[0] > x[1]).to(x[0].dtype), TIES),
    "equal": Formula(lambda x, n: (x[0] == x[1]).to(x[0].dtype), TIES),
    "where": Formula(lambda x, n: torch.where(x[0] != 0, x[1], x[2]),
                     {"c": condition, **A_B}),
}


# ---- Draws ----

def broadcast_shapes(d, count):
    """Shapes that broadcast: some dimensions are repeated, often none."""
    shape = d.shape(d.integer(0, 5), ELEMENTS)
    shapes = [list(shape) for _ in range(count)]
    if count == 1 or d.chance(0.4):
        return shapes
    for axis in range(len(shape)):
        if d.chance(0.4):
            shapes[d.integer(0, count - 1)][axis] = 1
    for i, own in enumerate(shapes):
        lead = next((k for k, n in enumerate(own) if n != 1), len(own))
        shapes[i] = own[d.integer(0, lead):]
    return shapes


def summed(terms, like):
    """The 2-norm of the terms of the gradient of an input with this shape."""
    lead = terms.ndim - like.ndim
    repeated = tuple(i for i in range(terms.ndim) if i < lead or like.shape[i - lead] != terms.shape[i])
    return np.sqrt(np.square(terms).sum(repeated, keepdims=True)).reshape(like.shape)


def derivatives(formula, values, dy, n):
    """|dy derivative| of each input, elementwise."""
    if formula.slopes:
        return [np.abs(dy) * s for s in formula.slopes(values, n)]
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
    found = torch.autograd.grad(formula.function(leaves, n), leaves, torch.tensor(dy), allow_unused=True)
    return [np.zeros_like(dy) if g is None else g.abs().numpy() for g in found]


def scales_of(formula, names):
    def scales(case, truth):
        own = [case.array(name) for name in names]
        values = [np.broadcast_to(v, truth["y"].shape).copy() for v in own]
        found = {} if formula.size is None else {"y": formula.size(values, case.attributes)}
        if "dy" in case.numbers:
            terms = derivatives(formula, values, case.array("dy"), case.attributes)
            if formula.lost:
                terms = [t + smallest_normal(case.draw.dtype) * x for t, x in zip(terms, formula.lost(values))]
            for name, v, t in zip(names, own, terms):
                if "d" + name in truth:
                    found["d" + name] = summed(t, v) + np.abs(truth["d" + name])
        return found
    return scales


ENDED = ("greater", "equal")  # without gradients


def kind(name, formula):
    names = list(formula.inputs)

    def draw(case, d):
        case.attributes = formula.numbers(d)
        case.formula, case.stored = scales_of(formula, names), formula.stored
        shapes = broadcast_shapes(d, len(names))
        if len({tuple(shape) for shape in shapes}) > 1:
            case.computed = SUMMED  # gradients of what is repeated
        inputs = [case.input(what, domain(d, shape, case.attributes))
                  for (what, domain), shape in zip(formula.inputs.items(), shapes)]
        y = case.program.call(name, inputs, case.attributes)
        return case.finish(y, "y", () if name in ENDED else [w for w in names if w != "c"])
    return draw


def prelu_scales(case, truth):
    x, dy, slope = case.array("x"), np.abs(case.array("dy")), case.array("slope")
    return {"dslope": summed(dy * np.abs(np.minimum(x, 0)), slope) + np.abs(truth["dslope"])}


def prelu(case, d):
    shape = d.shape(d.integer(1, 5), ELEMENTS)
    x = case.input("x", with_ties(d, shape, ()))
    slope = case.parameter("slope", d.normal((d.choice((1, shape[-1])),)))
    case.formula = prelu_scales
    case.through = ("dslope",)  # the slope is used in the type of x, and so is its gradient
    return case.finish(case.program.call("prelu", (x, slope)), "y", ("x", "slope"))


CALLS.update({name: same(lambda e, x, n, f=formula.function: f(x, n)) for name, formula in FORMULAS.items()})
CALLS["prelu"] = same(lambda e, x, n: torch.where(x[0] > 0, x[0], x[1] * x[0]))

KINDS = {**{name: kind(name, formula) for name, formula in FORMULAS.items()}, "prelu": prelu}
