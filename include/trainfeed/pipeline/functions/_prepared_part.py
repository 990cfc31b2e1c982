"""What a worker has made of its ranges: the account of records, of late ones, of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset import Ledger
from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import JsonObject

__all__ = [
    "Lateness",
    "PreparedPart",
    "RecordAccount",
]


@dataclass
class Lateness:
    """Records of one source stamped outside of the window that their offset puts them into.

    Attributes:
        late: Stamped before its start.
        future: Stamped at its end or later.
        max_lateness_ms: How long before its start, at most.
        unstamped: Without a stamp: neither late nor future.
        ahead: Those of ``future`` that are stamped so long after its end that they are refused;
            counted where the policy is to fail.
    """

    late: int = 0
    future: int = 0
    max_lateness_ms: int = 0
    unstamped: int = 0
    ahead: int = 0

    def count(
        self, stamps: NDArray[np.int64], start_ms: int, end_ms: int, ahead_ms: int | None = None
    ) -> None:
        """Count the stamps of a batch, int64 milliseconds of shape (n,).

        Args:
            stamps: Negative where a record has none.
            start_ms: Start of the window.
            end_ms: Its end.
            ahead_ms: From when on stamps are refused; None when none is.
        """
        stamped = stamps >= 0
        late = stamped & (stamps < start_ms)
        self.unstamped += len(stamps) - int(stamped.sum())
        self.late += int(late.sum())
        self.future += int((stamps >= end_ms).sum())
        if ahead_ms is not None:
            self.ahead += int((stamps >= ahead_ms).sum())
        if late.any():
            self.max_lateness_ms = max(self.max_lateness_ms, int(start_ms - stamps[late].min()))

    def __add__(self, other: Lateness) -> Lateness:
        return Lateness(
            self.late + other.late,
            self.future + other.future,
            max(self.max_lateness_ms, other.max_lateness_ms),
            self.unstamped + other.unstamped,
            self.ahead + other.ahead,
        )

    def to_json(self) -> dict[str, int]:
        """Return the counts for the trailer of the spill file; the optional ones where not 0."""
        counts = {"late": self.late, "future": self.future, "max_lateness_ms": self.max_lateness_ms}
        optional = {"unstamped": self.unstamped, "ahead": self.ahead}
        return counts | {name: count for name, count in optional.items() if count}

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> Lateness:
        """Read what ``to_json`` wrote.

        Raises:
            TypeError: A value is no whole number, or has a name that is not known here.
        """
        if not all(type(count) is int for count in value.values()):
            raise TypeError(f"expected counts of late records, got {value!r}")
        return cls(**value)


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
