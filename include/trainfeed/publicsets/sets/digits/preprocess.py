"""CSV lines of 65 numbers → digits: 64 pixels and the label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.preprocessing import Record, Reject

_NUM_PIXELS: Final = 64


def digits(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any]:  # noqa: ARG001
    """Turn one line into a sample.

    Returns:
        ``pixels`` uint8 (64,), each 0 to 16, and ``label`` 0 to 9.

    Raises:
        Reject: ``wrong_size`` or ``not_numbers``.
    """
    texts = (record.value or b"").split(b",")
    if len(texts) != _NUM_PIXELS + 1:
        raise Reject("wrong_size", f"expected {_NUM_PIXELS + 1} numbers, got {len(texts)}")
    try:
        numbers = bytes(map(int, texts))
    except ValueError as error:
        raise Reject("not_numbers", str(error)) from error
    return {"pixels": np.frombuffer(numbers, np.uint8, _NUM_PIXELS), "label": numbers[-1]}
