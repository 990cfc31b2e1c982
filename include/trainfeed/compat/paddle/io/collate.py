"""What becomes of the samples of a batch, where the user does not say."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainfeed.errors import SampleShapeError

__all__ = ["default_collate_fn", "default_convert_fn"]


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Return a batch of samples as the original does, with arrays in place of tensors.

    Args:
        batch: At least one sample: arrays, numbers, texts, and mappings and sequences of such.

    Returns:
        Arrays of shape ``(len(batch), *S)``; texts and bytes as a list; mappings, and lists in
        place of sequences, of such.

    Raises:
        SampleShapeError: The samples differ in shape, or in their fields.
        TypeError: A sample is something else.
    """
    first = batch[0]
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        _same_fields(batch, Mapping)
        return {name: default_collate_fn([sample[name] for sample in batch]) for name in first}
    if isinstance(first, numbers.Number):
        return np.array(batch)
    if hasattr(first, "__array__"):
        return _stacked(batch)
    if isinstance(first, Sequence):
        _same_fields(batch, Sequence)
        return [default_collate_fn(fields) for fields in zip(*batch, strict=True)]
    raise TypeError(
        f"expected arrays, numbers, texts, mappings and sequences as samples, got"
        f" {type(first).__name__}; give a collate_fn"
    )


def default_convert_fn(sample: Any) -> Any:
    """Return one sample as the original does where nothing is batched: sequences as lists."""
    if isinstance(sample, str | bytes) or hasattr(sample, "__array__"):
        return sample
    if isinstance(sample, Mapping):
        return {name: default_convert_fn(value) for name, value in sample.items()}
    if isinstance(sample, Sequence):
        return [default_convert_fn(value) for value in sample]
    return sample


def _stacked(batch: Sequence[Any]) -> Any:
    arrays = [np.asarray(sample) for sample in batch]
    try:
        return np.stack(arrays)
    except ValueError:
        shapes = sorted({str(array.shape) for array in arrays})
        raise SampleShapeError(
            f"expected samples of one shape in a batch, got {shapes}; give a collate_fn"
        ) from None


def _same_fields(batch: Sequence[Any], kind: type) -> None:
    first = batch[0]
    for number, sample in enumerate(batch):
        is_same = isinstance(sample, kind) and (
            sample.keys() == first.keys()
            if isinstance(sample, Mapping)
            else isinstance(sample, Sequence) and len(sample) == len(first)
        )
        if not is_same:
            raise SampleShapeError(
                f"sample {number} of a batch: expected the {len(first)} fields of sample 0, got"
                f" {sample!r:.80}"
            )
