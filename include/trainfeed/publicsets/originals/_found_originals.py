"""Originals as records, with the account of where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Originals", "Reader"]


@dataclass(frozen=True)
class Originals:
    """The originals of a public set.

    Attributes:
        records: Called without arguments; yields the records in their order.
        source: JSON with the origin: package and version or kind of files, and the SHA-256 of
            every file that was read. Equal originals give equal JSON on every machine.
        licence: Text of the licence that came with the originals; empty if none did.
        files: Name → content of further files for the folder of the data set.
    """

    records: Callable[[], Iterator[bytes]]
    source: Mapping[str, Any]
    licence: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


# From the folder that a person named, or None, to the originals in it.
Reader: TypeAlias = Callable[[Path | None], Originals]
