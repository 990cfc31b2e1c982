"""Targets for the metadata of tables of Iceberg: what a catalogue names, and the manifests.

Writers of tables are other programs, and a table's folder may be open to many: its metadata may do
no more than be refused. Every answer is asked of it that a plan asks.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow as pa

from tests.fuzz.places import place
from trainfeed.errors import TrainFeedError
from trainfeed.sources.iceberg_tables import (
    AddedFile,
    IcebergTable,
    digest_of_columns,
    stored_columns,
)

__all__ = ["TABLE_SEEDS", "TABLE_TARGETS"]

_NAME = "shop.clicks"
# Seeds have this in place of the end of the process's own folder, which is as long.
_NOWHERE = b"00000000"


@cache
def _table() -> tuple[Path, Path, Path]:
    """Return metadata, manifest list and a manifest of a table that is made once per process."""
    from pyiceberg.catalog.sql import SqlCatalog

    home = place("lake")
    home.mkdir()
    catalog = SqlCatalog("default", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace("shop")
    rows = pa.table({"day": ["a", "b"], "tags": [["x"], []], "more": [{"n": 1}, None]})
    plain = {"write.avro.compression-codec": "null"}
    table = catalog.create_table(_NAME, schema=rows.schema, properties=plain)
    with table.update_spec() as update:
        update.add_identity("day")
    for _ in range(2):
        table.append(rows)
    with table.update_schema() as change:
        change.rename_column("tags", "labels")
    catalog.load_table(_NAME).append(rows.rename_columns(["day", "labels", "more"]))
    found = catalog.load_table(_NAME)
    snapshot = found.current_snapshot()
    assert snapshot is not None
    paths = [found.metadata_location, snapshot.manifest_list]
    paths.append(snapshot.manifests(found.io)[0].manifest_path)
    metadata, listed, manifest = (Path(each.removeprefix("file://")) for each in paths)
    return metadata, listed, manifest


def _asked(table: IcebergTable) -> None:
    """Ask everything that a plan asks; one refusal does not hide the others."""
    with suppress(TrainFeedError):
        table.names_in_files()
    for number in {None, *(each.schema for each in table.commits)}:
        with suppress(TrainFeedError):
            columns = table.columns(number)
            digest_of_columns(columns)
            stored = pa.schema([each.field for each in columns])
            added = AddedFile("file:///x", 1, 1, frozenset())
            stored_columns(columns, stored, {}, added, _NAME)
    assert len({each.id for each in table.commits}) == len(table.commits)
    for commit in table.commits:
        with suppress(TrainFeedError):
            found = table.added_files(commit)
            assert len({each.uri for each in found}) == len(found)
            assert commit.counts.get("added-data-files", len(found)) == len(found)


def metadata(data: bytes) -> None:
    """The metadata of a table, from a file and from a server."""
    text = _here(data)
    path = _table()[0].with_name("changed.metadata.json")
    path.write_bytes(text)
    with suppress(TrainFeedError):
        _asked(IcebergTable.of_file(_NAME, str(path)))
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict):
            _asked(IcebergTable.of_json(_NAME, found, "http://catalog"))
    packed = path.with_name("changed.gz.metadata.json")
    packed.write_bytes(gzip.compress(text))
    _asked(IcebergTable.of_file(_NAME, str(packed)))


def _manifests(number: int) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        own = _table()[number]
        whole = own.read_bytes()
        own.write_bytes(_here(data))
        try:
            table = IcebergTable.of_file(_NAME, str(_table()[0]))
            _asked(table)
            for commit in table.commits:
                table.added_files(commit)
        finally:
            own.write_bytes(whole)

    return target


def _general() -> bytes:
    return bytes(place(""))[: -len(_NOWHERE)] + _NOWHERE


def _here(data: bytes) -> bytes:
    return data.replace(_general(), bytes(place("")))


def _seed(number: int) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        return [_table()[number].read_bytes().replace(bytes(place("")), _general())]

    return seeds


TABLE_TARGETS: dict[str, Callable[[bytes], None]] = {
    "table_metadata": metadata,
    "table_manifests": _manifests(1),
    "table_manifest": _manifests(2),
}
TABLE_SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "table_metadata": _seed(0),
    "table_manifests": _seed(1),
    "table_manifest": _seed(2),
}
