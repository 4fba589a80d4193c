# SPDX-License-Identifier: Apache-2.0
"""Reads event files by their formats alone: TFRecord framing and protobuf's wire format."""
import glob
import os
import struct

POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """Contents of all records; raises ValueError where a checksum or a length is wrong."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        head = data[at:at + 12]
        length = struct.unpack("<Q", head[:8])[0]
        content = data[at + 12:at + 12 + length]
        if struct.unpack("<I", head[8:])[0] != masked(head[:8]) or len(content) != length:
            raise ValueError(f"{path}: the head of the record at byte {at} is wrong")
        if struct.unpack("<I", data[at + 12 + length:at + 16 + length])[0] != masked(content):
            raise ValueError(f"{path}: the checksum of the record at byte {at} is wrong")
        at += 16 + length
        yield content


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field; a message is bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f"), 2: (0, "")}[tag & 7]
            if not size:
                size, at = varint(data, at)
            value = data[at:at + size]
            if len(value) != size:
                raise ValueError("a field ends early")
            value = struct.unpack(form, value)[0] if form else value
            at += size
        yield tag >> 3, value


def one(data, number, default=None):
    return dict(fields(data)).get(number, default)


def settings_of(metadata):
    """Hyper-parameters of a summary's metadata: SummaryMetadata, PluginData, HParamsPluginData, SessionStartInfo."""
    session = one(one(one(metadata, 1), 2), 3)
    found = {}
    for number, entry in fields(session):
        if number == 1:
            (kind, value), = fields(one(entry, 2))
            found[one(entry, 1).decode()] = bool(value) if kind == 4 else value.decode() if kind == 3 else value
    return found


class Run:
    """What TensorBoard shows of a folder: a session that starts at a step replaces earlier events of later steps."""

    def __init__(self, folder):
        self.scalars, self.pictures, self.settings, self.files = {}, {}, {}, []
        for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
            self.files.append(path)
            for index, content in enumerate(records(path)):
                self.add(path, index, content)

    def add(self, path, index, content):
        event = dict(fields(content))
        step = event.get(2, 0)
        if index == 0 and event.get(3) != b"brain.Event:2":
            raise ValueError(f"{path}: the first event is not the version")
        if 7 in event:
            for series in [*self.scalars.values(), *self.pictures.values()]:
                for later in [k for k in series if k >= step]:
                    del series[later]
        for number, value in fields(event.get(5, b"")):
            value = dict(fields(value)) if number == 1 else {}
            tag = value[1].decode()
            if 2 in value:
                self.scalars.setdefault(tag, {})[step] = value[2]
            elif 4 in value:
                picture = dict(fields(value[4]))
                self.pictures.setdefault(tag, {})[step] = (picture[2], picture[1], picture[4])
            else:
                self.settings = settings_of(value[9])
