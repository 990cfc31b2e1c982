"""Pairs the samples of two versions that have the same position."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset import Version
from trainfeed.dataset.version import POSITIONS
from trainfeed.difference.records._sample_rows import SampleRows
from trainfeed.errors import FormatError

__all__ = ["Pairs", "paired"]

_Rows = NDArray[np.intp]


class Pairs(NamedTuple):
    """Indices of rows on both sides.

    Attributes:
        first: Rows of the first side that have a partner.
        second: Their partners, in the same order.
        only_first: Rows of the first side without a partner.
        only_second: Rows of the second side without a partner.
    """

    first: _Rows
    second: _Rows
    only_first: _Rows
    only_second: _Rows


def paired(first: SampleRows, second: SampleRows, versions: tuple[Version, Version]) -> Pairs:
    """Pair the rows of two sides by source, offset and ordinal.

    Raises:
        FormatError: A version has a position twice.
    """
    num_first = len(first)
    sources, offsets, ordinals = (
        np.concatenate((getattr(first, name), getattr(second, name)))
        for name in ("sources", "offsets", "ordinals")
    )
    side = np.repeat((0, 1), (num_first, len(second)))
    order = np.lexsort((side, ordinals, offsets, sources))
    before, after = order[:-1], order[1:]
    same = (
        (sources[before] == sources[after])
        & (offsets[before] == offsets[after])
        & (ordinals[before] == ordinals[after])
    )
    if (twice := same & (side[before] == side[after])).any():
        version = versions[int(side[before[twice.argmax()]])]
        raise FormatError(
            "expected every position once, got one twice; compare the version: trainfeed verify",
            path=str(version.path / POSITIONS),
        )
    alone = np.ones(len(order), bool)
    alone[before[same]] = alone[after[same]] = False
    alone_first, alone_second = np.flatnonzero(alone[:num_first]), np.flatnonzero(alone[num_first:])
    return Pairs(before[same], after[same] - num_first, alone_first, alone_second)
