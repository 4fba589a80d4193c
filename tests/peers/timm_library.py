# SPDX-License-Identifier: Apache-2.0
"""Networks that serried and timm both have, made by timm. Needs timm."""
import timm
import torch

# serried's name, timm's, options of serried without which they differ.
NETWORKS = [
    ("resnet18", "resnet18"),
    ("resnet50", "resnet50"),
    ("resnext50_32x4d", "resnext50_32x4d"),
    ("wide_resnet50_2", "wide_resnet50_2"),
    ("mobilenet_v2", "mobilenetv2_100"),
    ("mobilenet_v3_large", "mobilenetv3_large_100", "bn_eps: 1e-5"),
    ("mobilenet_v3_small", "mobilenetv3_small_100", "bn_eps: 1e-5"),
    ("mnasnet0_5", "mnasnet_050"),
    ("mnasnet1_0", "mnasnet_100"),
    ("efficientnet_b0", "efficientnet_b0"),
    ("efficientnet_b1", "efficientnet_b1"),
    ("efficientnet_b4", "efficientnet_b4"),
    ("efficientnet_b5", "efficientnet_b5", "bn_eps: 1e-5"),
    ("efficientnet_b7", "efficientnet_b7", "bn_eps: 1e-5"),
    ("regnet_y_400mf", "regnety_004"),
    ("regnet_y_800mf", "regnety_008_tv"),
    ("regnet_y_1_6gf", "regnety_016"),
    ("regnet_y_3_2gf", "regnety_032"),
    ("regnet_y_8gf", "regnety_080_tv"),
    ("regnet_x_400mf", "regnetx_004_tv"),
    ("regnet_x_3_2gf", "regnetx_032"),
    ("densenet121", "densenet121"),
    ("densenet161", "densenet161"),
    ("inception_v3", "inception_v3"),
    ("vgg11", "vgg11"),
    ("vgg16_bn", "vgg16_bn"),
    ("convnext_tiny", "convnext_tiny"),
    ("convnext_base", "convnext_base"),
    ("vit_b_16", "vit_base_patch16_224"),
    ("vit_b_32", "vit_base_patch32_224"),
    ("vit_tiny_patch16_224", "vit_tiny_patch16_224"),
    ("vit_small_patch16_224", "vit_small_patch16_224"),
    ("vit_small_patch32_224", "vit_small_patch32_224"),
    ("vit_base_patch16_224", "vit_base_patch16_224"),
    ("vit_base_patch32_224", "vit_base_patch32_224"),
    ("deit_tiny_patch16_224", "deit_tiny_patch16_224"),
    ("deit_small_patch16_224", "deit_small_patch16_224"),
    ("deit_base_patch16_224", "deit_base_patch16_224"),
    ("swin_t", "swin_tiny_patch4_window7_224"),
    ("swin_s", "swin_small_patch4_window7_224"),
    ("seresnet50", "seresnet50"),
    ("skresnet50", "skresnet50"),
    ("resnest50d", "resnest50d"),
    ("hrnet_w18", "hrnet_w18"),
    ("hrnet_w32", "hrnet_w32"),
]
# Transformers have one size, and classifiers of VGG one for which both libraries compute the same.
FULL_SIDE = ("vit", "deit", "swin", "vgg")
SMALL_SIDE = {"inception_v3": 107}


def networks():
    """(serried's name, timm's, options, side of pictures)."""
    for name, theirs, *options in NETWORKS:
        side = 224 if name.startswith(FULL_SIDE) else SMALL_SIDE.get(name, 64)
        yield name, theirs, "".join(options), side


def create(name, classes):
    """timm's network in training mode, with its initial values, but for those that are all the same: they hide
    what they are multiplied with. Running statistics follow the last batches."""
    torch.manual_seed(9)
    made = timm.create_model(name, num_classes=classes).train()
    for module in made.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = 0.5
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.min() == parameter.max():
                parameter.add_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.02))
    return made


def resized(made, name, side):
    """A network of create for pictures of another size, with positions resized by timm."""
    larger = timm.create_model(name, num_classes=made.num_classes, img_size=side).eval()
    tensors = dict(made.state_dict())
    tensors["pos_embed"] = timm.layers.resample_abs_pos_embed(tensors["pos_embed"], list(larger.patch_embed.grid_size))
    larger.load_state_dict(tensors)
    return larger
