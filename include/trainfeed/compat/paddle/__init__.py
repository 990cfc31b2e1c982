"""The reading half of PaddlePaddle 1.x, and ``paddle.io`` of 2.x, under their names.

Existing code needs to change its import only. Readers, decorators, batches, loaders, data sets,
samplers, conversion and the files of MNIST behave as in trainfeed: the consumer gets an exception
unchanged, after the samples before it, and the death of a worker is an error. Names that build or
train a network raise an AttributeError that says so.
"""

from __future__ import annotations

from trainfeed.compat._framework import not_here
from trainfeed.compat.paddle import dataset, fluid, io, reader
from trainfeed.decorators import batch

__all__ = ["batch", "dataset", "fluid", "io", "reader"]

__getattr__ = not_here("paddle")
