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


class Segmentor(nn.Module):
    """mmseg's EncoderDecoder without its last step, which resizes logits to the picture's size."""

    def __init__(self, backbone, decode_head, auxiliary_head=None):
        super().__init__()
        self.backbone, self.decode_head = backbone, decode_head
        if auxiliary_head is not None:
            self.auxiliary_head = auxiliary_head

    def forward(self, x):
        return self.decode_head(self.backbone(x))


def unet(classes):
    return smp.Unet("resnet34", encoder_weights=None, classes=classes)


def resnet_v1c(strides=(1, 2, 1, 1), dilations=(1, 1, 2, 4)):
    return backbones.ResNetV1c(depth=50, strides=strides, dilations=dilations, norm_cfg=NORM, contract_dilation=True)


def head_of(kind, classes, in_channels=2048, in_index=3, channels=512, **how):
    return kind(in_channels=in_channels, in_index=in_index, channels=channels, num_classes=classes, norm_cfg=NORM,
                align_corners=False, **how)


def auxiliary(classes):
    return head_of(decode_heads.FCNHead, classes, 1024, 2, 256, num_convs=1, concat_input=False)


def deeplabv3plus_r50_d8(classes):
    head = head_of(decode_heads.DepthwiseSeparableASPPHead, classes, dilations=(1, 12, 24, 36), c1_in_channels=256,
                   c1_channels=48)
    return Segmentor(resnet_v1c(), head, auxiliary(classes))


def pspnet_r50_d8(classes):
    return Segmentor(resnet_v1c(), head_of(decode_heads.PSPHead, classes), auxiliary(classes))


def upernet_r50(classes):
    widths, stages = [256, 512, 1024, 2048], [0, 1, 2, 3]
    backbone = resnet_v1c((1, 2, 2, 2), (1, 1, 1, 1))
    return Segmentor(backbone, head_of(decode_heads.UPerHead, classes, widths, stages), auxiliary(classes))


def segformer_mit_b0(classes):
    backbone = backbones.MixVisionTransformer(embed_dims=32, num_layers=[2, 2, 2, 2], num_heads=[1, 2, 5, 8])
    return Segmentor(backbone, head_of(decode_heads.SegformerHead, classes, [32, 64, 160, 256], [0, 1, 2, 3], 256))


class Cascade(Segmentor):
    def forward(self, x):
        maps = self.backbone(x)
        return self.decode_head[1](maps, self.decode_head[0](maps))


def ocrnet_hr18(classes):
    widths, stages, how = (18, 36, 72, 144), (0, 1, 2, 3), {"input_transform": "resize_concat", "dropout_ratio": -1}
    extra = {f"stage{i + 1}": {"num_modules": modules, "num_branches": max(i + 1, 1), "block": "BASIC" if i else "BOTTLENECK",
                               "num_blocks": (4,) * (i + 1), "num_channels": widths[:i + 1] if i else (64,)}
             for i, modules in enumerate((1, 1, 4, 3))}
    first = head_of(decode_heads.FCNHead, classes, widths, stages, sum(widths), kernel_size=1, num_convs=1,
                    concat_input=False, **how)
    second = head_of(decode_heads.OCRHead, classes, widths, stages, ocr_channels=256, **how)
    return Cascade(backbones.HRNet(extra, norm_cfg=NORM), nn.ModuleList([first, second]))


# serried's name, the function here, options of serried without which they differ, side of pictures.
NETWORKS = [
    ("unet", unet, "", 64),
    ("deeplabv3plus", deeplabv3plus_r50_d8, "", 64),
    ("pspnet", pspnet_r50_d8, "", 64),
    ("upernet", upernet_r50, "", 64),
    ("segformer", segformer_mit_b0, "", 64),
    ("ocrnet", ocrnet_hr18, "", 64),
]


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
