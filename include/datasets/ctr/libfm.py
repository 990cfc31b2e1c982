"""Lines of libFM: ``label index:value index:value …``, perhaps with a comment behind ``#``."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

import numpy as np

from trainfeed.preprocessing import Reject

from .features import NUM_LOGGED

__all__ = ["parse_line"]

_LABELS: Final = {b"0": 0, b"1": 1}
# No two parts take the same digits: a long wrong text is refused in linear time.
_PAIR: Final = re.compile(
    rb"([0-9]{1,9}):([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)"
)


def parse_line(line: bytes) -> tuple[int, dict[int, float]] | None:
    """Read a line.

    Returns:
        The label, and the features of the line: index → value, rounded to float32. None for a line
        that is blank or a comment.

    Raises:
        Reject: ``bad_label``, ``bad_pair``, ``bad_value``, ``unknown_index`` or ``index_twice``.
    """
    label, *pairs = line.partition(b"#")[0].split() or [b""]
    if not label:
        return None
    if label not in _LABELS:
        raise Reject("bad_label", f"expected 0 or 1, got {label[:20]!r}")
    features = dict(map(_pair, pairs))
    if len(features) != len(pairs):
        raise Reject("index_twice", f"expected every index once, got {line[:200]!r}")
    return _LABELS[label], features


# The same pairs come in most lines: positions, properties of users, items.
@lru_cache(maxsize=1 << 14)
def _pair(text: bytes) -> tuple[int, float]:
    match = _PAIR.fullmatch(text)
    if match is None:
        raise Reject("bad_pair", f"expected index:value, got {text[:40]!r}")
    index, value = int(match[1]), _float32(match[2])
    if index >= NUM_LOGGED:
        raise Reject("unknown_index", f"expected an index below {NUM_LOGGED}, got {index}")
    return index, value


def _float32(text: bytes) -> float:
    with np.errstate(over="ignore"):
        value = float(np.float32(float(text)))
    if not math.isfinite(value):
        raise Reject("bad_value", f"expected a value of float32, got {text[:40]!r}")
    return value
