"""What a worker has made of its ranges, and what a spill file says of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from trainfeed.dataset import Ledger
from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.functions._lateness import Lateness

__all__ = ["PreparedPart", "RecordAccount"]


@dataclass(frozen=True)
class RecordAccount:
    """What became of the records of some ranges of a plan.

    Attributes:
        ledger: The account, by source.
        late: Records that are stamped outside of the window, by source.
        ranges: Indices of the ranges.
    """

    ledger: Ledger
    late: Mapping[str, Lateness]
    ranges: Sequence[int]

    @classmethod
    def total(cls, parts: Sequence[RecordAccount]) -> RecordAccount:
        """Add up the accounts of parts that follow one another."""
        late: dict[str, Lateness] = {}
        for part in parts:
            for source, counts in part.late.items():
                late[source] = late.get(source, Lateness()) + counts
        ranges = [index for part in parts for index in part.ranges]
        return cls(Ledger.total(part.ledger for part in parts), late, ranges)

    def to_json(self) -> JsonObject:
        """Return the account as the trailer of a spill file has it."""
        return {
            "ledger": self.ledger.to_json(),
            "late": {source: late.to_json() for source, late in self.late.items()},
            "ranges": list(self.ranges),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> RecordAccount:
        """Read what ``to_json`` wrote, from a trailer that may hold further keys.

        Raises:
            FormatError: The trailer has no such account.
        """
        try:
            ledger, late, ranges = (value[name] for name in ("ledger", "late", "ranges"))
            return cls(
                Ledger.from_json(cast("Mapping[str, object]", ledger)),
                {source: Lateness.from_json(counts) for source, counts in _items(late)},
                [_index(each) for each in cast("list[object]", ranges)],
            )
        except (AttributeError, KeyError, TypeError, ValueError, FormatError) as error:
            raise FormatError(
                f"expected the account of records in the trailer of a spill file: {error!r};"
                " nothing was published; build the interval again (in Airflow: clear the run from"
                " preprocess on)"
            ) from error


@dataclass(frozen=True)
class PreparedPart:
    """What a worker has made of its ranges.

    Attributes:
        runs: Names of the files of sorted samples, in the folder of spill files.
        quarantine: Names of the files of quarantined records, likewise.
        account: What became of the records.
        kept_bytes: Bytes in quarantine.
    """

    runs: list[str]
    quarantine: list[str]
    account: RecordAccount
    kept_bytes: int


def _items(value: object) -> list[tuple[str, Mapping[str, int]]]:
    return list(cast("Mapping[str, Mapping[str, int]]", value).items())


def _index(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected the index of a range, got {value!r}")
    return value
