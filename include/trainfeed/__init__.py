"""Training data sets from Kafka and HDFS: complete, atomic, reproducible, resumed exactly."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trainfeed import (
        adapters,
        decorators,
        errors,
        loader,
        readers,
        recordio,
        samples,
        tfrecord,
    )
    from trainfeed.conversion import convert
    from trainfeed.loader import DataLoader, mix
    from trainfeed.readers import open_dataset

__version__ = "0.1.0"

__all__ = [
    "DataLoader",
    "__version__",
    "adapters",
    "convert",
    "decorators",
    "errors",
    "loader",
    "mix",
    "open_dataset",
    "readers",
    "recordio",
    "samples",
    "tfrecord",
]

_HOMES: Final = {
    "DataLoader": "trainfeed.loader",
    "convert": "trainfeed.conversion",
    "mix": "trainfeed.loader",
    "open_dataset": "trainfeed.readers",
}
_PACKAGES: Final = frozenset(__all__) - {*_HOMES, "__version__"}


def __getattr__(name: str) -> Any:
    # Numpy and pyarrow cost more than everything else together: a caller that only wants an error
    # class or a version number does not pay for them.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"trainfeed.{name}")
    raise AttributeError(f"module 'trainfeed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
