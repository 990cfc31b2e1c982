"""What adapters take, and what they share."""

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
    """Yields batches; every ``iter`` is a pass of its own."""

    def __iter__(self) -> Iterator[Batch]:
        """Start a pass."""


def framework(name: str) -> Any:
    """Import a framework.

    Raises:
        ConfigError: It is not installed.
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
    """Return ``schema``, or else that of the loader.

    Raises:
        ConfigError: Neither is there.
    """
    found = {schema} if schema is not None else _schemas(loader)
    if len(found) != 1:
        raise ConfigError(
            f"expected a loader over one schema, got {type(loader).__name__} with {len(found)};"
            " pass schema=Schema((Field(…), …))"
        )
    return found.pop()


def _schemas(loader: Batches) -> set[Schema]:
    """Return the schemas of a loader: its own, or those of its data set, or of a mixture's."""
    dataset = getattr(loader, "dataset", loader)
    parts = [getattr(part, "schema", None) for part in getattr(dataset, "datasets", [dataset])]
    return {part for part in parts if isinstance(part, Schema)} if None not in parts else set()


def marks_padding(loader: Batches) -> bool:
    """Say whether a loader's batches may hold rows that only fill them."""
    return getattr(loader, "tail", None) == "pad"


def converted(batch: Any, tensor: Callable[[str, NDArray[Any]], Any], *, marks: bool) -> Any:
    """Return a batch with ``tensor(name, array)`` in place of each of its arrays.

    A mapping becomes a dict. ``<name>_present`` comes after a field that may be absent, and
    ``valid`` at the end where rows may be there only to fill a batch. A list or tuple, as loaders
    over generators give them, becomes a list; its arrays have the name ``""``.

    Raises:
        SampleShapeError: A field has the name of such a column, or there is something else than
            arrays.
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
    """Yield name and array of the columns of a mapping, and of those that an adapter adds.

    Raises:
        SampleShapeError: A field has the name of such a column.
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
    """Return a batch by name: itself, or a list of arrays with the names of a schema in order.

    Raises:
        SampleShapeError: There are more or fewer arrays than names, or something else.
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
    """Return an array that frameworks can take over: itself, or a copy if it is laid out otherwise.

    Tensors are writeable, aligned and without gaps. Columns of packed records have gaps, which
    numpy does not count where there is a single row.
    """
    flags = values.flags
    whole = all(stride % values.itemsize == 0 for stride in values.strides)
    if whole and flags.c_contiguous and flags.aligned and flags.writeable:
        return values
    return values.copy()
