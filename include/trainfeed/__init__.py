"""Training data sets from Kafka and HDFS: complete, atomic, reproducible, read at memory speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainfeed.readers import open_dataset

__version__ = "0.1.0"

__all__ = ["__version__", "open_dataset"]


def __getattr__(name: str) -> Any:
    # Numpy and pyarrow cost more than everything else together: whoever only wants an error
    # class or a version number does not pay for them.
    if name == "open_dataset":
        from trainfeed.readers import open_dataset

        return open_dataset
    raise AttributeError(f"module 'trainfeed' has no attribute {name!r}")
