# SPDX-License-Identifier: Apache-2.0
"""The networks of the shipped recipes in PyTorch, with equal tensor names, for comparisons.

Most are torchvision's own; stem="cifar" replaces the first layers of a ResNet as
trainer/models/model_resnet.c does. The others are written after trainer/models/model_*.c.
"""
import collections

import torch
from torch import nn
from torch.nn import functional as F
import torchvision

from torchvision.models import segmentation
from torchvision.models._utils import IntermediateLayerGetter

import mmseg_models
import timm_models


class Group(nn.Module):
    def __init__(self, fan_in, fan_out, momentum):
        super().__init__()
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(fan_out, eps=1e-12, momentum=momentum)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(fan_out, eps=1e-12, momentum=momentum)
        for norm in (self.norm1, self.norm2):
            norm.weight.requires_grad_(False)
        for conv in (self.conv1, self.conv2):
            nn.init.dirac_(conv.weight[:conv.in_channels].data)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class CifarFast(nn.Module):
    def __init__(self, classes, widths=(64, 256, 256), scale=1 / 9, momentum=0.4):
        super().__init__()
        self.scale = scale
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad_(False)
        sizes = (24, *widths)
        self.layers = nn.Sequential(*(Group(a, b, momentum) for a, b in zip(sizes, widths)))
        self.head = nn.Linear(widths[-1], classes, bias=False)

    def forward(self, x):
        x = self.layers(F.gelu(self.whiten(x)))
        return self.head(F.max_pool2d(x, x.shape[2:]).flatten(1)) * self.scale


class Tiny(nn.Module):
    def __init__(self, classes, width=16):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(2 * width)
        self.fc = nn.Linear(2 * width, classes)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(x + F.relu(self.bn2(self.conv2(x))), 2)
        x = F.relu(self.bn3(self.conv3(x)))
        return self.fc(self.dropout(x.mean((2, 3))))


class ToyGenerator(nn.Module):
    def __init__(self, width=16, noise=32):
        super().__init__()
        self.channels = 4 * width
        self.start = nn.Linear(noise, 16 * self.channels)
        sizes = (4 * width, 2 * width, width, 3)
        for i in range(3):
            setattr(self, f"norm{i + 1}", nn.BatchNorm2d(sizes[i]))
            setattr(self, f"conv{i + 1}", nn.Conv2d(sizes[i], sizes[i + 1], 3, padding=1))

    def forward(self, z):
        x = self.start(z).view(-1, 4, 4, self.channels).permute(0, 3, 1, 2)
        for i in "123":
            x = F.interpolate(F.relu(getattr(self, "norm" + i)(x)), scale_factor=2)
            x = getattr(self, "conv" + i)(x)
        return torch.tanh(x)


class ToyCritic(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        sizes = (3, width, 2 * width, 4 * width)
        for i in range(3):
            setattr(self, f"conv{i + 1}", nn.Conv2d(sizes[i], sizes[i + 1], 3, 2, 1))
        self.end = nn.Linear(16 * sizes[3], 1)

    def forward(self, x):
        for i in "123":
            x = F.leaky_relu(getattr(self, "conv" + i)(x), 0.2)
        return self.end(x.permute(0, 2, 3, 1).flatten(1))


# No auxiliary classifiers; and initial values that take minutes are left out.
ARGUMENTS = {name: {"aux_logits": False, "init_weights": False} for name in ("googlenet", "inception_v3")}


class BlurredConv(nn.Conv2d):
    """As FFCV's BlurPoolConv2d: a convolution of blurred maps; the filter is not a tensor of the network here."""

    def forward(self, x):
        line = torch.tensor([0.25, 0.5, 0.25], dtype=x.dtype)
        filters = (line[:, None] * line).expand(x.shape[1], 1, 3, 3)
        return super().forward(F.conv2d(x, filters, padding=1, groups=x.shape[1]))


def blur(model):
    """Blurs what convolutions with a stride and at least 16 channels see, as FFCV's apply_blurpool does."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and max(module.stride) > 1 and module.in_channels >= 16:
            module.__class__ = BlurredConv
    return model


def dilate_basic_blocks(model, output_stride):
    """What torchvision's replace_stride_with_dilation does, for the blocks for which it has no dilation."""
    reached, dilation = 8, 1
    for layer in (model.layer3, model.layer4):
        before, replaced = dilation, reached >= output_stride
        dilation, reached = (2 * dilation, reached) if replaced else (dilation, 2 * reached)
        for i, block in enumerate(layer):
            for conv in (block.conv1, block.conv2):
                conv.dilation = conv.padding = (before if i == 0 else dilation,) * 2
        for conv in (layer[0].conv1, layer[0].downsample[0]) if replaced else ():
            conv.stride = (1, 1)
    return model


class V1cResNet(torchvision.models.ResNet):
    """mmseg's ResNetV1c, with torchvision's end."""

    def _forward_impl(self, x):
        x = self.layer2(self.layer1(self.maxpool(self.stem(x))))
        return self.fc(self.layer4(self.layer3(x)).mean((2, 3)))


def make_v1c(model):
    """Replaces the first layers of a ResNet by three convolutions."""
    model.__class__ = V1cResNet
    del model.conv1, model.bn1
    layers = []
    for fan_in, fan_out, stride in ((3, 32, 2), (32, 32, 1), (32, 64, 1)):
        layers += [nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False), nn.BatchNorm2d(fan_out), nn.ReLU()]
        nn.init.kaiming_normal_(layers[-3].weight, mode="fan_out", nonlinearity="relu")
    model.stem = nn.Sequential(*layers)
    return model


# ---- Segmentation: torchvision's networks without the last step, which resizes logits to the picture's size ----

SegmentationOutputs = collections.namedtuple("SegmentationOutputs", ("logits", "aux"))


class Maps(nn.Module):
    """Logits of each pixel of a map, in training with those of an auxiliary classifier if there is one."""

    def forward(self, x):
        maps = self.backbone(x)
        logits = self.classifier(maps["out"])
        if self.training and self.aux_classifier is not None:
            return SegmentationOutputs(logits, self.aux_classifier(maps["aux"]))
        return logits


class Fcn(Maps, segmentation.FCN):
    pass


class DeepLab(Maps, segmentation.DeepLabV3):
    pass


class LrAspp(segmentation.LRASPP):
    def forward(self, x):
        return self.classifier(self.backbone(x))


def stages_of(made):
    """The backbone, and the modules of its stages: (name, channels) of each."""
    if hasattr(made, "layer4"):
        ends = [list(getattr(made, f"layer{i}")[-1].children()) for i in range(1, 5)]
        widths = [[c.out_channels for c in end if isinstance(c, nn.Conv2d)][-1] for end in ends]
        return made, [(f"layer{i + 1}", width) for i, width in enumerate(widths)]
    made = made.features
    places = [0] + [i for i, b in enumerate(made) if getattr(b, "_is_cn", False)] + [len(made) - 1]
    return made, [(str(i), made[i].out_channels) for i in places]


def backbone_of(name, output_stride):
    if name.startswith("mobilenet_v3"):
        return getattr(torchvision.models, name)(dilated=True)
    if name in ("resnet18", "resnet34"):
        return dilate_basic_blocks(getattr(torchvision.models, name)(), output_stride)
    return getattr(torchvision.models, name)(replace_stride_with_dilation=[False, output_stride < 16, output_stride < 32])


def deeplab_head(width, channels, classes, rates):
    """torchvision's DeepLabHead, with other channels than 256, and other rates."""
    head = segmentation.deeplabv3.DeepLabHead(width, classes)
    head[0] = segmentation.deeplabv3.ASPP(width, rates, channels)
    head[1] = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
    head[2] = nn.BatchNorm2d(channels)
    head[4] = nn.Conv2d(channels, classes, 1)
    return head


def segment(name, classes, backbone=None, output_stride=8, aux_stage=None, channels=256, rates=(12, 24, 36), low_stage=-4):
    """FCN, DeepLabv3 or LR-ASPP around a backbone; an auxiliary classifier if it has a stage."""
    default = "mobilenet_v3_large" if name == "lraspp" else "resnet50"
    made, stages = stages_of(backbone_of(backbone or default, output_stride))
    layers = {stages[-1][0]: "high" if name == "lraspp" else "out"}
    if name == "lraspp":
        layers[stages[low_stage][0]] = "low"
        return LrAspp(IntermediateLayerGetter(made, layers), stages[low_stage][1], stages[-1][1], classes)
    aux = None
    if aux_stage is not None:
        layers[stages[aux_stage][0]] = "aux"
        aux = segmentation.fcn.FCNHead(stages[aux_stage][1], classes)
    made, width = IntermediateLayerGetter(made, layers), stages[-1][1]
    if name == "fcn":
        return Fcn(made, segmentation.fcn.FCNHead(width, classes), aux)
    return DeepLab(made, deeplab_head(width, channels, classes, rates), aux)


class UnetBlock(nn.Module):
    def __init__(self, width, joined, out):
        super().__init__()
        for i, fan_in in enumerate((width + joined, out)):
            layers = nn.Conv2d(fan_in, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
            setattr(self, f"conv{i + 1}", nn.Sequential(*layers))

    def forward(self, x, joined, size):
        x = F.interpolate(x, size, mode="nearest")
        return self.conv2(self.conv1(x if joined is None else torch.cat((x, joined), 1)))


class Unet(nn.Module):
    """Unet of segmentation_models_pytorch, with a ResNet, whose stem is the largest stage."""

    def __init__(self, classes, backbone="resnet34", channels=(256, 128, 64, 32, 16)):
        super().__init__()
        self.encoder, stages = stages_of(getattr(torchvision.models, backbone)())
        del self.encoder.fc, self.encoder.avgpool
        widths = [0, 64] + [width for _, width in stages]
        inputs = (widths[-1], *channels)
        self.decoder = nn.Module()
        self.decoder.blocks = nn.ModuleList(
            UnetBlock(fan_in, joined, out) for fan_in, joined, out in zip(inputs, widths[-2::-1], channels))
        self.segmentation_head = nn.Sequential(nn.Conv2d(channels[-1], classes, 3, padding=1))

    def forward(self, x):
        made, size = self.encoder, x.shape[2:]
        x = made.relu(made.bn1(made.conv1(x)))
        maps = [None, x]
        x = made.maxpool(x)
        for layer in (made.layer1, made.layer2, made.layer3, made.layer4):
            x = layer(x)
            maps.append(x)
        for block, joined in zip(self.decoder.blocks, maps[-2::-1]):
            x = block(x, joined, size if joined is None else joined.shape[2:])
        return self.segmentation_head(x)


class StagesOfResNet(V1cResNet):
    """The maps of its four stages."""

    def forward(self, x):
        x, maps = self.maxpool(self.stem(x)), []
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
            maps.append(x)
        return maps


class BilinearHRNet(timm_models.HRNet):
    """mmseg's, the maps of its branches."""

    def __init__(self, width):
        super().__init__(1, width)
        del self.incre_modules, self.downsamp_modules, self.final_layer, self.classifier
        for module in self.modules():
            if isinstance(module, nn.Upsample):
                module.mode, module.align_corners = "bilinear", False

    def forward(self, x):
        return self.features(x)


def mmseg(name, classes, backbone="resnet50", output_stride=None, **how):
    """A network of mmseg_models around a ResNetV1c; SegFormer and OCRNet have other backbones."""
    if name == "segformer":
        made = mmseg_models.MixTransformer()
        return mmseg_models.create(name, classes, made, made.widths, channels=256, aux_channels=None)
    if name == "ocrnet" and backbone == "resnet50":
        return mmseg_models.create(name, classes, BilinearHRNet(18), [18, 36, 72, 144], **how)
    default = 32 if name in ("upernet", "ocrnet") else 8
    made = make_v1c(backbone_of(backbone, default if output_stride is None else output_stride))
    made, stages = stages_of(made)
    made.__class__ = StagesOfResNet
    del made.fc
    return mmseg_models.create(name, classes, made, [width for _, width in stages], **how)


SEGMENTATION = ("fcn", "deeplabv3", "lraspp", "unet", *mmseg_models.NAMES)


def family(name, classes, side, arguments):
    """torchvision's network, or timm's, for pictures of a size; KeyError if they have none."""
    if name == "mit_b0":
        return mmseg_models.MixTransformer(classes)
    if name in mmseg_models.NAMES:
        return mmseg(name, classes, **arguments)
    if name == "unet":
        return Unet(classes, **arguments)
    if name in SEGMENTATION:
        return segment(name, classes, **arguments)
    made = timm_models.create(name, classes, side, arguments)
    if made is not None:
        return made
    make = getattr(torchvision.models, name, None)
    if not callable(make):
        raise KeyError(name)
    size = {"image_size": side} if name.startswith("vit_") else {}
    return make(num_classes=classes, **{**size, **ARGUMENTS.get(name, {}), **arguments})


def create(name, classes, stem="imagenet", side=224, **arguments):
    """The network of a model name of serried, arguments being torchvision's; KeyError if there is no equivalent."""
    if name == "cifar-fast":
        return CifarFast(classes)
    if name == "tiny":
        return Tiny(classes)
    if name == "toy-generator":
        return ToyGenerator()
    if name == "toy-critic":
        return ToyCritic()
    blurs = arguments.pop("blurpool", False)
    output_stride = arguments.pop("output_stride", 32) if name in ("resnet18", "resnet34") else 32
    model = family(name, classes, side, arguments)
    if blurs:
        blur(model)
    if output_stride < 32:
        dilate_basic_blocks(model, output_stride)
    if stem == "v1c":
        make_v1c(model)
    if stem == "cifar":
        model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
        model.maxpool = nn.Identity()
    return model
