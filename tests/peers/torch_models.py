# SPDX-License-Identifier: Apache-2.0
"""The networks of the shipped recipes in PyTorch, with equal tensor names, for comparisons.

resnet*: torchvision's own; stem="cifar" replaces the first layers as trainer/models/model_resnet.c
does. cifar-fast: written after trainer/models/model_cifar_fast.c.
"""
import torch
from torch import nn
from torch.nn import functional as F
import torchvision


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
        return self.head(x.amax((2, 3))) * self.scale


def create(name, classes, stem="imagenet"):
    """The network of a model name of serried; KeyError where there is no equal one."""
    if name == "cifar-fast":
        return CifarFast(classes)
    if name not in ("resnet18", "resnet34", "resnet50", "resnet101"):
        raise KeyError(name)
    model = getattr(torchvision.models, name)(num_classes=classes)
    if stem == "cifar":
        model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
        model.maxpool = nn.Identity()
    return model
