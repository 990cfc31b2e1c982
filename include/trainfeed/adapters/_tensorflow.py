"""Batches as a data set of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.adapters.passes import (
    Adapted,
    Batches,
    columns_of,
    framework,
    marks_padding,
    named,
    schema_of,
)
from trainfeed.samples import Field, Schema

_tf = framework("tensorflow")


def dataset(loader: Batches, schema: Schema | None) -> Any:
    """Return a ``tf.data.Dataset`` over the passes of a loader."""
    fields = schema_of(loader, schema)
    marks = marks_padding(loader)
    passes = _Passes(loader)
    signature = {name: spec for field in fields for name, spec in _specs(field)}
    if marks:
        signature["valid"] = _tf.TensorSpec((None,), _tf.bool)

    def batches() -> Iterator[dict[str, Any]]:
        for batch in passes:
            yield {
                name: _tensor(fields[name], values) if name in fields.names else values
                for name, values in columns_of(named(batch, fields), marks=marks)
            }

    data = _tf.data.Dataset.from_generator(batches, output_signature=signature)
    data = data.with_options(_as_they_come(loader))
    # A Dataset has no such methods: as attributes they let the user save and resume the loader.
    data.set_epoch = passes.set_epoch
    data.state_dict = passes.state_dict
    data.load_state_dict = passes.load_state_dict
    return data


class _Passes(Adapted):
    def __iter__(self) -> Iterator[Any]:
        return self._pass()


def _as_they_come(loader: Batches) -> Any:
    """Return options under which TensorFlow neither reads ahead nor divides a rank's batches.

    The state of the loader would count a batch that was read ahead, and a restart would lose it.
    """
    options = _tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    if getattr(getattr(loader, "share", None), "world_size", 1) > 1:
        policies = _tf.data.experimental.AutoShardPolicy
        options.experimental_distribute.auto_shard_policy = policies.OFF
    return options


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
    """Return values for a tensor; an absent text, or an absent list of values, becomes empty."""
    if field.is_fixed:
        return values
    if field.is_text:
        empty = "" if field.dtype == "str" else b""
        return [empty if value is None else value for value in values.tolist()]
    nothing = np.empty((0, *field.item_shape), field.values_dtype)
    runs = [nothing if run is None else run for run in values]
    # ``nothing`` first, so that a batch of absent values has the right dtype and shape.
    return _tf.RaggedTensor.from_row_lengths(
        np.concatenate([nothing, *runs]), np.array([len(run) for run in runs], np.int64)
    )
