"""What adapters take, and what they share."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.samples import Schema

__all__ = ["Batch", "Batches", "framework", "schema_of", "with_presence"]

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
            " installed here; install it beside trainfeed, nothing else changes"
        ) from None


def schema_of(loader: Batches, schema: Schema | None) -> Schema:
    """Return ``schema``, or else that of the loader.

    Raises:
        ConfigError: Neither is there.
    """
    found = schema or getattr(loader, "schema", None)
    if not isinstance(found, Schema):
        raise ConfigError(
            "expected a loader that knows its schema, got"
            f" {type(loader).__name__}; pass schema=Schema((Field(…), …))"
        )
    return found


def with_presence(batch: Batch) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield name and plain array of every field, and ``<name>_present`` after a masked one."""
    for name, values in batch.items():
        if not isinstance(values, np.ma.MaskedArray):
            yield name, values
            continue
        yield name, values.data
        absent = np.ma.getmaskarray(values).reshape(len(values), -1).any(axis=1)
        yield f"{name}_present", np.logical_not(absent)
