"""The writer's own account of its files: every line of every log file.

A SQLite file with one row per line. ``offset`` is the place of the line in the decompressed file,
``planted`` the kind of a broken line, ``label`` what a sound line says.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Ledger", "WrittenLine"]

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS lines (
    day TEXT NOT NULL, source TEXT NOT NULL, offset INTEGER NOT NULL, digit INTEGER NOT NULL,
    bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, planted TEXT, label INTEGER,
    PRIMARY KEY (source, offset)
) WITHOUT ROWID;
"""
_INSERT: Final = "INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class WrittenLine(NamedTuple):
    """One line.

    Attributes:
        offset: Place of its first byte in the decompressed file.
        line: The line without its end.
        digit: Number of the digit that it holds, or is a broken copy of.
        planted: Kind of a broken line; None for a sound one.
        label: Label of a good line; None for a broken one.
    """

    offset: int
    line: bytes
    digit: int
    planted: str | None
    label: int | None


class Ledger:
    """The ledger of one folder of logs. Close it when done.

    Args:
        path: The SQLite file; made when it is not there.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        with self._database:
            self._database.executescript(_TABLES)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def add(self, day: str, source: str, lines: Iterable[WrittenLine]) -> None:
        """Add the lines of one file; durable when this returns.

        Raises:
            IntegrityError: A line of that place is there already; nothing was added.
        """
        with self._database:
            self._database.executemany(
                _INSERT,
                (
                    (day, source, offset, digit, len(line), _sha256(line), planted, label)
                    for offset, line, digit, planted, label in lines
                ),
            )


def _sha256(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
