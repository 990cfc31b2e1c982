"""A published version, opened and verified, for readers, trainings and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


__getattr__ = on_demand(__name__, __file__)
