# SPDX-License-Identifier: Apache-2.0
"""Networks for segmentation of mmsegmentation, written after their publications, with its names of tensors.

mmsegmentation is not needed; segment_library.py compares with it where it is installed. Networks give the logits of
each pixel of a map, in training with those of their auxiliary head.
"""
import collections

import torch
from torch import nn
from torch.nn import functional as F

DecodeOutputs = collections.namedtuple("DecodeOutputs", ("logits", "aux"))


class ConvModule(nn.Module):
    def __init__(self, fan_in, fan_out, window, **how):
        super().__init__()
        padding = window // 2 * how.get("dilation", 1)
        self.conv = nn.Conv2d(fan_in, fan_out, window, padding=padding, bias=False, **how)
        self.bn = nn.BatchNorm2d(fan_out)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Separable(nn.Module):
    def __init__(self, fan_in, fan_out, dilation=1):
        super().__init__()
        self.depthwise_conv = ConvModule(fan_in, fan_in, 3, dilation=dilation, groups=fan_in)
        self.pointwise_conv = ConvModule(fan_in, fan_out, 1)

    def forward(self, x):
        return self.pointwise_conv(self.depthwise_conv(x))


def resize(x, like):
    return F.interpolate(x, like.shape[2:], mode="bilinear", align_corners=False)


class Head(nn.Module):
    """The last layer of each head. maps: those of all stages of the backbone."""

    def __init__(self, channels, classes):
        super().__init__()
        self.conv_seg = nn.Conv2d(channels, classes, 1)
        self.dropout = nn.Dropout2d(0.1)
        nn.init.normal_(self.conv_seg.weight, std=0.01)
        nn.init.zeros_(self.conv_seg.bias)

    def forward(self, maps):
        return self.conv_seg(self.dropout(self.joined(maps)))


class FcnHead(Head):
    def __init__(self, widths, stage, channels, classes):
        super().__init__(channels, classes)
        self.stage = stage
        self.convs = nn.Sequential(ConvModule(widths[stage], channels, 3))

    def joined(self, maps):
        return self.convs(maps[self.stage])


def pyramid(width, channels, scales=(1, 2, 3, 6)):
    return nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(s), ConvModule(width, channels, 1)) for s in scales)


def pooled(modules, x):
    return torch.cat([x, *(resize(module(x), x) for module in modules)], 1)


class PspHead(Head):
    def __init__(self, widths, channels, classes):
        super().__init__(channels, classes)
        self.psp_modules = pyramid(widths[-1], channels)
        self.bottleneck = ConvModule(widths[-1] + 4 * channels, channels, 3)

    def joined(self, maps):
        return self.bottleneck(pooled(self.psp_modules, maps[-1]))


class UperHead(PspHead):
    def __init__(self, widths, channels, classes):
        super().__init__(widths, channels, classes)
        self.lateral_convs = nn.ModuleList(ConvModule(width, channels, 1) for width in widths[:-1])
        self.fpn_convs = nn.ModuleList(ConvModule(channels, channels, 3) for _ in widths[:-1])
        self.fpn_bottleneck = ConvModule(len(widths) * channels, channels, 3)

    def joined(self, maps):
        last = super().joined(maps)
        maps = [conv(x) for conv, x in zip(self.lateral_convs, maps)] + [last]
        for i in range(len(maps) - 1, 0, -1):
            maps[i - 1] = maps[i - 1] + resize(maps[i], maps[i - 1])
        maps = [conv(x) for conv, x in zip(self.fpn_convs, maps)] + [last]
        return self.fpn_bottleneck(torch.cat([resize(x, maps[0]) for x in maps], 1))


class AtrousHead(Head):
    def __init__(self, widths, channels, classes, rates=(12, 24, 36), low=0):
        super().__init__(channels, classes)
        self.low = low
        self.image_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), ConvModule(widths[-1], channels, 1))
        self.aspp_modules = nn.ModuleList([ConvModule(widths[-1], channels, 1)])
        self.aspp_modules.extend(Separable(widths[-1], channels, rate) for rate in rates)
        self.bottleneck = ConvModule((len(rates) + 2) * channels, channels, 3)
        self.c1_bottleneck = ConvModule(widths[low], 48, 1)
        self.sep_bottleneck = nn.Sequential(Separable(channels + 48, channels), Separable(channels, channels))

    def joined(self, maps):
        x, low = maps[-1], self.c1_bottleneck(maps[self.low])
        x = torch.cat([resize(self.image_pool(x), x), *(module(x) for module in self.aspp_modules)], 1)
        return self.sep_bottleneck(torch.cat([resize(self.bottleneck(x), low), low], 1))


class Network(nn.Module):
    """backbone: its result is the maps of its stages, of so many channels."""

    def __init__(self, backbone, widths, head, aux_channels, classes):
        super().__init__()
        self.backbone, self.decode_head = backbone, head
        if aux_channels:
            self.auxiliary_head = FcnHead(widths, -2, aux_channels, classes)

    def forward(self, x):
        maps = self.backbone(x)
        logits = self.decode_head(maps)
        if self.training and hasattr(self, "auxiliary_head"):
            return DecodeOutputs(logits, self.auxiliary_head(maps))
        return logits


HEADS = {"deeplabv3plus": AtrousHead, "pspnet": PspHead, "upernet": UperHead}


def create(name, classes, backbone, widths, channels=512, aux_channels=256, **how):
    """The network of a name of HEADS around a backbone."""
    return Network(backbone, widths, HEADS[name](widths, channels, classes, **how), aux_channels, classes)
