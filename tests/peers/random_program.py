# SPDX-License-Identifier: Apache-2.0
"""Programs of operators that serried and PyTorch both compute, and serried's half of it.

A program is a list of steps: values, variables, calls, one gradient. Step results are numbered in
order, as run_program.c numbers them. Arrays are numpy's, in f64 with values that are exact in the
step's dtype.
"""
import collections
import contextlib
import signal
import subprocess

import numpy as np

# u: half the distance from 1 to the next value; tiny: the smallest positive value
Kind = collections.namedtuple("Kind", "name number bytes u tiny largest")
KINDS = {k.name: k for k in (
    Kind("f32", 0, 4, 2.0**-24, 2.0**-126, 2.0**127),
    Kind("bf16", 1, 2, 2.0**-9, 2.0**-126, 2.0**127),
    Kind("f16", 2, 2, 2.0**-11, 2.0**-24, 65504.0),
    Kind("f64", 3, 8, 2.0**-53, 2.0**-1022, 2.0**1022),
    Kind("u8", 4, 1, 0, 0, 255),
    Kind("i32", 6, 4, 0, 2.0**-126, 2**31 - 1),
)}


def smallest_normal(dtype):
    """Values below it have fewer digits."""
    return KINDS[dtype].tiny / (2 * KINDS[dtype].u)


def round_to(values, dtype):
    """The nearest values of the dtype, as f64."""
    values = np.asarray(values)
    if dtype == "f16":
        return values.astype(np.float16).astype(np.float64)
    if dtype == "f32":
        return values.astype(np.float32).astype(np.float64)
    if dtype == "bf16":
        return from_bytes(to_bytes(values, "bf16"), "bf16").reshape(values.shape)
    return values.astype(np.float64)


def to_bytes(values, dtype):
    if dtype == "bf16":
        bits = np.atleast_1d(values).astype("<f4").view(np.uint32).astype(np.uint64)
        return ((bits + 0x7fff + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)) \
            .astype("<u2").tobytes()
    types = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "u8": "u1", "i32": "<i4"}
    return values.astype(types[dtype]).tobytes()


def from_bytes(data, dtype):
    if dtype == "bf16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").astype(np.float64)
    types = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "u8": "u1", "i32": "<i4"}
    return np.frombuffer(data, types[dtype]).astype(np.float64)


def parameter_dtype(dtype):
    return "f64" if dtype == "f64" else "f32"


Step = collections.namedtuple("Step", "word name inputs numbers array results")
OUTPUTS = {"batchnorm_train": 3, "max_over": 2, "min_over": 2, "topk": 2, "sort": 2, "nms": 2, "sgd": 0, "ema": 0}  # others: one


class Program:
    def __init__(self, dtype):
        self.dtype = dtype  # of its activations
        self.steps = []
        self.count = 0

    def add(self, word, name, inputs=(), numbers=(), array=None, results=1):
        first = self.count
        self.count += results
        ids = tuple(range(first, self.count))
        self.steps.append(Step(word, name, tuple(inputs), tuple(numbers), array, ids))
        return ids

    def value(self, dtype, array):
        return self.add("value", dtype, array=round_to(array, dtype))[0]

    def variable(self, dtype, array):
        return self.add("variable", dtype, array=round_to(array, dtype))[0]

    def parameter(self, array):
        """A variable like those of layers: its values are also exact in the activations' dtype."""
        return self.variable(parameter_dtype(self.dtype), round_to(array, self.dtype))

    def call(self, name, inputs, numbers=()):
        ids = self.add("call", name, inputs, numbers, results=OUTPUTS.get(name, 1))
        return ids[0] if len(ids) == 1 else ids

    def gradient(self, y, dy, xs):
        return self.add("gradient", "", (y, dy, *xs), results=len(xs))

    def of_value(self, number):
        """The step that makes a value."""
        return next(s for s in self.steps if number in s.results)

    def with_arrays(self, change):
        """A copy whose arrays are change(step)."""
        copy = Program(self.dtype)
        copy.count = self.count
        copy.steps = [s if s.array is None else s._replace(array=change(s)) for s in self.steps]
        return copy

    def text(self):
        lines = []
        for s in self.steps:
            if s.array is not None:
                lines.append(f"{s.word} {s.name} {s.array.ndim} "
                             + " ".join(str(n) for n in s.array.shape))
            elif s.word == "gradient":
                y, dy, *xs = s.inputs
                lines.append(f"gradient {y} {dy} {len(xs)} " + " ".join(map(str, xs)))
            else:
                words = [str(i) for i in s.inputs] + [repr(float(x)) for x in s.numbers]
                lines.append(f"call {s.name} {len(s.inputs)} " + " ".join(words))
        return "".join(line + "\n" for line in lines)

    def describe(self):
        """For messages: each step in a few words."""
        lines = []
        for s in self.steps:
            if s.array is not None:
                lines.append(f"%{s.results[0]} = {s.word} {s.name} {list(s.array.shape)}")
            else:
                lines.append(f"{' '.join(f'%{i}' for i in s.results)} = {s.name or s.word}"
                             f"{list(s.inputs)} {[float(f'{x:.7g}') for x in s.numbers]}")
        return lines


class Refused(Exception):
    """serried's own message about a program, or how its process ended."""


class Serried:
    """A resident run_program in an environment. It is restarted if it has ended, so a fault fails only its
    own case."""

    def __init__(self, path, environment):
        self.path, self.environment = path, environment
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=self.environment)

    def run(self, program, reads):
        """{number: (dtype, array f64)} of the values 'reads'."""
        data = b"".join(to_bytes(s.array, s.name) for s in program.steps if s.array is not None)
        text = program.text() + f"run {len(data)} {len(reads)} " + " ".join(map(str, reads)) + "\n"
        try:
            self.process.stdin.write(text.encode() + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            self.refuse_ended()
        answer = self.line()
        if answer != "ok":
            raise Refused(answer)
        heads = []
        while (line := self.line()) != "end":
            dtype, _, *dims = line.split()
            heads.append((dtype, [int(d) for d in dims]))
        result = {}
        for number, (dtype, dims) in zip(reads, heads):
            size = int(np.prod(dims)) * KINDS[dtype].bytes
            values = self.process.stdout.read(size)
            if len(values) < size:
                self.refuse_ended()
            result[number] = (dtype, from_bytes(values, dtype).reshape(dims))
        return result

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            self.refuse_ended()
        return line.decode().rstrip("\n")

    def refuse_ended(self):
        code = self.close()
        self.start()
        raise Refused(f"run_program ended: {signal.Signals(-code).name}" if code < 0 else
                      f"run_program ended with {code}")

    def close(self):
        """The exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()
