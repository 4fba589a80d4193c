# SPDX-License-Identifier: Apache-2.0
"""timm's networks that torchvision does not have, written after their publications, with timm's names of tensors.

timm is not needed. Blocks that start by adding nothing in timm (zero_init_last) do not here, so that
comparisons of whole networks see them.
"""
import re

import torch
from torch import nn
from torch.nn import functional as F

# ---- Vision transformers ----


class TimmAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = self.qkv(x).view(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(n, tokens, width))


class TimmMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class TimmBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = TimmAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = TimmMlp(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TimmPatches(nn.Module):
    def __init__(self, width, patch):
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class TimmViT(nn.Module):
    """Written after the paper, with the tensor names of timm's VisionTransformer."""

    def __init__(self, classes, width, heads, side, patch=16, depth=12):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, width) * 1e-6)
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + (side // patch) ** 2, width) * 0.02)
        self.patch_embed = TimmPatches(width, patch)
        self.blocks = nn.Sequential(*(TimmBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


# ---- Residual networks ----


def conv(fan_in, fan_out, window, stride=1, dilation=1, groups=1):
    return nn.Conv2d(fan_in, fan_out, window, stride, (window - 1) // 2 * dilation, dilation, groups, bias=False)


def multiple(channels, least=8):
    """timm's make_divisible by 8."""
    rounded = max(least, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


class ConvNormAct(nn.Module):
    def __init__(self, *sizes, acts=True, **more):
        super().__init__()
        self.conv = conv(*sizes, **more)
        self.bn = nn.BatchNorm2d(sizes[1])
        self.acts = acts

    def forward(self, x):
        x = self.bn(self.conv(x))
        return F.relu(x) if self.acts else x


class SqueezeExcite(nn.Module):
    """Hu et al. 2018; timm's SEModule."""

    def __init__(self, channels):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, multiple(channels / 16), 1)
        self.fc2 = nn.Conv2d(multiple(channels / 16), channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


class SelectiveKernelAttention(nn.Module):
    def __init__(self, channels, inner):
        super().__init__()
        self.fc_reduce = nn.Conv2d(channels, inner, 1, bias=False)
        self.bn = nn.BatchNorm2d(inner)
        self.fc_select = nn.Conv2d(inner, 2 * channels, 1, bias=False)

    def forward(self, x):
        n, _, channels, _, _ = x.shape
        x = x.sum(1).mean((2, 3), keepdim=True)
        x = self.fc_select(F.relu(self.bn(self.fc_reduce(x))))
        return x.view(n, 2, channels, 1, 1).softmax(1)


class SelectiveKernel(nn.Module):
    """Li et al. 2019; timm's SelectiveKernel with keep_3x3 and split_input."""

    def __init__(self, channels, stride, dilation):
        super().__init__()
        self.paths = nn.ModuleList(ConvNormAct(channels // 2, channels, 3, stride, dilation=dilation * factor)
                                   for factor in (1, 2))
        self.attn = SelectiveKernelAttention(channels, multiple(channels / 16))

    def forward(self, x):
        x = torch.stack([path(half) for path, half in zip(self.paths, x.chunk(2, 1))], 1)
        return (x * self.attn(x)).sum(1)


class SplitAttention(nn.Module):
    """Zhang et al. 2020; timm's SplitAttn of radix 2 and cardinality 1."""

    def __init__(self, channels, dilation):
        super().__init__()
        inner = multiple(channels * 2 / 4, least=32)
        self.conv = conv(channels, 2 * channels, 3, dilation=dilation, groups=2)
        self.bn0 = nn.BatchNorm2d(2 * channels)
        self.fc1 = nn.Conv2d(channels, inner, 1)
        self.bn1 = nn.BatchNorm2d(inner)
        self.fc2 = nn.Conv2d(inner, 2 * channels, 1)

    def forward(self, x):
        x = F.relu(self.bn0(self.conv(x)))
        n, channels, height, width = x.shape
        x = x.view(n, 2, channels // 2, height, width)
        weights = self.fc2(F.relu(self.bn1(self.fc1(x.sum(1).mean((2, 3), keepdim=True)))))
        return (x * weights.view(n, 2, channels // 2, 1, 1).softmax(1)).sum(1)


class AveragePoolSame(nn.Module):
    """Two by two pixels, as many windows as pixels; zeros after the last ones count."""

    def forward(self, x):
        return F.avg_pool2d(F.pad(x, (0, 1, 0, 1)), 2, 1)


def shortcut(fan_in, fan_out, stride, dilation=1, averages=False):
    if stride == 1 and fan_in == fan_out:
        return None
    if not averages:
        return nn.Sequential(conv(fan_in, fan_out, 1, stride), nn.BatchNorm2d(fan_out))
    pool = nn.Identity()
    if stride > 1:
        pool = nn.AvgPool2d(2, stride, ceil_mode=True, count_include_pad=False)
    elif dilation > 1:
        pool = AveragePoolSame()
    return nn.Sequential(pool, conv(fan_in, fan_out, 1), nn.BatchNorm2d(fan_out))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, fan_in, width, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv(fan_in, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = shortcut(fan_in, width, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, fan_in, width, stride=1, dilation=1, stage_dilation=1, squeezes=False, splits=False):
        super().__init__()
        self.conv1, self.bn1 = conv(fan_in, width, 1), nn.BatchNorm2d(width)
        self.splits, self.pool = splits, None
        if splits:
            self.conv2 = SplitAttention(width, dilation)
            self.pool = nn.AvgPool2d(3, stride, padding=1) if stride > 1 else None
        else:
            self.conv2, self.bn2 = conv(width, width, 3, stride, dilation), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.se = SqueezeExcite(4 * width) if squeezes else None
        self.downsample = shortcut(fan_in, 4 * width, stride, stage_dilation, splits)

    def forward(self, x):
        y = self.conv2(F.relu(self.bn1(self.conv1(x))))
        if not self.splits:
            y = F.relu(self.bn2(y))
        if self.pool:
            y = self.pool(y)
        y = self.bn3(self.conv3(y))
        if self.se:
            y = self.se(y)
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class SelectiveBottleneck(nn.Module):
    expansion = 4

    def __init__(self, fan_in, width, stride=1, dilation=1, stage_dilation=1):
        super().__init__()
        del stage_dilation  # of shortcuts with averages
        self.conv1 = ConvNormAct(fan_in, width, 1)
        self.conv2 = SelectiveKernel(width, stride, dilation)
        self.conv3 = ConvNormAct(width, 4 * width, 1, acts=False)
        self.downsample = shortcut(fan_in, 4 * width, stride)

    def forward(self, x):
        y = self.conv3(self.conv2(self.conv1(x)))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet50(nn.Module):
    def __init__(self, classes, block, deep=False, output_stride=32):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        if deep:
            self.conv1 = nn.Sequential(conv(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU(),
                                       conv(32, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), conv(32, 64, 3))
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        fan_in, reached, before, dilation = 64, 4, 1, 1
        for stage, (width, depth) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3))):
            stride = 2 if stage else 1
            if reached >= output_stride:
                dilation, stride = dilation * stride, 1
            reached *= stride
            blocks = []
            for _ in range(depth):
                blocks.append(block(fan_in, width, stride, before, dilation))
                fan_in, stride, before = 4 * width, 1, dilation
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(fan_in, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def squeezing(*arguments):
    return Bottleneck(*arguments, squeezes=True)


def splitting(*arguments):
    return Bottleneck(*arguments, splits=True)


# ---- HRNet (Wang et al. 2020) ----


def norm_act(layer, channels, acts=True):
    return nn.Sequential(layer, nn.BatchNorm2d(channels), *([nn.ReLU()] if acts else []))


def chain(block, fan_in, width, depth):
    blocks = []
    for _ in range(depth):
        blocks.append(block(fan_in, width))
        fan_in = width * block.expansion
    return nn.Sequential(*blocks)


def exchange_path(channels, source, target):
    """What branch 'source' adds to branch 'target'."""
    if source == target:
        return nn.Identity()
    a, b = channels[source], channels[target]
    if source > target:
        return nn.Sequential(conv(a, b, 1), nn.BatchNorm2d(b), nn.Upsample(scale_factor=2 ** (source - target)))
    steps = [norm_act(conv(a, a, 3, 2), a) for _ in range(target - source - 1)]
    return nn.Sequential(*steps, norm_act(conv(a, b, 3, 2), b, acts=False))


class HRModule(nn.Module):
    def __init__(self, channels):
        super().__init__()
        branches = range(len(channels))
        self.branches = nn.ModuleList(chain(BasicBlock, c, c, 4) for c in channels)
        self.fuse_layers = nn.ModuleList(nn.ModuleList(exchange_path(channels, source, target) for source in branches)
                                         for target in branches)

    def forward(self, x):
        x = [branch(map) for branch, map in zip(self.branches, x)]
        return [F.relu(sum(path(map) for path, map in zip(paths, x))) for paths in self.fuse_layers]


class HRNet(nn.Module):
    def __init__(self, classes, width):
        super().__init__()
        channels, head = [width << i for i in range(4)], [32, 64, 128, 256]
        self.conv1, self.bn1 = conv(3, 64, 3, 2), nn.BatchNorm2d(64)
        self.conv2, self.bn2 = conv(64, 64, 3, 2), nn.BatchNorm2d(64)
        self.layer1 = chain(Bottleneck, 64, 64, 4)
        before = [256]
        for stage, modules in ((2, 1), (3, 4), (4, 3)):
            after = channels[:stage]
            steps = [nn.Identity() if a == b else norm_act(conv(a, b, 3), b) for a, b in zip(before, after)]
            steps.append(nn.Sequential(norm_act(conv(before[-1], after[-1], 3, 2), after[-1])))
            setattr(self, f"transition{stage - 1}", nn.ModuleList(steps))
            setattr(self, f"stage{stage}", nn.Sequential(*(HRModule(after) for _ in range(modules))))
            before = after
        self.incre_modules = nn.ModuleList(chain(Bottleneck, c, h, 1) for c, h in zip(channels, head))
        self.downsamp_modules = nn.ModuleList(norm_act(nn.Conv2d(4 * h, 8 * h, 3, 2, 1), 8 * h) for h in head[:3])
        self.final_layer = norm_act(nn.Conv2d(4 * head[3], 2048, 1), 2048)
        self.classifier = nn.Linear(2048, classes)

    def features(self, x):
        """The maps of its branches."""
        x = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        maps = [self.layer1(x)]
        for stage in (2, 3, 4):
            steps = getattr(self, f"transition{stage - 1}")
            maps = [step(maps[-1] if i == stage - 1 else maps[i]) for i, step in enumerate(steps)]
            maps = getattr(self, f"stage{stage}")(maps)
        return maps

    def forward(self, x):
        maps = self.features(x)
        x = self.incre_modules[0](maps[0])
        for shrink, widen, branch in zip(self.downsamp_modules, self.incre_modules[1:], maps[1:]):
            x = widen(branch) + shrink(x)
        return self.classifier(self.final_layer(x).mean((2, 3)))


# ---- The names ----

VIT_NAME = re.compile(r"(?:vit|deit)_([a-z]+)_patch(\d+)_224")
VITS = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12), "large": (1024, 16, 24), "huge": (1280, 16, 32)}
RESNETS = {"seresnet50": (squeezing, False), "skresnet50": (SelectiveBottleneck, False),
           "resnest50d": (splitting, True)}
HRNETS = {"hrnet_w18": 18, "hrnet_w32": 32, "hrnet_w48": 48}
# Parameters with 1000 classes, as published in timm's results and by its models.
PARAMETERS = {"seresnet50": 28088024, "skresnet50": 25803160, "resnest50d": 27483240, "hrnet_w18": 21299004}


def create(name, classes, side, arguments):
    """timm's network of this name, or None."""
    vit = VIT_NAME.fullmatch(name)
    if vit:
        width, heads, *depth = VITS[vit[1]]
        return TimmViT(classes, width, heads, side, int(vit[2]), *depth)
    if name in RESNETS:
        return ResNet50(classes, *RESNETS[name], **arguments)
    if name in HRNETS:
        return HRNet(classes, HRNETS[name])
    return None
