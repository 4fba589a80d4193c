#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/transforms.bin: what Pillow and torchvision make of one small picture.

File, little-endian: "SRPICT01", then entries: name char[32], width u32, height u32, RGB bytes. The
first one is the input. tests/unit/dataio/test_transform_golden.c has the same names and the transforms
that produce them. Made with Pillow 9.4.0 and torchvision 0.14.1: python3 tests/golden/make_transforms.py
"""
import os
import struct

import numpy as np
from PIL import Image, ImageOps
import torchvision.transforms.functional as F
from torchvision.transforms import InterpolationMode as Mode

WIDTH, HEIGHT = 31, 23


def picture():
    """Ramps, a chequerboard and a sharp spot; neither quite black nor quite white."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    ramp = (x * 9 + y * 5) % 256
    red = 30 + np.where(ramp < 128, ramp, 255 - ramp)
    green = 40 + x * 150 // WIDTH
    blue = 60 + (x // 4 + y // 4) % 2 * 90 + y * 2
    out = np.stack([red, green, blue], axis=2)
    out[8:15, 12:20] = (200, 90, 50)
    return Image.fromarray(out.astype(np.uint8))


def blur(image, size, sigma):
    return F.to_pil_image(F.gaussian_blur(F.pil_to_tensor(image), [size, size], [sigma, sigma]))


def resize_fast(image, width, height):
    return F.to_pil_image(F.resize(F.pil_to_tensor(image), [height, width], Mode.BILINEAR,
                                   antialias=False))


def affine(image, mode):
    return F.affine(image, angle=21, translate=[3, -2], scale=1.2, shear=[10.0, 5.0],
                    interpolation=mode, fill=[7, 80, 200])


def entries(image):
    for name, mode in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
        for width, height in ((13, 9), (50, 41), (5, 7)):
            yield f"{name}-{width}x{height}", image.resize((width, height), mode)
        yield f"{name}-box", image.crop((3, 2, 28, 20)).resize((11, 12), mode)
    for width, height in ((13, 9), (50, 41)):
        yield f"fast-{width}x{height}", resize_fast(image, width, height)
    yield "affine-nearest", affine(image, Mode.NEAREST)
    yield "affine-bilinear", affine(image, Mode.BILINEAR)
    yield "rotate-nearest", F.rotate(image, 33, Mode.NEAREST)
    yield "rotate-bilinear", F.rotate(image, 33, Mode.BILINEAR)
    for slope in (0.3, -0.2):
        degrees = float(np.degrees(np.arctan(slope)))
        yield f"shear_x{slope:+}", F.affine(image, 0.0, [0, 0], 1.0, [degrees, 0.0], center=[0, 0])
        yield f"shear_y{slope:+}", F.affine(image, 0.0, [0, 0], 1.0, [0.0, degrees], center=[0, 0])
    yield "translate", F.affine(image, 0.0, [5, -3], 1.0, [0.0, 0.0])
    for factor in (0.0, 0.6, 1.7):
        yield f"brightness-{factor}", F.adjust_brightness(image, factor)
        yield f"contrast-{factor}", F.adjust_contrast(image, factor)
        yield f"color-{factor}", F.adjust_saturation(image, factor)
        yield f"sharpness-{factor}", F.adjust_sharpness(image, factor)
    for turn in (0.1, -0.3):
        yield f"hue{turn:+}", F.adjust_hue(image, turn)
    yield "posterize-3", F.posterize(image, 3)
    yield "solarize-100", F.solarize(image, 100)
    yield "autocontrast", F.autocontrast(image)
    yield "equalize", F.equalize(image)
    yield "invert", F.invert(image)
    yield "grayscale", F.to_grayscale(image, 3)
    yield "blur-5-1.3", blur(image, 5, 1.3)
    yield "blur-9-0.5", blur(image, 9, 0.5)
    yield "pad-edge", F.pad(image, [3, 1, 2, 4], padding_mode="edge")
    yield "pad-reflect", F.pad(image, [3, 1, 2, 4], padding_mode="reflect")
    yield "pad-color", F.pad(image, [3, 1, 2, 4], fill=(1, 2, 3))
    yield "flip", ImageOps.mirror(image)
    yield "vertical_flip", ImageOps.flip(image)


def main():
    image = picture()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transforms.bin")
    with open(path, "wb") as out:
        out.write(b"SRPICT01")
        for name, result in [("input", image), *entries(image)]:
            result = result.convert("RGB")
            out.write(struct.pack("<32sII", name.encode(), *result.size))
            out.write(result.tobytes())


if __name__ == "__main__":
    main()
