"""The two data sets of the benchmarks, made from fixed seeds.

A: 60,000 x (uint8[784], int64), of which an image compresses like a picture of a digit.
B: 20,000 x (10-40 KB that do not compress, int64).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NUM_A", "NUM_B", "SetA", "SetB", "make_a", "make_b"]

NUM_A = 60_000
NUM_B = 20_000


class SetA(NamedTuple):
    """Images ``(n, 784)`` uint8 and labels ``(n,)`` int64."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


class SetB(NamedTuple):
    """Blobs, and labels ``(n,)`` int64."""

    blobs: list[bytes]
    labels: NDArray[np.int64]


def make_a(num_samples: int = NUM_A) -> SetA:
    """Return data set A: blocky pictures, a fifth of the pixels not black."""
    generator = np.random.default_rng(0)
    coarse = generator.random((num_samples, 7, 7), dtype=np.float32)
    fine: NDArray[Any] = coarse.repeat(4, 1).repeat(4, 2)
    blurred = fine + np.roll(fine, 1, 1) + np.roll(fine, 1, 2)
    blurred += np.roll(fine, 2, 1) + np.roll(fine, 2, 2)
    images = np.clip((blurred / 5 - 0.62) * 1400, 0, 255).astype(np.uint8) & 0xF8
    labels = np.random.default_rng(1).integers(0, 10, num_samples).astype(np.int64)
    return SetA(images.reshape(num_samples, 784), labels)


def make_b(num_samples: int = NUM_B) -> SetB:
    """Return data set B."""
    sizes = np.random.default_rng(2).integers(10_000, 40_000, num_samples)
    generator = np.random.default_rng(3)
    blobs = [generator.bytes(int(size)) for size in sizes]
    labels = np.random.default_rng(4).integers(0, 1000, num_samples).astype(np.int64)
    return SetB(blobs, labels)
