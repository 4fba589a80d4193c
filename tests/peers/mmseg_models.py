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


class SegformerHead(Head):
    def __init__(self, widths, channels, classes):
        super().__init__(channels, classes)
        self.convs = nn.ModuleList(ConvModule(width, channels, 1) for width in widths)
        self.fusion_conv = ConvModule(len(widths) * channels, channels, 1)

    def joined(self, maps):
        return self.fusion_conv(torch.cat([resize(conv(x), maps[0]) for conv, x in zip(self.convs, maps)], 1))


class ReducedAttention(nn.Module):
    def __init__(self, width, heads, reduction):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        if reduction > 1:
            self.sr = nn.Conv2d(width, width, reduction, reduction)
            self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x, size):
        kv = x
        if hasattr(self, "sr"):
            kv = self.norm(self.sr(x.transpose(1, 2).unflatten(2, size)).flatten(2).transpose(1, 2))
        return self.attn(x, kv, kv)[0]


class MixFfn(nn.Module):
    def __init__(self, width):
        super().__init__()
        hidden = 4 * width
        self.layers = nn.Sequential(nn.Conv2d(width, hidden, 1), nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden),
                                    nn.GELU(), nn.Identity(), nn.Conv2d(hidden, width, 1))

    def forward(self, x, size):
        return self.layers(x.transpose(1, 2).unflatten(2, size)).flatten(2).transpose(1, 2)


class MitLayer(nn.Module):
    def __init__(self, width, heads, reduction):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = ReducedAttention(width, heads, reduction)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.ffn = MixFfn(width)

    def forward(self, x, size):
        x = x + self.attn(self.norm1(x), size)
        return x + self.ffn(self.norm2(x), size)


class MitPatches(nn.Module):
    def __init__(self, fan_in, width, window, stride):
        super().__init__()
        self.projection = nn.Conv2d(fan_in, width, window, stride, window // 2)
        self.norm = nn.LayerNorm(width, eps=1e-6)


class MixTransformer(nn.Module):
    """The maps of its four stages, or logits if there are classes. Without stochastic depth."""

    def __init__(self, classes=0, width=32, layers=(2, 2, 2, 2)):
        super().__init__()
        heads = (1, 2, 5, 8)
        self.widths = [width * count for count in heads]
        rows = zip([3, *self.widths], self.widths, (7, 3, 3, 3), (4, 2, 2, 2), (8, 4, 2, 1), heads, layers)
        self.layers = nn.ModuleList(
            nn.ModuleList([MitPatches(fan_in, fan_out, window, stride),
                           nn.ModuleList(MitLayer(fan_out, count, reduction) for _ in range(depth)),
                           nn.LayerNorm(fan_out, eps=1e-6)])
            for fan_in, fan_out, window, stride, reduction, count, depth in rows)
        if classes:
            self.head = nn.Linear(self.widths[-1], classes)

    def forward(self, x):
        maps = []
        for patches, layers, norm in self.layers:
            x = patches.projection(x)
            size = x.shape[2:]
            x = patches.norm(x.flatten(2).transpose(1, 2))
            for layer in layers:
                x = layer(x, size)
            x = norm(x).transpose(1, 2).unflatten(2, size)
            maps.append(x)
        return self.head(x.mean((2, 3))) if hasattr(self, "head") else maps


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


class ObjectContext(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.key_project = nn.Sequential(ConvModule(width, inner, 1), ConvModule(inner, inner, 1))
        self.query_project = nn.Sequential(ConvModule(width, inner, 1), ConvModule(inner, inner, 1))
        self.value_project, self.out_project = ConvModule(width, inner, 1), ConvModule(inner, width, 1)
        self.bottleneck = ConvModule(2 * width, width, 1)

    def forward(self, x, classes):
        query, key, value = (y.flatten(2) for y in (self.query_project(x), self.key_project(classes),
                                                    self.value_project(classes)))
        weights = (query.transpose(1, 2) @ key * key.shape[1] ** -0.5).softmax(-1)
        y = (value @ weights.transpose(1, 2)).unflatten(2, x.shape[2:])
        return self.bottleneck(torch.cat([self.out_project(y), x], 1))


class FirstHead(Head):
    def __init__(self, width, classes):
        super().__init__(width, classes)
        self.convs = nn.Sequential(ConvModule(width, width, 1))

    def joined(self, maps):
        return self.convs(maps)


class OcrHead(Head):
    def __init__(self, width, channels, inner, classes):
        super().__init__(channels, classes)
        self.object_context_block = ObjectContext(channels, inner)
        self.bottleneck = ConvModule(width, channels, 3)

    def forward(self, maps, first):
        x = self.bottleneck(maps)
        classes = x.flatten(2) @ first.flatten(2).softmax(2).transpose(1, 2)
        return self.conv_seg(self.object_context_block(x, classes.unsqueeze(3)))


class OcrNetwork(nn.Module):
    def __init__(self, backbone, widths, classes, channels=512, inner=256):
        super().__init__()
        self.backbone = backbone
        self.decode_head = nn.ModuleList([FirstHead(sum(widths), classes), OcrHead(sum(widths), channels, inner, classes)])

    def forward(self, x):
        maps = self.backbone(x)
        maps = torch.cat([resize(y, maps[0]) for y in maps], 1)
        first = self.decode_head[0](maps)
        logits = self.decode_head[1](maps, first)
        return DecodeOutputs(logits, first) if self.training else logits


HEADS = {"deeplabv3plus": AtrousHead, "pspnet": PspHead, "upernet": UperHead, "segformer": SegformerHead}


NAMES = (*HEADS, "ocrnet")


def create(name, classes, backbone, widths, channels=512, aux_channels=256, **how):
    """The network of a name of NAMES around a backbone."""
    if name == "ocrnet":
        return OcrNetwork(backbone, widths, classes, channels, **how)
    return Network(backbone, widths, HEADS[name](widths, channels, classes, **how), aux_channels, classes)
