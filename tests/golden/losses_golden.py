# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/losses.txt: losses, and their gradients in f64, by PyTorch and torchvision.

    /usr/bin/python3 tests/golden/losses_golden.py

A case is a name, its inputs, a random gradient dy of the result, the result, and the gradient of each
float input: lines "case NAME INPUTS", "DTYPE RANK DIM... VALUE...". tests/unit/trainer/test_losses.c has
the same names. What PyTorch does not have is computed by its definition, in other steps than serried's.
"""
import os

import torch
import torch.nn.functional as F
import torchvision.ops

torch.set_default_dtype(torch.float64)
WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 0.25, 3.0])
CASES = {}


def case(name, *inputs):
    def note(function):
        CASES[name] = (inputs, function)
    return note


def normal(*shape, scale=1.0):
    return torch.randn(shape) * scale


def labels(*shape, classes=5):
    drawn = torch.randint(0, classes, shape)
    drawn.view(-1)[1] = -1
    return drawn


def spread(values, weights):
    return values * len(values) / weights.sum()


def hidden(target, ignored=-1):
    """With PyTorch's number of ignored labels."""
    return torch.where((target < 0) | (target == ignored), -100, target)


torch.manual_seed(1)
X, L, T = normal(7, 5, scale=2), labels(7), torch.softmax(normal(7, 5), 1)
HOT = F.one_hot(L.clamp(min=0), 5) * (L >= 0)[:, None].double()

case("cross-entropy", X, L)(lambda x, t: F.cross_entropy(x, hidden(t), reduction="none"))
case("cross-entropy smoothing", X, L)(
    lambda x, t: F.cross_entropy(x, hidden(t), reduction="none", label_smoothing=0.1))
case("cross-entropy weights", X, L)(lambda x, t: spread(
    F.cross_entropy(x, hidden(t), WEIGHTS, reduction="none", label_smoothing=0.1), WEIGHTS[t] * (t >= 0)))
case("cross-entropy ignore", X, L)(lambda x, t: spread(
    F.cross_entropy(x, hidden(t, 2), reduction="none"), ((t >= 0) & (t != 2)).double()))
case("sr_loss_mean weighted", X, L)(lambda x, t: F.cross_entropy(x, hidden(t, 2), WEIGHTS, label_smoothing=0.2))
case("sr_loss_label_weights", X, L)(lambda x, t: x.sum(1) * WEIGHTS[t] * (t >= 0))
case("sr_loss_cross_entropy pixels", normal(2, 3, 4, 5), labels(2, 3, 4))(
    lambda x, t: F.cross_entropy(x.movedim(-1, 1), hidden(t), WEIGHTS, reduction="none"))
case("sr_loss_soft_cross_entropy", X, T)(lambda x, t: -(t * x.log_softmax(1)).sum(1))  # timm
case("bce", X, L)(lambda x, t: F.binary_cross_entropy_with_logits(x, HOT, reduction="none").mean(1) * (t >= 0))
case("bce smoothing sum", X, L)(lambda x, t: F.binary_cross_entropy_with_logits(
    x, HOT * 0.8 + 0.2 / 5, reduction="none").sum(1) * (t >= 0))
case("bce soft threshold", X, torch.where((T - 0.2).abs() < 0.02, 0.3, T))(lambda x, t: F.binary_cross_entropy_with_logits(
    x, (t > 0.2).double(), reduction="none").mean(1))
case("sr_loss_bce", X, T)(lambda x, t: F.binary_cross_entropy_with_logits(
    x, t, reduction="none", pos_weight=torch.tensor(2.5)))
case("focal", X, L)(lambda x, t: -((1 - x.softmax(1).gather(1, t.clamp(min=0)[:, None])[:, 0])**2)
                    * x.log_softmax(1).gather(1, t.clamp(min=0)[:, None])[:, 0] * (t >= 0))
case("focal sigmoid", X, L)(lambda x, t: torchvision.ops.sigmoid_focal_loss(x, HOT, 0.25, 2).sum(1) * (t >= 0))
case("sr_loss_focal weights", X, L)(
    lambda x, t: ((1 - x.softmax(1).gather(1, t.clamp(min=0)[:, None])[:, 0])**0.5)
    * F.cross_entropy(x, hidden(t), WEIGHTS, reduction="none"))
case("sr_loss_sigmoid_focal", X, T)(lambda x, t: torchvision.ops.sigmoid_focal_loss(x, t, -1, 1.5))
case("margin", X, L)(lambda x, t: F.multi_margin_loss(x, t.clamp(min=0), reduction="none") * (t >= 0))
case("sr_loss_margin squared", X, L)(
    lambda x, t: F.multi_margin_loss(x, t.clamp(min=0), 2, 0.7, reduction="none") * (t >= 0))


@case("sr_loss_distillation", X, normal(7, 5, scale=2))
def distillation(student, teacher):
    s, t = F.log_softmax(student / 3, 1), F.log_softmax(teacher / 3, 1)
    return F.kl_div(s, t, reduction="none", log_target=True).sum(1) * 9


P, MASK = torch.sigmoid(normal(3, 4, 5, 2)), (torch.rand(3, 4, 5, 2) < 0.4).double()


def dice(p, t, axes, below):
    return 1 - (2 * (p * t).sum(axes) + 1) / (below.sum(axes) + 1)


case("sr_loss_dice", P, MASK)(lambda p, t: dice(p, t, (1, 2), p + t))
case("sr_loss_dice batch squared", P, MASK)(lambda p, t: dice(p, t, (0, 1, 2), p * p + t * t))


def jaccard_gradient(truth):
    """Berman et al. 2018, algorithm 1: of sorted truths."""
    left = truth.sum() - truth.cumsum(0)
    loss = 1 - left / (truth.sum() + (1 - truth).cumsum(0))
    return torch.cat((loss[:1], loss[1:] - loss[:-1]))


def lovasz(errors, truth):
    errors, order = errors.sort(descending=True, stable=True)
    return (errors.relu() * jaccard_gradient(truth[order])).sum()


@case("sr_loss_lovasz_softmax", normal(2, 3, 4, 5).softmax(-1), labels(2, 3, 4, classes=4))
def lovasz_softmax(p, t):
    p, t = p.flatten(0, 2)[t.flatten() >= 0], t.flatten()[t.flatten() >= 0]
    return torch.stack([lovasz(((t == c).double() - p[:, c]).abs(), (t == c).double())
                        for c in t.unique()]).mean()


@case("sr_loss_lovasz_hinge", normal(3, 4, 5), labels(3, 4, 5, classes=2))
def lovasz_hinge(x, t):
    losses = []
    for own, truth in zip(x.flatten(1), t.flatten(1)):
        own, truth = own[truth >= 0], truth[truth >= 0].double()
        losses.append(lovasz(1 - own * (2 * truth - 1), truth))
    return torch.stack(losses)


A, B = normal(6, 4), normal(6, 4)
case("sr_loss_l1", A, B)(lambda x, t: F.l1_loss(x, t, reduction="none"))
case("sr_loss_smooth_l1", A, B)(lambda x, t: F.smooth_l1_loss(x, t, reduction="none", beta=0.8))
case("sr_loss_huber", A, B)(lambda x, t: F.huber_loss(x, t, reduction="none", delta=0.8))
case("sr_loss_gan_hinge real", A)(lambda x: F.relu(1 - x))
case("sr_loss_gan_hinge fake", A)(lambda x: F.relu(1 + x))
case("sr_loss_gan_hinge generator", A)(lambda x: -x)


def boxes(count):
    corner = torch.rand(count, 2) * 4
    return torch.cat((corner, corner + 0.5 + torch.rand(count, 2) * 4), 1)


BOXES, OTHERS = boxes(9), boxes(9)


@case("sr_loss_boxes iou", BOXES, OTHERS)
def iou(a, b):
    """torchvision's box_iou has no 1e-7."""
    areas = torchvision.ops.box_area(a) + torchvision.ops.box_area(b)
    overlap = torch.diagonal(torchvision.ops.box_iou(a, b)) / (1 + torch.diagonal(torchvision.ops.box_iou(a, b))) * areas
    return 1 - overlap / (areas - overlap + 1e-7)


case("sr_loss_boxes giou", BOXES, OTHERS)(lambda a, b: torchvision.ops.generalized_box_iou_loss(a, b))
case("sr_loss_boxes diou", BOXES, OTHERS)(lambda a, b: torchvision.ops.distance_box_iou_loss(a, b))
case("sr_loss_boxes ciou", BOXES, OTHERS)(lambda a, b: torchvision.ops.complete_box_iou_loss(a, b))


# Of pixels: one number per picture, whose mean is the loss of the lane.
PIXELS, OF = normal(2, 3, 4, 5, scale=2), labels(2, 3, 4)
OF[0, 1, 1:] = -1


def pictures(values, weights):
    """Of losses [N,H,W], as one number for each picture."""
    return values.sum((1, 2)) * len(values) / weights.sum()


def entropy(x, t, *weight, ignored=-1, **options):
    return F.cross_entropy(x.movedim(-1, 1), hidden(t, ignored), *weight, reduction="none", **options)


def whole(x, t, *weight, ignored=-1, **options):
    """torch.nn.CrossEntropyLoss of the lane."""
    return F.cross_entropy(x.movedim(-1, 1), hidden(t, ignored), *weight, **options)


@case("cross-entropy map", PIXELS, OF)
def entropy_map(x, t):
    found = pictures(entropy(x, t), (t >= 0).double())
    assert torch.allclose(found.mean(), whole(x, t))
    return found


@case("cross-entropy map weights", PIXELS, OF)
def entropy_weights(x, t):
    found = pictures(entropy(x, t, WEIGHTS), WEIGHTS[t] * (t >= 0))
    assert torch.allclose(found.mean(), whole(x, t, WEIGHTS))
    return found


@case("cross-entropy map weights smoothing ignore", PIXELS, OF)
def entropy_smoothing(x, t):
    found = pictures(entropy(x, t, WEIGHTS, ignored=2, label_smoothing=0.1), WEIGHTS[t] * ((t >= 0) & (t != 2)))
    assert torch.allclose(found.mean(), whole(x, t, WEIGHTS, ignored=2, label_smoothing=0.1))
    return found


case("cross-entropy map ignore", PIXELS, OF)(
    lambda x, t: pictures(entropy(x, t, ignored=2), ((t >= 0) & (t != 2)).double()))
case("cross-entropy map ignore beyond", PIXELS, torch.where(OF == 1, 9, OF))(
    lambda x, t: pictures(entropy(x, t, ignored=9), ((t >= 0) & (t != 9)).double()))
case("cross-entropy map all", PIXELS, OF)(lambda x, t: entropy(x, t).mean((1, 2)))
case("cross-entropy map all weights smoothing", PIXELS, OF)(
    lambda x, t: entropy(x, t, WEIGHTS, label_smoothing=0.1).mean((1, 2)))
case("cross-entropy valid", X, L)(
    lambda x, t: spread(F.cross_entropy(x, hidden(t), reduction="none"), (t >= 0).double()))
case("cross-entropy all weights", X, L)(lambda x, t: F.cross_entropy(x, hidden(t), WEIGHTS, reduction="none"))


def focal_map(x, t):
    own = t.clamp(min=0)[..., None]
    return -(1 - x.softmax(-1).gather(-1, own)[..., 0])**2 * x.log_softmax(-1).gather(-1, own)[..., 0] * (t >= 0)


case("focal map", PIXELS, OF)(lambda x, t: pictures(focal_map(x, t), (t >= 0).double()))
case("focal map all sigmoid", PIXELS, OF)(lambda x, t: (torchvision.ops.sigmoid_focal_loss(
    x, F.one_hot(t.clamp(min=0), 5).double(), 0.25, 2).sum(-1) * (t >= 0)).mean((1, 2)))
case("focal valid", X, L)(lambda x, t: spread(focal_map(x, t), (t >= 0).double()))


def ohem(x, t, thresh, min_kept):
    """1 for each pixel that mmsegmentation 1.2.2's OHEMPixelSampler keeps."""
    valid, kept = t >= 0, min_kept * len(t)
    p = x.softmax(-1).gather(-1, t.clamp(min=0)[..., None])[..., 0].detach()
    in_order = p[valid].sort()[0]
    threshold = max(in_order[min(kept, len(in_order) - 1)].item(), thresh)
    return (valid & (p < threshold)).double()


def ohem_case(name, thresh, min_kept, divisor):
    @case("ohem " + name, PIXELS, OF)
    def found(x, t):
        hard = ohem(x, t, thresh, min_kept)
        print(name, "keeps", int(hard.sum()), "of", int((t >= 0).sum()))
        return pictures(entropy(x, t) * hard, {"valid": (t >= 0).double(), "kept": hard, "all": torch.ones_like(hard)}[divisor])


ohem_case("map thresh", 0.3, 2, "valid")
ohem_case("map least", 0.1, 6, "all")
ohem_case("map hardest", 0.0, 5, "kept")
ohem_case("map few", 0.05, 100000, "kept")


def dice_map(x, t, smooth, squared, dims, present):
    """As mmsegmentation's, or with sums over dims (0, 1, 2) as segmentation_models.pytorch's, without ignored pixels."""
    counts = (t >= 0).double()[..., None]
    p, hot = x.softmax(-1) * counts, F.one_hot(t.clamp(min=0), 5) * counts
    below = p * p + hot * hot if squared else p + hot
    loss = 1 - (2 * (p * hot).sum(dims) + smooth) / (below.sum(dims) + smooth)
    if present:
        loss = loss * (hot.sum(dims) > 0)
    return loss.mean(-1).expand(len(x))


SOME = torch.where(OF == 3, 1, OF)  # without class 3
case("dice map", PIXELS, OF)(lambda x, t: dice_map(x, t, 1, False, (1, 2), False))
case("dice map squared present", PIXELS, SOME)(lambda x, t: dice_map(x, t, 0.5, True, (1, 2), True))
case("dice map batch present", PIXELS, SOME)(lambda x, t: dice_map(x, t, 1e-7, False, (0, 1, 2), True))
case("dice map batch", PIXELS, SOME)(lambda x, t: dice_map(x, t, 1, False, (0, 1, 2), False))


def lovasz_map(x, t, classes):
    p, t = x.softmax(-1).flatten(0, -2)[t.flatten() >= 0], t.flatten()[t.flatten() >= 0]
    return torch.stack([lovasz(((t == c).double() - p[:, c]).abs(), (t == c).double())
                        for c in (t.unique() if classes is None else classes)]).mean()


case("lovasz map", PIXELS, SOME)(lambda x, t: lovasz_map(x, t, None).expand(len(x)))
case("lovasz map absent", PIXELS, SOME)(lambda x, t: lovasz_map(x, t, range(5)).expand(len(x)))
case("lovasz map pictures", PIXELS, SOME)(
    lambda x, t: torch.stack([lovasz_map(a, b, None) for a, b in zip(x, t)]))
case("lovasz map pictures absent", PIXELS, SOME)(
    lambda x, t: torch.stack([lovasz_map(a, b, range(5)) for a, b in zip(x, t)]))
case("lovasz map pictures large", normal(2, 9, 15, 5, scale=2), labels(2, 9, 15))(
    lambda x, t: torch.stack([lovasz_map(a, b, None) for a, b in zip(x, t)]))


def sigmoids(x, t, target, *weight):
    """mmsegmentation 1.2.2's CrossEntropyLoss(use_sigmoid=True), and SoftBCEWithLogitsLoss of segmentation_models.pytorch,
    before their mean over pixels: of every class."""
    loss = F.binary_cross_entropy_with_logits(x, target, reduction="none", pos_weight=weight[0] if weight else None)
    return loss * (t >= 0)[..., None]


HOT_MAP = F.one_hot(OF.clamp(min=0), 5) * (OF >= 0)[..., None].double()


@case("bce map", PIXELS, OF)
def bce_map(x, t):
    """avg_non_ignore=True"""
    found, valid = sigmoids(x, t, HOT_MAP).mean(-1), (t >= 0).double()
    assert torch.allclose(pictures(found, valid).mean(), sigmoids(x, t, HOT_MAP).sum() / (valid.sum() * 5))
    return pictures(found, valid)


case("bce map all weights", PIXELS, OF)(lambda x, t: sigmoids(x, t, HOT_MAP, WEIGHTS).mean((1, 2, 3)))
case("bce map smoothing sum", PIXELS, OF)(
    lambda x, t: pictures(sigmoids(x, t, HOT_MAP * 0.8 + 0.2 / 5).sum(-1), (t >= 0).double()))
case("bce weights valid", X, L)(lambda x, t: spread(F.binary_cross_entropy_with_logits(
    x, HOT, reduction="none", pos_weight=WEIGHTS).mean(1) * (t >= 0), (t >= 0).double()))


def boundary(t, weight, width, ignored=-1):
    """The weight of each pixel that has a pixel of another class within the width."""
    factors = torch.ones(t.shape)
    for n, y, x in torch.cartesian_prod(*map(torch.arange, t.shape)):
        window = t[n, max(y - width, 0):y + width + 1, max(x - width, 0):x + width + 1]
        others = (window >= 0) & (window != ignored) & (window != t[n, y, x])
        factors[n, y, x] = weight if others.any() else 1
    return factors


BLOCKS, LOGITS = torch.randint(0, 5, (2, 2, 2)).repeat_interleave(5, 1).repeat_interleave(6, 2), normal(2, 10, 12, 5)
BLOCKS[0, 7, 2:9], BLOCKS[1, :, 3], BLOCKS[1, 2, 8] = -1, -1, 2


def of_blocks(name, factors, values, weights, everything=False):
    print(name, "has", int((factors != 1).sum()), "of", factors.numel(), "pixels at boundaries")
    return (values * factors).mean((1, 2)) if everything else pictures(values * factors, weights * factors)


case("cross-entropy map boundary", LOGITS, BLOCKS)(
    lambda x, t: of_blocks("1", boundary(t, 3, 1), entropy(x, t), (t >= 0).double()))
case("cross-entropy map boundary ignore weights all", LOGITS, BLOCKS)(
    lambda x, t: of_blocks("ignored", boundary(t, 0.5, 2, 2), entropy(x, t, WEIGHTS, ignored=2), None, True))
case("focal map boundary", LOGITS, BLOCKS)(
    lambda x, t: of_blocks("2", boundary(t, 2, 2), focal_map(x, t), (t >= 0).double()))
case("bce map boundary", LOGITS, BLOCKS)(lambda x, t: of_blocks("20", boundary(t, 5, 20), sigmoids(
    x, t, F.one_hot(t.clamp(min=0), 5).double()).mean(-1), (t >= 0).double()))


def line(x):
    kind = "f64" if x.is_floating_point() else "i32"
    return " ".join([kind, str(x.dim()), *map(str, x.shape), *(repr(v) for v in x.detach().flatten().tolist())])


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "losses.txt")
    with open(path, "w", encoding="ascii") as out:
        for name, (inputs, function) in CASES.items():
            leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
            y = function(*leaves)
            dy = torch.randn(y.shape)
            floats = [x for x in leaves if x.is_floating_point()]
            found = torch.autograd.grad(y, floats, dy, allow_unused=True)
            print("case", name.replace(" ", "/"), len(inputs), file=out)
            for x in (*inputs, dy, y):
                print(line(x), file=out)
            for x, g in zip(floats, found):
                print(line(torch.zeros_like(x) if g is None else g), file=out)


if __name__ == "__main__":
    main()
