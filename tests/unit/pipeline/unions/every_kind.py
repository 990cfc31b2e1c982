"""A small data set of a union whose members are of every kind: topics, a table, files of each form.

Each member has keys of its own on each of three days, so what is lost or doubled shows by its key.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from tests.unit.pipeline.clicks import DAY_MS, SPEC, START_MS, Project, batch, event
from tests.unit.pipeline.conftest import make_project
from tests.unit.pipeline.inputs.avro_clicks import READER, written
from trainfeed import open_dataset
from trainfeed.core.config import KafkaSettings
from trainfeed.files.stores import Location
from trainfeed.sources import record_topic

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
PER_DAY = 20
TABLE = "shop.clicks"
COLUMNS = pa.schema([("value", pa.float64()), ("copies", pa.int64())])
# In order of names, as the sources of a version are.
SOURCES = {
    "columns": 'logs: {path: "/columns/{start:%Y-%m-%d}", format: parquet}',
    "framed": "kafka: {connection: framed, topic: clicks, settle: 0s, value:"
    " {format: avro, schema: click.avsc}}",
    "landed": 'logs: {path: "/landed/{start:%Y-%m-%d}", land: true, format: json,'
    " fields: {value: float64, copies: int64}}",
    "lines": 'logs: {path: "/lines/{start:%Y-%m-%d}", format: json,'
    " fields: {value: float64, copies: int64}}",
    "table": "iceberg: {table: shop.clicks, bytes_per_record: 16, settle: 0s}",
    "topic": "kafka: {topic: clicks, settle: 0s, late: separate}",
}
MEMBERS = tuple(SOURCES)
IN_FOLDERS = ("columns", "landed", "lines")
NAMES = {"columns": "part-0.parquet", "landed": "part-0", "lines": "part-0"}

CODE = """
from trainfeed.preprocessing import Filtered, Reject, source_member

MEMBERS = ["columns", "framed", "landed", "lines", "table", "topic"]


def clicks(record, lookups):
    row = record.fields
    value = row["value"]
    if value is None:
        raise Reject("no_value", f"of {source_member(record.source)}")
    if value < 0:
        return Filtered("negative")
    return {"value": value, "label": MEMBERS.index(source_member(record.source))}
"""
BATCH_CODE = """
import pyarrow as pa

from trainfeed.preprocessing import columns_of, source_member

MEMBERS = ["columns", "framed", "landed", "lines", "table", "topic"]


def clicks(batch, lookups):
    rows, found = columns_of(batch, {"value": pa.float64()})
    (source,) = set(batch.column("source").to_pylist())
    made = []
    for row, value in zip(rows.tolist(), found["value"].to_pylist()):
        if value is None:
            made.append((row, 0.0, 0, "no_value", None, f"of {source_member(source)}"))
        elif value < 0:
            made.append((row, 0.0, 0, None, "negative", None))
        else:
            made.append((row, value, MEMBERS.index(source_member(source)), None, None, None))
    names = ["_row", "value", "label", "_rejected", "_filtered", "_message"]
    kinds = [pa.int32(), pa.float32(), pa.int64(), pa.utf8(), pa.utf8(), pa.utf8()]
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, each)) for each in made], schema=pa.schema(list(zip(names, kinds)))
    )
"""


def union_of(members=MEMBERS):
    """The text of ``source`` in dataset.yaml."""
    lines = (f"    {name}: {{{SOURCES[name]}}}\n" for name in members)
    return "source:\n  union:\n" + "".join(lines)


def keys(member, day):
    first = (MEMBERS.index(member) * len(DAYS) + day) * PER_DAY
    return range(first, first + PER_DAY)


def is_sample(key):
    """Whether a record becomes a sample: some have no value, some a negative one."""
    return key % PER_DAY not in {3, 4}


def rows_of(member, day):
    for key in keys(member, day):
        value = None if key % PER_DAY == 3 else -1.0 if key % PER_DAY == 4 else float(key)
        yield {"value": value, "copies": 1}


def all_keys(days=range(3), members=MEMBERS):
    """Every key of a sample, with how often it is there."""
    return {
        key: 1 for member in members for day in days for key in keys(member, day) if is_sample(key)
    }


@dataclass(frozen=True)
class UnionProject(Project):
    """A data set folder, the sources of all members, and where to build."""

    def elsewhere(self, name):
        found = super().elsewhere(name)
        return UnionProject(found.path, found.env)

    def with_members(self, members):
        """Write dataset.yaml with some of the members."""
        text = SPEC[: SPEC.index("source:")] + union_of(members) + SPEC[SPEC.index("preprocess:") :]
        (self.env.datasets / "clicks/dataset.yaml").write_text(text)

    def folder_of(self, member, day):
        return self.path / "store" / member / DAYS[day]

    def write_folder(self, member, day):
        folder = self.folder_of(member, day)
        folder.mkdir(parents=True)
        rows = list(rows_of(member, day))
        file = folder / NAMES[member]
        if member == "columns":
            pq.write_table(pa.Table.from_pylist(rows, COLUMNS), file, row_group_size=8)
        else:
            file.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        (folder / "_SUCCESS").touch()

    def catalog(self):
        """The catalogue of the table, as a writer has it."""
        return SqlCatalog(
            "default", uri=f"sqlite:///{self.path}/catalog.db", warehouse=f"file://{self.path}/lake"
        )

    def append(self, rows, day, hour=12):
        """Append rows to the table at a time of a day; return the id of the snapshot."""
        self.table().append(pa.Table.from_pylist(list(rows), COLUMNS))
        return self.stamp(day, hour)

    def table(self):
        return self.catalog().load_table(TABLE)

    def metadata(self):
        """The file of the newest state of the table."""
        return Path(self.table().metadata_location.removeprefix("file://"))

    def stamp(self, day, hour):
        """Give the newest snapshot a time of a day; return its id."""
        path = self.metadata()
        found = json.loads(path.read_text())
        when = START_MS + day * DAY_MS + hour * 3_600_000
        for each in (*found["snapshots"], *found["snapshot-log"]):
            if each["snapshot-id"] == found["current-snapshot-id"]:
                each["timestamp-ms"] = when
        # Iceberg refuses a commit that is more than a minute older than the last one.
        found["last-updated-ms"] = min(when, found["last-updated-ms"])
        path.write_text(json.dumps(found))
        return found["current-snapshot-id"]

    def expire(self, number):
        """Take a snapshot out of the metadata, as an expiry does; files stay."""
        path = self.metadata()
        found = json.loads(path.read_text())
        for name in ("snapshots", "snapshot-log"):
            found[name] = [each for each in found[name] if each["snapshot-id"] != number]
        path.write_text(json.dumps(found))

    def write_topics(self, late=()):
        """Record both topics anew, with a day behind the last one; the second writer begins later.

        Args:
            late: Further keys of the topic without schemas, which come after the last day, with
                stamps of the first one.
        """
        for number, member in enumerate(("framed", "topic")):
            records = []
            for day in range(len(DAYS)):
                stamps = range(START_MS + day * DAY_MS, START_MS + (day + 1) * DAY_MS, 1000)
                for key, row, stamp in zip(keys(member, day), rows_of(member, day), stamps):  # noqa: B905
                    if member == "framed":
                        value = written(1 + key % 2 if day else 1, row)
                        records.append({"value": value, "timestamp": stamp})
                    else:
                        records.append(event(row["value"], stamp, copies=1))
            if member == "topic":
                records += [event(key, START_MS + 1000) for key in late]
            end = START_MS + len(DAYS) * DAY_MS + 5000
            last = {"value": None, "copies": 1}
            records += [
                {"value": written(1, last) if member == "framed" else b"{}", "timestamp": end}
            ] * 2
            uuid = f"{number + 1}" * 8 + "-1111-4111-8111-111111111111"
            place = Location.parse(str(self.path / member)) / "clicks"
            place.delete(recursive=True)
            parts = {0: [batch(records[0::2])], 1: [batch(records[1::2])]}
            record_topic(place, "clicks", uuid, parts, rows_per_file=64)

    def mend(self):
        """Let the function make a sample of what it refused."""
        made = 'return {"value": 20000, "label": 0}  # ('
        self.edit('raise Reject("no_value"', made, "preprocess.py")

    def as_batches(self):
        """Let the function get batches."""
        self.edit("input: record", "input: batch")
        (self.env.datasets / "clicks/preprocess.py").write_text(BATCH_CODE)


def make_union_project(path, members=MEMBERS):
    """Write the sources of all members, and a data set of some of them."""
    made = make_project(path)
    env = replace(
        made.env,
        kafka={
            "framed": KafkaSettings(recorded=str(path / "framed")),
            "kafka_default": KafkaSettings(recorded=str(path / "topic")),
        },
        logs={"hdfs_default": str(path / "store")},
        catalogs={"catalog_default": {"url": f"sqlite:///{path}/catalog.db"}},
        registries={"registry_default": {"url": "http://registry"}},
    )
    project = UnionProject(path, env)
    project.with_members(members)
    folder = env.datasets / "clicks"
    (folder / "preprocess.py").write_text(CODE)
    (folder / "click.avsc").write_text(json.dumps(READER))
    (path / "lake").mkdir()
    catalog = project.catalog()
    catalog.create_namespace("shop")
    catalog.create_table(TABLE, schema=COLUMNS)
    for day in range(len(DAYS)):
        for member in IN_FOLDERS:
            project.write_folder(member, day)
        project.append(rows_of("table", day), day)
    project.write_topics()
    return project


def read_keys(project, asked=f"{DAYS[0]}/{DAYS[-1]}", splits=("train", "eval")):
    """The keys of all samples that readers get, each with how often.

    A key of a day is one of the member that the function was told; keys above them are of tests.
    """
    found = Counter()
    for split in splits:
        where = {"interval": asked, "split": split, "root": project.env.root}
        for sample in open_dataset("clicks", **where).reader()():
            key = int(sample["value"])
            member = MEMBERS[sample["label"]]
            of_tests = key >= len(MEMBERS) * len(DAYS) * PER_DAY
            assert of_tests or any(key in keys(member, day) for day in range(len(DAYS)))
            found[key] += 1
    return found
