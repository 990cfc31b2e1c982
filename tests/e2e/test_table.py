"""Runs of Airflow on a table of Iceberg: a catalogue in SQLite, from commits to versions.

The connection to the catalogue is one of Airflow's. What a version has is compared with the rows
that were appended, not with what the build says.
"""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pytest

from tests.e2e.ways import BUILD, NAMES, LocalGround
from tests.integration.registry.flights import TEXTS, rows_of
from tests.unit.pipeline.inputs.table_project import NAME, TableProject, at
from trainfeed.readers import open_dataset

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1500)]
KAFKA = "kafka: {connection: kafka_default, topic: flights, settle: 30m, late: keep}"
TABLE = f"iceberg: {{table: {NAME}, split_bytes: 9KiB, bytes_per_record: 30}}"
BROKEN = 3


def append_day(table: TableProject, day: str, rows: list[dict[str, object]]) -> list[int]:
    """Append the rows of a day by three commits, a few without an origin; return how many."""
    names = list(rows[0])
    schema = pa.schema([(name, pa.utf8() if name in TEXTS else pa.int64()) for name in names])
    catalog = table.catalog()
    catalog.create_table_if_not_exists(NAME, schema=schema)
    counts = []
    for number in range(3):
        part = [dict(row) for row in rows[number::3]]
        part[number]["origin"] = None
        table.append(part, at(day, 1 + 8 * number), schema)
        counts.append(len(part))
    return counts


def test_triggered_runs_publish_what_was_appended_on_their_days(tmp_path, events):
    by_day: dict[str, list[dict[str, object]]] = {}
    for _, _, _, row in rows_of(events):
        by_day.setdefault(row["time_hour"][:10], []).append(row)
    place = tmp_path / "table"
    (place / "lake").mkdir(parents=True)
    table = TableProject(place, None)
    table.catalog().create_namespace("shop")
    ground = LocalGround.make(tmp_path / "ground", {}, edits=[(KAFKA, TABLE)])
    settings = {"conn_type": "generic", "extra": {"url": f"sqlite:///{place}/catalog.db"}}
    ground.environ["AIRFLOW_CONN_CATALOG_DEFAULT"] = json.dumps(settings)
    counts = {NAMES[1]: append_day(table, NAMES[1], by_day[NAMES[1]])}
    with ground.airflow() as stack:
        stack.client.unpause(BUILD)
        (first,) = stack.succeed([stack.client.trigger(BUILD, {"window_start": NAMES[1]})])
        # The next day comes while Airflow runs; it belongs to no interval that was built.
        counts[NAMES[2]] = append_day(table, NAMES[2], by_day[NAMES[2]])
        (second,) = stack.succeed([stack.client.trigger(BUILD, {"window_start": NAMES[2]})])
        reports = {NAMES[1]: stack.report(first), NAMES[2]: stack.report(second)}
    for day, version in ground.versions(NAMES[1:]).items():
        manifest, rows = version.manifest, by_day[day]
        assert reports[day]["verdict"] == "built"
        assert reports[day]["samples"] == manifest.num_samples()
        assert manifest.quarantine["records"] == BROKEN
        assert manifest.quarantine["reasons"] == {"wrong_type": BROKEN}
        ledger = manifest.ledger.values()
        assert sorted(each["read"]["records"] for each in ledger) == sorted(counts[day])
        assert len({each["snapshot"]["id"] for each in manifest.inputs.values()}) == 3
        # No departure lost, none doubled: each row has one fate.
        lost = Counter(
            "cancelled"
            if row["dep_time"] is None
            else "diverted"
            if row["arr_delay"] is None
            else ""
            for row in rows
        )
        kept = lost.pop("")
        fates = manifest.num_samples() + sum(manifest.filtered.values()) + BROKEN
        assert fates == len(rows) == sum(counts[day])
        assert abs(kept - manifest.num_samples()) <= BROKEN
        found = sum(
            1
            for split in manifest.splits
            for _ in open_dataset(version.path, split=split).reader()()
        )
        assert found == manifest.num_samples()
