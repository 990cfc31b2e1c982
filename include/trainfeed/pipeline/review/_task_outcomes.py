"""Reads what a task of ``preprocess`` made of quarantined records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from trainfeed.pipeline.functions import RecordAccount
from trainfeed.pipeline.preview import shown_value
from trainfeed.pipeline.quarantine import plain
from trainfeed.pipeline.review._reason_outcome import ReasonOutcome
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.samples import Schema, TypedCodec

__all__ = ["count_outcomes"]

_MOST_EXAMPLES: Final = 3

_Reasons = Mapping[tuple[str, int], str]
_Outcomes = Mapping[str, ReasonOutcome]


def count_outcomes(stage: Stage, unit: int, reasons: _Reasons, outcomes: _Outcomes) -> Counter[str]:
    """Add the result of a task to the outcomes.

    Args:
        stage: The plan that was run.
        unit: Number of the task.
        reasons: (source, offset) → reason in the quarantine, of every record.
        outcomes: Reason → outcome; changed.

    Returns:
        Reason → number of records that were filtered.
    """
    with closing(ArrowWithTrailer(stage.quarantine_file(unit), QUARANTINE_SCHEMA)) as file:
        for row in _rejected(file):
            _count_rejected(stage, row, reasons, outcomes)
    with closing(ArrowWithTrailer(stage.spill_file(unit))) as file:
        _count_valid(stage, file, reasons, outcomes)
        ledger = RecordAccount.from_json(file.trailer).ledger
    return Counter(
        {
            reason: leaf.records
            for source in ledger.values()
            for reason, leaf in source.filtered.items()
        }
    )


def _rejected(file: ArrowWithTrailer) -> Iterator[dict[str, Any]]:
    for table in file.iter_tables():
        yield from table.drop_columns("raw").to_pylist()


def _count_rejected(
    stage: Stage, row: Mapping[str, Any], reasons: _Reasons, outcomes: _Outcomes
) -> None:
    place = stage.plan.sources[row["source"]], row["offset"]
    outcome = outcomes[reasons[place]]
    outcome.quarantined[row["reason"]] = outcome.quarantined.get(row["reason"], 0) + 1
    if len(outcome.errors) < _MOST_EXAMPLES:
        said = {"reason": row["reason"], "message": plain(row["message"])}
        outcome.errors.append({"source": place[0], "offset": place[1], **said})


def _count_valid(
    stage: Stage, file: ArrowWithTrailer, reasons: _Reasons, outcomes: _Outcomes
) -> None:
    codec, sources = TypedCodec(Schema.from_json(stage.plan.fields)), stage.plan.sources
    for number in range(len(file.trailer["starts"])):
        head, records = file.head(number), file.records(number)
        columns = (head[name].to_pylist() for name in ("source", "offset", "ordinal"))
        for row, (source, offset, ordinal) in enumerate(zip(*columns, strict=True)):
            place = sources[source], offset
            outcome = outcomes[reasons[place]]
            # A record with several samples counts once.
            outcome.valid += ordinal == 0
            if len(outcome.samples) < _MOST_EXAMPLES:
                sample = codec.decode(records[row].as_buffer()).items()
                shown = {name: shown_value(value) for name, value in sample}
                outcome.samples.append({"source": place[0], "offset": offset, "sample": shown})
