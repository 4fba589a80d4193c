# SPDX-License-Identifier: Apache-2.0
"""Random cases of operators that move, repeat or drop elements. All are linear: scales follow from squares."""
import math

import numpy as np
import torch

from random_draw import ELEMENTS, dims_as_numbers
from random_program import KINDS as TYPES
from random_program import parameter_dtype
from random_torch import CALLS, NAMES, ints, same


def padded(numbers):
    return (*numbers, *[0] * (5 - len(numbers)))


def shaped(case, d, least=1):
    shape = d.shape(d.integer(least, 5), ELEMENTS)
    return case.input("x", d.data(shape)), shape


def reshape(case, d):
    x, shape = shaped(case, d)
    y = case.program.call("reshape", (x,), dims_as_numbers([math.prod(shape[:2]), *shape[2:]]))
    return case.finish(y, "y", ("x",))


def permute(case, d):
    x, shape = shaped(case, d)
    y = case.program.call("permute", (x,), padded([int(i) for i in d.rng.permutation(len(shape))]))
    return case.finish(y, "y", ("x",))


def slice_(case, d):
    x, shape = shaped(case, d)
    axis = d.integer(0, len(shape) - 1)
    start, step = d.integer(0, shape[axis] - 1), d.choice((1, 1, 1, 2, 3, 7, -1, -2))
    room = (shape[axis] - 1 - start) // step if step > 0 else start // -step
    y = case.program.call("slice", (x,), (axis, start, d.integer(1, room + 1), step))
    return case.finish(y, "y", ("x",))


def flip(case, d):
    x, shape = shaped(case, d)
    return case.finish(case.program.call("flip", (x,), (d.integer(0, len(shape) - 1),)), "y", ("x",))


def pad(case, d):
    x, shape = shaped(case, d)
    sides = [[d.choice((0, 0, 1, 2, 5)) if len(shape) < 4 else d.integer(0, 1) for _ in shape] for _ in range(2)]
    y = case.program.call("pad", (x,), (*padded(sides[0]), *padded(sides[1])))
    return case.finish(y, "y", ("x",))


def concat(case, d):
    count = d.integer(1, 8)
    shape = d.shape(d.integer(1, 5), ELEMENTS // count)
    axis = d.integer(0, len(shape) - 1)
    names = [f"x{i}" for i in range(count)]
    for name in names:
        own = [*shape[:axis], d.integer(1, shape[axis]), *shape[axis + 1:]]
        case.input(name, d.data(own))
    y = case.program.call("concat", [case.numbers[name] for name in names], (axis,))
    return case.finish(y, "y", names)


def index_of(case, d, shape, axis, extent, count, form):
    """An index for x of this shape: 'extent' numbers of 0..count - 1 along the axis."""
    dims = {"row": [extent], "leading": [*shape[:axis], extent], "all": [*shape[:axis], extent, *shape[axis + 1:]]}[form]
    values = d.rng.integers(0, count if d.chance(0.8) else 1, dims)
    return case.input("index", values, "i32")


def indexed(name):
    def draw(case, d):
        shape = d.shape(d.integer(1, 4), ELEMENTS // 4)
        axis = d.integer(0, len(shape) - 1)
        form = "row" if name == "index_select" else d.choice(("row", "leading", "all"))
        x = case.input("x", d.data(shape))
        if name == "scatter_add":
            count = d.size(40)
            index = index_of(case, d, shape, axis, shape[axis], count, form)
            case.array("index")[...] -= d.rng.random(case.array("index").shape) < 0.1  # some are left out
            numbers = (axis, count)
        else:
            index = index_of(case, d, shape, axis, d.size(40), shape[axis], form)
            numbers = (axis,)
        return case.finish(case.program.call(name, (x, index), numbers), "y", ("x",))
    return draw


def embedding(case, d):
    rows, channels = d.size(1000), d.size(64)
    table = case.note("table", case.program.variable(parameter_dtype(d.dtype), d.data((rows, channels))))
    index = case.input("index", d.rng.integers(0, rows, d.shape(d.integer(1, 4), 500)), "i32")
    y = case.program.call("embedding", (table, index), (TYPES[d.dtype].number,))
    return case.finish(y, "y", ("table",))


def one_hot(case, d):
    classes = d.size(100)
    index = case.input("index", d.rng.integers(-2, classes + 2, d.shape(d.integer(1, 4), 500)), "i32")
    return case.finish(case.program.call("one_hot", (index,), (classes, TYPES[d.dtype].number)))


# ---- PyTorch's half ----

def torch_slice(e, x, n):
    axis, start, count, step = ints(n, 0, 4)
    return x[0].index_select(axis, torch.arange(count) * step + start)


def torch_pad(e, x, n):
    rank = x[0].dim()
    sides = [int(n[i + side]) for i in reversed(range(rank)) for side in (0, 5)]
    return torch.nn.functional.pad(x[0], sides)


def like_x(index, shape, axis):
    """The index with all dimensions of x."""
    if index.dim() == 1 and axis > 0:
        index = index.reshape([1] * axis + [-1])
    index = index.reshape([*index.shape, *[1] * (len(shape) - index.dim())])
    return index.expand([*shape[:axis], index.shape[axis], *shape[axis + 1:]])


def gather(e, x, n):
    axis = int(n[0])
    return x[0].gather(axis, like_x(x[1], list(x[0].shape), axis))


def scatter_add(e, x, n):
    """What is left out goes to an element that is not returned."""
    axis, count = ints(n, 0, 2)
    index = like_x(x[1], list(x[0].shape), axis)
    shape = [*x[0].shape[:axis], count + 1, *x[0].shape[axis + 1:]]
    sums = torch.zeros(shape, dtype=x[0].dtype).scatter_add(axis, torch.where(index < 0, count, index), x[0])
    return sums.narrow(axis, 0, count)


def torch_one_hot(e, x, n, dtype):
    return [((x[0][..., None] == torch.arange(int(n[0]))).to(e.type), NAMES[int(n[1])])]


CALLS.update({
    "reshape": same(lambda e, x, n: x[0].reshape(ints(n, 1, int(n[0])))),
    "permute": same(lambda e, x, n: x[0].permute(ints(n, 0, x[0].dim()))),
    "slice": same(torch_slice), "flip": same(lambda e, x, n: x[0].flip(int(n[0]))), "pad": same(torch_pad),
    "concat": same(lambda e, x, n: torch.cat(x, int(n[0]))),
    "gather": same(gather), "index_select": same(lambda e, x, n: x[0].index_select(int(n[0]), x[1])),
    "scatter_add": same(scatter_add), "one_hot": torch_one_hot,
    "embedding": lambda e, x, n, dtype: [(torch.nn.functional.embedding(x[1], x[0]), NAMES[int(n[0])])],
})

KINDS = {
    "reshape": reshape, "permute": permute, "slice": slice_, "flip": flip, "pad": pad, "concat": concat,
    "gather": indexed("gather"), "index_select": indexed("index_select"), "scatter_add": indexed("scatter_add"),
    "embedding": embedding, "one_hot": one_hot,
}
