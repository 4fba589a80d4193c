# SPDX-License-Identifier: Apache-2.0
"""Writes what torchvision's models compute, for tests/unit/trainer/test_models.c.

    /usr/bin/python3 tests/models/model_golden.py [--folder FOLDER] [--no-training | --losses] [MODEL...]

Without models: those of tests/models/cases.txt that the short tests compare. With --losses instead the lines of
losses.txt, "MODEL SIDE OWN L1 .. L20" as below, of the models that the part models-all trains, which takes hours; it
writes the rest of their files itself, in a temporary folder. Weights, pictures and labels
are generated as in tests/golden/network_golden.py, so that the files contain results alone; nothing is
dropped, by dropout or stochastic depth. A file begins with

    MODEL CLASSES SIDE SAMPLES OWN
    # Losses by PyTorch VERSION, torchvision VERSION
    losses L1 .. L20

For a network with other options (VARIANTS) lines "options NAME VALUE" follow the first one. L: the mean losses of 20 steps
of SGD (CLASSIFIERS, MAPS) in float64, of new pictures each. OWN: the largest relative difference of PyTorch's own
float32 losses from them. With --no-training the losses are left out. One line for every tensor follows:

    KIND NAME SHAPE NORM P1 .. P4

output and loss: of the first of these pictures, loss one for each sample; evaluation: the output in evaluation
mode; gradient: of the sum of the losses; statistic: the batch's, of a running one. P: projections, as in
network_golden.py. With HOW "names" a file has parameters and buffers instead, without numbers. Counters
have lines without numbers in any case; tables, which are
constants among the buffers, have numbers.

Networks for segmentation have maps of logits [N,h,w,CLASSES]. The loss of a picture is the mean over its pixels, of
which number i has the picture's label plus i, modulo CLASSES; those of auxiliary outputs are added by WEIGHTS. In the
steps of training, logits are resized to the pictures' size, as torchvision does, and compared with masks (masks_of); a
loss is the mean over all pixels of the batch that are not ignored.

Generated values of tensor t (in state_dict order, counters and tables left out) are those of network_golden.py, but:
norm weights are 1 + u / 5, also at the end of a block; running variances are four times that, so that
features do not grow from block to block in evaluation mode; tensors of 3 dimensions (tokens, positions,
scales of layers) are u / 5; what has as many rows as there are classes, as the last layer has, is a
fiftieth. Where steps are trained, biases and norm weights are (1 + u / 5) / 16: most features are positive
and small, so that the steps do not multiply rounding errors. Where nothing is normalised, hidden linear layers
are a sixteenth then, as thousands of large features would let the first step overshoot.

Steps on maps have larger factors (MAPS) and momentum, as their losses otherwise hardly depend on the rate, or on how
logits are resized. With features of full size they would multiply rounding errors: where batch norm sees a few values
that are nearly equal, such as the means over each of eight pictures in ASPP, it divides by their small deviation.
"""
import argparse
import collections
import os
import sys

import numpy
import torch
import torch.nn.functional as F
import torchvision

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "..", "golden"), os.path.join(FOLDER, "..", "peers")]
import torch_models  # noqa: E402
from network_golden import LABELS, LOSS, OUTPUT, SEED, pictures, signs, uniform, words  # noqa: E402

LOSSES = os.path.join(FOLDER, "losses.txt")
CLASSES, SAMPLES, STEPS, PROJECTIONS = 10, 8, 20, 4
# How steps are trained. gentle: factor of biases and norm weights; last: of the rows of the last layer.
Training = collections.namedtuple("Training", ("rate", "momentum", "gentle", "last"))
CLASSIFIERS = Training(rate=0.01, momentum=0, gentle=1 / 16, last=0.02)
MAPS = Training(rate=0.05, momentum=0.9, gentle=1 / 8, last=0.1)
MOST_OWN = 1e-5  # a tenth of what the test permits
IGNORED, CELL, VOID_SHARE = 255, 16, 8  # of masks
# File: model, arguments of torchvision, the options that say the same, HOW as in cases.txt. Inception-v3's needs
# pictures of 299 pixels.
VARIANTS = {
    "googlenet_aux": ("googlenet", {"aux_logits": True}, ("aux_logits true",), "names"),
    "fcn_resnet18": ("fcn", {"backbone": "resnet18", "aux_stage": -2}, ("backbone resnet18", "aux true"), "short"),
    "deeplabv3_resnet18": ("deeplabv3", {"backbone": "resnet18", "output_stride": 16, "rates": (1, 2, 3),
                                         "channels": 128},
                           ("backbone resnet18", "backbone.output_stride 16", "channels 128", "rates [1,2,3]"), "short"),
    "deeplabv3_mobilenet": ("deeplabv3", {"backbone": "mobilenet_v3_large", "aux_stage": -4},
                            ("backbone mobilenet_v3_large", "rates [12,24,36]", "aux true", "aux_stage -4"), "short"),
    "unet_resnet18": ("unet", {"backbone": "resnet18", "channels": (40, 24, 16, 12, 8)},
                      ("backbone resnet18", "channels [40,24,16,12,8]"), "short"),
    "deeplabv3plus_resnet18": ("deeplabv3plus", {"backbone": "resnet18", "output_stride": 16, "channels": 64,
                                                 "aux_channels": 32, "rates": (2, 3)},
                               ("backbone resnet18", "backbone.output_stride 16", "channels 64", "aux_channels 32",
                                "rates [2,3]"), "short"),
    "pspnet_resnet18": ("pspnet", {"backbone": "resnet18", "output_stride": 16, "channels": 64, "aux_channels": 32},
                        ("backbone resnet18", "backbone.output_stride 16", "channels 64", "aux_channels 32"), "short"),
    "upernet_resnet18": ("upernet", {"backbone": "resnet18", "channels": 64, "aux_channels": None},
                         ("backbone resnet18", "channels 64", "aux false"), "short"),
    "ocrnet_resnet18": ("ocrnet", {"backbone": "resnet18", "channels": 64, "inner": 32},
                        ("backbone resnet18", "backbone.stem v1c", "channels 64", "context_channels 32"), "short"),
}
# Of the losses of auxiliary classifiers: Szegedy et al. 2015, torchvision's and mmseg's examples.
WEIGHTS = {"GoogLeNetOutputs": 0.3, "InceptionOutputs": 0.4, "SegmentationOutputs": 0.5, "DecodeOutputs": 0.4}


def cases():
    """(model, side, how) of every line."""
    with open(os.path.join(FOLDER, "cases.txt"), encoding="ascii") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    return [(model, int(side), how) for model, side, how in lines]


class HardSigmoid(torch.nn.Module):
    """PyTorch 1.13's own takes a sixth that is rounded to float32 as its derivative, also in float64."""

    def forward(self, x):
        return F.relu6(x + 3) / 6


def create(name, side, **arguments):
    """The network as it is after its own initialisation, without dropping anything."""
    made = torch_models.create(name, CLASSES, side=side, **arguments)
    for module in list(made.modules()):
        if isinstance(module, (torch.nn.Dropout, torch.nn.Dropout2d, torchvision.ops.StochasticDepth)):
            module.p = 0.0
        for child, layer in module.named_children():
            if isinstance(layer, torch.nn.Hardsigmoid):
                setattr(module, child, HardSigmoid())
    return made


def values_of(name, index, tensor, training, normalises):
    """training: None for a pass alone."""
    u = uniform(index, tensor.numel())
    if tensor.dim() in (2, 4):
        hidden = training.gentle if training and not normalises and tensor.dim() == 2 else 1.0
        share = (training or CLASSIFIERS).last if tensor.shape[0] == CLASSES else hidden
        return u * share * (6.0 / (tensor.numel() // tensor.shape[0])) ** 0.5
    if training and name.endswith(("weight", "bias")) and tensor.dim() == 1:
        return (1 + u / 5) * training.gentle
    if name.endswith("running_var"):
        return 4 + 4 * u / 5
    return 1 + u / 5 if tensor.dim() == 1 and name.endswith("weight") else u / 5


def kinds(made):
    """name -> (parameter, buffer, counter or table; tensor) of everything in the state dict."""
    parameters, found = dict(made.named_parameters()), {}
    for n, tensor in made.state_dict().items():
        last = n.rsplit(".", 1)[-1]
        if n in parameters:
            kind = "parameter"
        elif last == "num_batches_tracked":
            kind = "counter"
        else:
            kind = "buffer" if last in ("running_mean", "running_var") else "table"
        found[n] = (kind, tensor)
    return found


def network(name, side, training, **arguments):
    """The network with generated values, and the names of its tensors without counters and tables."""
    made = create(name, side, **arguments).double()
    tensors = [(n, t) for n, (kind, t) in kinds(made).items() if kind in ("parameter", "buffer")]
    normalises = any(t.dim() == 1 and n.endswith("weight") for n, t in tensors)
    with torch.no_grad():
        for index, (n, tensor) in enumerate(tensors):
            values = values_of(n, index, tensor, training, normalises).astype("float32").astype("float64")
            tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))
    return made, [n for n, _ in tensors]


def channels_last(tensor):
    """A map in the order of serried's elements."""
    return tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor


def cross_entropy(logits, labels):
    """The loss of each picture."""
    if logits.dim() == 2:
        return F.cross_entropy(logits, labels, reduction="none")
    samples, classes, height, width = logits.shape
    pixels = (labels[:, None] + torch.arange(height * width)) % classes
    return F.cross_entropy(logits, pixels.view(samples, height, width), reduction="none").mean((1, 2))


def losses_of_outputs(outputs, labels, loss=cross_entropy):
    """Of each picture. Of a network with auxiliary classifiers, whose logits come after its own, the weighted sum."""
    if torch.is_tensor(outputs):
        return loss(outputs, labels)
    own, *others = (loss(logits, labels) for logits in outputs)
    return own + WEIGHTS[type(outputs).__name__] * sum(others)


def masks_of(step, labels, side):
    """Masks of cells, of CELL pixels a side, with the labels of pictures n, n + 1, ...; one pixel of VOID_SHARE is
    ignored: number i, if VOID_SHARE divides the upper half of word w(LABELS, i, 1)."""
    count, cell = len(labels), torch.arange(side) // CELL
    masks = labels[(torch.arange(count)[:, None, None] + cell[:, None] + cell) % count]
    drawn = words(LABELS + (step << 8), masks.numel(), 1) >> numpy.uint64(16)
    return masks.masked_fill(torch.from_numpy(drawn % numpy.uint64(VOID_SHARE) == 0).view(masks.shape), IGNORED)


def loss_of_masks(logits, masks):
    logits = F.interpolate(logits, size=masks.shape[1:], mode="bilinear", align_corners=False)
    return F.cross_entropy(logits, masks, ignore_index=IGNORED)


def one_pass(name, side, **arguments):
    """(kind, index, name) -> tensor."""
    made, names = network(name, side, None, **arguments)
    x, labels = pictures(0, CLASSES, side, SAMPLES)
    with torch.no_grad():
        results = {("evaluation", OUTPUT, "evaluation"): channels_last(made.eval()(x))}
    for module in made.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = 1.0  # running statistics are those of the batch
    outputs = made.train()(x)
    loss = losses_of_outputs(outputs, labels)
    loss.sum().backward()
    results["output", OUTPUT, "output"] = channels_last((outputs if torch.is_tensor(outputs) else outputs[0]).detach())
    results["loss", LOSS, "loss"] = loss.detach()
    parameters, state = dict(made.named_parameters()), made.state_dict()
    for index, n in enumerate(names):
        if n in parameters:
            results["gradient", index, n] = parameters[n].grad
        elif n.endswith(("running_mean", "running_var")):
            results["statistic", index, n] = state[n]
    return results


def train(name, side, dtype, **arguments):
    training, loss = (MAPS, loss_of_masks) if is_segmentation(name) else (CLASSIFIERS, cross_entropy)
    made, _ = network(name, side, training, **arguments)
    made = made.to(dtype).train()
    optimizer = torch.optim.SGD(made.parameters(), training.rate, training.momentum)
    losses = []
    for step in range(STEPS):
        x, labels = pictures(step, CLASSES, side, SAMPLES)
        target = masks_of(step, labels, side) if is_segmentation(name) else labels
        optimizer.zero_grad()
        mean = losses_of_outputs(made(x.to(dtype)), target, loss).mean()
        mean.backward()
        optimizer.step()
        losses.append(mean.item())
    return losses


def shape_text(tensor):
    return "x".join(str(n) for n in tensor.shape) or "1"


def numbers_of(tensor, index):
    flat = tensor.detach().double().reshape(-1).numpy()
    projections = [(flat * s).sum() for s, _ in zip(signs(index, flat.size), range(PROJECTIONS))]
    return [f"{v:.12g}" for v in (tensor.double().norm().item(), *projections)]


def stored_losses():
    """(model, side) -> what losses_of returns, of losses.txt."""
    found = {}
    with open(LOSSES, encoding="ascii") as file:
        for line in file:
            if not line.startswith("#"):
                model, side, own, *losses = line.split()
                found[model, int(side)] = (float(own), [float(loss) for loss in losses])
    return found


def write_losses(models):
    """Replaces or adds the lines of these models, after each one."""
    with open(LOSSES, encoding="ascii") as file:
        head = [line for line in file if line.startswith("#")]
    for name, side, how in cases():
        if not is_segmentation(name) and (name in models or (not models and how in ("brief", "all"))):
            stored = stored_losses()
            stored[name, side] = losses_of(name, side)
            with open(LOSSES, "w", encoding="ascii") as file:
                file.writelines(head)
                for model, pixels, _ in cases():
                    if (model, pixels) in stored:
                        own, losses = stored[model, pixels]
                        print(model, pixels, f"{own:.1e}", *(f"{loss:.9g}" for loss in losses), file=file)


def losses_of(name, side, **arguments):
    """The largest relative difference of float32's losses from float64's, and these."""
    exact, single = (train(name, side, dtype, **arguments) for dtype in (torch.float64, torch.float32))
    own = max(abs(a - b) / a for a, b in zip(exact, single))
    print(f"{name}: losses {exact[0]:.3f} to {exact[-1]:.3f}, float32's differ by {own:.1e}", flush=True)
    assert own <= MOST_OWN, "these steps multiply rounding errors"
    return own, exact


def lines_of(name, side, how, **arguments):
    everything = kinds(create(name, side, **arguments))
    if how == "names":
        for n, (kind, tensor) in everything.items():
            if kind in ("parameter", "buffer"):
                yield " ".join([kind, n, shape_text(tensor)])
    else:
        for (kind, index, n), tensor in one_pass(name, side, **arguments).items():
            yield " ".join([kind, n, shape_text(tensor), *numbers_of(tensor, index)])
    for n, (kind, tensor) in everything.items():
        if kind == "counter":
            yield f"counter {n} 1"
        if kind == "table":
            yield " ".join([kind, n, shape_text(tensor), *numbers_of(tensor, SEED)])


def is_segmentation(model):
    """It gives logits of each pixel."""
    return model in torch_models.SEGMENTATION


def write_file(path, model, side, how, options, own, losses, **arguments):
    with open(path, "w", encoding="ascii") as file:
        print(model, CLASSES, side, SAMPLES, f"{own:.1e}", file=file)
        for option in options:
            print("options", option, file=file)
        if losses:
            print(f"# Losses by PyTorch {torch.__version__}, torchvision {torchvision.__version__}", file=file)
            print("losses", *(f"{loss:.9g}" for loss in losses), file=file)
        for line in lines_of(model, side, how, **arguments):
            print(line, file=file)


def write(case, folder, training=True):
    """Writes folder/MODEL.txt. Of segmentation, the networks with larger backbones are not trained, but those of
    VARIANTS."""
    name, side, how = case
    own, losses = 0, []
    if training and how != "names" and (how == "short" or not is_segmentation(name)):
        own, losses = stored_losses().get((name, side)) or losses_of(name, side)
    write_file(os.path.join(folder, f"{name}.txt"), name, side, how, (), own, losses)


def write_variant(name, folder, training=True):
    """Writes folder/NAME.txt."""
    model, arguments, options, how = VARIANTS[name]
    side = {case: pixels for case, pixels, _ in cases()}[model]
    own, losses = losses_of(model, side, **arguments) if training else (0, [])
    write_file(os.path.join(folder, f"{name}.txt"), model, side, how, options, own, losses, **arguments)


def write_files(folder, models, training):
    os.makedirs(folder, exist_ok=True)
    for name, side, how in cases():
        if name in models or (not models and how in ("short", "brief")):
            write((name, side, "names" if how == "brief" else how), folder, training)
    for name in VARIANTS:
        if name in models or not models:
            write_variant(name, folder, training)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=os.path.join(FOLDER, "golden"))
    parser.add_argument("--no-training", action="store_true")
    parser.add_argument("--losses", action="store_true")
    parser.add_argument("models", nargs="*")
    given = parser.parse_args()
    if given.losses:
        write_losses(given.models)
    else:
        write_files(given.folder, given.models, not given.no_training)


if __name__ == "__main__":
    main()
