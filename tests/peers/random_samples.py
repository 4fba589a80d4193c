# SPDX-License-Identifier: Apache-2.0
"""Random cases of operators that sample pictures, and what PyTorch and torchvision compute for them.

The scale of a result is that of its largest terms: it is the same for all its elements.
"""
import math

import numpy as np
import torch
from torch.nn import functional as F
from torchvision import ops

from random_draw import ELEMENTS
from random_program import parameter_dtype
from random_torch import CALLS, nchw, nhwc, same

SAMPLED = ("bilinear", "nearest", "bicubic")
BORDERS = ("zeros", "reflection", "border")


# ---- PyTorch ----

def grid_sample(e, x, n):
    return nhwc(F.grid_sample(nchw(x[0]), x[1], SAMPLED[int(n[0])], BORDERS[int(n[1])], bool(n[2])))


def upfirdn2d(e, x, n):
    up, down, top, bottom, left, right = (int(i) for i in n[:6])
    size, h, w, c = x[0].shape
    between = torch.zeros(size, h, up, w, up, c, dtype=x[0].dtype)
    between[:, :, 0, :, 0] = x[0]
    padded = F.pad(nchw(between.reshape(size, h * up, w * up, c)), (left, right, top, bottom))
    filters = x[1].flip(0, 1)[None, None].repeat(c, 1, 1, 1)
    return nhwc(F.conv2d(padded, filters, groups=c)[:, :, ::down, ::down])


def roi_align(e, x, n):
    boxes = torch.cat((x[2][:, None].to(x[1].dtype), x[1]), 1)
    return nhwc(ops.roi_align(nchw(x[0]), boxes, (int(n[0]), int(n[1])), n[2], int(n[3]) or -1, bool(n[4])))


def nms(e, x, n, dtype):
    wide = torch.float64 if dtype == "f64" else torch.float32
    kept = [ops.batched_nms(b.to(wide), s.to(wide), c, n[0]) for b, s, c in zip(*x)]
    index = torch.full(x[1].shape, -1)
    for row, own in zip(index, kept):
        row[:len(own)] = own
    return [(index.to(e.type), "f32"), (torch.tensor([len(own) for own in kept]).to(e.type), "f32")]


# ---- Cases ----

def size_of(case, what):
    return float(np.abs(case.array(what)).max())


def picture(case, d, most=64):
    while True:
        shape = [d.choice((1, 2, 3)), d.integer(1, 20), d.integer(1, 20), d.size(most)]
        if math.prod(shape) <= ELEMENTS:
            return case.input("x", d.data(shape)), shape


def exact(case, what, array):
    """A parameter whose values are not rounded to the type of the activations."""
    return case.note(what, case.program.variable(parameter_dtype(case.draw.dtype), array))


def uniform(case, truth, terms, **factors):
    """{what: scale}: factors of the largest of x, times that of dy for gradients."""
    dy = size_of(case, "dy")
    return {what: np.full(truth[what].shape, factor * math.sqrt(terms) * (dy if what != "y" else 1))
            for what, factor in factors.items() if what in truth}


def sample_scales(case, truth):
    n, h, w, c = case.array("x").shape
    points = max(1, case.array("grid")[0].size / 2 / (h * w))
    return uniform(case, truth, points, y=2 * size_of(case, "x"), dx=2,
                   dgrid=size_of(case, "x") * 2 * max(h, w) * math.sqrt(c))


def sampled(case, d):
    x, (n, _, _, _) = picture(case, d)
    grid = exact(case, "grid", d.rng.uniform(-1.3, 1.3, (n, d.integer(1, 9), d.integer(1, 9), 2)))
    case.formula = sample_scales
    y = case.program.call("grid_sample", (x, grid), (d.integer(0, 2), d.integer(0, 2), d.integer(0, 1)))
    return case.finish(y, "y", ("x", "grid"))


def filter_scales(case, truth):
    terms = case.array("filter").size
    return uniform(case, truth, terms, y=size_of(case, "x") * size_of(case, "filter"),
                   dx=size_of(case, "filter"))


def filtered(case, d):
    x, (_, h, w, _) = picture(case, d)
    r, s, up, down = d.integer(1, 6), d.integer(1, 6), d.integer(1, 3), d.integer(1, 3)
    f = exact(case, "filter", d.normal((r, s)))
    pads = (r, d.integer(0, 3), s, d.integer(-1, 3))
    case.formula = filter_scales
    y = case.program.call("upfirdn2d", (x, f), (up, down, *pads))
    return case.finish(y, "y", ("x",))


def roi_scales(case, truth):
    boxes = len(case.array("boxes"))
    return uniform(case, truth, boxes, y=size_of(case, "x"), dx=4)


def aligned(case, d):
    x, (n, h, w, _) = picture(case, d)
    boxes = d.rng.uniform(-2, max(h, w) + 2, (d.integer(1, 40), 4))
    boxes[:, 2:] = boxes[:, :2] + np.abs(boxes[:, 2:] - boxes[:, :2])
    corners = exact(case, "boxes", boxes)
    image = case.input("image", d.rng.integers(0, n, len(boxes)), "i32")
    case.formula = roi_scales
    numbers = (d.integer(1, 7), d.integer(1, 7), d.choice((1, 0.5, 0.25)), d.integer(0, 3), d.integer(0, 1))
    return case.finish(case.program.call("roi_align", (x, corners, image), numbers), "y", ("x",))


def kept(case, d):
    n, boxes = d.integer(1, 3), d.integer(1, 60)
    corners = np.sort(d.rng.integers(0, 12, (n, boxes, 2, 2)), 2).reshape(n, boxes, 4)
    b = case.input("b", corners + (0, 0, 1, 1))
    scores = case.input("s", np.stack([d.rng.permutation(boxes) for _ in range(n)]) / 64)
    classes = case.input("c", d.rng.integers(0, 3, (n, boxes)), "i32")
    index, count = case.program.call("nms", (b, scores, classes), (d.choice((0.1, 0.3, 0.55)),))
    case.formula = lambda case, truth: {what: np.ones(values.shape) for what, values in truth.items()}
    case.reads = [(index, "index"), (count, "count")]
    return case


KINDS = {"grid_sample": sampled, "upfirdn2d": filtered, "roi_align": aligned, "nms": kept}
CALLS.update({"grid_sample": same(grid_sample), "upfirdn2d": same(upfirdn2d), "roi_align": same(roi_align), "nms": nms})
