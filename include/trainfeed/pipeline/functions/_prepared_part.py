"""The result of a worker for its ranges: files, and accounts of records and late records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset import Ledger
from trainfeed.errors import FormatError
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.labels import JoinCounts

__all__ = [
    "Lateness",
    "PreparedPart",
    "RecordAccount",
]


@dataclass
class Lateness:
    """Records of one source that are stamped outside of the interval to which their offset belongs.

    Attributes:
        late: Number of records stamped before the interval.
        future: Number of records stamped at its end or later.
        max_lateness_ms: The largest distance of a stamp before the interval, in milliseconds.
        unstamped: Number of records without a stamp, which are neither late nor future.
        ahead: Number of the ``future`` records that are refused because they are stamped too long
            after the end; counted only for the policy ``fail``.
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
            stamps: Milliseconds since 1970; negative for a record without a stamp.
            start_ms: Start of the interval.
            end_ms: End of the interval.
            ahead_ms: Stamps from this time on are refused; None to refuse none.
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
        """Return the counts for the trailer of the spill file; optional ones only if not 0."""
        counts = {"late": self.late, "future": self.future, "max_lateness_ms": self.max_lateness_ms}
        optional = {"unstamped": self.unstamped, "ahead": self.ahead}
        return counts | {name: count for name, count in optional.items() if count}

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> Lateness:
        """Read the JSON of ``to_json``.

        Raises:
            TypeError: A value is no whole number, or a name is unknown.
        """
        if not all(type(count) is int for count in value.values()):
            raise TypeError(f"expected counts of late records, got {value!r}")
        return cls(**value)


@dataclass(frozen=True)
class RecordAccount:
    """The account of the records of some ranges of a plan.

    Attributes:
        ledger: The ledger, by source.
        late: Source → records stamped outside of the interval.
        ranges: Indices of the ranges.
        joined: The samples that were joined with labels; None for a data set without uploads.
        cut: The ``cut_sha256`` of the plan, without which the indices say nothing; None in a file
            of an earlier release.
    """

    ledger: Ledger
    late: Mapping[str, Lateness]
    ranges: Sequence[int]
    joined: JoinCounts | None = None
    cut: str | None = None

    @classmethod
    def total(cls, parts: Sequence[RecordAccount]) -> RecordAccount:
        """Add up the accounts of parts that follow one another."""
        late: dict[str, Lateness] = {}
        for part in parts:
            for source, counts in part.late.items():
                late[source] = late.get(source, Lateness()) + counts
        ranges = [index for part in parts for index in part.ranges]
        joined = [part.joined for part in parts if part.joined is not None]
        total = sum(joined, start=JoinCounts()) if joined else None
        cut = ",".join(sorted({part.cut for part in parts if part.cut is not None})) or None
        return cls(Ledger.total(part.ledger for part in parts), late, ranges, total, cut)

    def to_json(self) -> JsonObject:
        """Return the account as JSON for the trailer of a spill file."""
        return {
            "ledger": self.ledger.to_json(),
            "late": {source: late.to_json() for source, late in self.late.items()},
            "ranges": list(self.ranges),
            **({} if self.joined is None else {"joined": self.joined.to_json()}),
            **({} if self.cut is None else {"cut": self.cut}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> RecordAccount:
        """Read the JSON of ``to_json``, from a trailer that may hold further keys.

        Raises:
            FormatError: The trailer has no such account.
        """
        try:
            ledger, late, ranges = (value[name] for name in ("ledger", "late", "ranges"))
            return cls(
                Ledger.from_json(cast("Mapping[str, object]", ledger)),
                {source: Lateness.from_json(counts) for source, counts in _items(late)},
                [_index(each) for each in cast("list[object]", ranges)],
                _joined(value.get("joined")),
                cast("str | None", value.get("cut")),
            )
        except (AttributeError, KeyError, TypeError, ValueError, FormatError) as error:
            raise FormatError(
                f"expected the account of records in the trailer of a spill file: {error!r};"
                " nothing was published; build the interval again (in Airflow: clear the run from"
                " preprocess on)"
            ) from error


@dataclass(frozen=True)
class PreparedPart:
    """The result of a worker for its ranges.

    Attributes:
        runs: Names of the files of sorted samples, in the folder of spill files.
        quarantine: Names of the files of quarantined records, likewise.
        account: The account of the records.
        kept_bytes: Bytes in quarantine.
        used: Mask of the labels that samples got; None for a data set without uploads.
    """

    runs: list[str]
    quarantine: list[str]
    account: RecordAccount
    kept_bytes: int
    used: NDArray[np.bool_] | None = None


def _joined(value: object) -> JoinCounts | None:
    return None if value is None else JoinCounts.from_json(cast("Mapping[str, int]", value))


def _items(value: object) -> list[tuple[str, Mapping[str, int]]]:
    return list(cast("Mapping[str, Mapping[str, int]]", value).items())


def _index(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected the index of a range, got {value!r}")
    return value
