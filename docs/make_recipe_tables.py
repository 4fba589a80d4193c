#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the tables of recipe keys in the pages from `serried info options`.

make_recipe_tables.py SERRIED          compares them, lists differences, and exits with 1 if there are any
make_recipe_tables.py SERRIED --write  writes them

A table is between <!-- keys: PATTERN... --> and <!-- end of keys -->. A pattern is a key, or the beginning of one and a
star. If several patterns match a key, the longest counts; every key is in exactly one table.
"""
import difflib
import json
import os
import re
import subprocess
import sys

DOCS = os.path.dirname(os.path.abspath(__file__))
PAGES = ("recipes.md", "augmentation.md")
TABLE = re.compile(r"(<!-- keys: (?P<patterns>[^\n]*) -->\n)(?P<rows>.*?)(<!-- end of keys -->)", re.S)
TYPES = {"true|false": "true or false", "text": "text", "texts": "list of texts", "integers": "list of integers",
         "numbers": "list of numbers"}


def matches(key, pattern):
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern


def code(text):
    return f"`{text}`"


def value(row):
    """Type, default and range, as "number, 0 to 1, default `0.9`"."""
    parts = [", ".join(map(code, row["choices"])) if row["choices"] else TYPES.get(row["type"], row["type"])]
    if row["range"]:
        parts.append(row["range"])
    if row["default"] is not None:
        parts.append(f"default {code(row['default'])}")
    return "; ".join(parts)


def key_of(row):
    """The key, with the choice that it needs unless that is part of the key."""
    key = row["key"].replace("augment[].", "")
    return code(key) + (f" ({row['of']})" if row["of"] and key == row["key"] else "")


def table(rows):
    lines = ["| key | value | meaning | class |", "|---|---|---|---|"]
    lines += [f"| {key_of(row)} | {value(row)} | {row['help']} | {row['class']} |" for row in rows]
    return "\n".join(re.sub(r"[<>]", lambda sign: "&lt;" if sign[0] == "<" else "&gt;", line) for line in lines) + "\n"


class Pages:
    def __init__(self, rows):
        self.rows, self.shown = rows, {}
        self.texts = {}
        for name in PAGES:
            with open(os.path.join(DOCS, name), encoding="utf-8") as file:
                self.texts[name] = file.read()
        patterns = [pattern for text in self.texts.values() for match in TABLE.finditer(text)
                    for pattern in match["patterns"].split()]
        self.pattern_of = {row["key"]: max((pattern for pattern in patterns if matches(row["key"], pattern)),
                                           key=lambda pattern: (pattern == row["key"], len(pattern)), default=None)
                           for row in rows}

    def fill(self, match):
        rows = [row for pattern in match["patterns"].split() for row in self.rows
                if self.pattern_of[row["key"]] == pattern]
        for row in rows:
            self.shown[row["key"], row["of"]] = self.shown.get((row["key"], row["of"]), 0) + 1
        return match[1] + table(rows) + match[4]

    def findings(self, write):
        found = []
        for name, text in self.texts.items():
            new = TABLE.sub(self.fill, text)
            found += [] if write else difflib.unified_diff(text.splitlines(), new.splitlines(), name, "generated", n=0,
                                                           lineterm="")
            if write and new != text:
                with open(os.path.join(DOCS, name), "w", encoding="utf-8") as file:
                    file.write(new)
        for row in self.rows:
            times = self.shown.get((row["key"], row["of"]), 0)
            if times != 1:
                found.append(f"{row['key']} ({row['of']}) is in {times} tables")
        return found


def main():
    rows = json.loads(subprocess.run([sys.argv[1], "info", "options", "--json"], check=True, capture_output=True,
                                     text=True).stdout)
    pages = Pages(rows)
    found = pages.findings("--write" in sys.argv[2:])
    print("\n".join([*found, f"{len(rows)} keys, {len(found)} findings"]))
    if found and "--write" not in sys.argv[2:]:
        print(f"to write the tables: {os.path.relpath(__file__)} {sys.argv[1]} --write")
    return 1 if found or len(rows) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
