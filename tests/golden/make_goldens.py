#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/operators.bin: the results of operators in PyTorch, in f64.

Inputs are not stored: both sides generate them by Philox4x32-10 with 24-bit values that are exact in
f32 (tests/unit/kernels/kernel_fixture.c, array_random). The parameters of each case are stored, so that
tests/unit/graph/test_golden.c needs no table of its own.

File, little-endian: "SRGOLD01", then entries: name char[40], count u64, count f64.
Made with torch 1.13.0 and numpy 1.24.2: python3 tests/golden/make_goldens.py
"""
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F

MASK = 0xFFFFFFFF


def philox_first_word(seed, count):
    """First word of Philox4x32-10 (Salmon et al., SC'11) for counters (i, 0, 0, 0)."""
    c = [np.arange(count, dtype=np.uint64)] + [np.zeros(count, np.uint64) for _ in range(3)]
    key = [seed & MASK, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high_a, low_a = a >> np.uint64(32), a & np.uint64(MASK)
        high_b, low_b = b >> np.uint64(32), b & np.uint64(MASK)
        c = [high_b ^ c[1] ^ np.uint64(key[0]), low_b, high_a ^ c[3] ^ np.uint64(key[1]), low_a]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return c[0]


assert int(philox_first_word(0, 1)[0]) == 0x6627E8D5


def fill(seed, shape, low=-1.0, high=1.0):
    count = int(np.prod(shape))
    unit = (philox_first_word(seed, count) >> np.uint64(8)).astype(np.float64) * 2.0**-24
    return torch.from_numpy((low + (high - low) * unit).reshape(shape))


class Golden:
    def __init__(self):
        self.entries = []

    def add(self, name, values):
        if isinstance(values, torch.Tensor):
            values = values.detach().contiguous().numpy()
        self.entries.append((name, np.asarray(values, np.float64).reshape(-1)))

    def write(self, path):
        with open(path, "wb") as out:
            out.write(b"SRGOLD01")
            for name, values in self.entries:
                out.write(struct.pack("<40sQ", name.encode(), len(values)))
                out.write(values.astype("<f8").tobytes())


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


# n h w c | k r s | stride | pad | dilation | groups
CONVOLUTIONS = [
    (2, 7, 6, 3, 4, 3, 3, (1, 1), (1, 1), (1, 1), 1),
    (1, 9, 8, 4, 6, 3, 2, (2, 1), (1, 0), (1, 1), 1),
    (1, 8, 8, 4, 4, 3, 3, (1, 2), (2, 2), (2, 2), 2),
    (2, 5, 5, 6, 6, 3, 3, (1, 1), (1, 1), (1, 1), 6),
    (1, 6, 6, 20, 18, 1, 1, (2, 2), (0, 0), (1, 1), 1),
    (1, 14, 14, 3, 8, 7, 7, (2, 2), (3, 3), (1, 1), 1),
]


def convolutions(golden):
    for i, (n, h, w, c, k, r, s, stride, pad, dilation, groups) in enumerate(CONVOLUTIONS):
        x, f = fill(1, (n, h, w, c)).requires_grad_(), fill(2, (k, c // groups, r, s)).requires_grad_()
        b = fill(4, (k,)).requires_grad_()
        y = nhwc(F.conv2d(nchw(x), f, b, stride, pad, dilation, groups))
        y.backward(fill(3, y.shape))
        name = "conv/%d/" % i
        golden.add(name + "params", (n, h, w, c, k, r, s, y.shape[1], y.shape[2], *stride, pad[0], pad[1],
                                     pad[0], pad[1], *dilation, groups))
        for part, value in (("y", y), ("dx", x.grad), ("dw", f.grad), ("db", b.grad)):
            golden.add(name + part, value)


def transposed(golden):
    for i, (stride, pad, output_pad) in enumerate([(1, 0, 0), (2, 1, 1), (3, 0, 2)]):
        x, w = fill(1, (1, 4, 3, 5)), fill(2, (5, 2, 3, 3))
        y = nhwc(F.conv_transpose2d(nchw(x), w, None, stride, pad, output_pad))
        golden.add("transpose/%d/params" % i, (stride, pad, output_pad, *y.shape))
        golden.add("transpose/%d/y" % i, y)


def batchnorms(golden):
    for i, (rows, channels, eps) in enumerate([(37, 5, 1e-5), (1100, 3, 1e-3)]):
        x = fill(1, (rows, channels)).requires_grad_()
        gamma, beta = fill(3, (channels,)).requires_grad_(), fill(4, (channels,)).requires_grad_()
        y = F.batch_norm(x, None, None, gamma, beta, True, 0.1, eps)
        y.backward(fill(2, y.shape))
        name = "batchnorm/%d/" % i
        golden.add(name + "params", (rows, channels, eps))
        keep = 60 * channels  # the first rows suffice
        for part, value in (("y", y.reshape(-1)[:keep]), ("dx", x.grad.reshape(-1)[:keep]),
                            ("dgamma", gamma.grad), ("dbeta", beta.grad)):
            golden.add(name + part, value)


# n h w c | window | stride | pad
POOLS = [(2, 6, 6, 3, 2, 2, 0), (1, 7, 9, 2, 3, 2, 1), (1, 8, 7, 3, 3, 1, 1), (2, 5, 5, 4, 5, 5, 0)]


def pools(golden):
    for i, (n, h, w, c, window, stride, pad) in enumerate(POOLS):
        for kind, pool in (("max", lambda v: F.max_pool2d(v, window, stride, pad)),
                           ("mean", lambda v: F.avg_pool2d(v, window, stride, pad, False, False))):
            x = fill(1, (n, h, w, c)).requires_grad_()
            y = nhwc(pool(nchw(x)))
            y.backward(fill(2, y.shape))
            name = "%spool/%d/" % (kind, i)
            golden.add(name + "params", (n, h, w, c, y.shape[1], y.shape[2], window, window, stride,
                                         stride, pad, pad, pad, pad))
            golden.add(name + "y", y)
            golden.add(name + "dx", x.grad)


def losses(golden):
    for i, (n, k, smoothing) in enumerate([(12, 10, 0.0), (7, 5, 0.1), (6, 33, 0.25)]):
        x = fill(1, (n, k), -16, 16).requires_grad_()
        labels = torch.tensor([-1 if j % 5 == 4 else j * 7 % k for j in range(n)])
        loss = F.cross_entropy(x, labels, ignore_index=-1, reduction="none", label_smoothing=smoothing)
        loss.backward(fill(2, (n,)))
        name = "xent/%d/" % i
        golden.add(name + "params", (n, k, smoothing))
        golden.add(name + "labels", labels.numpy())
        golden.add(name + "loss", loss)
        golden.add(name + "dx", x.grad)


def maps(golden):
    for name, function in (("gelu", F.gelu), ("sigmoid", torch.sigmoid), ("tanh", torch.tanh),
                           ("softplus", lambda v: F.softplus(v, threshold=40))):
        x = fill(1, (200,), -8, 8).requires_grad_()
        y = function(x)
        y.backward(fill(2, (200,)))
        golden.add(name + "/y", y)
        golden.add(name + "/dx", x.grad)


# momentum, weight decay, nesterov, dampening
UPDATES = [(0.0, 0.0, False, 0.0), (0.875, 0.0, False, 0.0), (0.875, 0.0625, True, 0.0),
           (0.75, 0.0625, False, 0.25)]


def updates(golden):
    for i, (momentum, decay, nesterov, dampening) in enumerate(UPDATES):
        p = fill(1, (50,)).requires_grad_()
        sgd = torch.optim.SGD([p], 0.125, momentum, dampening, decay, nesterov)
        for step in range(4):
            p.grad = fill(10 + step, (50,))
            sgd.step()
        golden.add("sgd/%d/params" % i, (0.125, momentum, decay, nesterov, dampening, 4))
        golden.add("sgd/%d/p" % i, p)


def main():
    golden = Golden()
    for part in (convolutions, transposed, batchnorms, pools, losses, maps, updates):
        part(golden)
    golden.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "operators.bin"))


if __name__ == "__main__":
    main()
