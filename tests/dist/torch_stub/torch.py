# SPDX-License-Identifier: Apache-2.0
"""The subset of PyTorch that serried-convert uses, for machines without it: tensors of bytes, and a file of them.

TORCH_STUB=old is a version before weights_only.
"""
import ctypes
import math
import os
import pickle

__version__ = "1.12.0" if os.environ.get("TORCH_STUB") == "old" else "1.13.0"
SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
         "bool": 1}
globals().update({name: "torch." + name for name in SIZES})
strided, sparse_coo = "torch.strided", "torch.sparse_coo"


class Tensor:
    def __init__(self, dtype, shape, data, layout=strided):
        self.dtype, self.shape, self.layout = dtype, tuple(shape), layout
        self.data = ctypes.create_string_buffer(bytes(data), max(len(data), 1))

    def __reduce__(self):
        return Tensor, (self.dtype, self.shape, self.tobytes(), self.layout)

    def tobytes(self):
        return self.data.raw[:self.numel() * self.element_size()]

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return SIZES[self.dtype.removeprefix("torch.")]

    def data_ptr(self):
        return ctypes.addressof(self.data)

    def clone(self):
        return self

    detach = contiguous = clone

    def reshape(self, shape):
        return Tensor(self.dtype, shape, self.tobytes())


def empty(shape, dtype):
    return Tensor(dtype, shape, bytes(math.prod(shape) * SIZES[dtype.removeprefix("torch.")]))


def frombuffer(data, dtype, count, offset):
    size = SIZES[dtype.removeprefix("torch.")]
    return Tensor(dtype, (count,), data[offset:offset + count * size])


def save(value, path):
    with open(path, "wb") as file:
        pickle.dump(value, file)


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) == ("torch", "Tensor"):
            return Tensor
        raise pickle.UnpicklingError(f"Weights only load failed. WeightsUnpickler error: Unsupported class {module}.{name}")


if __version__ == "1.12.0":
    def load(path, map_location=None, pickle_module=None, **arguments):
        raise AssertionError("this would run the file")
else:
    def load(path, map_location=None, pickle_module=None, *, weights_only=False, **arguments):
        assert weights_only and map_location == "cpu"
        with open(path, "rb") as file:
            return Unpickler(file).load()
