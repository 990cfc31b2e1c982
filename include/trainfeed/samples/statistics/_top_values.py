"""The most frequent values, in bounded memory.

Equal values in equal order give equal results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_TOP", "TopValues", "loaded_top", "merged_top"]

MAX_TOP: Final = 64
_MAX_TEXT_BYTES: Final = 64
_TEXT_BLOCK: Final = 1 << 12


class TopValues:
    """The most frequent values, with counts that are too low by at most a known number.

    Counts are exact while there are few different values. When there are more than ``MAX_TOP``,
    the count of the first value beyond them is subtracted from all counts and added to ``error``;
    values without a count left are dropped.

    Attributes:
        error: Largest difference of a count from the true one, and of a dropped value from 0.
        num_skipped: Number of values that were too long to be counted.
        counts: Value → count, without texts that wait to be counted together.
    """

    def __init__(self) -> None:
        self.error = 0
        self.num_skipped = 0
        self.counts: dict[Any, int] = {}
        self._texts: list[bytes] = []

    def add_numbers(self, numbers: NDArray[Any]) -> None:
        """Add integers, shape ``(n,)``; best many at once."""
        values, counts = np.unique(numbers, return_counts=True)
        if len(counts) > MAX_TOP:
            cut = int(np.partition(counts, -MAX_TOP - 1)[-MAX_TOP - 1])
            kept = counts > cut
            values, counts = values[kept], counts[kept] - cut
            self.error += cut
        self._take(zip(values.tolist(), counts.tolist(), strict=True))

    def add_text(self, text: bytes) -> None:
        """Add one value of bytes, or of text in UTF-8."""
        if len(text) > _MAX_TEXT_BYTES:
            self.num_skipped += 1
            return
        self._texts.append(text)
        if len(self._texts) >= _TEXT_BLOCK:
            self._take_texts()

    def copy(self) -> TopValues:
        """Return an independent copy."""
        other = TopValues()
        other.error, other.num_skipped = self.error, self.num_skipped
        other.counts, other._texts = dict(self.counts), list(self._texts)
        return other

    def merge(self, other: TopValues) -> None:
        """Add the values of ``other``."""
        self._take_texts()
        self.error += other.error
        self.num_skipped += other.num_skipped
        counts = Counter(other.counts)
        counts.update(other._texts)
        self._take(counts.items())

    def to_json(self) -> dict[str, Any]:
        """Return ``top``, values with counts, most frequent first; bytes and text are in hex."""
        # Counted in a copy: waiting texts must stay waiting, so that later results do not depend
        # on this call.
        other = TopValues()
        other.merge(self)
        ranked = sorted(other.counts.items(), key=lambda item: (-item[1], item[0]))
        top = [[v.hex() if isinstance(v, bytes) else v, count] for v, count in ranked]
        return {"top": top, "top_error": other.error, "top_skipped": other.num_skipped}

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave."""
        self.error, self.num_skipped = int(value["top_error"]), int(value["top_skipped"])
        self.counts = {
            bytes.fromhex(v) if isinstance(v, str) else int(v): int(n) for v, n in value["top"]
        }

    def _take_texts(self) -> None:
        texts, self._texts = self._texts, []
        self._take(Counter(texts).items())

    def _take(self, counts: Iterable[tuple[Hashable, int]] | Mapping[Any, int]) -> None:
        known = self.counts
        for value, count in counts:
            known[value] = known.get(value, 0) + count
        if len(known) > MAX_TOP:
            cut = sorted(known.values(), reverse=True)[MAX_TOP]
            self.counts = {value: count - cut for value, count in known.items() if count > cut}
            self.error += cut


def merged_top(mine: TopValues | None, other: TopValues | None) -> TopValues | None:
    """Return ``mine`` with the values of ``other`` added; None if one of them is unknown."""
    if mine is None or other is None:
        return None
    mine.merge(other)
    return mine


def loaded_top(top: TopValues | None, value: Mapping[str, Any]) -> TopValues | None:
    """Return ``top`` with the values of ``to_json``; None if not requested or unknown."""
    if top is None or "top" not in value:
        return None
    top.load(value)
    return top
