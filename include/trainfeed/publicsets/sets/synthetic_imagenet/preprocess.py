"""Lines ``class TAB number`` → computed images; whole numbers only, so every machine gets the same.

An image is a sum of waves whose lengths follow from the class and whose phases follow from the
number, and noise in the lowest three bits, so that it compresses about as little as a photograph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.preprocessing import Record, Reject

NUM_CLASSES: Final = 1000
_SIDE: Final = 224
_ROWS, _COLUMNS = np.mgrid[:_SIDE, :_SIDE].astype(np.int64)
# Steps of the generator of the noise, which is a counter that is multiplied and shifted.
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_COUNTER: Final = np.arange(3 * _SIDE * _SIDE, dtype=np.uint64) * _STEP


def synthetic_image(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any]:  # noqa: ARG001
    """Turn one line into a sample.

    Returns:
        ``image`` uint8 (3, 224, 224) and ``label`` 0 to 999.

    Raises:
        Reject: ``not_numbers`` or ``bad_class``.
    """
    try:
        label, number = map(int, (record.value or b"").split(b"\t"))
    except ValueError as error:
        raise Reject("not_numbers", str(error)) from error
    if not 0 <= label < NUM_CLASSES:
        raise Reject("bad_class", f"expected a class below {NUM_CLASSES}, got {label}")
    waves = np.stack([_wave(label, number, channel) for channel in range(3)])
    return {"image": waves + _noise(label, number), "label": label}


def _wave(label: int, number: int, channel: int) -> NDArray[np.uint8]:
    """Return a saw-tooth of two directions, 0 to 248 in steps of 8, shape (224, 224)."""
    across, down = 1 + label % 10 + channel, 1 + label // 10 % 10 + label // 100
    place = across * _COLUMNS + down * _ROWS + 37 * number
    rising = place % 512
    levels: NDArray[np.uint8] = ((np.minimum(rising, 511 - rising) >> 3) << 3).astype(np.uint8)
    return levels


def _noise(label: int, number: int) -> NDArray[np.uint8]:
    """Return noise of 0 to 7, shape (3, 224, 224)."""
    mixed = _COUNTER + np.uint64(label * 1_000_003 + number + 1)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _STEP
    noise: NDArray[np.uint8] = (mixed >> np.uint64(61)).astype(np.uint8).reshape(3, _SIDE, _SIDE)
    return noise
