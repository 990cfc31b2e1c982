"""A published version, opened and verified, for readers, trainings and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.dataset.version._opened_version import Version
    from trainfeed.dataset.version._position_file import PositionFile, PositionRows, has_positions
    from trainfeed.dataset.version._version_parts import (
        BUILT,
        CHUNKS,
        CHUNKS_SCHEMA,
        DOCUMENTS,
        POSITIONS,
        POSITIONS_SCHEMA,
        STATISTICS,
        ShardChunk,
    )

__all__ = [
    "BUILT",
    "CHUNKS",
    "CHUNKS_SCHEMA",
    "DOCUMENTS",
    "POSITIONS",
    "POSITIONS_SCHEMA",
    "STATISTICS",
    "PositionFile",
    "PositionRows",
    "ShardChunk",
    "Version",
    "has_positions",
]

_HOMES: Final = {
    "BUILT": "._version_parts",
    "CHUNKS": "._version_parts",
    "CHUNKS_SCHEMA": "._version_parts",
    "DOCUMENTS": "._version_parts",
    "POSITIONS": "._version_parts",
    "POSITIONS_SCHEMA": "._version_parts",
    "STATISTICS": "._version_parts",
    "PositionFile": "._position_file",
    "PositionRows": "._position_file",
    "ShardChunk": "._version_parts",
    "Version": "._opened_version",
    "has_positions": "._position_file",
}

__getattr__ = on_demand(__name__, _HOMES)
