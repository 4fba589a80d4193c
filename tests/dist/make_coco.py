#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a COCO annotation file of a given size for the pictures of a folder, always the same for the same arguments:
make_coco.py FOLDER JSON MEGABYTES [--annotations-first]. Pictures must be those of 'serried render'."""
import os
import random
import struct
import sys

CATEGORIES = [(90, "toothbrush"), (1, "person"), (3, "car"), (17, "cat")]


def size_of(path):
    """Height and width of a baseline JPEG."""
    with open(path, "rb") as file:
        data = file.read()
    at = 2
    while data[at + 1] != 0xc0:
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    return struct.unpack(">HH", data[at + 5:at + 9])


def images(pictures):
    rows = [f'{{"license": 1, "file_name": "{name}", "height": {size[0]}, "width": {size[1]}, "id": {7 + 3 * i}}}'
            for i, (name, size) in enumerate(pictures)]
    return '"images": [' + ",\n".join(rows) + "]"


def annotation(rng, number, image, height, width):
    x, y = rng.uniform(0, width * 0.7), rng.uniform(0, height * 0.7)
    w, h = rng.uniform(1.5, width - x), rng.uniform(1.5, height - y)
    category = rng.choice(CATEGORIES)[0]
    head = f'{{"id": {number}, "image_id": {image}, "category_id": {category}, "area": {w * h:.2f}, '
    box = f'"bbox": [{x:.2f}, {y:.2f}, {w:.2f}, {h:.2f}], '
    if number % 50 == 0:
        return head + box + f'"iscrowd": 1, "segmentation": {{"counts": [0, {height * width}], "size": [{height}, {width}]}}}}'
    points = ", ".join(f"{x + w * rng.random():.2f}, {y + h * rng.random():.2f}" for _ in range(rng.randint(3, 40)))
    return head + box + f'"iscrowd": 0, "segmentation": [[{points}]]}}'


def main():
    folder, path, megabytes = sys.argv[1], sys.argv[2], float(sys.argv[3])
    rng = random.Random(5)
    names = sorted(os.path.relpath(os.path.join(parent, name), folder)
                   for parent, _, files in os.walk(folder) for name in files if name.endswith(".jpg"))
    pictures = [(name, size_of(os.path.join(folder, name))) for name in names]
    categories = ", ".join(f'{{"id": {i}, "name": "{name}", "supercategory": "x"}}' for i, name in CATEGORIES)
    first = "--annotations-first" in sys.argv
    with open(path, "w", encoding="utf-8") as file:
        written = file.write('{"info": {"year": 2024, "description": ["made", {"a": null}]},\n')
        if not first:
            written += file.write(images(pictures) + ",\n")
        written += file.write('"annotations": [\n')
        number = 0
        while written < megabytes * 1e6 or number < len(names):
            i = number if number < len(names) else rng.randrange(len(names))
            written += file.write((",\n" if number else "") + annotation(rng, number, 7 + 3 * i, *pictures[i][1]))
            number += 1
        file.write('],\n"categories": [' + categories + "]")
        file.write((",\n" + images(pictures) if first else "") + "}\n")
    print(number)


if __name__ == "__main__":
    main()
