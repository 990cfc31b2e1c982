"""Calls the preprocessing function of a data set, and checks everything that it returns."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import pyarrow as pa

from trainfeed.errors import PreprocessError
from trainfeed.pipeline.functions._batch_function import Judged, WrongBatchError, judge
from trainfeed.pipeline.quarantine import excerpt, plain
from trainfeed.pipeline.stage import kept as kept_files
from trainfeed.preprocessing import Filtered, Record, Reject
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.specification import DatasetSpec
from trainfeed.usercode import load_function, load_lookups

__all__ = ["SampleFunction", "UserFunction"]

_MOST_CHARS: Final = 500
_FORKED: Final = "forked, and the child returned from it"
_FORK_REMEDY: Final = "end the child with os._exit inside the function, or start a subprocess"


class SampleFunction(Protocol):
    """A function from records to samples, as modes call it; see ``UserFunction``."""

    def call(self, record: Record) -> list[Mapping[str, Any]] | Filtered: ...

    def call_batch(self, batch: pa.RecordBatch) -> Judged: ...

    def mistake(self, record: Record, message: str, remedy: str) -> PreprocessError: ...

    def batch_mistake(
        self, batch: pa.RecordBatch, row: int | None, message: str, remedy: str
    ) -> PreprocessError: ...


class UserFunction:
    """The preprocessing function with its lookups.

    Args:
        spec: The data set.
        code: Its code, as ``code_texts`` has read it.
        lookups: Digests of the lookup files, as planned.
        kept: What messages say about the work before the mistake; by default the files of a build.
        again: What messages say is to be done after the function was corrected.
        rules: The reading rules of the lookups.

    Raises:
        ConfigError: The function or a lookup cannot be loaded.
        CodeChangedError: A lookup file is not the one of the plan.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        code: Mapping[str, bytes],
        lookups: Mapping[str, str],
        *,
        kept: str | None = None,
        again: str = "build the interval again",
        rules: ReadingRules = NEWEST,
    ) -> None:
        entry = spec.preprocess.function
        self._function = load_function(spec, entry, code)
        # Read-only: a function cannot pass values from one record to the next in it.
        self._lookups = MappingProxyType(load_lookups(spec, lookups, rules))
        self._names = [field["name"] for field in spec.function_fields()]
        self._name = f"{entry} of data set {spec.name!r}"
        self._kept = kept or kept_files(spec)
        self._again = again
        self._folder = spec.folder
        self._process = os.getpid()

    def call(self, record: Record) -> list[Mapping[str, Any]] | Filtered:
        """Return the samples of a record, at least one, or the reason why it is filtered.

        Raises:
            Reject: The record is broken.
            PreprocessError: The function raised, or returned something that is not allowed.
        """
        try:
            result = self._function(record, self._lookups)
        except Reject:
            raise
        except BaseException as error:
            message = self._raised(error)
            remedy = "fix the function, or raise Reject for broken records"
            raise self.mistake(record, message, remedy) from error
        if os.getpid() != self._process:
            raise self.mistake(record, _FORKED, _FORK_REMEDY)
        # ``type(…) is dict`` first: nearly all functions return dicts, and the test of an abstract
        # class takes longer.
        if type(result) is dict or isinstance(result, Mapping):
            return [result]
        if isinstance(result, list) and all(isinstance(sample, Mapping) for sample in result):
            return result or Filtered("empty")
        if isinstance(result, Filtered):
            return result
        expected = "return a mapping, a list of mappings, or Filtered"
        raise self.mistake(record, f"returned a {type(result).__name__}", expected)

    def call_batch(self, batch: pa.RecordBatch) -> Judged:
        """Return the outcome of every record of a batch of ``BATCH_SCHEMA``.

        Raises:
            PreprocessError: The function raised, or returned something that is not allowed.
        """
        try:
            returned = self._function(batch, self._lookups)
        except BaseException as error:
            message = self._raised(error)
            remedy = "fix the function, or reject broken records in _rejected"
            raise self.batch_mistake(batch, None, message, remedy) from error
        if os.getpid() != self._process:
            raise self.batch_mistake(batch, None, _FORKED, _FORK_REMEDY)
        try:
            return judge(returned, self._names, batch.num_rows)
        except WrongBatchError as error:
            raise self.batch_mistake(batch, error.row, str(error), error.remedy) from error

    def mistake(self, record: Record, message: str, remedy: str) -> PreprocessError:
        """Return the error for a mistake of the function at a record."""
        place = f"at {record.source} offset {record.offset}"
        return self._error(f"{message} {place}{_held(record.value)}", remedy)

    def batch_mistake(
        self, batch: pa.RecordBatch, row: int | None, message: str, remedy: str
    ) -> PreprocessError:
        """Return the error for a mistake of the function in a batch, at ``row`` if it is known."""
        source = batch.column("source").dictionary[0]
        first, last = batch.column("offset")[0], batch.column("offset")[-1]
        place = f"in the batch of {source} offsets {first} to {last} ({batch.num_rows} rows)"
        if row is not None:
            held = _held(batch.column("value")[row].as_py())
            place = f"at {source} offset {batch.column('offset')[row]}, row {row} {place}{held}"
        return self._error(f"{message} {place}", remedy)

    def _raised(self, error: BaseException) -> str:
        """Return the text of an error of the function, cut if long, and its line of code."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).parent == self._folder]
        line = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
        return f"raised {type(error).__name__}: {_text_of(error)}{line}"

    def _error(self, what: str, remedy: str) -> PreprocessError:
        return PreprocessError(f"{self._name} {what}; {self._kept}; {remedy}, then {self._again}")


def _text_of(error: BaseException) -> str:
    try:
        return plain(str(error), _MOST_CHARS)
    except BaseException as again:  # noqa: BLE001 - the code of a user, which may do anything
        return f"(its text cannot be shown: __str__ raised {type(again).__name__})"


def _held(value: bytes | None) -> str:
    return f"; the record: {excerpt(value)}"
