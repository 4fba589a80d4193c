#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz targets that are plain text: tests/fuzz/make_corpus.py. What fuzzing
finds is added beside them under the name that libFuzzer gives it."""
import os

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


def main():
    for number, (kind, text) in enumerate(OPTIONS):
        write("options", f"seed{number:02}", bytes([kind]) + text.encode())


if __name__ == "__main__":
    main()
