"""Chooses the mode of a data set's function, for builds and for predictions alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trainfeed.dataset.order import split_seed
from trainfeed.pipeline.functions._account import TurnedDownRecords
from trainfeed.pipeline.functions._batch_mode import BatchMode, Mode
from trainfeed.pipeline.functions._record_mode import RecordMode
from trainfeed.pipeline.functions._sample_limits import SampleLimits
from trainfeed.pipeline.functions._split_fields import SplitFields
from trainfeed.pipeline.functions._user_function import SampleFunction
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.samples import Schema
from trainfeed.specification import DatasetSpec

__all__ = ["mode_of"]


class _Told(Protocol):
    def record(self, offset: int) -> None: ...


def mode_of(  # noqa: PLR0913 - what a mode consists of
    spec: DatasetSpec,
    fields: Sequence[Mapping[str, Any]],
    function: SampleFunction,
    turned: TurnedDownRecords,
    *,
    told: _Told,
    limits: SampleLimits,
    rules: ReadingRules = NEWEST,
) -> Mode:
    """Return the mode in which ``preprocess.input`` says that the function is called.

    Args:
        spec: The data set.
        fields: The schema as in manifests.
        function: The function and its lookups.
        turned: Gets the records that yield no sample.
        told: Gets the offset of every record before a function in record mode gets the record.
        limits: Memory limits for samples.
        rules: The reading rules of the plan.
    """
    schema = Schema.from_json(fields)
    by = spec.split.by
    seed = split_seed(spec.name)
    split = SplitFields([schema[name] for name in by], seed, rules) if by else None
    if spec.preprocess.input == "batch":
        return BatchMode(function, schema, split, turned, limits=limits, rules=rules)
    return RecordMode(function, schema, split, turned, told=told, limits=limits, rules=rules)
