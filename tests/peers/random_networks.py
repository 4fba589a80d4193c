# SPDX-License-Identifier: Apache-2.0
"""Random networks: chains, residual blocks and branches of convolution, normalisation, activation and
pooling, a head and a loss; forward, statistics and all gradients.

A network runs twice in serried. The first run also reads the inputs of everything discontinuous, whose
choices PyTorch takes over; the second one reads what a training step would read, which makes another
plan, and must give the same bits.
"""
import math

import numpy as np

import random_torch
from random_compare import FACTOR, WINOGRAD_FACTOR, Verdict, compare_sampled, norm
from random_program import KINDS, Program, round_to

SAMPLES = 4  # number of samples of PyTorch's error: on the network's own inputs, and on some close to them
DECISIONS = {"relu": 0, "leaky_relu": 0, "maxpool2d": 0, "global_maxpool": 0}
ELEMENTS = 40000  # of an activation


class Network:
    """A program under construction; the shape of each value is known."""

    def __init__(self, draw):
        self.draw, self.dtype = draw, draw.dtype
        self.program = Program(draw.dtype)
        self.shape = {}       # of activations
        self.parameters = []  # (number, name)
        self.statistics = []
        self.decided_by = []  # values that determine the chosen sides or positions
        self.winograd = False

    def parameter(self, name, array):
        number = self.program.parameter(array)
        self.parameters.append((number, f"d{name}{number}"))
        return number

    def call(self, name, inputs, numbers=(), shape=None):
        number = self.program.call(name, inputs, numbers)
        self.shape[number] = shape or self.shape[inputs[0]]
        if name in DECISIONS:
            self.decided_by.append(inputs[DECISIONS[name]])
        return number

    def convolution(self, x, k, window=None, stride=1, groups=1):
        d, (n, h, w, c) = self.draw, self.shape[x]
        window = window or d.choice((1, 1, 3, 3, 3, 5))
        pad = window // 2
        size = [(side + 2 * pad - window) // stride + 1 for side in (h, w)]
        f = self.parameter("w", d.weights((k, c // groups, window, window),
                                          c // groups * window**2 / 2))
        bias = self.parameter("b", d.normal((k,))) if d.chance(0.3) else -1
        self.winograd |= window == 3 and stride == 1 and groups == 1 and min(c, k) >= 16
        return self.call("conv2d", (x, f, bias), (stride, stride, pad, pad, 1, groups),
                         [n, *size, k])

    def normalisation(self, x):
        d, c = self.draw, self.shape[x][-1]
        gamma, beta = (self.parameter("gamma", d.near_one((c,))),
                       self.parameter("beta", d.normal((c,)) * 0.3))
        y, mean, var = self.program.call("batchnorm_train", (x, gamma, beta),
                                         (d.choice((1e-5, 1e-3)),))
        self.shape[y] = self.shape[x]
        self.statistics += [(mean, f"mean{mean}"), (var, f"var{var}")]
        return y

    def activation(self, x):
        name = self.draw.choice(("relu", "relu", "relu", "gelu", "leaky_relu", "tanh", "sigmoid",
                                 "softplus"))
        return self.call(name, (x,), (0.1,) if name == "leaky_relu" else ())

    def unit(self, x, k, stride=1):
        """Convolution, normalisation, activation, in one of the usual orders."""
        form = self.draw.rng.random()
        if form < 0.2:  # normalised before
            return self.convolution(self.activation(self.normalisation(x)), k, stride=stride)
        y = self.convolution(x, k, stride=stride)
        if form < 0.85:
            y = self.normalisation(y)
        return self.activation(y)


# ---- Blocks: x -> y ----

def chain(net, x):
    return net.unit(x, net.draw.choice((4, 8, 16, 24, 32, 48)))


def strided(net, x):
    return net.unit(x, net.draw.choice((8, 16, 24, 32)), stride=2)


def residual(net, x):
    c = net.shape[x][-1]
    y = net.normalisation(net.convolution(net.unit(x, c), c))
    return net.activation(net.call("add", (y, x)))


def bottleneck(net, x):
    c = net.shape[x][-1]
    middle = max(4, c // 2)
    y = net.activation(net.normalisation(net.convolution(x, middle, 1)))
    y = net.activation(net.normalisation(net.convolution(y, middle, 3)))
    y = net.normalisation(net.convolution(y, c, 1))
    return net.call("relu", (net.call("add", (y, x)),))


def depthwise(net, x):
    c = net.shape[x][-1]
    y = net.activation(net.normalisation(net.convolution(x, c, 3, groups=c)))
    return net.normalisation(net.convolution(y, net.draw.choice((8, 16, 32)), 1))


def gate(net, x):
    k = net.draw.choice((8, 16))
    gated = net.call("sigmoid", (net.convolution(x, k, 1),))
    return net.call("mul", (net.convolution(x, k), gated))


def branches(net, x):
    k = net.draw.choice((8, 16, 32))
    return net.call(net.draw.choice(("add", "sub")), (net.unit(x, k), net.unit(x, k)))


def pooled(net, x):
    n, h, w, c = net.shape[x]
    window, pad = net.draw.choice(((2, 0), (3, 1)))
    size = [(side + 2 * pad - window) // 2 + 1 for side in (h, w)]
    if min(size) < 1:
        return x
    return net.call(net.draw.choice(("maxpool2d", "avgpool2d")), (x,), (window, 2, pad),
                    [n, *size, c])


def upsampled(net, x):
    n, h, w, c = net.shape[x]
    if 4 * n * h * w * c > ELEMENTS:
        return x
    return net.call("upsample2d", (x,), (2,), [n, 2 * h, 2 * w, c])


def transposed(net, x):
    n, h, w, c = net.shape[x]
    k = net.draw.choice((4, 8, 16))
    if 4 * n * h * w * k > ELEMENTS:
        return x
    f = net.parameter("w", net.draw.weights((c, k, 4, 4), c * 4))
    return net.call("conv2d_transpose", (x, f), (2, 2, 1, 1, 1, 1, 0, 0, 0), [n, 2 * h, 2 * w, k])


def scaled(net, x):
    if net.draw.chance(0.5):
        return net.call("scale", (x,), (net.draw.choice((0.5, -1.3)), 0.25))
    return net.call("scale_by", (x, net.parameter("s", net.draw.near_one((1,)))))


def dropped(net, x):
    key = net.program.value("i32", net.draw.rng.integers(0, 2**31, 4))
    ones = net.program.value(net.dtype, np.ones(net.shape[x]))
    kept = net.program.call("dropout", (ones, key), (0.2, x))
    net.decided_by.append(kept)
    return net.call("dropout", (x, key, kept), (0.2, x))


BLOCKS = (chain, chain, chain, strided, residual, residual, bottleneck, depthwise, gate, branches,
          pooled, pooled, upsampled, transposed, scaled, dropped)


# ---- Head and loss ----

def head(net, x):
    n, h, w, c = net.shape[x]
    if h * w * c <= 2048 and net.draw.chance(0.3):
        x = net.call("reshape", (x,), (2, n, h * w * c, 0, 0, 0), [n, h * w * c])
    else:
        x = net.call(net.draw.choice(("global_avgpool", "global_avgpool", "global_maxpool")), (x,),
                     (), [n, c])
    fan_in, classes = net.shape[x][1], net.draw.choice((2, 10, 100, 1000))
    f = net.parameter("w", net.draw.weights((classes, fan_in), fan_in))
    bias = net.parameter("b", net.draw.normal((classes,))) if net.draw.chance(0.7) else -1
    return net.call("linear", (x, f, bias), (), [n, classes])


def loss(net, logits):
    """(value, its dtype) of the loss, whose shape is noted."""
    n, classes = net.shape[logits]
    if net.draw.chance(0.2):
        return net.call("bce_with_logits", (logits,), (net.draw.choice((0.0, 1.0, 0.9)),))
    labels = net.program.value("i32", net.draw.rng.integers(0, classes, n))
    return net.call("softmax_xent", (logits, labels), (net.draw.choice((0.0, 0.1)),), [n])


def draw_network(draw):
    net = Network(draw)
    net.kind = "network"
    n, side = draw.choice((2, 3, 4, 8)), draw.integer(5, 20)
    shape = [n, side, draw.integer(5, 20), draw.choice((1, 3, 4, 8, 16))]
    x = net.program.value(net.dtype, draw.normal(shape))
    net.shape[x] = shape
    net.parameters.append((x, "dx"))
    for _ in range(draw.integer(2, 6)):
        if math.prod(net.shape[x]) > ELEMENTS:
            x = pooled(net, x)
        x = draw.choice(BLOCKS)(net, x)
    logits = head(net, x)
    y = loss(net, logits)
    kind = random_torch.Evaluation(net.program, random_torch.TRUTH, None).dtypes[y]
    dy = net.program.value(kind, draw.rng.uniform(0.5, 1.5, net.shape[y]))
    used = [p for p in net.parameters if p[0] in reached(net.program, y)]
    grads = net.program.gradient(y, dy, [n for n, _ in used])
    net.reads = [(logits, "logits"), (y, "loss"), *net.statistics,
                 *((g, name) for g, (_, name) in zip(grads, used))]
    return net


def reached(program, y):
    """Values that y is computed from."""
    found = {y}
    for step in reversed(program.steps):
        if step.word == "call" and found & set(step.results):
            found |= set(step.inputs)
    return found


# ---- Comparison ----

def nearby(net, sample):
    """The program on inputs a few units in the last place away."""
    if sample == 0:
        return net.program
    rng = np.random.Generator(np.random.Philox(key=[sample, 0]))

    def move(step):
        if step.name in ("i32", "u8"):
            return step.array
        dtype = "f32" if net.dtype == "f64" else net.dtype  # parameters are exact in it
        size = 8 * KINDS[dtype].u
        moved = step.array * (1 + size * rng.uniform(-1, 1, step.array.shape))
        return round_to(round_to(moved, dtype), step.name)
    return net.program.with_arrays(move)


def peers_errors(net, numbers, ours):
    """(exact values, norms of PyTorch's error in each sample) by number."""
    first, errors = None, {n: [] for n in numbers}
    for sample in range(SAMPLES):
        program = nearby(net, sample)
        truth = random_torch.evaluate(program, numbers, random_torch.TRUTH, ours)
        single = random_torch.evaluate(program, numbers, random_torch.SINGLE, ours)
        first = first or truth
        for n in numbers:
            errors[n].append(norm(single[n] - truth[n]))
    return first, errors


class Comparison:
    """Compares one network; PyTorch's side is kept for ways that make the same choices."""

    def __init__(self, net):
        self.net = net
        self.numbers = [n for n, _ in net.reads]
        self.extra = [n for n in dict.fromkeys(net.decided_by) if n not in self.numbers]
        self.peers = {}

    def verdicts(self, run, _short):
        """Verdicts for all results, and for the bits of two plans."""
        net, names, numbers = self.net, dict(self.net.reads), self.numbers + self.extra
        watched = run(net.program, numbers)
        plain = run(net.program, self.numbers)
        verdicts = [same_bits(names[n], plain[n], watched[n]) for n in self.numbers]
        ours = {n: watched[n][1] for n in net.decided_by}
        decisions = random_torch.decisions(net.program, ours)
        if decisions not in self.peers:
            self.peers[decisions] = peers_errors(net, numbers, ours)
        truth, errors = self.peers[decisions]
        factor = WINOGRAD_FACTOR if net.winograd else FACTOR
        return verdicts + [compare_sampled(names.get(n, f"%{n}"), watched[n][1], watched[n][0],
                                           truth[n], np.array(errors[n]), factor)
                           for n in numbers]


def same_bits(what, one, other):
    equal = np.array_equal(one[1], other[1], equal_nan=True)
    return Verdict(f"{what} of two plans", 0.0 if equal else np.inf, "bits", 0 if equal else np.inf, 0,
                   0, list(one[1].shape), one[0])
