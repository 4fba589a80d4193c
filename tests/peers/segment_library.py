# SPDX-License-Identifier: Apache-2.0
"""Networks for segmentation made by their own libraries: segmentation_models_pytorch, and mmsegmentation 1.2 with
mmcv-lite, whose compiled operators are not needed. Needs both."""
import sys
import types

import torch
from torch import nn


class NoOperators(types.ModuleType):
    """In the place of mmcv.ops, which mmcv-lite does not have and these networks do not use."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


sys.modules["mmcv.ops"] = NoOperators("mmcv.ops")
import segmentation_models_pytorch as smp  # noqa: E402
from mmseg.models import backbones, decode_heads  # noqa: E402,F401

NORM = {"type": "BN"}


def unet(classes):
    return smp.Unet("resnet34", encoder_weights=None, classes=classes)


# serried's name, the function here, options of serried without which they differ, side of pictures.
NETWORKS = [
    ("unet", unet, "", 64),
]


class Segmentor(nn.Module):
    """mmseg's EncoderDecoder without its last step, which resizes logits to the picture's size."""

    def __init__(self, backbone, decode_head, auxiliary_head=None):
        super().__init__()
        self.backbone, self.decode_head = backbone, decode_head
        if auxiliary_head is not None:
            self.auxiliary_head = auxiliary_head

    def forward(self, x):
        return self.decode_head(self.backbone(x))


def networks():
    """(serried's name, its maker, options, side of pictures)."""
    yield from NETWORKS


def create(make, classes):
    """The library's network in training mode, with its initial values, but for those that are all the same: they hide
    what they are multiplied with. Running statistics follow the last batches."""
    torch.manual_seed(9)
    made = make(classes).train()
    for module in made.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = 0.5
        if isinstance(module, (nn.Dropout, nn.Dropout2d)):
            module.p = 0.0
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.min() == parameter.max():
                parameter.add_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.02))
    return made
