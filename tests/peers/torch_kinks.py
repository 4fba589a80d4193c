# SPDX-License-Identifier: Apache-2.0
"""ReLU and maximum pooling in PyTorch with the choices of another run.

A gradient is discontinuous where a ReLU or a maximum chooses: a run with rounding chooses other sides
than an exact one, so their gradients differ by far more than rounding. If the exact run takes over the
choices of the rounded one, the difference is rounding alone.

    with Choices() as choices: rounded(x)       # records the choices
    with choices.given(): exact(x)              # y = mask x; y = x[index]
"""
import contextlib
import torch
import torch.nn.functional as F


class Choices:
    def __init__(self):
        self.noted = []
        self.places = None  # while replaying: an iterator over the recorded choices

    def _relu(self, x, slope=0.0):
        if self.places is None:
            self.noted.append(x.detach() > 0)
            mask = self.noted[-1]
        else:
            mask = next(self.places)
        return torch.where(mask, x, x * slope if slope else torch.zeros_like(x))

    def _max_pool2d(self, x, *args, **kwargs):
        if self.places is None:
            _, index = F.max_pool2d_with_indices(x, *args, **kwargs)
            self.noted.append(index)
        else:
            index = next(self.places)
        y = x.flatten(2).gather(2, index.flatten(2)).view(index.shape)
        # PyTorch 1.13's gradient of gelu is wrong where x and dy differ in their layouts.
        last = torch.channels_last
        return y.contiguous(memory_format=last) if x.is_contiguous(memory_format=last) else y

    @contextlib.contextmanager
    def _patched(self):
        kept = F.relu, F.leaky_relu, F.max_pool2d
        F.relu = lambda x, inplace=False: self._relu(x)
        F.leaky_relu = lambda x, slope=0.01, inplace=False: self._relu(x, slope)
        F.max_pool2d = lambda x, size, stride=None, padding=0, *_, **__: self._max_pool2d(
            x, size, size if stride is None else stride, padding)
        try:
            yield self
        finally:
            F.relu, F.leaky_relu, F.max_pool2d = kept

    def __enter__(self):
        self.patch = self._patched()
        return self.patch.__enter__()

    def __exit__(self, *exception):
        return self.patch.__exit__(*exception)

    @contextlib.contextmanager
    def given(self):
        self.places = iter(self.noted)
        with self._patched():
            yield
        left = len(list(self.places))
        self.places = None
        assert left == 0, f"{left} choices are left over"
