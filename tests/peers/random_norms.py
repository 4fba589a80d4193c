# SPDX-License-Identifier: Apache-2.0
"""Random cases of normalisation: over rows (batch normalisation) and within samples."""
import numpy as np
import torch
from torch.nn import functional as F

from random_draw import ELEMENTS
from random_program import KINDS as TYPES
from random_torch import CALLS, same


def norm0(x):
    """2-norm over the rows of [rows, channels], and a small share of the 1-norm: equal terms are all rounded alike."""
    return np.sqrt(np.square(x).sum(0)) + np.abs(x).sum(0) / 64


class Normalised:
    """Terms of batch normalisation of x [rows, channels] in f64. x hat is a difference from the mean, which is
    stored in fp32: 'shift' is what the mean's terms, of size 'mean_size', add to the size of x hat, and 'size' is
    both. 'share' scales it for results that are stored in the dtype of x, whose own rounding does not depend on
    the mean."""

    def __init__(self, x, mean, var, eps, gamma, mean_size, dtype):
        self.rows = len(x)
        self.mean_size, self.inverse = mean_size, 1 / np.sqrt(var + eps)
        self.hat = (x - mean) * self.inverse
        self.shift = mean_size * self.inverse
        self.size = np.abs(self.hat) + self.shift
        self.gain = np.abs(gamma) * self.inverse
        self.share = TYPES["f32"].u / TYPES[dtype].u if dtype in ("bf16", "f16") else 1

    def result(self, gamma, beta):
        return np.abs(gamma) * (np.abs(self.hat) + self.share * self.shift) + np.abs(beta)


def rows_of(x):
    return x.reshape(-1, x.shape[-1])


def train_scales(case, truth):
    """Scales of the results and gradients of batchnorm_train."""
    x = rows_of(case.array("x"))
    mean, var = x.mean(0), x.var(0)
    channels = x.shape[1]
    gamma = case.array("gamma") if "gamma" in case.numbers else np.ones(channels)
    beta = case.array("beta") if "beta" in case.numbers else np.zeros(channels)
    t = Normalised(x, mean, var, case.eps, gamma, norm0(x) / len(x) + np.abs(mean),
                   case.draw.dtype)
    shape = case.array("x").shape
    # Rounding x would change its variance by up to 2 |mean| sqrt(var) u; rounding the mean adds the
    # square of its own error.
    scales = {"mean": t.mean_size, "y": t.result(gamma, beta).reshape(shape),
              "var": var + 2 * t.mean_size * np.sqrt(var) + TYPES["f32"].u * t.mean_size**2}
    if case.upstream == "y":
        dy = rows_of(case.array("dy"))
        product = np.abs((dy * t.hat).sum(0))
        sum_of_dy = norm0(dy) + np.abs(dy.sum(0))
        sum_of_products = norm0(dy * t.hat) + product
        own = np.abs(dy) + (sum_of_dy + np.abs(t.hat) * (sum_of_products + product)) / t.rows
        by_mean = (t.shift * product + np.abs(t.hat) * sum_of_dy * t.shift) / t.rows
        by_var = scales["var"] / (var + case.eps)  # the effect of an error of the variance on 1 / sqrt
        scales["dx"] = (t.gain * (own + t.share * (by_mean + own * by_var))).reshape(shape)
        scales["dgamma"] = sum_of_products * (1 + by_var) + sum_of_dy * t.shift
        scales["dbeta"] = sum_of_dy
    elif case.upstream == "var":
        scales["dx"] = (np.abs(case.array("dy")) * 2 / t.rows
                        * (np.abs(x - mean) + t.share * t.mean_size)).reshape(shape)
    return scales


def infer_scales(case, truth):
    x, dy = rows_of(case.array("x")), rows_of(case.array("dy"))
    channels, shape = x.shape[1], case.array("x").shape
    gamma = case.array("gamma") if "gamma" in case.numbers else np.ones(channels)
    beta = case.array("beta") if "beta" in case.numbers else np.zeros(channels)
    mean = case.array("mean")
    t = Normalised(x, mean, case.array("var"), case.eps, gamma, np.abs(mean), case.draw.dtype)
    products = norm0(dy * t.size) + np.abs((dy * t.hat).sum(0))
    return {"y": t.result(gamma, beta).reshape(shape),
            "dx": (t.gain * np.abs(dy)).reshape(shape), "dgamma": products,
            "dbeta": norm0(dy) + np.abs(dy.sum(0)),
            "dmean": t.gain * (norm0(dy) + np.abs(dy.sum(0))),
            "dvar": t.gain * t.inverse * products}


def batchnorm_train(case, d):
    shape = d.channels_shape()
    x, inputs = case.input("x", d.data(shape)), ["x"]
    gamma = beta = -1
    if d.chance(0.7):
        gamma, inputs = case.parameter("gamma", d.near_one(shape[-1:])), [*inputs, "gamma"]
    if d.chance(0.7):
        beta, inputs = case.parameter("beta", d.data(shape[-1:])), [*inputs, "beta"]
    case.eps = d.choice((1e-5, 1e-3, 1e-12 if d.dtype == "f64" else 1e-5, 0.1))
    case.upstream = d.choice(("y", "y", "y", "y", "mean", "var"))
    y, mean, var = case.program.call("batchnorm_train", (x, gamma, beta), (case.eps,))
    numbers = {"y": y, "mean": mean, "var": var}
    case.reads = [(n, what) for what, n in numbers.items() if what != case.upstream]
    case.formula = train_scales
    return case.finish(numbers[case.upstream], case.upstream,
                       inputs if case.upstream == "y" else ["x"])


def batchnorm_infer(case, d):
    shape = d.channels_shape()
    x, inputs = case.input("x", d.data(shape)), ["x", "mean", "var"]
    gamma = beta = -1
    if d.chance(0.7):
        gamma, inputs = case.parameter("gamma", d.near_one(shape[-1:])), [*inputs, "gamma"]
    if d.chance(0.7):
        beta, inputs = case.parameter("beta", d.data(shape[-1:])), [*inputs, "beta"]
    rows = rows_of(case.array("x"))
    mean = case.parameter("mean", rows.mean(0) + 0.1 * rows.std(0) * d.normal(shape[-1:]))
    var = case.parameter("var", (rows.var(0) + 0.01) * np.exp(0.2 * d.normal(shape[-1:])))
    case.eps = d.choice((1e-5, 1e-3, 0.1))
    case.formula = infer_scales
    y = case.program.call("batchnorm_infer", (x, gamma, beta, mean, var), (case.eps,))
    return case.finish(y, "y", inputs)


# ---- Within samples ----

def size_of_mean(x):
    """Of the mean of each row, by its terms."""
    return np.sqrt(np.square(x).sum(1, keepdims=True)) / x.shape[1] + np.abs(x.mean(1, keepdims=True))


def sum_and_terms(x):
    """Size of the sum of each row, and the 2-norm of its terms beside it."""
    total = np.abs(x.sum(1, keepdims=True))
    return total, total + np.sqrt(np.square(x).sum(1, keepdims=True))


def sample_scales(case, truth):
    """As train_scales, for rows of elements that are normalised together. 'regroup' makes these rows."""
    x, back = regroup(case.array("x"), case.form, case.groups)
    gamma = case.array("gamma") if "gamma" in case.numbers else np.ones(case.array("x").shape[-1])
    gains, _ = regroup(np.broadcast_to(gamma, case.array("x").shape), case.form, case.groups)
    centred = case.kind != "rms_norm"
    mean = x.mean(1, keepdims=True) if centred else 0
    mean_size = size_of_mean(x) if centred else 0
    var = np.square(x - mean).mean(1, keepdims=True)
    inverse = 1 / np.sqrt(var + case.eps)
    hat, shift = (x - mean) * inverse, mean_size * inverse
    narrow = case.draw.dtype in ("bf16", "f16")
    share = TYPES["f32"].u / TYPES[case.draw.dtype].u if narrow else 1
    beta = np.abs(case.array("beta")) if "beta" in case.numbers else 0
    scales = {"y": back(np.abs(gains) * (np.abs(hat) + share * shift)) + beta}
    if "dy" not in case.numbers:
        return scales
    dy, _ = regroup(case.array("dy"), case.form, case.groups)
    flow = dy * gains
    total, terms = sum_and_terms(flow)
    product, products = sum_and_terms(flow * hat)
    if not centred:
        total, terms = 0 * total, 0 * terms
    own = np.abs(flow) + (terms + np.abs(hat) * (products + product)) / x.shape[1]
    by_mean = (shift * product + np.abs(hat) * terms * shift) / x.shape[1]
    by_var = (2 * mean_size * np.sqrt(var) + TYPES["f32"].u * mean_size**2) / (var + case.eps)
    scales["dx"] = back(inverse * (own + share * (by_mean + own * by_var)))
    each = back(np.abs(dy * hat) * (1 + by_var))
    moved = back(np.abs(dy) * shift)
    channels = tuple(range(each.ndim - 1))
    if "dgamma" in truth:
        scales["dgamma"] = np.sqrt(np.square(each).sum(channels)) + moved.sum(channels) + np.abs(truth["dgamma"])
    if "dbeta" in truth:
        scales["dbeta"] = np.sqrt(np.square(case.array("dy")).sum(channels)) + np.abs(truth["dbeta"])
    return scales


def regroup(x, form, groups):
    """x as rows of what is normalised together, and the function that undoes it."""
    if form == "last":
        return x.reshape(-1, x.shape[-1]), lambda rows: rows.reshape(x.shape)
    n, c = x.shape[0], x.shape[-1]
    split = x.reshape(n, -1, groups, c // groups).transpose(0, 2, 1, 3)
    return split.reshape(n * groups, -1), \
        lambda rows: np.broadcast_to(rows, (n * groups, x.size // (n * groups))).reshape(split.shape) \
        .transpose(0, 2, 1, 3).reshape(x.shape)


def normalised(name, form):
    """form: over the last dimension, or over the pixels of a sample and a group of channels."""
    def draw(case, d):
        shape = d.channels_shape() if form == "last" else d.picture()
        if form == "pictures" and d.chance(0.3):
            shape = [shape[0], *shape[2:]] if d.chance(0.5) else [shape[0], 1, *shape[1:]]
        channels = shape[-1]
        case.form, case.groups = form, channels
        numbers = ()
        if name == "group_norm":
            case.groups = d.choice([g for g in (1, 2, 3, 4, 8, 32, channels) if channels % g == 0])
            numbers = (case.groups,)
        case.eps = d.choice((1e-5, 1e-6, 1e-3, 0.1))
        x, inputs = case.input("x", d.data(shape)), ["x"]
        gamma = beta = -1
        if d.chance(0.7):
            gamma, inputs = case.parameter("gamma", d.near_one((channels,))), [*inputs, "gamma"]
        if name != "rms_norm" and d.chance(0.7):
            beta, inputs = case.parameter("beta", d.data((channels,))), [*inputs, "beta"]
        case.formula, case.stored = sample_scales, 3
        y = case.program.call(name, (x, gamma) if name == "rms_norm" else (x, gamma, beta), (*numbers, case.eps))
        return case.finish(y, "y", inputs)
    return draw


def layer_norm(e, x, n):
    return F.layer_norm(x[0], x[0].shape[-1:], x[1], x[2], n[0])


def rms_norm(e, x, n):
    y = x[0] * torch.rsqrt(x[0].square().mean(-1, keepdim=True) + n[0])
    return y if x[1] is None else y * x[1]


def group_norm(x, groups, gamma, beta, eps):
    """PyTorch 1.13's own fails with beta alone, and torch.nn.functional's refuses groups of one value. It takes the
    variance from the mean of squares, which is inexact where all values are equal; in f64, with which others are
    compared, it is taken from the differences from the mean."""
    planes = x.movedim(-1, 1)
    if x.dtype == torch.float64:
        rows = planes.reshape(len(x), groups, -1)
        rows = rows - rows.mean(-1, keepdim=True)
        y = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps)
    else:
        y = torch.group_norm(planes, groups, None, None, eps)
    y = y.reshape(planes.shape).movedim(1, -1)
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


CALLS.update({
    "layer_norm": same(layer_norm), "rms_norm": same(rms_norm),
    "group_norm": same(lambda e, x, n: group_norm(x[0], int(n[0]), x[1], x[2], n[1])),
    "instance_norm": same(lambda e, x, n: group_norm(x[0], x[0].shape[-1], x[1], x[2], n[0])),
})

KINDS = {
    "batchnorm_train": batchnorm_train, "batchnorm_infer": batchnorm_infer,
    "layer_norm": normalised("layer_norm", "last"), "rms_norm": normalised("rms_norm", "last"),
    "group_norm": normalised("group_norm", "pictures"), "instance_norm": normalised("instance_norm", "pictures"),
}
