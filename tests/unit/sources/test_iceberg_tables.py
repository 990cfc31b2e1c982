"""Metadata of tables: what is damaged is an error with its place, whatever the parsers raise."""

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.pipeline.inputs.table_project import NAME, make_table_project
from trainfeed.errors import ConfigError, FormatError, TrainFeedError
from trainfeed.pipeline.inputs.catalogs import open_table
from trainfeed.sources import iceberg_tables
from trainfeed.sources.iceberg_tables import (
    AddedFile,
    IcebergTable,
    TableColumn,
    digest_of_columns,
    place_of,
    stored_columns,
)

ADDED = AddedFile("file:///lake/a.parquet", 1, 1, frozenset({2}))


def read(project):
    """Everything that a plan asks of a table."""
    table = open_table(project.env.catalogs, "catalog_default", NAME)
    columns = [digest_of_columns(table.columns(each.schema)) for each in table.commits]
    return table.commits, [table.added_files(each) for each in table.commits], columns


@pytest.mark.parametrize("kind", ["*.metadata.json", "snap-*.avro", "*-m0.avro"])
def test_damage_is_told_as_an_error_of_the_table_or_changes_what_is_read(tmp_path, kind):
    project = make_table_project(tmp_path, counts=(5, 3))
    whole = read(project)
    chance = random.Random(3)
    path = max((tmp_path / "lake").rglob(kind), key=lambda each: each.name)
    if kind == "*.metadata.json":
        path = Path(project.table().metadata_location.removeprefix("file://"))
    data, refused = path.read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.2:
            del damaged[chance.randrange(1, len(damaged)) :]
        path.write_bytes(damaged)
        try:
            read(project)
        except TrainFeedError:
            refused += 1
    assert refused > 20
    path.write_bytes(data)
    assert read(project) == whole


def column(number, name, kind, **more):
    field = pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
    return TableColumn(number, name, field, kind, **{"has_default": False, **more})


def test_columns_are_found_by_their_ids_and_by_names_only_in_files_without_ids():
    wanted = [column(1, "b", pa.int64()), column(3, "new", pa.utf8())]
    with_ids = pa.schema([column(1, "a", pa.int32()).field, column(9, "b", pa.utf8()).field])
    assert stored_columns(wanted, with_ids, {"b": 3}, ADDED, "t") == {"b": "a", "new": None}
    without = pa.schema([("b", pa.int64()), ("c", pa.int64())])
    assert stored_columns(wanted, without, {"b": 1}, ADDED, "t") == {"b": "b", "new": None}
    assert stored_columns(wanted, without, {}, ADDED, "t") == {"b": None, "new": None}


def test_values_that_are_not_in_the_file_and_no_null_are_refused():
    nothing = pa.schema([("other", pa.int64())])
    with pytest.raises(ConfigError, match="the partition of the file"):
        stored_columns([column(2, "day", pa.utf8())], nothing, {}, ADDED, "t")
    with pytest.raises(ConfigError, match="its default"):
        stored_columns([column(3, "a", pa.utf8(), has_default=True)], nothing, {}, ADDED, "t")


def test_places_are_those_of_our_file_systems():
    assert place_of("file:/lake/a").uri == place_of("file:///lake/a").uri == "file:///lake/a"
    assert place_of("hdfs://namenode:8020/lake/a").uri == "hdfs://namenode:8020/lake/a"
    for other in ("gs://bucket/a", "file:///lake/../etc/passwd", "viewfs:///a"):
        with pytest.raises(ConfigError, match="trainfeed cannot open"):
            place_of(other)


def metadata(project):
    """Return the file of metadata of a table, and what is in it."""
    path = Path(project.table().metadata_location.removeprefix("file://"))
    return path, json.loads(path.read_text())


def test_snapshots_that_come_before_themselves_end_in_an_error_not_in_a_loop(tmp_path):
    project = make_table_project(tmp_path, counts=(5, 3))
    path, found = metadata(project)
    first, last = found["snapshots"]
    first["parent-snapshot-id"] = last["snapshot-id"]
    path.write_text(json.dumps(found))
    with pytest.raises(FormatError, match="comes before itself"):
        read(project)


@pytest.mark.parametrize("lost", ["snapshot", "all snapshots", "number", "-1"])
def test_metadata_without_the_snapshot_of_now_is_damaged_not_a_table_without_rows(tmp_path, lost):
    project = make_table_project(tmp_path, counts=(5, 3))
    path, found = metadata(project)
    if "snapshot" in lost:
        del found["snapshots"][0 if lost == "all snapshots" else 1 :]
    elif lost == "number":
        del found["current-snapshot-id"]
    else:
        found["current-snapshot-id"] = -1
    path.write_text(json.dumps(found))
    with pytest.raises(FormatError, match=rf"whole metadata of table {NAME}.*the table is at"):
        read(project)


def test_a_table_that_says_it_has_no_snapshot_of_now_has_none(tmp_path):
    project = make_table_project(tmp_path, counts=(5,))
    path, found = metadata(project)
    # As a writer leaves it who stages a snapshot, and appends it later.
    path.write_text(json.dumps({**found, "current-snapshot-id": -1, "refs": {}}))
    table = open_table(project.env.catalogs, "catalog_default", NAME)
    assert (table.commits, table.is_whole) == ([], True)


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"])
def test_manifests_without_the_mark_of_avro_are_not_given_to_a_reader_that_asks_for_none(
    tmp_path, kind
):
    project = make_table_project(tmp_path, counts=(5,))
    path = next((tmp_path / "lake").rglob(kind))
    path.write_bytes(b"obj\x01" + path.read_bytes()[4:])
    with pytest.raises(FormatError, match=rf"(?s)of table {NAME}.*{path.name}.*the mark of Avro"):
        read(project)


def test_compressed_metadata_is_read_within_the_bound_of_plain_metadata(tmp_path, monkeypatch):
    project = make_table_project(tmp_path, counts=(5,))
    path, _ = metadata(project)
    packed = path.with_name("v1.gz.metadata.json")
    data = gzip.compress(path.read_bytes() + b" " * 100_000)
    packed.write_bytes(data)
    assert IcebergTable.of_file(NAME, str(packed)).commits == read(project)[0]
    monkeypatch.setattr(iceberg_tables, "_MOST_BYTES", 100_000)
    with pytest.raises(FormatError, match="more than 100000 bytes"):
        IcebergTable.of_file(NAME, str(packed))
    packed.write_bytes(data[:-9])
    with pytest.raises(FormatError, match="is cut"):
        IcebergTable.of_file(NAME, str(packed))
    packed.write_bytes(b"[]")
    with pytest.raises(FormatError, match="no object of JSON"):
        IcebergTable.of_file(NAME, str(packed))


def test_a_damaged_mapping_of_names_is_an_error_of_the_table(tmp_path):
    project = make_table_project(tmp_path, counts=(5,))
    with project.table().transaction() as change:
        change.set_properties({"schema.name-mapping.default": "[{"})
    table = open_table(project.env.catalogs, "catalog_default", NAME)
    with pytest.raises(FormatError, match=r"metadata of table shop\.clicks"):
        table.names_in_files()
