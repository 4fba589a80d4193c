# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/network_NAME.txt: what PyTorch computes in float64 for a whole network.

Weights, pictures and labels are filled by Philox here and in tests/unit/test_network_golden.c, so
that the file holds results only: logits, and for every gradient its norm and a few random
projections (sums of its elements with random signs), which see any wrong element. How far
PyTorch's own float32 is from that ("float32 DISTANCE") is the yardstick for ours: the worst of all
samples' logits and of three orders of summation that PyTorch has itself (oneDNN on planar and on
channels-last tensors, and its own loops).

    /usr/bin/python3 tests/golden/network_golden.py

Fillings. Word w(t, i, k) is word i % 4 of philox4x32-10(key 1; counter i / 4, t, k, 0);
u = 2 (w >> 8) / 2^24 - 1. Tensor t (in state_dict order, counters left out), element i, k = 0:
convolution and linear weights u sqrt(6 / fan_in), norm weights 1 + u / 5, all else u / 5; rounded
to float32. Pictures: t = 2^20, w >> 24. Labels: t = 2^20 + 1, w % classes. Projection k = 1, 2:
the sign of element i of tensor t is minus where bit 31 of w(t, i, k) is set.
"""
import os
import sys

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers"))
import torch_models  # noqa: E402

NETWORKS = (("resnet18", 32, 10, 8), ("cifar-fast", 32, 10, 2))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PICTURES, LABELS, PROJECTIONS = 1 << 20, (1 << 20) + 1, 2


def words(tensor, count, k):
    """w(tensor, 0..count - 1, k) as uint64 (Salmon et al. 2011)."""
    low = numpy.uint64(0xFFFFFFFF)
    shift = numpy.uint64(32)
    c0 = numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    c1, c2, c3 = (numpy.full_like(c0, v) for v in (tensor, k, 0))
    k0, k1 = 1, 0
    for _ in range(10):
        p0, p1 = numpy.uint64(0xD2511F53) * c0, numpy.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> shift) ^ c1 ^ numpy.uint64(k0), p1 & low,
                          (p0 >> shift) ^ c3 ^ numpy.uint64(k1), p0 & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack((c0, c1, c2, c3), 1).reshape(-1)[:count]


def uniform(tensor, count):
    return (words(tensor, count, 0) >> numpy.uint64(8)).astype(numpy.float64) * 2 / 2**24 - 1


def fill(model):
    tensors = [(n, t) for n, t in model.state_dict().items() if t.is_floating_point()]
    for index, (name, tensor) in enumerate(tensors):
        u = uniform(index, tensor.numel())
        if tensor.dim() > 1:
            values = u * numpy.sqrt(6.0 / (tensor.numel() // tensor.shape[0]))
        elif name.endswith("weight"):
            values = 1 + u / 5
        else:
            values = u / 5
        values = values.astype(numpy.float32).astype(numpy.float64)
        tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))
    return [n for n, _ in tensors]


def inputs(side, classes, samples):
    count = samples * side * side * 3
    pictures = (words(PICTURES, count, 0) >> numpy.uint64(24)).astype(numpy.float64)
    pictures = torch.from_numpy(pictures.reshape(samples, side, side, 3))
    mean, std = torch.tensor((MEAN, STD), dtype=torch.float64)
    x = (pictures / 255 - mean) / std
    labels = (words(LABELS, samples, 0) % numpy.uint64(classes)).astype(numpy.int64)
    return x.permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels)


def projections(index, gradient):
    flat = gradient.reshape(-1).numpy()
    for k in range(1, PROJECTIONS + 1):
        signs = 1.0 - 2.0 * (words(index, flat.size, k) >> numpy.uint64(31)).astype(numpy.float64)
        yield float((flat * signs).sum())


def run(name, classes, x, labels, dtype, layout=torch.contiguous_format):
    """Logits and parameters with gradients, and the names of all tensors."""
    torch.manual_seed(0)
    model = torch_models.create(name, classes).double().train()
    with torch.no_grad():
        names = fill(model)
    model = model.to(dtype, memory_format=layout)
    logits = model(x.to(dtype, memory_format=layout))
    torch.nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
    return logits.detach().double(), dict(model.named_parameters()), names


def worst_distance(name, classes, x, labels, logits):
    """The largest relative distance of a sample's float32 logits over PyTorch's own orders."""
    orders = ((True, torch.contiguous_format), (True, torch.channels_last),
              (False, torch.contiguous_format))
    distances = []
    for library, layout in orders:
        with torch.backends.mkldnn.flags(enabled=library):
            single = run(name, classes, x, labels, torch.float32, layout)[0]
        distances.append(((single - logits).norm(dim=1) / logits.norm(dim=1)).max().item())
    print(name, *(f"{d:.3g}" for d in distances))
    return max(distances)


def write(name, side, classes, samples):
    x, labels = inputs(side, classes, samples)
    logits, parameters, names = run(name, classes, x, labels, torch.float64)
    distance = worst_distance(name, classes, x, labels, logits)
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, f"network_{name}.txt"), "w", encoding="ascii") as file:
        print(f"{name} {side} {classes} {samples}", file=file)
        print(f"float32 {distance:.3g}", file=file)
        for row in logits.tolist():
            print("logits", *(f"{v:.9g}" for v in row), file=file)
        for index, tensor in enumerate(names):
            gradient = getattr(parameters.get(tensor), "grad", None)
            if gradient is None:
                continue
            numbers = (gradient.norm().item(), *projections(index, gradient))
            print("gradient", index, tensor, *(f"{v:.9g}" for v in numbers), file=file)


for network in NETWORKS:
    write(*network)
