#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/photometric.bin: what torchvision's RandomPhotometricDistort and mmsegmentation's
PhotoMetricDistortion make of one small picture with given numbers.

The format and the picture are those of make_transforms.py; tests/unit/dataio/test_transform_golden.c has the same
names and numbers. mmsegmentation's class draws its numbers itself, so its formulas stand below, on OpenCV as there.
Made with torchvision 0.29.2 and opencv-python-headless 5.0.0: python3 tests/golden/make_photometric.py
"""
import os
import struct

import cv2
import numpy as np
import torch
from torchvision.transforms import v2

WIDTH, HEIGHT = 31, 23


def picture():
    """Ramps, a chequerboard and a spot; hues all around the wheel, and grey, black and white pixels."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    red = (x * 9 + y * 5) % 256
    green = 40 + x * 150 // WIDTH
    blue = 60 + (x // 4 + y // 4) % 2 * 90 + y * 2
    out = np.stack([red, green, blue], axis=2)
    out[8:15, 12:20] = (200, 90, 50)
    out[20:22] = (x * 8)[20:22, :, None]
    out[22] = np.where(x[22, :, None] < 16, 0, 255)
    return out.astype(np.uint8)


def torchvision(image, brightness=None, contrast=None, saturation=None, hue=None, before=True, permutation=None):
    params = {"brightness_factor": brightness, "contrast_factor": contrast, "saturation_factor": saturation,
              "hue_factor": hue, "contrast_before": before,
              "channel_permutation": None if permutation is None else torch.tensor(permutation)}
    pixels = torch.from_numpy(image.transpose(2, 0, 1).copy())
    return v2.RandomPhotometricDistort().transform(pixels, params).numpy().transpose(1, 2, 0)


def convert(image, alpha=1, beta=0):
    """As PhotoMetricDistortion.convert of mmsegmentation 1.2.2."""
    return np.clip(image.astype(np.float32) * alpha + beta, 0, 255).astype(np.uint8)


def mmseg(image, brightness=None, contrast=None, saturation=None, hue=None, before=True):
    image = image[:, :, ::-1]  # BGR, as mmcv reads pictures
    if brightness is not None:
        image = convert(image, beta=brightness)
    if contrast is not None and before:
        image = convert(image, alpha=contrast)
    if saturation is not None:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2HSV)
        image[:, :, 1] = convert(image[:, :, 1], alpha=saturation)
        image = cv2.cvtColor(image, cv2.COLOR_HSV2BGR)
    if hue is not None:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2HSV)
        image[:, :, 0] = (image[:, :, 0].astype(int) + hue) % 180
        image = cv2.cvtColor(image, cv2.COLOR_HSV2BGR)
    if contrast is not None and not before:
        image = convert(image, alpha=contrast)
    return image[:, :, ::-1]


def entries(image):
    for name, rule, levels in (("torchvision", torchvision, (0.875, 1.12)), ("mmseg", mmseg, (-31.7, 20.2))):
        turn = (lambda steps: steps / 180) if rule is torchvision else (lambda steps: steps)
        for brightness in levels:
            yield f"{name}-brightness{brightness:+}", rule(image, brightness=brightness)
        for factor in (0.53, 1.47):
            yield f"{name}-contrast-{factor}", rule(image, contrast=factor)
            yield f"{name}-saturation-{factor}", rule(image, saturation=factor)
        for steps in (-18, 7, 90):
            yield f"{name}-hue{steps:+}", rule(image, hue=turn(steps))
        yield f"{name}-before", rule(image, levels[0], 1.3, 0.8, before=True)
        yield f"{name}-after", rule(image, levels[0], 1.3, 0.8, before=False)
        yield f"{name}-all", rule(image, levels[1], 1.4, 1.2, turn(9), before=False)
    yield "torchvision-channels", torchvision(image, 0.9, 1.3, 0.8, before=False, permutation=[2, 0, 1])


def main():
    image = picture()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "photometric.bin")
    with open(path, "wb") as out:
        out.write(b"SRPICT01")
        for name, result in [("photometric-input", image), *entries(image)]:
            out.write(struct.pack("<32sII", name.encode(), result.shape[1], result.shape[0]))
            out.write(np.ascontiguousarray(result).tobytes())


if __name__ == "__main__":
    main()
