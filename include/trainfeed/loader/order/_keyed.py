"""Permutations that depend on a key alone, equal on every machine and with every version of numpy.

Only the raw words of a counter-based generator (Philox) are used, because the algorithm defines
them. ``numpy.random.shuffle`` may change between versions.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["permutation"]

_WORD: Final = np.uint64
_STRUCT: Final = np.dtype("<u8")
# With fewer words the steps before the sort cost more than they save; with more, too many words
# share their highest 16 bits.
_RADIX_WORDS: Final = range(1 << 10, 1 << 15)


class _Generators(threading.local):
    """One generator per thread: a new generator asks the system for entropy, which is slow."""

    def __init__(self) -> None:
        self._generator = np.random.Philox(key=0)
        self._start: Any = self._generator.state

    def words(self, key: NDArray[np.uint64], num_words: int) -> NDArray[np.uint64]:
        """Return the first words of the key's stream."""
        state = {"counter": np.zeros(4, _WORD), "key": key}
        self._generator.state = self._start | {"state": state}
        return self._generator.random_raw(num_words)


_GENERATORS: Final = _Generators()


def permutation(num_items: int, *key: str | int) -> NDArray[np.int64]:
    """Return a permutation of ``range(num_items)``, shape ``(num_items,)``.

    Args:
        num_items: Number of items; below 2^40.
        key: The parts of the key. Texts contain no ``/``.
    """
    if num_items < 2:
        return np.zeros(num_items, np.int64)
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    words = _GENERATORS.words(np.frombuffer(digest, _STRUCT, 2).astype(_WORD), num_items)
    # The low bits of each random word are replaced by the number of the item. Then no two words
    # are equal, and a sort of the words, which is much faster than an argsort, permutes the
    # numbers.
    low = _WORD((1 << (num_items - 1).bit_length()) - 1)
    words &= ~low
    words |= np.arange(num_items, dtype=_WORD)
    words = _sorted(words)
    words &= low
    return words.astype(np.int64)


def _sorted(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return random words, of which no two are equal, in ascending order."""
    if len(words) in _RADIX_WORDS:
        # numpy sorts 16 bits by radix. Few words share their highest 16 bits, and a sort by merging
        # hardly has to move anything after that.
        highest = (words >> _WORD(48)).astype(np.uint16)
        words = words[np.argsort(highest, kind="stable")]
        words.sort(kind="stable")
    else:
        words.sort()
    return words
