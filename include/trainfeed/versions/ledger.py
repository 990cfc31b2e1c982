"""The account of every source record: read, valid, quarantined or filtered.

For each source and outcome, a *leaf* counts records and bytes, and adds up two 64-bit hashes of the
positions. Sums do not depend on order, and unlike XOR they do not hide a record that occurs twice,
so equal leaves mean that nothing was lost, doubled or swapped. Each record has one outcome::

    read = valid + quarantined + sum(filtered by reason)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.versions.order import position_hash

_SEEDS: Final = (0x6C65646765720001, 0x6C65646765720002)
_MASK: Final = (1 << 64) - 1
_SUM: Final = re.compile(r"[0-9a-f]{16}")


def _sums(source: int, offsets: NDArray[Any], ordinals: NDArray[Any] | int = 0) -> tuple[int, int]:
    # A sum of uint64 wraps, which is the sum modulo 2^64.
    first, second = (
        int(position_hash(seed, source, offsets, ordinals).sum(dtype=np.uint64)) for seed in _SEEDS
    )
    return first, second


@dataclass(frozen=True)
class Leaf:
    """Records of one source with one outcome.

    Attributes:
        records: Number of records.
        bytes: Source bytes of the records (Kafka: of the values).
        l1: Sum modulo 2^64 of the first position hash.
        l2: Sum modulo 2^64 of the second position hash.
    """

    records: int = 0
    bytes: int = 0
    l1: int = 0
    l2: int = 0

    @classmethod
    def of(cls, source: int, offsets: NDArray[Any], num_bytes: int) -> Leaf:
        """Return the leaf of records at ``offsets``, shape (n,), for the hash of a source."""
        return cls(len(offsets), num_bytes, *_sums(source, offsets))

    def __add__(self, other: Leaf) -> Leaf:
        return Leaf(
            self.records + other.records,
            self.bytes + other.bytes,
            (self.l1 + other.l1) & _MASK,
            (self.l2 + other.l2) & _MASK,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the leaf as JSON for the manifest; sums are 16 hex digits."""
        return {
            "records": self.records,
            "bytes": self.bytes,
            "l1": f"{self.l1:016x}",
            "l2": f"{self.l2:016x}",
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Leaf:
        """Read the JSON of ``to_json``.

        Raises:
            FormatError: ``value`` is no leaf.
        """
        with _understood("a leaf of a ledger"):
            counts = (_count(value[name]) for name in ("records", "bytes"))
            return cls(*counts, *(_sum(value[name]) for name in ("l1", "l2")))


@dataclass(frozen=True)
class ValidLeaf:
    """Valid records of one source, and the samples made from them.

    Attributes:
        leaf: The records.
        samples: Number of samples.
        s1: Sum modulo 2^64 of the first hash of the samples' positions.
        s2: Sum modulo 2^64 of the second hash of the samples' positions.
    """

    leaf: Leaf = field(default_factory=Leaf)
    samples: int = 0
    s1: int = 0
    s2: int = 0

    @classmethod
    def of(
        cls, source: int, offsets: NDArray[Any], ordinals: NDArray[Any], num_bytes: int
    ) -> ValidLeaf:
        """Return the leaf of samples at ``(offsets, ordinals)``, both of shape (n,).

        Every valid record has exactly one sample with ordinal 0: their number is that of records.
        """
        records = Leaf.of(source, offsets[ordinals == 0], num_bytes)
        return cls(records, len(offsets), *_sums(source, offsets, ordinals))

    def __add__(self, other: ValidLeaf) -> ValidLeaf:
        return ValidLeaf(
            self.leaf + other.leaf,
            self.samples + other.samples,
            (self.s1 + other.s1) & _MASK,
            (self.s2 + other.s2) & _MASK,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the leaf as JSON for the manifest."""
        sums = {"samples": self.samples, "s1": f"{self.s1:016x}", "s2": f"{self.s2:016x}"}
        return self.leaf.to_json() | sums

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ValidLeaf:
        """Read the JSON of ``to_json``; raises as ``Leaf.from_json`` does."""
        with _understood("a leaf of valid records"):
            sums = (_sum(value[name]) for name in ("s1", "s2"))
            return cls(Leaf.from_json(value), _count(value["samples"]), *sums)


@dataclass(frozen=True)
class SourceLedger:
    """The account of the records of one source, by outcome."""

    read: Leaf = field(default_factory=Leaf)
    valid: ValidLeaf = field(default_factory=ValidLeaf)
    quarantined: Leaf = field(default_factory=Leaf)
    filtered: Mapping[str, Leaf] = field(default_factory=dict)

    def __add__(self, other: SourceLedger) -> SourceLedger:
        reasons = sorted({*self.filtered, *other.filtered})
        filtered = {
            reason: self.filtered.get(reason, Leaf()) + other.filtered.get(reason, Leaf())
            for reason in reasons
        }
        return SourceLedger(
            self.read + other.read,
            self.valid + other.valid,
            self.quarantined + other.quarantined,
            filtered,
        )

    def accounted(self) -> Leaf:
        """Return valid + quarantined + filtered, which must equal ``read``."""
        return sum(self.filtered.values(), start=self.valid.leaf + self.quarantined)

    def to_json(self) -> dict[str, Any]:
        """Return the ledger of the source as JSON for the manifest."""
        return {
            "read": self.read.to_json(),
            "valid": self.valid.to_json(),
            "quarantined": self.quarantined.to_json(),
            "filtered": {reason: leaf.to_json() for reason, leaf in self.filtered.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceLedger:
        """Read the JSON of ``to_json``; raises as ``Leaf.from_json`` does."""
        with _understood("the ledger of a source"):
            return cls(
                Leaf.from_json(value["read"]),
                ValidLeaf.from_json(value["valid"]),
                Leaf.from_json(value["quarantined"]),
                {reason: Leaf.from_json(leaf) for reason, leaf in value["filtered"].items()},
            )


class Ledger(dict[str, SourceLedger]):
    """The ledgers of all sources, by source string."""

    @classmethod
    def total(cls, parts: Iterable[Mapping[str, SourceLedger]]) -> Ledger:
        """Add up the ledgers of parts of a build."""
        result = cls()
        for part in parts:
            for source, ledger in part.items():
                result[source] = result.get(source, SourceLedger()) + ledger
        return result

    def imbalances(self) -> list[str]:
        """Return one line per source whose read records are not all accounted for."""
        return [
            f"{source}: read {ledger.read.to_json()}, accounted {ledger.accounted().to_json()}"
            for source, ledger in sorted(self.items())
            if ledger.read != ledger.accounted()
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the ledger as JSON for the manifest."""
        return {source: ledger.to_json() for source, ledger in self.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Ledger:
        """Read the JSON of ``to_json``; raises as ``Leaf.from_json`` does."""
        with _understood("a ledger"):
            return cls({source: SourceLedger.from_json(ledger) for source, ledger in value.items()})


@contextmanager
def _understood(what: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"expected {what}, got something else: {error!r}") from error


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a count, got {value!r}")
    return value


def _sum(value: object) -> int:
    if not isinstance(value, str) or not _SUM.fullmatch(value):
        raise ValueError(f"expected 16 hex digits, got {value!r}")
    return int(value, 16)
