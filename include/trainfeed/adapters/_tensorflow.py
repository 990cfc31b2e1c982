"""Batches as a data set of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.adapters._batches import (
    Batches,
    framework,
    marks_padding,
    plain_columns,
    schema_of,
)
from trainfeed.samples import Field, Schema

__all__ = ["dataset"]

_tf = framework("tensorflow")


def dataset(loader: Batches, schema: Schema | None) -> Any:
    """Return a ``tf.data.Dataset`` over the passes of a loader."""
    fields = schema_of(loader, schema)
    signature = {name: spec for field in fields for name, spec in _specs(field)}
    if marks_padding(loader):
        signature["valid"] = _tf.TensorSpec((None,), _tf.bool)

    def batches() -> Iterator[dict[str, Any]]:
        for columns in plain_columns(loader):
            yield {
                name: _tensor(fields[name], values) if name in fields.names else values
                for name, values in columns
            }

    return _tf.data.Dataset.from_generator(batches, output_signature=signature)


def _specs(field: Field) -> Iterator[tuple[str, Any]]:
    if field.is_text:
        yield field.name, _tf.TensorSpec((None,), _tf.string)
    elif field.is_fixed:
        yield field.name, _tf.TensorSpec((None, *field.shape), field.dtype)
        if field.optional:
            yield f"{field.name}_present", _tf.TensorSpec((None,), _tf.bool)
    else:
        shape = (None, None, *field.item_shape)
        yield field.name, _tf.RaggedTensorSpec(shape, field.dtype, ragged_rank=1)


def _tensor(field: Field, values: NDArray[Any]) -> Any:
    """Return what TensorFlow makes a tensor of; an absent text or run of values is empty."""
    if field.is_fixed:
        return values
    if field.is_text:
        empty = "" if field.dtype == "str" else b""
        return [empty if value is None else value for value in values.tolist()]
    nothing = np.empty((0, *field.item_shape), field.values_dtype)
    runs = [nothing if run is None else run for run in values]
    return _tf.RaggedTensor.from_row_lengths(
        np.concatenate([nothing, *runs]), np.array([len(run) for run in runs], np.int64)
    )
