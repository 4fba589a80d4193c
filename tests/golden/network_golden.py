# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/network_CASE.txt: the results of whole networks in PyTorch.

Philox generates weights, inputs and labels here and in tests/unit/trainer/test_network_golden.c, so
that the files contain only results. For every tensor (the output, the losses, each gradient of the
summed loss, each statistic of batch norm):

    KIND INDEX NAME NORM P1 .. P16 FLOAT32 BFLOAT16

NORM and P (projections: sums of the elements with random signs, which any wrong element changes) are
those of float64. FLOAT32 and BFLOAT16 are PyTorch's own errors in these precisions, the yardstick for
ours: norms of the difference to a float64 run with the rounded run's sides of every ReLU and maximum
(tests/peers/torch_kinks.py), the worst over PyTorch's orders of summation (oneDNN on planar and on
channels-last tensors, and in float32 its own loops).

    /usr/bin/python3 tests/golden/network_golden.py [CASE...]

Generated values. Word w(t, i, k) is word i % 4 of philox4x32-10(key 1; counter i / 4, t, k, 0);
u = 2 (w >> 8) / 2^24 - 1. Tensor t (in state_dict order, counters left out), element i, k = 0:
convolution and linear weights u sqrt(6 / fan_in), norm weights 1 + u / 5, all else u / 5; the last
norm weights of a residual block are a quarter of that, so that deep networks amplify rounding
little. Rounded to float32. Inputs: t = 2^20, w >> 24 for pictures, u for noise. Labels:
t = 2^20 + 1, w % classes (both, of step s, at s 2^8 more). Projection p = 1 .. 16: the sign of
element i of tensor t is minus where bit 15 + p of w(t, i, 1) is set. t of the output, the losses
and the signs that stand for the gradient of a generator's output (as p = 16) is 2^20 + 2, + 3, + 4.
"""
import os
import sys

import numpy
import torch
import torch.nn.functional as F

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "peers"))
import torch_kinks  # noqa: E402
import torch_models  # noqa: E402

# Name of the file: model, stem, classes, side, samples, label smoothing.
CASES = {
    "resnet18": ("resnet18", "imagenet", 10, 32, 8, 0.0),
    "resnet18-cifar": ("resnet18", "cifar", 10, 16, 6, 0.1),
    "resnet50": ("resnet50", "imagenet", 10, 32, 12, 0.0),
    "cifar-fast": ("cifar-fast", "-", 10, 32, 4, 0.2),
    "tiny": ("tiny", "-", 5, 32, 8, 0.0),
    "toy-generator": ("toy-generator", "-", 0, 32, 4, 0.0),
    "toy-critic": ("toy-critic", "-", 1, 32, 4, 0.0),
}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INPUT, LABELS, OUTPUT, LOSS, SEED = range(1 << 20, (1 << 20) + 5)
PROJECTIONS, NOISE = 16, 32
BFLOAT16 = torch.bfloat16


def philox(key, c1, c2, c3, count):
    """The words of the counters (0, c1, c2, c3), (1, c1, c2, c3), ... (Salmon et al. 2011)."""
    low, shift = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    c0 = numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    c1, c2, c3 = (numpy.full_like(c0, v) for v in (c1, c2, c3))
    k0, k1 = key, 0
    for _ in range(10):
        p0, p1 = numpy.uint64(0xD2511F53) * c0, numpy.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> shift) ^ c1 ^ numpy.uint64(k0), p1 & low,
                          (p0 >> shift) ^ c3 ^ numpy.uint64(k1), p0 & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack((c0, c1, c2, c3), 1).reshape(-1)[:count]


def words(tensor, count, k):
    return philox(1, tensor, k, 0, count)


def uniform(tensor, count):
    return (words(tensor, count, 0) >> numpy.uint64(8)).astype(numpy.float64) * 2 / 2**24 - 1


def signs(tensor, count):
    """[PROJECTIONS, count] of +1 and -1, one projection after the other."""
    bits = words(tensor, count, 1)
    for p in range(PROJECTIONS):
        yield 1.0 - 2.0 * (bits >> numpy.uint64(16 + p) & numpy.uint64(1)).astype(numpy.float64)


def fill(model):
    """Sets every tensor of a model; returns their names in order."""
    tensors = [(n, t) for n, t in model.state_dict().items() if t.is_floating_point()]
    bottlenecks = any(n.endswith(".bn3.weight") for n, _ in tensors)
    last_of_block = ".bn3.weight" if bottlenecks else ".bn2.weight"
    for index, (name, tensor) in enumerate(tensors):
        u = uniform(index, tensor.numel())
        if tensor.dim() > 1:
            values = u * numpy.sqrt(6.0 / (tensor.numel() // tensor.shape[0]))
        elif name.endswith("weight"):
            values = (1 + u / 5) * (0.25 if name.endswith(last_of_block) else 1)
        else:
            values = u / 5
        values = values.astype(numpy.float32).astype(numpy.float64)
        tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))
    return [n for n, _ in tensors]


class GivenDropout(torch.nn.Module):
    """sr_dropout with scope 0: keeps elements whose draw is at least the probability."""

    def __init__(self, probability):
        super().__init__()
        self.probability = probability
        self.key = (0, 0, 0)  # seed, step, lane

    def forward(self, x):
        seed, step, lane = self.key
        draws = philox(seed, 0, step, lane, x.numel()) >> numpy.uint64(8)
        draws = draws.astype(numpy.float64) / 2**24
        keep = torch.from_numpy(draws >= self.probability).reshape(x.shape)
        return x * keep.to(x.dtype) / (1 - self.probability)


def network(model, stem, classes):
    torch.manual_seed(0)
    made = torch_models.create(model, classes, stem).double().train()
    for module in list(made.modules()):
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0  # running statistics are those of the batch
    if hasattr(made, "dropout"):
        made.dropout = GivenDropout(made.dropout.p)
    with torch.no_grad():
        names = fill(made)
    return made, names


def pictures(step, classes, side, samples):
    count, at = samples * side * side * 3, step << 8
    x = (words(INPUT + at, count, 0) >> numpy.uint64(24)).astype(float)
    mean, std = torch.tensor((MEAN, STD), dtype=torch.float64)
    x = (torch.from_numpy(x.reshape(samples, side, side, 3)) / 255 - mean) / std
    labels = (words(LABELS + at, samples, 0) % numpy.uint64(classes)).astype(numpy.int64)
    return x.permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels)


def inputs(case):
    model, _, classes, side, samples, _ = CASES[case]
    if model == "toy-generator":
        z = uniform(INPUT, samples * NOISE).reshape(samples, NOISE)
        return torch.from_numpy(z.astype(numpy.float32).astype(numpy.float64)), None
    return pictures(0, classes, side, samples)


def backward(case, output, labels):
    """Starts the gradients; returns one loss per sample, or None for a generator."""
    model, smoothing = CASES[case][0], CASES[case][5]
    if model == "toy-generator":
        images = output.permute(0, 2, 3, 1)
        *_, weights = signs(SEED, images.numel())
        weights = torch.from_numpy(weights).reshape(images.shape)
        images.backward(weights.to(output.dtype))
        return None
    if model == "toy-critic":
        loss = F.softplus(output)[:, 0] - output[:, 0]  # cross-entropy with the target 1
    else:
        output = output if output.dtype == torch.float64 else output.float()
        loss = F.cross_entropy(output, labels, reduction="none", label_smoothing=smoothing)
    loss.sum().backward()
    return loss.detach()


def tensors(case, dtype, layout=torch.contiguous_format):
    """(kind, index, name) -> tensor in float64 and in the order of serried's elements."""
    made, names = network(*CASES[case][:3])
    x, labels = inputs(case)
    made = made.to(torch.float32 if dtype == BFLOAT16 else dtype)
    x = x.to(dtype)
    if x.dim() == 4:
        made, x = made.to(memory_format=layout), x.to(memory_format=layout)
    with torch.autocast("cpu", BFLOAT16, enabled=dtype == BFLOAT16):
        output = made(x)
    loss = backward(case, output, labels)
    if output.dim() == 4:
        output = output.permute(0, 2, 3, 1)
    results = {("output", OUTPUT, "output"): output.detach()}
    if loss is not None:
        results["loss", LOSS, "loss"] = loss
    parameters, buffers = dict(made.named_parameters()), dict(made.named_buffers())
    for index, name in enumerate(names):
        gradient = getattr(parameters.get(name), "grad", None)
        if gradient is not None:
            results["gradient", index, name] = gradient
        elif name in buffers:
            results["statistic", index, name] = buffers[name]
    return {key: value.double() for key, value in results.items()}


def own_error(case, dtype, library, layout):
    """Norm of the error of each tensor in a precision, compared with float64 with the same choices."""
    choices = torch_kinks.Choices()
    with torch.backends.mkldnn.flags(enabled=library), choices:
        rounded = tensors(case, dtype, layout)
    with choices.given():
        exact = tensors(case, torch.float64)
    return {key: (rounded[key] - exact[key]).norm().item() for key in exact}


def worst_errors(case, dtype, orders):
    errors = [own_error(case, dtype, *order) for order in orders]
    return {key: max(e[key] for e in errors) for key in errors[0]}


def write(case):
    planar, last = torch.contiguous_format, torch.channels_last
    exact = tensors(case, torch.float64)
    single = worst_errors(case, torch.float32, ((True, planar), (True, last), (False, planar)))
    half = worst_errors(case, BFLOAT16, ((True, planar), (True, last)))
    with open(os.path.join(FOLDER, f"network_{case}.txt"), "w", encoding="ascii") as file:
        print(*CASES[case], file=file)
        for key, tensor in exact.items():
            flat = tensor.reshape(-1).numpy()
            numbers = [(flat * s).sum() for s in signs(key[1], flat.size)]
            print(*key, *(f"{v:.12g}" for v in (tensor.norm().item(), *numbers)),
                  f"{single[key]:.3g} {half[key]:.3g}", file=file)
    show(case, exact, single, half)


def show(case, exact, single, half):
    relative = [[e[k] / exact[k].norm().item() for k in exact if k[0] == "gradient"]
                for e in (single, half)]
    print(case, *(f"{n}: median {numpy.median(r):.2g}, most {max(r):.2g};"
                  for n, r in zip(("float32", "bfloat16"), relative)), flush=True)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        write(chosen)
