"""A published version, opened and verified, for readers, trainings and pages."""

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
