#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No circle of calls between source files, by the symbols of a build's objects.

    tests/check_circles.py BUILD [ROOT]

A file that needs a symbol depends on the file that defines it. Descriptors that a .def list names do not count: a table
reaches what is registered in it. Prints each circle with the symbols that close it, and ends with 1 if there is any.
"""
import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_layers  # noqa: E402


def read_descriptors(root):
    """Names of all descriptors that are registered in a list."""
    names = set()
    for definition, prefix, _ in check_layers.LISTS:
        with open(os.path.join(root, definition), encoding="utf-8") as file:
            names.update(check_layers.listed_names(file.read(), prefix))
    return names


def read_objects(build):
    """Source file -> (symbols it defines, symbols it needs), of all rooms."""
    sources = {}
    for folder, _, files in os.walk(build):
        match = re.search(r"/CMakeFiles/sr_\w+\.dir(/.*)?$", folder)
        if not match:
            continue
        room = os.path.relpath(folder[:match.start()], build)
        for name in files:
            if name.endswith(".c.o"):
                sources[os.path.join(folder, name)] = os.path.normpath(
                    os.path.join(room, (match.group(1) or "").lstrip("/"), name[:-2]))
    objects = {source: (set(), set()) for source in sources.values()}
    if not sources:
        return objects
    listing = subprocess.run(["nm", "-A", *sources], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        path, _, row = line.rpartition(":")
        kind, symbol = row.split()[-2:]
        defined, needed = objects[sources[path]]
        if kind in "TDBRVWC":
            defined.add(symbol)
        elif kind == "U":
            needed.add(symbol)
    return objects


def make_edges(objects, descriptors):
    """File -> file -> the symbols for which it needs the other."""
    owner = {symbol: source for source, (defined, _) in objects.items() for symbol in defined - descriptors}
    edges = {source: collections.defaultdict(set) for source in objects}
    for source, (_, needed) in objects.items():
        for symbol in needed:
            if owner.get(symbol, source) != source:
                edges[source][owner[symbol]].add(symbol)
    return edges


def find_circles(edges):
    """Strongly connected components of more than one file (Tarjan 1972), without recursion."""
    index, low, stack, found = {}, {}, [], []
    for first in sorted(edges):
        work = [(first, iter(sorted(edges[first])))] if first not in index else []
        while work:
            node, rest = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
            after = next((other for other in rest if other not in index or other in stack), None)
            if after is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = stack[stack.index(node):]
                    del stack[stack.index(node):]
                    if len(circle) > 1:
                        found.append(sorted(circle))
            elif after in index:
                low[node] = min(low[node], index[after])
            else:
                work.append((after, iter(sorted(edges[after]))))
    return found


def selftest():
    objects = {"a.c": ({"a"}, {"b", "printf"}), "b.c": ({"b"}, {"c", "row"}), "c.c": ({"c"}, {"a"}),
               "row.c": ({"row"}, {"b"}), "table.c": ({"table"}, {"row", "a"})}
    assert find_circles(make_edges(objects, {"row"})) == [["a.c", "b.c", "c.c"]]
    objects["c.c"][1].clear()
    assert find_circles(make_edges(objects, {"row"})) == []
    assert find_circles(make_edges(objects, set())) == [["b.c", "row.c"]]


def main():
    selftest()
    root = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    objects = read_objects(sys.argv[1])
    if not objects:
        print(f"{sys.argv[1]}: holds no objects; build it first")
        return 1
    edges = make_edges(objects, read_descriptors(root))
    circles = find_circles(edges)
    for circle in circles:
        print("circle: " + " ".join(circle))
        for source in circle:
            for other in circle:
                if edges[source].get(other):
                    print(f"    {source} needs of {other}: " + " ".join(sorted(edges[source][other])))
    print(f"{len(circles)} circles" if circles else f"circles: none in {len(objects)} files")
    return 1 if circles else 0


if __name__ == "__main__":
    sys.exit(main())
