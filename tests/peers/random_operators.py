# SPDX-License-Identifier: Apache-2.0
"""Random cases of single operators: the result and all gradients for a random upstream gradient.

KINDS_OF_CASES has a function for each kind, which draws a program and determines the size of its
results' terms (the scale, see random_compare.py). For linear operators that follows from the
program itself (SQUARES in random_torch.py); the others have a formula.
"""
import math

import numpy as np

import random_formulas
import random_moves
import random_norms
import random_pictures
import random_samples
import random_rows
import random_torch
from random_compare import COMPUTED, STORED, SUMMED, WINOGRAD_COMPUTED
from random_draw import ELEMENTS, dims_as_numbers
from random_program import KINDS, Program, parameter_dtype, round_to

WORK = 3e7  # largest number of products of a convolution or linear layer
SUMS = ("conv2d", "conv2d_transpose", "linear", "bias_add", "channel_sum", "channel_dot",
        "batchnorm_train", "batchnorm_infer", "layer_norm", "rms_norm", "group_norm", "instance_norm", "scale_by",
        "fill_by", "reduce_sum", "sum", "mean", "var", "norm", "logsumexp", "softmax", "log_softmax", "matmul",
        "attention", "gather", "index_select", "embedding", "scatter_add", "pad2d", "prelu")


class Case:
    """A program, what to read, and the scale of each result."""

    def __init__(self, draw, kind):
        self.draw, self.kind = draw, kind
        self.program = Program(draw.dtype)
        self.reads = []   # (number, what it is)
        self.formula = None  # {what: scale} of (values by what); None: by squares
        self.winograd = False
        self.stored = STORED  # roundings to a narrow type on the way to a result
        self.computed = SUMMED if kind in SUMS else COMPUTED
        self.through = ()  # f32 results that are computed from values in the type of activations
        self.terms = {}  # {what: number of products added for one element}, where a library may compute it
        self.numbers = {}

    def input(self, what, array, dtype=None):
        return self.note(what, self.program.value(dtype or self.draw.dtype, array))

    def parameter(self, what, array):
        return self.note(what, self.program.parameter(array))

    def note(self, what, number):
        self.numbers[what] = number
        return number

    def array(self, what):
        return self.program.of_value(self.numbers[what]).array

    def finish(self, y, what="y", inputs=()):
        """Reads y and, if inputs are named, their gradients for a random one of y."""
        self.reads.append((y, what))
        if not inputs:
            return self
        shape, dtype = shape_and_dtype(self.program, y)
        dy = self.input("dy", self.draw.data(shape, dtype), dtype)
        numbers = self.program.gradient(y, dy, [self.numbers[i] for i in inputs])
        self.reads += [(n, "d" + i) for n, i in zip(numbers, inputs)]
        return self

    def scales(self, truth, ours):
        """{number: scale} of results whose exact values are given."""
        if self.formula is None:
            program = self.program.with_arrays(spread) if self.winograd else self.program
            squares = random_torch.evaluate(program, [n for n, _ in self.reads],
                                            random_torch.SQUARES, ours)
            found = {n: np.sqrt(np.abs(squares[n])) + np.abs(truth[n]) for n, _ in self.reads}
            if self.winograd:
                found.update((n, beside_padding(found[n])) for n, what in self.reads if what != "dw")
        else:
            by_name = self.formula(self, {what: truth[n] for n, what in self.reads})
            found = {n: by_name.get(what, np.abs(truth[n])) for n, what in self.reads}
        return found


def largest_near(x):
    """For NHWC values: the largest of a tile's neighbourhood."""
    x = random_torch.nchw(random_torch.torch.from_numpy(np.ascontiguousarray(x)))
    return random_torch.nhwc(random_torch.F.max_pool2d(x, 7, 1, 3)).numpy()


def beside_padding(scale):
    """The scale of elements that depend only on padding is that of the tile in which they are computed."""
    return np.where(scale > 0, scale, largest_near(scale)) if scale.ndim == 4 else scale


def spread(step):
    """Winograd's transforms mix the elements of a tile and the taps of a filter: the scale of each is the largest
    of its neighbourhood and of the filter's taps."""
    x = np.abs(step.array)
    if x.ndim != 4:
        return x
    if step.word == "variable":
        return np.broadcast_to(x.max((2, 3), keepdims=True), x.shape)
    return largest_near(x)


def shape_and_dtype(program, number):
    e = random_torch.Evaluation(program, random_torch.TRUTH, None)
    return list(e.values[number].shape), e.dtypes[number]


# ---- Convolution and linear ----

def filter_geometry(d):
    """(r, s, stride, pad, dilation), each of the last three for height and width."""
    form = d.rng.random()
    if form < 0.25:
        return 1, 1, (d.choice((1, 1, 2)),) * 2, (0, 0), 1
    if form < 0.5:
        return 3, 3, (1, 1), (1, 1), 1
    if form < 0.6:
        return 3, 3, (2, 2), (1, 1), 1
    r, s = d.choice(((2, 2), (3, 3), (5, 5), (7, 7), (1, 3), (3, 1), (4, 2), (1, 7)))
    return r, s, (d.integer(1, 3), d.integer(1, 3)), (d.integer(0, r), d.integer(0, s)), \
        d.choice((1, 1, 2, 3))


def conv_channels(d):
    """(c, k, groups) as divisible numbers."""
    c, k = d.size(512), d.size(512)
    form = d.rng.random()
    if form < 0.1:
        return c, c * d.choice((1, 1, 2)), c
    if form < 0.25:
        groups = d.choice((2, 3, 4, 8))
        return groups * d.size(64), groups * d.size(64), groups
    return c, k, 1


def conv_sizes(d):
    while True:
        r, s, stride, pad, dilation = filter_geometry(d)
        c, k, groups = conv_channels(d)
        n, h, w = d.choice((1, 2, 3, 5, 8)), d.integer(1, 34), d.integer(1, 34)
        p = (h + 2 * pad[0] - dilation * (r - 1) - 1) // stride[0] + 1
        q = (w + 2 * pad[1] - dilation * (s - 1) - 1) // stride[1] + 1
        work = n * p * q * k * (c // groups) * r * s
        if p >= 1 and q >= 1 and work <= WORK and n * h * w * c <= 4 * ELEMENTS:
            return n, h, w, c, k, groups, r, s, stride, pad, dilation


def note_winograd(case, c, k, groups, r, s, stride, dilation):
    """Marks a case that Winograd may compute."""
    if (groups, r, s, stride, dilation) == (1, 3, 3, (1, 1), 1) and min(c, k) >= 16:
        case.winograd, case.computed = True, WINOGRAD_COMPUTED


def pixels_of(case, y):
    return math.prod(shape_and_dtype(case.program, y)[0][:3])


def conv2d(case, d):
    n, h, w, c, k, groups, r, s, stride, pad, dilation = conv_sizes(d)
    note_winograd(case, c, k, groups, r, s, stride, dilation)
    x = case.input("x", d.data((n, h, w, c)))
    f = case.parameter("w", d.weights((k, c // groups, r, s), c // groups * r * s))
    bias = case.parameter("b", d.data((k,))) if d.chance(0.3) else -1
    extra = (d.integer(0, s), d.integer(0, r)) if d.chance(0.2) else (0, 0)
    y = case.program.call("conv2d", (x, f, bias), (*stride, *pad, dilation, groups, *extra))
    case.terms = {"y": c // groups * r * s, "dx": k // groups * r * s, "dw": pixels_of(case, y)}
    return case.finish(y, "y", ("x", "w") if bias < 0 else ("x", "w", "b"))


def conv2d_transpose(case, d):
    while True:
        n, h, w, c, k, groups, r, s, stride, pad, dilation = conv_sizes(d)
        output_pad = d.integer(0, min(stride) - 1)
        sizes = [(m - 1) * stride[i] - 2 * pad[i] + dilation * (e - 1) + 1 + output_pad
                 for i, (m, e) in enumerate(((h, r), (w, s)))]
        if min(sizes) >= 1 and n * h * w * k * (c // groups) * r * s <= WORK:
            break
    note_winograd(case, c, k, groups, r, s, stride, dilation)
    x = case.input("x", d.data((n, h, w, k)))
    f = case.parameter("w", d.weights((k, c // groups, r, s), k // groups * r * s))
    y = case.program.call("conv2d_transpose", (x, f),
                          (*stride, *pad, dilation, groups, 0, 0, output_pad))
    case.terms = {"y": k // groups * r * s, "dx": c // groups * r * s, "dw": n * h * w}
    return case.finish(y, "y", ("x", "w"))


def linear(case, d):
    k, c = d.size(4099), d.size(4099)
    n = d.integer(1, max(1, min(300, int(WORK / (k * c)))))
    x = case.input("x", d.data((n, c)))
    w = case.parameter("w", d.weights((k, c), c))
    bias = case.parameter("b", d.data((k,))) if d.chance(0.6) else -1
    y = case.program.call("linear", (x, w, bias))
    case.terms = {"y": c, "dx": k, "dw": n}
    return case.finish(y, "y", ("x", "w") if bias < 0 else ("x", "w", "b"))


# ---- Channels and batch normalisation ----

def bias_add(case, d):
    shape = d.channels_shape()
    x, b = case.input("x", d.data(shape)), case.parameter("b", d.data(shape[-1:]))
    return case.finish(case.program.call("bias_add", (x, b)), "y", ("x", "b"))


def channel_sum(case, d):
    x = case.input("x", d.data(d.channels_shape()))
    return case.finish(case.program.call("channel_sum", (x,)), "y", ("x",))


def channel_dot(case, d):
    shape = d.channels_shape()
    a, b = case.input("a", d.data(shape)), case.input("b", d.data(shape))
    shift = case.parameter("shift", d.data(shape[-1:])) if d.chance(0.5) else -1
    y = case.program.call("channel_dot", (a, b, shift))
    return case.finish(y, "y", ("a", "b") if shift < 0 else ("a", "b", "shift"))


# ---- Elementwise ----

def unary(name, formula, numbers=lambda d: (), stored=STORED):
    def draw(case, d):
        case.formula, case.stored = formula, stored
        x = case.input("x", d.data(d.shape(d.integer(0, 5), ELEMENTS)))
        case.attributes = numbers(d)
        return case.finish(case.program.call(name, (x,), case.attributes), "y", ("x",))
    return draw


def own_size(case, truth):
    """Each result is computed from one product or function: the scale is its own size."""
    return {}


def gelu_scales(case, truth):
    x, dy = np.abs(case.array("x")), np.abs(case.array("dy"))
    return {"y": x, "dx": dy * (1 + x * np.exp(-x * x / 2))}


def tanh_scales(case, truth):
    return {"dx": np.abs(case.array("dy"))}  # dy (1 - y^2)


def sigmoid_scales(case, truth):
    return {"dx": np.abs(case.array("dy")) * truth["y"]}  # dy y (1 - y)


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def bce_scales(case, truth):
    """dx = dy ((1 - t) sigmoid(x) - t sigmoid(-x)); y is a sum of two positive terms."""
    x, target = case.array("x"), case.attributes[0]
    sides = sigmoid(x), sigmoid(-x)
    return {"dx": np.abs(case.array("dy")) * ((1 - target) * sides[0] + target * sides[1])}


def binary(name):
    def draw(case, d):
        shapes = random_formulas.broadcast_shapes(d, 2)
        a, b = (case.input(what, d.data(shape)) for what, shape in zip("ab", shapes))
        return case.finish(case.program.call(name, (a, b)), "y", ("a", "b"))
    return draw


def scale_by(case, d):
    x = case.input("x", d.data(d.shape(d.integer(1, 4), ELEMENTS)))
    s = case.parameter("s", d.normal((1,) if d.chance(0.5) else ()))
    return case.finish(case.program.call("scale_by", (x, s)), "y", ("x", "s"))


def fill_by(case, d):
    s = case.parameter("s", d.normal(()))
    shape = d.shape(d.integer(0, 5), ELEMENTS)
    y = case.program.call("fill_by", (s,), (KINDS[d.dtype].number, *dims_as_numbers(shape)))
    return case.finish(y, "y", ("s",))


def cast(case, d):
    source = d.choice(("f32", "bf16", "f16", "u8", "i32"))
    target = d.choice(("f32", "bf16", "f16"))
    shape = d.shape(d.integer(0, 5), ELEMENTS)
    values = d.rng.integers(0, 256, shape) if source in ("u8", "i32") \
        else round_to(d.data(shape, "f16"), source)
    x = case.input("x", np.asarray(values), source)
    y = case.program.call("cast", (x,), (KINDS[target].number,))
    return case.finish(y, "y", () if source in ("u8", "i32") else ("x",))


def normalize_scales(case, truth):
    channels = case.array("x").shape[-1]
    mean, std = (np.array(case.attributes[i:i + channels]) for i in (1, 4))
    return {"y": (case.array("x") / 255 + mean) / std}


def normalize(case, d):
    """Means and deviations are f32: f64 is not drawn."""
    dtype = d.dtype if d.dtype != "f64" else "f32"
    shape = [*d.shape(d.integer(1, 3), 20000), d.integer(1, 3)]
    x = case.input("x", d.rng.integers(0, 256, shape), "u8")
    case.attributes = (KINDS[dtype].number, *d.rng.uniform(0.2, 0.6, 3),
                       *d.rng.uniform(0.2, 0.4, 3))
    case.formula = normalize_scales
    return case.finish(case.program.call("normalize", (x,), case.attributes))


def dropout(name):
    """drop_path draws for whole samples. What is kept is read from the draw applied to ones."""
    def draw(case, d):
        x = case.input("x", d.data(d.shape(d.integer(1, 4), ELEMENTS)))
        key = case.input("key", d.rng.integers(0, 2**31, 4), "i32")
        ones = case.program.value(d.dtype, np.ones(case.array("x").shape))
        case.formula = own_size
        case.attributes = (d.choice((0.0, 0.1, 0.5, 0.9)), d.integer(0, 1000))
        kept = case.program.call(name, (ones, key), case.attributes)
        case.reads.append((kept, "kept"))
        y = case.program.call(name, (x, key, kept), case.attributes)
        return case.finish(y, "y", ("x",))
    return draw


# ---- Losses, metrics, updates ----

def logits(case, d):
    k = d.choice((1, 2, 3, 5, 10, 64, 100, 257, 1000, 1000, 4099, 10000, 21841, 100000))
    n = d.integer(1, max(1, min(128, 300000 // k)))
    x = case.input("x", d.data((n, k)) * 1)
    labels = np.where(d.rng.random(n) < 0.1, -1, d.rng.integers(0, k, n))
    return x, case.input("labels", labels, "i32")


def distances(case):
    """The distance of each logit from the largest of its row; exp() amplifies its rounding."""
    x = case.array("x")
    return x.max(1, keepdims=True) - x


def xent_scales(case, truth):
    below, smoothing = distances(case), case.attributes[0]
    labels = case.array("labels").astype(int)
    total = np.exp(-below).sum(1, keepdims=True)
    own = np.take_along_axis(below, np.maximum(labels, 0)[:, None], 1)[:, 0]
    present = labels >= 0
    target = np.full(below.shape, smoothing / below.shape[1])
    target[np.arange(len(labels)), np.maximum(labels, 0)] += 1 - smoothing
    p = np.exp(-below) / total
    return {"y": present * (1 + own + np.log(total[:, 0]) + smoothing * below.mean(1)),
            "dx": (present * np.abs(case.array("dy")))[:, None] * (p * (1 + below) + target)}


def softmax_xent(case, d):
    x, labels = logits(case, d)
    case.formula = xent_scales
    case.attributes = (d.choice((0.0, 0.0, 0.1, 0.4, 1.0)),)
    y = case.program.call("softmax_xent", (x, labels), case.attributes)
    return case.finish(y, "y", ("x",))


def topk_hits(case, d):
    x, labels = logits(case, d)
    return case.finish(case.program.call("topk_hits", (x, labels)))


def update(case, d, name, variables, hyper):
    shape = d.shape(d.integer(1, 4), ELEMENTS)
    ids = [case.note(v, case.program.variable("f32", d.data(shape, "f32"))) for v in variables[:-1]]
    ids.append(case.input(variables[-1], d.data(shape, "f32"), "f32"))
    case.attributes = round_to(np.array(hyper, np.float64), "f32")
    case.program.call(name, (*ids, case.input("hyper", case.attributes, "f32")))
    case.reads = [(n, v) for n, v in zip(ids, variables[:-1])]
    return case


def sgd_scales(case, truth):
    p, m, g = (np.abs(case.array(v)) for v in "pmg")
    lr, momentum, decay, _, factor = np.abs(case.attributes[:5])
    g = g * factor + decay * p
    m = g + momentum * m
    return {"m": m + np.abs(truth["m"]), "p": p + lr * (g + m)}


def sgd(case, d):
    case.formula = sgd_scales
    return update(case, d, "sgd", "pmg",
                  (d.rng.uniform(0.001, 1), d.choice((0, 0.9, 0.99)), d.choice((0, 1e-4, 0.1)),
                   d.integer(0, 1), d.choice((1, 1 / 256)), d.choice((0, 0, 0.1)),
                   d.integer(0, 1), 0))


def ema_scales(case, truth):
    return {"e": np.abs(case.array("e")) + np.abs(case.array("p"))}


def ema(case, d):
    case.formula = ema_scales
    decay = d.choice((0.9, 0.999, 0.5))
    return update(case, d, "ema", "ep", (decay, 1 - decay, d.choice((1, 1, 1 / 256)), *[0] * 5))


KINDS_OF_CASES = {
    "conv2d": conv2d, "conv2d_transpose": conv2d_transpose, "linear": linear,
    "bias_add": bias_add, "channel_sum": channel_sum, "channel_dot": channel_dot,
    "relu": unary("relu", own_size), "gelu": unary("gelu", gelu_scales),
    "leaky_relu": unary("leaky_relu", own_size, lambda d: (d.choice((0.01, 0.2, 1.0)),)),
    "tanh": unary("tanh", tanh_scales), "sigmoid": unary("sigmoid", sigmoid_scales),
    "softplus": unary("softplus", own_size),
    "add": binary("add"), "sub": binary("sub"), "mul": binary("mul"),
    "scale": unary("scale", None, lambda d: tuple(d.normal((2,)))),
    "scale_by": scale_by, "fill_by": fill_by, "cast": cast, "normalize": normalize,
    "dropout": dropout("dropout"), "drop_path": dropout("drop_path"),
    "softmax_xent": softmax_xent, "topk_hits": topk_hits,
    "bce_with_logits": unary("bce_with_logits", bce_scales,
                             lambda d: (d.choice((0.0, 1.0, 0.3)),), 5),  # of five operators
    "sgd": sgd, "ema": ema,
    **random_formulas.KINDS, **random_moves.KINDS, **random_norms.KINDS, **random_pictures.KINDS, **random_samples.KINDS,
    **random_rows.KINDS,
}
# Kinds with many ways to be computed are drawn more often.
WEIGHT = {"conv2d": 8, "conv2d_transpose": 4, "linear": 4, "batchnorm_train": 6,
          "batchnorm_infer": 3, "softmax_xent": 3, "maxpool2d": 2, "avgpool2d": 2,
          "channel_sum": 2, "channel_dot": 2}
DRAWN = [kind for kind in KINDS_OF_CASES for _ in range(WEIGHT.get(kind, 1))]


def draw_case(draw, only=None):
    kind = draw.choice(DRAWN)
    kind = only or kind
    return KINDS_OF_CASES[kind](Case(draw, kind), draw)
