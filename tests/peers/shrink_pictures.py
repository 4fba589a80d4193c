#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shrink_pictures.py SRC DST [--max PX] [--quality Q]: a folder of CLASS/picture as JPEG, no side longer than PX.

Data loaders are usually measured on pictures of 512 px, quality 90 (both are the defaults). Needs Pillow.
"""
import argparse
import pathlib

from PIL import Image

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("source", type=pathlib.Path)
parser.add_argument("target", type=pathlib.Path)
parser.add_argument("--max", type=int, default=512)
parser.add_argument("--quality", type=int, default=90)
options = parser.parse_args()
for path in sorted(p for p in options.source.rglob("*") if p.is_file()):
    target = (options.target / path.relative_to(options.source)).with_suffix(".jpg")
    target.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.open(path).convert("RGB")
    picture.thumbnail((options.max, options.max))
    picture.save(target, quality=options.quality)
