# SPDX-License-Identifier: Apache-2.0
"""Random cases of operators on pictures: pooling, resizing, padding, pixels to channels."""
import torch
from torch.nn import functional as F

from random_compare import STORED
from random_draw import ELEMENTS
from random_torch import CALLS, SQUARES, avgpool, ints, max_in_windows, nchw, nhwc, same, separable


def picture(case, d):
    shape = d.picture()
    return case.input("x", d.data(shape)), shape


def pool(name):
    def draw(case, d):
        x, shape = picture(case, d)
        window = d.integer(1, min(9, *shape[1:3]))
        size = (window, d.integer(1, window + 1), d.integer(0, window // 2))
        if name == "maxpool2d":
            dilation = d.choice([k for k in (1, 1, 1, 2, 3) if k * (window - 1) < min(shape[1:3])])
            case.attributes = (*size, dilation, d.integer(0, 1))
        else:
            case.attributes = (*size, d.integer(0, 1), d.integer(0, 1))
        return case.finish(case.program.call(name, (x,), case.attributes), "y", ("x",))
    return draw


def sized(name, numbers=lambda d, shape: (), stored=STORED):
    """An operator on pictures with these attributes."""
    def draw(case, d):
        case.stored = stored
        x, shape = picture(case, d)
        return case.finish(case.program.call(name, (x,), numbers(d, shape)), "y", ("x",))
    return draw


MODES = ("nearest", "nearest-exact", "bilinear", "bicubic", "area")


def resized(d, shape):
    """height, width, scale, scale_w, mode, align_corners, antialias"""
    mode = d.integer(0, 4)
    smooth = mode in (2, 3)
    align, antialias = (d.integer(0, 1) * smooth, d.integer(0, 1) * smooth)
    most = max(1, int((4 * ELEMENTS / (shape[0] * shape[3]))**0.5))
    if d.chance(0.6):
        return (d.integer(1, min(60, most)), d.integer(1, min(60, most)), 0, 0, mode, align, antialias)
    least = [1 / n for n in shape[1:3]]
    factors = [max(d.choice((0.3, 0.5, 1.0, 1.1, 1.5, 1.7, 2.0, 2.1, 3.0)), low) for low in least]
    return (0, 0, *factors, mode, align, antialias)


def padding(d, shape):
    mode = d.integer(0, 2)
    most = [min(5, n - 1) if mode == 1 else 5 for n in shape[1:3]]
    return (*(d.integer(0, most[0]) for _ in range(2)), *(d.integer(0, most[1]) for _ in range(2)), mode)


def shuffled(inverse):
    def draw(case, d):
        n, h, w, c = d.choice((1, 2, 3)), d.integer(1, 12), d.integer(1, 12), d.size(32)
        factor = d.choice((1, 2, 3))
        shape = [n, h * factor, w * factor, c] if inverse else [n, h, w, c * factor * factor]
        x = case.input("x", d.data(shape))
        name = "pixel_unshuffle" if inverse else "pixel_shuffle"
        return case.finish(case.program.call(name, (x,), (factor,)), "y", ("x",))
    return draw


# ---- PyTorch's half ----

def maxpool2d(e, x, n):
    window, stride, pad, dilation, ceil_mode = ints((*n, 1, 0)[:5] if len(n) == 3 else n, 0, 5)
    return max_in_windows(e, x[0], window, stride, pad, dilation, bool(ceil_mode))


def avgpool2d(e, x, n):
    window, stride, pad, ceil_mode, count_pad = ints((*n, 0, 0)[:5], 0, 5)
    return avgpool(e, x[0], (window, window), stride, pad, bool(ceil_mode), bool(count_pad))


def global_maxpool(e, x, n):
    return max_in_windows(e, x[0], tuple(x[0].shape[1:3]), None, 0).flatten(1)


def global_avgpool(e, x, n):
    return x[0].sum((1, 2)) / (x[0].shape[1] * x[0].shape[2])**(2 if e.way == SQUARES else 1)


def adaptive_avgpool2d(e, x, n):
    return separable(e, x[0], lambda t, sides: F.adaptive_avg_pool2d(t, tuple(int(v) if v else 1 for v in sides)),
                     (n[0], n[1]))


def nearest_by_scale(t, scales):
    """PyTorch copies pixels where their number stays, and makes two of each where it doubles; but not the forward pass
    of its version 1.13 where channels are not last."""
    for axis, scale in zip((2, 3), scales):
        copies, rest = divmod(int(t.shape[axis] * scale), t.shape[axis])
        if rest == 0 and copies in (1, 2):
            t = t.repeat_interleave(copies, axis)
        else:
            t = F.interpolate(t, scale_factor=(scale, 1.0) if axis == 2 else (1.0, scale), mode="nearest",
                              recompute_scale_factor=False)
    return t


def resize2d(e, x, n):
    mode = MODES[int(n[4])]
    options = {"mode": mode}
    if mode in ("bilinear", "bicubic"):
        options.update(align_corners=bool(n[5]), antialias=bool(n[6]))

    def along(t, sides):
        if n[0]:
            return F.interpolate(t, tuple(int(v) if v else 1 for v in sides), **options)
        scales = tuple(v or 1.0 for v in sides)
        if mode == "nearest":
            return nearest_by_scale(t, scales)
        return F.interpolate(t, scale_factor=scales, recompute_scale_factor=False, **options)
    return separable(e, x[0], along, (n[0], n[1]) if n[0] else (n[2], n[3]))


def pad2d(e, x, n):
    top, bottom, left, right, mode = ints(n, 0, 5)
    return nhwc(F.pad(nchw(x[0]), (left, right, top, bottom), ("constant", "reflect", "replicate")[mode]))


CALLS.update({
    "maxpool2d": same(maxpool2d), "avgpool2d": same(avgpool2d), "global_maxpool": same(global_maxpool),
    "global_avgpool": same(global_avgpool), "adaptive_avgpool2d": same(adaptive_avgpool2d),
    "resize2d": same(resize2d), "pad2d": same(pad2d),
    "pixel_shuffle": same(lambda e, x, n: nhwc(F.pixel_shuffle(nchw(x[0]), int(n[0])))),
    "pixel_unshuffle": same(lambda e, x, n: nhwc(F.pixel_unshuffle(nchw(x[0]), int(n[0])))),
})

KINDS = {
    "maxpool2d": pool("maxpool2d"), "avgpool2d": pool("avgpool2d"),
    "adaptive_avgpool2d": sized("adaptive_avgpool2d", lambda d, s: (d.integer(1, 12), d.integer(1, 12))),
    "global_avgpool": sized("global_avgpool"), "global_maxpool": sized("global_maxpool"),
    "upsample2d": sized("upsample2d", lambda d, s: (d.choice((1, 2, 2, 3)),)),
    "resize2d": sized("resize2d", resized), "pad2d": sized("pad2d", padding, 6),  # the gradients of copies are added one by one
    "pixel_shuffle": shuffled(False), "pixel_unshuffle": shuffled(True),
}
