"""The input of adapters, and the code that they share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.samples import Schema, absent_rows

__all__ = [
    "Batch",
    "Batches",
    "columns_of",
    "converted",
    "dense",
    "framework",
    "marks_padding",
    "named",
    "schema_of",
]

Batch: TypeAlias = Mapping[str, NDArray[Any]]


class Batches(Protocol):
    """An iterable of batches; every ``iter`` starts a new pass."""

    def __iter__(self) -> Iterator[Batch]:
        """Start a pass."""


def framework(name: str) -> Any:
    """Import a framework.

    Raises:
        ConfigError: The framework is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise ConfigError(
            f"trainfeed.adapters.{error.name} needs the package {error.name}, which is not"
            " installed here; install the package in the same environment"
        ) from None


def schema_of(loader: Batches, schema: Schema | None) -> Schema:
    """Return ``schema``, or the schema of the loader.

    Raises:
        ConfigError: Neither exists, or the data sets of a mixture have different schemas.
    """
    found = {schema} if schema is not None else _schemas(loader)
    if len(found) != 1:
        raise ConfigError(
            f"expected a loader over one schema, got {type(loader).__name__} with {len(found)};"
            " pass schema=Schema((Field(…), …))"
        )
    return found.pop()


def _schemas(loader: Batches) -> set[Schema]:
    """Return the schemas of a loader, its data set, or the data sets of its mixture."""
    dataset = getattr(loader, "dataset", loader)
    parts = [getattr(part, "schema", None) for part in getattr(dataset, "datasets", [dataset])]
    return {part for part in parts if isinstance(part, Schema)} if None not in parts else set()


def marks_padding(loader: Batches) -> bool:
    """Return whether batches of a loader may have rows that only fill them."""
    return getattr(loader, "tail", None) == "pad"


def converted(batch: Any, tensor: Callable[[str, NDArray[Any]], Any], *, marks: bool) -> Any:
    """Return a batch with ``tensor(name, array)`` in place of each of its arrays.

    A mapping becomes a dict. The column ``<name>_present`` follows an optional field, and the
    column ``valid`` is added at the end if rows may only fill the batch. A list or tuple, from
    loaders over generators, becomes a list; its arrays have the name ``""``.

    Raises:
        SampleShapeError: A field has the name of such a column, or a value is not an array.
    """
    if isinstance(batch, Mapping):
        return {name: tensor(name, values) for name, values in columns_of(batch, marks=marks)}
    if isinstance(batch, list | tuple):
        return [converted(part, tensor, marks=False) for part in batch]
    if isinstance(batch, np.ndarray):
        return tensor("", batch)
    raise SampleShapeError(
        "expected batches that are mappings from name to array, or lists of arrays, got"
        f" {type(batch).__name__}; give the adapter a loader, or a generator of such batches"
    )


def columns_of(batch: Any, *, marks: bool) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield name and array of the columns of a mapping, and of the columns that adapters add.

    Raises:
        SampleShapeError: A field has the name of an added column.
    """
    for name, values in batch.items():
        if not isinstance(values, np.ma.MaskedArray):
            yield name, values
            continue
        yield name, values.data
        yield _free(f"{name}_present", batch), np.logical_not(absent_rows(values))
    if marks:
        yield _free("valid", batch), batch.valid


def named(batch: Any, schema: Schema) -> Batch:
    """Return a batch as a mapping; the arrays of a list get the names of the schema in order.

    Raises:
        SampleShapeError: The numbers of arrays and names differ, or the batch has another type.
    """
    if isinstance(batch, Mapping):
        return batch
    if isinstance(batch, list | tuple) and len(batch) == len(schema.names):
        return dict(zip(schema.names, batch, strict=True))
    got = f"{len(batch)} of them" if isinstance(batch, list | tuple) else type(batch).__name__
    raise SampleShapeError(
        f"expected a batch by name, or one array for each of {list(schema.names)}, got {got}"
    )


def _free(name: str, batch: Batch) -> str:
    if name in batch:
        raise SampleShapeError(
            f"field {name!r} has the name of a column that the adapter adds; rename the field"
        )
    return name


def dense(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array that frameworks can use without a copy: itself, or a copy if necessary.

    Tensors must be writeable, aligned and contiguous. Columns of packed records are not
    contiguous, but numpy says that they are if there is a single row, so strides are checked too.
    """
    flags = values.flags
    whole = all(stride % values.itemsize == 0 for stride in values.strides)
    if whole and flags.c_contiguous and flags.aligned and flags.writeable:
        return values
    return values.copy()
