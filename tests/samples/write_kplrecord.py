#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""write_kplrecord.py PICTURES DST: packs pictures of a folder CLASS/FILE.jpg into a KPLRecord directory DST.

Needs protobuf for Python (Debian: python3-protobuf) and kplrecord_pb2, which protoc makes:
    protoc -I dataio/record --python_out=. dataio/record/kplrecord.proto
"""
import os
import random
import sys

from google.protobuf import text_format
import kplrecord_pb2 as kpl


def picture_size(data):
    """Height, width and channels of a JPEG, from its frame header."""
    at = 2
    while data[at + 1] not in (0xc0, 0xc1, 0xc2):
        at += 2 + int.from_bytes(data[at + 2:at + 4], "big")
    return [int.from_bytes(data[at + 5:at + 7], "big"), int.from_bytes(data[at + 7:at + 9], "big"),
            data[at + 9]]


def make_record(picture, label):
    record = kpl.FeatureMap()
    record.map["data"].bytes_field = picture
    record.map["encoded"].int64_field = 1
    for value in picture_size(picture):
        record.map["shape"].feature_list.list.add().int64_field = value
    record.map["label"].feature_list.list.add().int64_field = label
    return record.SerializeToString()


def make_meta():
    """The types of the values of a record."""
    meta = kpl.Meta(version=1, id="root")
    protocol = meta.record_type
    protocol.basicType = kpl.RecordType.map
    protocol.keys.extend(["data", "encoded", "shape", "label"])
    protocol.properties["data"].basicType = kpl.RecordType.bytes
    protocol.properties["encoded"].basicType = kpl.RecordType.int64
    for key in ("shape", "label"):
        protocol.properties[key].basicType = kpl.RecordType.list
        protocol.properties[key].item.basicType = kpl.RecordType.int64
    return text_format.MessageToString(meta).encode()


def make_properties(classes):
    """Class names, in the order of labels; without them classes are named 0, 1, ..."""
    properties = kpl.Property()
    names = properties.map["classes"]
    names.flag = kpl.DynamicType.list
    for name in classes:
        names.list_field.add().string_field = name
    return properties.SerializeToString()


def main(pictures, folder):
    classes = sorted(os.listdir(pictures))
    files = [(os.path.join(pictures, name, file), label) for label, name in enumerate(classes)
             for file in sorted(os.listdir(os.path.join(pictures, name)))]
    random.Random(1).shuffle(files)  # neighbours of all classes, so that reading in chunks mixes well
    os.makedirs(folder)
    offsets = [0]
    with open(os.path.join(folder, "root.data"), "wb") as out:
        for path, label in files:
            with open(path, "rb") as file:
                offsets.append(offsets[-1] + out.write(make_record(file.read(), label)))
    for name, content in (("root.meta", make_meta()), ("root.prop", make_properties(classes)),
                          ("root.index", kpl.Index(index=offsets).SerializeToString())):
        with open(os.path.join(folder, name), "wb") as out:
            out.write(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
