"""Records of 786 bytes → digits: the file that it was in, its label, and its 784 pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.preprocessing import Record, Reject

_NUM_BYTES: Final = 2 + 28 * 28


def mnist(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any]:  # noqa: ARG001
    """Turn one record into a sample.

    Returns:
        ``image`` uint8 (28, 28), ``label`` 0 to 9, ``original`` 0 or 1.

    Raises:
        Reject: ``wrong_size``, ``bad_original`` or ``bad_label``.
    """
    data = record.value or b""
    if len(data) != _NUM_BYTES:
        raise Reject("wrong_size", f"expected {_NUM_BYTES} bytes, got {len(data)}")
    original, label = data[:2]
    if original > 1:
        raise Reject("bad_original", f"expected 0 or 1, got {original}")
    if label > 9:
        raise Reject("bad_label", f"expected a digit, got {label}")
    image = np.frombuffer(data, np.uint8, offset=2).reshape(28, 28)
    return {"image": image, "label": label, "original": original}
