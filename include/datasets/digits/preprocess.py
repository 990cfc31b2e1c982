"""Log lines ``base64 TAB label`` → images of 64 pixels and the digit that they show."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.preprocessing import Record, Reject

NUM_PIXELS: Final = 64
MAX_PIXEL: Final = 16

_LABELS: Final = {str(label).encode(): label for label in range(10)}


def digits(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any]:  # noqa: ARG001
    """Turn one line into a sample.

    Returns:
        ``pixels`` uint8 (64,), each 0 to 16, and ``label`` 0 to 9.

    Raises:
        Reject: ``no_tab``, ``not_base64``, ``wrong_size``, ``bad_pixel`` or ``bad_label``.
    """
    encoded, tab, label = (record.value or b"").partition(b"\t")
    if not tab:
        raise Reject("no_tab", "expected 'base64 TAB label'")
    pixels = _pixels(encoded)
    if label not in _LABELS:
        raise Reject("bad_label", f"expected a digit, got {label[:20]!r}")
    return {"pixels": pixels, "label": _LABELS[label]}


def _pixels(encoded: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise Reject("not_base64", str(error)) from error
    if len(data) != NUM_PIXELS:
        raise Reject("wrong_size", f"expected {NUM_PIXELS} pixels, got {len(data)}")
    if max(data) > MAX_PIXEL:
        raise Reject("bad_pixel", f"expected pixels of 0 to {MAX_PIXEL}, got {max(data)}")
    return np.frombuffer(data, np.uint8)
