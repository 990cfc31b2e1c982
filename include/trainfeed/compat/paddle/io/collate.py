"""Default functions that make a batch of a list of samples."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainfeed.errors import SampleShapeError

__all__ = ["default_collate_fn", "default_convert_fn"]


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Return a batch of samples as the original does, with arrays instead of tensors.

    Args:
        batch: One or more samples: arrays, numbers, text, bytes, and mappings and sequences of
            these.

    Returns:
        For arrays and numbers: an array of shape ``(len(batch), *S)``. For text and bytes: a list.
        For mappings: a mapping of these by name. For sequences: a list of these, one per field.

    Raises:
        SampleShapeError: The samples differ in shape or in their fields.
        TypeError: A sample has another type.
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
    """Return one unbatched sample as the original does: sequences become lists."""
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
