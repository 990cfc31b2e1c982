"""The report of a preview about the version that it built, small enough for a terminal."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from trainfeed.dataset import Version
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.preview._preview_gates import shown_gates
from trainfeed.pipeline.version import total_statistics
from trainfeed.readers import DatasetReader

__all__ = ["preview_report", "shown_value"]

_QUARANTINE: Final = "quarantine/"
_SHOWN_SAMPLES: Final = 5
_SHOWN_QUARANTINE: Final = 10
_SHOWN_VALUES: Final = 8
_SHOWN_CHARS: Final = 200


def preview_report(version: Version, plan: Plan) -> JsonObject:
    """Return counts, the first samples and quarantined records, statistics and gates, as JSON.

    Args:
        version: What the preview built.
        plan: The plan of the whole interval, for its gates.
    """
    manifest = version.manifest
    return {
        "records": sum(leaf["read"]["records"] for leaf in manifest.ledger.values()),
        "samples": {name: split.samples for name, split in manifest.splits.items()},
        "quarantined": manifest.quarantine["reasons"],
        "filtered": manifest.filtered,
        "passed_over": manifest.passed_over,
        "first_samples": list(islice(_samples(version), _SHOWN_SAMPLES)),
        "first_quarantined": _quarantined(version),
        "statistics": total_statistics(version),
        "gates": shown_gates(plan.quality, manifest.gates),
    }


def _samples(version: Version) -> Iterator[JsonObject]:
    splits = version.manifest.splits
    for split in sorted(splits, key=lambda name: -splits[name].millionths):
        for sample in DatasetReader([version], split).reader()():
            yield {"split": split} | {name: shown_value(value) for name, value in sample.items()}


def shown_value(value: object) -> object:
    """Return a field's value as JSON, cut if it is long."""
    if isinstance(value, np.ndarray | np.generic):
        flat = np.asarray(value).reshape(-1)
        if flat.size == 1 and not np.asarray(value).shape:
            return _finite(flat[0].item())
        head = [_finite(item) for item in flat[:_SHOWN_VALUES].tolist()]
        return head if flat.size <= _SHOWN_VALUES else [*head, f"… {flat.size} values"]
    if isinstance(value, bytes):
        return _readable(value)
    return value if value is None else str(value)[:_SHOWN_CHARS]


def _finite(value: object) -> object:
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


def _readable(data: bytes) -> str:
    """Return bytes as text if they are UTF-8, else in base64; cut if they are long."""
    head = data[:_SHOWN_CHARS]
    try:
        return head.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(head).decode()}"


def _quarantined(version: Version) -> list[JsonObject]:
    (name,) = (file.name for file in version.manifest.files if file.name.startswith(_QUARANTINE))
    with pa.OSFile(str(version.path / name)) as file:
        table = pa.ipc.open_file(file).read_all()
    sources = version.manifest.sources
    return [
        {
            "source": sources[row["source"]],
            "offset": row["offset"],
            "reason": row["reason"],
            "message": row["message"],
            "raw": _readable(row["raw"]),
        }
        for row in table.slice(0, _SHOWN_QUARANTINE).to_pylist()
    ]
