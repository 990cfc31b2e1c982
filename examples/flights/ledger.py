"""The producer's own account: every event that a topic has acknowledged, and where.

The account is a SQLite file, apart from all files that trainfeed writes, so that an independent
program can compare published versions with it::

    topic(name, uuid)                                       one row
    events(partition, offset, event_id, timestamp_ms, bytes, sha256, planted, fate, label)

``sha256`` is the digest of the value. ``planted`` is the kind of a broken line, or null. ``fate``
is the expected outcome of the record: ``sample``, ``quarantined`` or ``filtered:<reason>``;
``label`` is the label of the sample.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trainfeed.errors import ConflictError

__all__ = ["Ledger"]

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS topic (name TEXT NOT NULL, uuid TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    partition INTEGER NOT NULL, offset INTEGER NOT NULL, event_id INTEGER NOT NULL UNIQUE,
    timestamp_ms INTEGER NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,
    planted TEXT, fate TEXT NOT NULL, label INTEGER, PRIMARY KEY (partition, offset)
) WITHOUT ROWID;
"""
_INSERT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Ledger:
    """The ledger of one topic. Close it when done; what was added is durable when ``add`` returns.

    Args:
        path: The SQLite file; made when it is not there.
        topic: Name of the topic.
        uuid: Id of the topic: a topic that was deleted and made again is another one.

    Raises:
        ConflictError: The file is the ledger of another topic.
    """

    def __init__(self, path: Path, topic: str, uuid: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        with self._database:
            self._database.executescript(_TABLES)
            owner = self._database.execute("SELECT name, uuid FROM topic").fetchone()
            if owner is None:
                self._database.execute("INSERT INTO topic VALUES (?, ?)", (topic, uuid))
        if owner not in {None, (topic, uuid)}:
            self.close()
            raise ConflictError(
                f"expected {path} to be the ledger of topic {topic} with id {uuid}, it is that of"
                f" {owner[0]} with id {owner[1]}; name another file, or remove it if that topic is"
                " gone"
            )

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def add(self, rows: Iterable[tuple[int, int, Mapping[str, Any]]]) -> None:
        """Add acknowledged events: partition, offset, and the event as ``EVENT_SCHEMA`` has it.

        Raises:
            IntegrityError: An event, or a place in the topic, is there already; nothing was added.
        """
        with self._database:
            self._database.executemany(_INSERT, (_columns(*row) for row in rows))

    def ends(self) -> dict[int, int]:
        """Return partition → the offset behind its last event, for partitions that have any."""
        query = "SELECT partition, max(offset) + 1 FROM events GROUP BY partition"
        with closing(self._database.execute(query)) as rows:
            return dict(rows)

    def without_known(self, events: pa.Table) -> pa.Table:
        """Return the events that are not in the ledger yet."""
        with closing(self._database.execute("SELECT event_id FROM events")) as rows:
            known = np.fromiter((event_id for (event_id,) in rows), np.int64)
        return events.filter(np.isin(events["event_id"].to_numpy(), known, invert=True))


def _columns(partition: int, offset: int, event: Mapping[str, Any]) -> tuple[Any, ...]:
    value: bytes = event["value"]
    return (
        partition,
        offset,
        event["event_id"],
        event["timestamp_ms"],
        len(value),
        hashlib.sha256(value).hexdigest(),
        event["planted"],
        event["fate"],
        event["label"],
    )
