#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz targets that are plain text: tests/fuzz/make_corpus.py. What fuzzing
finds is added beside them under the name that libFuzzer gives it."""
import os
import struct

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")

OPTIONS = [
    (0, "true"), (1, "1e6"), (1, "-9223372036854775808"), (2, "0.1"), (2, "-inf"), (3, "a b"),
    (4, "exact"), (5, "1.5GiB"), (5, "9223372036854775807"), (6, "500ms"), (6, "1e308h"),
    (7, "90ep"), (7, "0.5epochs"), (8, "[1, 2]"), (8, "1,2,"), (9, "[0.1, 1e3]"),
    (10, "[a, 'b, c', \"d\\\"\"]"), (10, "[]"), (10, "[a, '\n', b]"),
]


def write(target, name, data):
    folder = os.path.join(FOLDER, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def safetensors(header, data=b""):
    text = header.encode()
    return struct.pack("<Q", len(text)) + text + data


SAFETENSORS = [
    safetensors("{}"),
    safetensors('{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
                '"b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}} ', bytes(16)),
    safetensors('{"a":{"dtype":"U8","shape":[0,4],"data_offsets":[0,0]}}'),
    safetensors('{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'),
    safetensors('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                '"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)),
    safetensors("[" * 40),
    struct.pack("<Q", 2**63) + b"{}",
]


def main():
    for number, (kind, text) in enumerate(OPTIONS):
        write("options", f"seed{number:02}", bytes([kind]) + text.encode())
    for number, data in enumerate(SAFETENSORS):
        write("safetensors", f"seed{number:02}", data)


if __name__ == "__main__":
    main()
