# SPDX-License-Identifier: Apache-2.0
"""Random sizes and data of a case: a function only of seed, kind and number of the case."""
import math

import numpy as np

from random_program import round_to

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 23, 31, 32, 33, 48, 61, 64, 65, 96, 127, 128, 129,
         192, 251, 256, 257, 384, 512, 1000, 1024, 1031, 2048, 4096, 4099)
ELEMENTS = 60000  # about the most of one value
DTYPES = ("f32", "f32", "f32", "bf16", "bf16", "f16", "f64")


class Draw:
    """Counter-based (Philox): a case can be drawn without the others."""

    def __init__(self, seed, kind, number):
        self.rng = np.random.Generator(np.random.Philox(key=[seed, number * 2 + kind]))
        self.dtype = self.choice(DTYPES)

    def chance(self, probability):
        return self.rng.random() < probability

    def integer(self, low, high):
        """Both ends are included."""
        return int(self.rng.integers(low, high + 1))

    def choice(self, values):
        return values[int(self.rng.integers(len(values)))]

    def size(self, most):
        return self.choice([s for s in SIZES if s <= max(1, most)])

    def shape(self, rank, most):
        """A shape of at most about 'most' elements, its sizes in any order."""
        dims = []
        for _ in range(rank):
            dims.append(self.size(most // math.prod(dims)))
        return [dims[i] for i in self.rng.permutation(rank)]

    def rows(self, most):
        """A shape whose last dimension is channels; few channels and many rows are frequent."""
        channels = self.choice((1, 2, 3, 4, 5, 8)) if self.chance(0.4) else self.size(most // 2)
        left = max(1, most // channels)
        rows = self.size(left) if self.chance(0.5) else self.integer(1, left)
        return [rows, channels]

    def channels_shape(self, most_rank=5):
        """[rows, channels] with rows in 1 to 4 dimensions."""
        rows, channels = self.rows(ELEMENTS)
        shape = [channels]
        while len(shape) < most_rank - 1 and self.chance(0.5):
            divisors = [i for i in range(1, min(rows, 40) + 1) if rows % i == 0]
            shape.insert(0, self.choice(divisors))
            rows //= shape[0]
        return [rows, *shape]

    def picture(self):
        """[N, H, W, C]."""
        while True:
            shape = [self.choice((1, 2, 3, 7)), self.integer(1, 40), self.integer(1, 40), self.size(512)]
            if math.prod(shape) <= ELEMENTS:
                return shape

    def normal(self, shape):
        return self.rng.standard_normal(shape)

    def data(self, shape, dtype=None):
        """Values that the dtype can represent, with one of several distributions."""
        dtype = dtype or self.dtype
        return round_to(self.choice(CHARACTERS)(self, list(shape)), dtype)

    def weights(self, shape, fan_in):
        return round_to(self.normal(shape) / math.sqrt(fan_in), self.dtype)

    def near_one(self, shape):
        return round_to(1 + 0.3 * self.normal(shape), self.dtype)


def dims_as_numbers(shape):
    return (len(shape), *shape, *[0] * (5 - len(shape)))


def with_mean(d, shape):
    return d.normal(shape) * d.choice((1, 0.1, 4)) + d.choice((3, 30, -100, 1000))


def sparse(d, shape):
    """As after a ReLU; often the first row is all active."""
    x = np.maximum(d.normal(shape) - d.choice((0, 1, 2)), 0)
    if len(shape) > 1 and d.chance(0.5):
        x[0] = np.abs(d.normal(shape[1:])) + d.choice((0, 4))
    return x


def outliers(d, shape):
    large = 1000 if d.dtype != "f16" else 50
    return d.normal(shape) * np.where(d.rng.random(shape) < 0.01, large, 1)


def wide(d, shape):
    return d.normal(shape) * 2.0**d.rng.uniform(-6, 6, shape)


def waves(d, shape):
    x = np.sin(0.7 * np.arange(math.prod(shape)) + d.integer(0, 9)).reshape(shape)
    if len(shape) > 1:
        x[0] = 4
    return x


CHARACTERS = (
    lambda d, shape: d.normal(shape),
    lambda d, shape: d.normal(shape),
    lambda d, shape: d.rng.uniform(-1, 1, shape),
    lambda d, shape: d.rng.uniform(0, 1, shape),
    lambda d, shape: d.normal(shape) * d.choice((1e-3, 30)),
    with_mean, sparse, outliers, wide, waves,
)
