"""A small data set of a table of Iceberg, with a catalogue in SQLite and files in a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from tests.unit.pipeline.inputs.row_project import CODE, TYPES, rows
from tests.unit.pipeline.log_project import DAY, SPEC, LogProject
from trainfeed.core.config import Environment
from trainfeed.versions import init_root

NAME = "shop.clicks"
NEXT = "2024-03-02"
SCHEMA = pa.schema(list(TYPES.items()))


def at(day, hour=12):
    """Milliseconds since 1970 of an hour of a day."""
    return int(
        (datetime.fromisoformat(f"{day}T00:00:00+00:00") + timedelta(hours=hour)).timestamp() * 1000
    )


@dataclass(frozen=True)
class TableProject(LogProject):
    """A data set folder, a table, and where to build."""

    def catalog(self):
        """The catalogue, as a writer has it."""
        return SqlCatalog(
            "default", uri=f"sqlite:///{self.path}/catalog.db", warehouse=f"file://{self.path}/lake"
        )

    def table(self):
        return self.catalog().load_table(NAME)

    def append(self, found, when, schema=None):
        """Append rows with the time of a commit; return the id of the snapshot."""
        self.table().append(pa.Table.from_pylist(list(found), schema or SCHEMA))
        return self.stamp(when)

    def stamp(self, when, **changes):
        """Give the newest snapshot a time and other facts; return its id."""
        table = self.table()
        path = Path(table.metadata_location.removeprefix("file://"))
        found = json.loads(path.read_text())
        newest = next(
            s for s in found["snapshots"] if s["snapshot-id"] == found["current-snapshot-id"]
        )
        newest["timestamp-ms"] = when
        newest.update(changes)
        for entry in found["snapshot-log"]:
            if entry["snapshot-id"] == newest["snapshot-id"]:
                entry["timestamp-ms"] = when
        # Iceberg refuses a commit that is more than a minute older than the last one.
        found["last-updated-ms"] = min(when, found["last-updated-ms"])
        path.write_text(json.dumps(found))
        return newest["snapshot-id"]

    def expire(self, *numbers):
        """Take snapshots out of the metadata, as an expiry does; files stay."""
        table = self.table()
        path = Path(table.metadata_location.removeprefix("file://"))
        found = json.loads(path.read_text())
        for name in ("snapshots", "snapshot-log"):
            found[name] = [each for each in found[name] if each["snapshot-id"] not in numbers]
        path.write_text(json.dumps(found))

    def build_day(self, day=DAY, **request):
        from trainfeed.pipeline import BuildRequest
        from trainfeed.pipeline.local import build

        interval = self.spec.schedule_model().interval_named(day)
        return build(self.spec, interval, self.env, BuildRequest(**request)).to_json()

    def elsewhere(self, name):
        found = super().elsewhere(name)
        return TableProject(found.path, found.env)


def make_table_project(path, counts=(100, 40), **settings):
    """Lay out data set and table, and append rows within the day."""
    datasets = path / "datasets"
    (datasets / "clicks").mkdir(parents=True)
    first, last = SPEC.index("  logs:"), SPEC.index("preprocess:")
    known = "".join(f", {name}: {value}" for name, value in settings.items())
    part = f"  iceberg: {{table: {NAME}, bytes_per_record: 16{known}}}\n"
    (datasets / "clicks/dataset.yaml").write_text(SPEC[:first] + part + SPEC[last:])
    (datasets / "clicks/preprocess.py").write_text(CODE)
    init_root(path / "root")
    env = Environment(
        root=str(path / "root"),
        landing=str(path / "landing"),
        work=str(path / "work"),
        kafka={},
        datasets=datasets,
        catalogs={"catalog_default": {"url": f"sqlite:///{path}/catalog.db"}},
    )
    (path / "lake").mkdir()
    project = TableProject(path, env)
    catalog = project.catalog()
    catalog.create_namespace("shop")
    catalog.create_table(NAME, schema=SCHEMA)
    number = 0
    for hour, count in enumerate(counts):
        project.append(rows(number, count), at(DAY, 1 + hour))
        number += count
    return project


def with_catalog(project, **settings):
    """The same project with other settings of its catalogue."""
    return TableProject(project.path, replace(project.env, catalogs={"catalog_default": settings}))


def utc(when_ms):
    return datetime.fromtimestamp(when_ms / 1000, UTC)
