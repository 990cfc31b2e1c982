"""Calls the preprocessing function of a data set, and believes nothing that it does."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trainfeed.build._code import load_function
from trainfeed.build._lookups import load_lookups
from trainfeed.build._record import Filtered, Record, Reject
from trainfeed.errors import PreprocessError
from trainfeed.spec import DatasetSpec

__all__ = ["UserFunction"]


class UserFunction:
    """The preprocessing function with its lookups.

    Args:
        spec: The data set.
        lookups: Digests of the lookup files, as planned.

    Raises:
        ConfigError: The function or a lookup cannot be loaded.
        CodeChangedError: A lookup is not the one that was planned with.
    """

    def __init__(self, spec: DatasetSpec, lookups: Mapping[str, str]) -> None:
        self._function = load_function(spec, spec.preprocess.function)
        # Read-only: what one record leaves behind must not reach the next.
        self._lookups = MappingProxyType(load_lookups(spec, lookups))
        self._name = f"{spec.preprocess.function} of data set {spec.name!r}"

    def call(self, record: Record) -> list[Mapping[str, Any]] | Filtered:
        """Return the samples of a record, at least one, or why it is not wanted.

        Raises:
            Reject: The record is broken.
            PreprocessError: The function raised, or returned what no function may.
        """
        try:
            result = self._function(record, self._lookups)
        except Reject:
            raise
        except (Exception, SystemExit) as error:
            message = f"raised {type(error).__name__}: {error}"
            remedy = "mend the function, or raise Reject for broken records"
            raise self.mistake(record, message, remedy) from error
        if isinstance(result, Mapping):
            return [result]
        if isinstance(result, list) and all(isinstance(sample, Mapping) for sample in result):
            return result or Filtered("empty")
        if isinstance(result, Filtered):
            return result
        expected = "return a mapping, a list of mappings, or Filtered"
        raise self.mistake(record, f"returned a {type(result).__name__}", expected)

    def mistake(self, record: Record, message: str, remedy: str) -> PreprocessError:
        """Return the error that says what the function did at which record."""
        return PreprocessError(
            f"{self._name} {message} at {record.source} offset {record.offset}; nothing was"
            f" published; {remedy}"
        )
