"""The gate ``unique``: no two samples of a version have the same key.

The memory is bounded, and the count is exact: samples are divided by the hash of their key into
parts that fit into memory, and every part takes a pass over the samples. Keys of equal hash are
compared themselves, in further passes if there are very many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from trainfeed.dataset.order import Uint64s
from trainfeed.pipeline.gates._gate_facts import Facts
from trainfeed.pipeline.gates._gate_result import GateResult
from trainfeed.pipeline.gates._key_bytes import key_hashes, keys_of
from trainfeed.pipeline.gates._limited import limited
from trainfeed.pipeline.gates._scanned_samples import SampleColumns, StagedSamples, shown_value
from trainfeed.pipeline.quarantine import Example
from trainfeed.specification import Gate

__all__ = ["doubled_keys", "unique"]

_MOST_EXAMPLES: Final = 2
# Memory for one hash of a part: different hashes are held up to eight times while they are sorted.
_HASH_BYTES: Final = 64
# Memory for a key that is compared itself: an entry of a mapping, the key, its first place.
_KEY_BYTES: Final = 320
_HASHES: Final = 1 << 64
_MOST_KEY_BYTES: Final = 64


def unique(gate: Gate, facts: Facts) -> GateResult:
    """Measure the number of samples whose key an earlier sample has."""
    if facts.stage is None:
        return limited(gate, 0, "no samples")
    memory_bytes = facts.stage.spec.resources.task_memory_bytes * 3 // 4
    by = [str(name) for name in cast("Sequence[object]", gate["by"])]
    doubled, examples = doubled_keys(
        StagedSamples(facts.stage), by, facts.counts.samples, memory_bytes
    )
    because = f"{doubled} of {facts.counts.samples} samples have the key of another one"
    return replace(limited(gate, doubled, because), examples=examples)


def doubled_keys(
    samples: Iterable[SampleColumns], by: Sequence[str], num_samples: int, memory_bytes: int
) -> tuple[int, list[Example]]:
    """Count the samples whose key an earlier sample has.

    Args:
        samples: All samples; they are read several times.
        by: The fields of the key.
        num_samples: Number of samples.
        memory_bytes: Approximate memory to use, beside that of one block of samples.

    Returns:
        The number, and at most two examples, each with the place of the sample before it.
    """
    doubled, examples = 0, list[Example]()
    for suspects in _suspects(samples, by, num_samples, memory_bytes):
        compared = _Compared(by, suspects)
        for block in samples:
            compared.add(block)
        doubled += compared.doubled
        examples += compared.examples
    return doubled, examples[:_MOST_EXAMPLES]


def _suspects(
    samples: Iterable[SampleColumns], by: Sequence[str], num_samples: int, memory_bytes: int
) -> Iterator[Uint64s]:
    """Yield the hashes that occur more than once, as many at a time as keys fit into memory."""
    num_parts = max(1, -(-num_samples * _HASH_BYTES // memory_bytes))
    step = max(1, memory_bytes // _KEY_BYTES)
    found = np.empty(0, np.uint64)
    for part in range(num_parts):
        low, high = (_HASHES * number // num_parts for number in (part, part + 1))
        hashes = _hashes(samples, by, low, high)
        found = np.concatenate([found, _repeated(hashes, memory_bytes // _HASH_BYTES)])
        while len(found) >= step:
            yield found[:step]
            found = found[step:]
    if len(found):
        yield found


def _hashes(
    samples: Iterable[SampleColumns], by: Sequence[str], low: int, high: int
) -> Iterator[Uint64s]:
    """Yield the hashes in ``[low, high)`` of every block."""
    for block in samples:
        hashes = key_hashes(keys_of(_columns(block, by)))
        yield hashes[(hashes >= np.uint64(low)) & (hashes <= np.uint64(high - 1))]


def _repeated(parts: Iterable[Uint64s], most: int) -> Uint64s:
    """Return the hashes that occur more than once, sorted.

    Args:
        parts: All hashes.
        most: Number of hashes that wait before they are sorted into those before them.
    """
    seen = repeated = np.empty(0, np.uint64)
    waiting: list[Uint64s] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) >= most:
            seen, repeated = _sorted_in(seen, repeated, waiting)
            waiting = []
    return _sorted_in(seen, repeated, waiting)[1]


def _sorted_in(
    seen: Uint64s, repeated: Uint64s, waiting: Sequence[Uint64s]
) -> tuple[Uint64s, Uint64s]:
    """Return all different hashes, and those that occurred more than once, both sorted."""
    hashes = np.concatenate([seen, *waiting])
    hashes.sort()
    is_first = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=is_first[1:])
    return hashes[is_first], np.union1d(repeated, hashes[~is_first])


def _columns(block: SampleColumns, by: Sequence[str]) -> list[np.ndarray[Any, Any]]:
    return [block.columns[name] for name in by]


class _Compared:
    """Compares the keys of samples whose hash is one of some.

    Args:
        by: The fields of the key.
        hashes: The hashes, sorted; at least one.
    """

    def __init__(self, by: Sequence[str], hashes: Uint64s) -> None:
        self._by = by
        self._hashes = hashes
        self._first: dict[bytes, tuple[str, int]] = {}
        self.doubled = 0
        self.examples: list[Example] = []

    def add(self, block: SampleColumns) -> None:
        """Look at further samples."""
        keys = keys_of(_columns(block, self._by))
        for row in self._rows(key_hashes(keys)):
            key = _short(keys[row])
            first = self._first.get(key)
            if first is None:
                self._first[key] = block.place(row)
                continue
            self.doubled += 1
            if len(self.examples) < _MOST_EXAMPLES:
                self.examples.append(self._example(block, row, first))

    def _rows(self, hashes: Uint64s) -> list[int]:
        """Return the rows whose hash is one of those that are compared."""
        places = np.searchsorted(self._hashes[:-1], hashes)
        return np.flatnonzero(self._hashes[places] == hashes).tolist()

    def _example(self, block: SampleColumns, row: int, first: tuple[str, int]) -> Example:
        names = zip(self._by, _columns(block, self._by), strict=True)
        key = ", ".join(f"{name} {_value(column, row)}" for name, column in names)
        return block.example(row, f"{key}, as at {first[0]} offset {first[1]}")


def _short(key: bytes) -> bytes:
    """Return a key, or the digest of a long one, so that its size is bounded."""
    return key if len(key) <= _MOST_KEY_BYTES else hashlib.sha256(key).digest()


def _value(column: np.ndarray[Any, Any], row: int) -> str:
    absent = column[row] is None or np.ma.getmaskarray(column)[row].any()
    return "absent" if absent else shown_value(column[row])
