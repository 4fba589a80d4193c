# SPDX-License-Identifier: Apache-2.0
"""PyTorch's half of random programs (random_program.py).

Three ways to compute one program:
  TRUTH    in f64.
  SINGLE   in f32, where every value that serried stores as bf16 or f16 is rounded to that type, and
           so is the gradient that flows into it: PyTorch's own kernels for these types do the same on
           a CPU, where they exist (they compute in f32; versions differ in which exist).
  SQUARES  of linear operators in f64, on squared inputs: the roots of the results are the 2-norms of
           the terms that are summed for each result, also for gradients.

Discontinuous choices (the side of a ReLU, the position of a maximum, what dropout keeps) are taken
from serried's own values if these are given, so that all compute one function.
"""
import torch
from torch.nn import functional as F

import random_pictures

# Not by PyTorch's oneDNN: versions up to 2.6 write out of bounds for strided 1x1 filters' gradients.
torch.backends.mkldnn.set_flags(False)

TRUTH, SINGLE, SQUARES = "truth", "single", "squares"
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
NAMES = {0: "f32", 1: "bf16", 2: "f16", 3: "f64"}


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dtype):
        ctx.dtype = dtype
        return x.to(TYPES[dtype]).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        return g.to(TYPES[ctx.dtype]).to(g.dtype), None


class FromOutput(torch.autograd.Function):
    """A function whose gradient is computed from its result as it is stored."""

    @staticmethod
    def forward(ctx, x, dtype, function, slope):
        y = function(x).to(TYPES[dtype]).to(x.dtype)
        ctx.slope = slope
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope(ctx.saved_tensors[0]), None, None, None


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


class Evaluation:
    """The values of one program, computed in one way."""

    def __init__(self, program, way, ours):
        self.way = way
        self.decided = []
        self.ours = ours  # {number: array}: serried's values, for discontinuous choices
        self.type = torch.float32 if way == SINGLE else torch.float64
        self.values, self.dtypes, self.leaves = {}, {}, {}
        for step in program.steps:
            self.step = step
            if step.array is not None:
                self.add_leaf(step)
            elif step.word == "gradient":
                self.add_gradients(step)
            else:
                self.add_call(step)

    def add_leaf(self, step):
        number, dtype = step.results[0], step.name
        if dtype in TYPES:
            x = torch.tensor(step.array, dtype=self.type)
            self.leaves[number] = (x * x if self.way == SQUARES else x).requires_grad_()
            self.store(number, self.leaves[number], dtype)
        else:
            self.values[number] = torch.tensor(step.array).to(torch.int64)
            self.dtypes[number] = dtype

    def store(self, number, x, dtype):
        if self.way == SINGLE and dtype in ("bf16", "f16"):
            x = Rounded.apply(x, dtype)
        self.values[number], self.dtypes[number] = x, dtype

    def add_call(self, step):
        inputs = [self.values[i] if i >= 0 else None for i in step.inputs]
        dtype = self.dtypes[step.inputs[0]]
        results = CALLS[step.name](self, inputs, step.numbers, dtype)
        for number, (x, kind) in zip(step.results, results):
            self.store(number, x, kind)

    def add_gradients(self, step):
        y, dy, *xs = step.inputs
        leaves = [self.leaves[i] for i in xs]
        found = torch.autograd.grad(self.values[y], leaves, self.values[dy].detach(),
                                    allow_unused=True)
        for number, source, leaf, g in zip(step.results, xs, leaves, found):
            self.values[number] = torch.zeros_like(leaf) if g is None else g
            self.dtypes[number] = self.dtypes[source]

    def of_ours(self, number):
        x = self.ours.get(number) if self.ours else None
        return None if x is None else torch.tensor(x, dtype=self.type)

    def positive(self, x):
        given = self.of_ours(self.step.inputs[0])
        return self.decide((x if given is None else given) > 0)

    def decide(self, choice):
        self.decided.append(choice)
        return choice

    def array(self, number):
        return self.values[number].detach().to(torch.float64).numpy()


def same(function):
    """A call whose one result has the dtype of the first input."""
    return lambda e, x, n, dtype: [(function(e, x, n), dtype)]


def parameter(function):
    """A call whose one result is f32, or f64 if the inputs are f64."""
    return lambda e, x, n, dtype: [(function(e, x, n), "f64" if dtype == "f64" else "f32")]


def ints(numbers, first, count):
    return tuple(int(x) for x in numbers[first:first + count])


def conv2d(e, x, n):
    stride, pad, dilation, groups = ints(n, 0, 2), ints(n, 2, 2), int(n[4]), int(n[5])
    bias = x[2] if len(x) > 2 else None
    right, bottom = ints((*n, 0, 0)[6:], 0, 2)
    padded = F.pad(nchw(x[0]), (0, right, 0, bottom)) if right or bottom else nchw(x[0])
    return nhwc(F.conv2d(padded, x[1], bias, stride, pad, dilation, groups))


def conv2d_transpose(e, x, n):
    stride, pad, dilation, groups = ints(n, 0, 2), ints(n, 2, 2), int(n[4]), int(n[5])
    return nhwc(F.conv_transpose2d(nchw(x[0]), x[1], None, stride, pad, int(n[6]), groups,
                                   dilation))


def channel_dot(e, x, n):
    a, b, shift = x
    if shift is not None:
        b = b + shift if e.way == SQUARES else b - shift
    return (a * b).reshape(-1, a.shape[-1]).sum(0)


def batchnorm_train(e, x, n, dtype):
    rows = x[0].reshape(-1, x[0].shape[-1])
    gamma, beta = (x + [None, None])[1:3]
    # PyTorch refuses a single row, whose result is beta.
    y = F.batch_norm(rows, None, None, gamma, beta, True, 0.1, n[0]) if len(rows) > 1 \
        else (rows - rows) * (1 if gamma is None else gamma) + (0 if beta is None else beta)
    kind = "f64" if dtype == "f64" else "f32"
    return [(y.reshape(x[0].shape), dtype), (rows.mean(0), kind),
            (rows.var(0, unbiased=False), kind)]


def batchnorm_infer(e, x, n):
    """PyTorch's own does not differentiate with respect to the statistics."""
    y = (x[0] - x[3]) * torch.rsqrt(x[4] + n[0])
    y = y if x[1] is None else y * x[1]
    return y if x[2] is None else y + x[2]


def relu(e, x, n):
    return x[0] * e.positive(x[0])


def leaky_relu(e, x, n):
    return torch.where(e.positive(x[0]), x[0], x[0] * n[0])


def gelu(e, x, n):
    """PyTorch 1.13's own gradient is NaN for some strides after pooling."""
    return x[0] * 0.5 * (1 + torch.erf(x[0] * 0.5**0.5))


def from_output(function, slope):
    """PyTorch keeps the result, in the dtype of the activations."""
    def call(e, x, n, dtype):
        stored = dtype if e.way == SINGLE and dtype != "f64" else None
        y = FromOutput.apply(x[0], stored, function, slope) if stored else function(x[0])
        return [(y, dtype)]
    return call


def sub(e, x, n):
    return x[0] + x[1] if e.way == SQUARES else x[0] - x[1]


def scale(e, x, n):
    a, b = (n[0]**2, n[1]**2) if e.way == SQUARES else n
    return x[0] * a + b


def fill_by(e, x, n, dtype):
    return [(x[0].expand(ints(n, 2, int(n[1]))), NAMES[int(n[0])])]


def cast(e, x, n, dtype):
    return [(x[0].to(e.type), NAMES[int(n[0])])]


def normalize(e, x, n, dtype):
    channels = x[0].shape[-1]
    mean, std = (torch.tensor(n[i:i + channels], dtype=e.type) for i in (1, 4))
    return [((x[0].to(e.type) / 255 - mean) / std, NAMES[int(n[0])])]


def dropout(e, x, n):
    """Keeps what the third input keeps, which is the same draw applied to ones."""
    given = e.of_ours(e.step.inputs[2] if len(x) > 2 else e.step.results[0])
    kept = e.decide(torch.ones_like(x[0]) if given is None else given != 0)
    return x[0] * kept / (1 - n[0])


def max_in_windows(e, x, window, stride, pad):
    given = e.of_ours(e.step.inputs[0])
    place = e.decide(F.max_pool2d(nchw(x if given is None else given), window, stride, pad,
                                  return_indices=True)[1])
    y = nchw(x).flatten(2).gather(2, place.flatten(2)).reshape(place.shape)
    return nhwc(y)


def sides(n):
    """window, stride, pad, each of height and width."""
    return tuple(zip(ints(n, 0, 3), ints(n, 3, 3)))


def maxpool2d(e, x, n):
    return max_in_windows(e, x[0], *sides(n))


def global_maxpool(e, x, n):
    return max_in_windows(e, x[0], tuple(x[0].shape[1:3]), None, 0).flatten(1)


def avgpool(e, x, window, stride, pad):
    y = nhwc(F.avg_pool2d(nchw(x), window, stride, pad, False, False))
    if e.way != SQUARES:
        return y
    ones = torch.ones_like(nchw(x[:1]))
    return y / nhwc(F.avg_pool2d(ones, window, stride, pad, False, True, 1))


def avgpool2d(e, x, n):
    return avgpool(e, x[0], *sides(n))


def global_avgpool(e, x, n):
    return avgpool(e, x[0], tuple(x[0].shape[1:3]), None, 0).flatten(1)


def upsample2d(e, x, n):
    factor = int(n[0])
    return x[0].repeat_interleave(factor, 1).repeat_interleave(factor, 2)


def softmax_xent(e, x, n):
    return F.cross_entropy(x[0], x[1].clamp(min=-1), ignore_index=-1, reduction="none",
                           label_smoothing=n[0])


def topk_hits(e, x, n, dtype):
    mine = x[0].gather(1, x[1].clamp(min=0)[:, None])
    lower = torch.arange(x[0].shape[1])[None] < x[1][:, None]
    place = ((x[0] > mine) | ((x[0] == mine) & lower)).sum(1)
    return [(torch.stack([((place < k) & (x[1] >= 0)).sum() for k in (1, 5)]).to(e.type), "f32")]


def softplus(x):
    return F.softplus(x, threshold=40)


def bce_with_logits(e, x, n):
    """PyTorch's own cancels: at x = 36.75 and target 1 it is 0 in f64, where 1.1e-16 is right."""
    return (1 - n[0]) * softplus(x[0]) + n[0] * softplus(-x[0])


def sgd(e, x, n, dtype):
    p, m, g, h = (v.detach() for v in x)
    lr, momentum, decay, nesterov, factor, dampening, first, _ = h
    g = g * factor + decay * p
    if momentum != 0:
        m = g if first else momentum * m + (1 - dampening) * g
        g = g + momentum * m if nesterov else m
    e.values[e.step.inputs[0]], e.values[e.step.inputs[1]] = p - lr * g, m
    return []


def ema(e, x, n, dtype):
    keep, take, scale = x[2][0], x[2][1], x[2][2]
    e.values[e.step.inputs[0]] = keep * x[0] + take * (scale * x[1])
    return []


CALLS = {
    "conv2d": same(conv2d), "conv2d_transpose": same(conv2d_transpose),
    "linear": same(lambda e, x, n: F.linear(*x)),
    "bias_add": same(lambda e, x, n: x[0] + x[1]),
    "channel_sum": parameter(lambda e, x, n: x[0].reshape(-1, x[0].shape[-1]).sum(0)),
    "channel_dot": parameter(channel_dot),
    "batchnorm_train": batchnorm_train, "batchnorm_infer": same(batchnorm_infer),
    "relu": same(relu), "leaky_relu": same(leaky_relu),
    "gelu": same(gelu), "tanh": from_output(torch.tanh, lambda y: 1 - y * y),
    "sigmoid": from_output(torch.sigmoid, lambda y: y * (1 - y)),
    "softplus": same(lambda e, x, n: softplus(x[0])),
    "add": same(lambda e, x, n: x[0] + x[1]), "sub": same(sub),
    "mul": same(lambda e, x, n: x[0] * x[1]),
    "scale": same(scale), "scale_by": same(lambda e, x, n: x[0] * x[1]),
    "fill_by": fill_by, "cast": cast, "normalize": normalize, "dropout": same(dropout),
    "maxpool2d": same(maxpool2d), "global_maxpool": same(global_maxpool),
    "avgpool2d": same(avgpool2d), "global_avgpool": same(global_avgpool),
    "upsample2d": same(upsample2d),
    "reshape": same(lambda e, x, n: x[0].reshape(ints(n, 1, int(n[0])))),
    "reduce_sum": parameter(lambda e, x, n: x[0].sum()),
    "softmax_xent": parameter(softmax_xent),
    "softmax": same(lambda e, x, n: x[0].softmax(1)), "topk_hits": topk_hits,
    "bce_with_logits": same(bce_with_logits), "sgd": sgd, "ema": ema,
    "nms": random_pictures.nms, **{name: same(call) for name, call in random_pictures.CALLS.items()},
}


def evaluate(program, reads, way, ours=None):
    """{number: array f64} of the values 'reads'."""
    evaluation = Evaluation(program, way, ours)
    return {number: evaluation.array(number) for number in reads}


def decisions(program, ours):
    """Bytes that are equal if serried's values make the same choices."""
    found = Evaluation(program, SINGLE, ours).decided
    return b"".join(choice.to(torch.int32).numpy().tobytes() for choice in found)
