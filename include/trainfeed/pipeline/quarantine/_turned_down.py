"""Turned-down records for messages and pages: reasons with counts and a few examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.quarantine._excerpt import excerpt, plain
from trainfeed.pipeline.quarantine._quarantined import (
    Quarantine,
    QuarantinedRecord,
    raw_records,
)

__all__ = ["Example", "Reason", "told_reasons", "turned_down"]

_MOST_REASONS: Final = 5
_MOST_EXAMPLES: Final = 2
_MOST_CHARS: Final = 120


@dataclass(frozen=True)
class Example:
    """One record that shows a reason; texts are short, printable and without secrets.

    Attributes:
        source: Source string.
        offset: Offset in the source; for a line, the byte at which it begins.
        message: The error.
        value: Beginning of the record's value.
    """

    source: str
    offset: int
    message: str
    value: str

    def lines(self, name: str) -> list[str]:
        """Return the example as lines of a message.

        Args:
            name: The reason that the example shows.
        """
        said = f": {self.message}" if self.message else ""
        place = f"  {name} at {self.source} offset {self.offset}{said}"
        return [place, f"    record: {self.value}"] if self.value else [place]

    def to_json(self) -> JsonObject:
        """Return the example for a report."""
        return {
            "source": self.source,
            "offset": self.offset,
            "message": self.message,
            "value": self.value,
        }


@dataclass(frozen=True)
class Reason:
    """Records that were turned down for one reason.

    Attributes:
        name: The short code.
        records: Number of records.
        examples: The first ones.
    """

    name: str
    records: int
    examples: tuple[Example, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The examples as lines of a message."""
        return [line for example in self.examples for line in example.lines(self.name)]

    def to_json(self) -> JsonObject:
        """Return the reason for a report."""
        examples = [example.to_json() for example in self.examples]
        return {"reason": self.name, "records": self.records, "examples": examples}


def turned_down(quarantine: Quarantine, counts: Mapping[str, int]) -> list[Reason]:
    """Return the most frequent reasons, each with its first records.

    Args:
        quarantine: The quarantine with the records.
        counts: Reason → number of records, of all reasons.

    Returns:
        At most 5 reasons with at most 2 examples, the most frequent first.

    Raises:
        AccessDeniedError: Only the account that builds may read the records.
        FormatError: A file is damaged.
    """
    reasons = {name: Reason(name, records) for name, records in _most_frequent(counts).items()}
    open_reasons = set(reasons)
    for record in raw_records(quarantine) if reasons else ():
        if record.reason in open_reasons:
            found = reasons[record.reason]
            found = replace(found, examples=(*found.examples, _example(record)))
            reasons[record.reason] = found
            if len(found.examples) == min(_MOST_EXAMPLES, found.records):
                open_reasons.remove(record.reason)
        if not open_reasons:
            break
    return list(reasons.values())


def told_reasons(counts: Mapping[str, int]) -> str:
    """Return counts by reason as part of a message: ``12 not_json, 6 no_value``."""
    shown = _most_frequent(counts)
    parts = [f"{records} {plain(name)}" for name, records in shown.items()]
    more = len(counts) - len(shown)
    rest = sum(counts.values()) - sum(shown.values())
    return ", ".join([*parts, *([f"{rest} for {more} further reasons"] if more else [])])


def _most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    ordered: Iterable[tuple[str, int]] = sorted(counts.items(), key=lambda i: (-i[1], i[0]))
    return dict(list(ordered)[:_MOST_REASONS])


def _example(record: QuarantinedRecord) -> Example:
    return Example(
        source=plain(record.source),
        offset=record.offset,
        message=plain(record.message, _MOST_CHARS),
        value=excerpt(record.raw, _MOST_CHARS),
    )
