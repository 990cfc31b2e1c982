"""Days of a small topic: one more is built, and a thousand published intervals are opened."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from trainfeed import open_dataset
from trainfeed.pipeline.local import build as build_interval
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.specification import load_spec

# The layout of the code changed; both commits of a pair run this file.
if importlib.util.find_spec("trainfeed.core"):
    from trainfeed.core.config import Environment, KafkaSettings
    from trainfeed.files.stores import Location
    from trainfeed.versions import init_root
else:
    config = importlib.import_module("trainfeed.config")
    Environment, KafkaSettings = config.Environment, config.KafkaSettings
    Location = importlib.import_module("trainfeed.storage").Location
    init_root = importlib.import_module("trainfeed.dataset").init_root

START: Final = datetime(2024, 3, 1, tzinfo=UTC)
DAYS: Final = 4
RECORDS: Final = 900
VERSIONS: Final = 1_000
SPEC: Final = """\
name: visits
description: Visits of a page
schedule: "@hourly"
start: 2024-03-01
source: {kafka: {connection: kafka_default, topic: visits, settle: 0s}}
preprocess: {function: "preprocess:visit", input: record}
schema: {user: {dtype: int64}, seconds: {dtype: float32}}
split: {train: 1.0, by: record}
output: {codec: zstd, samples_per_shard: 500}
"""
CODE: Final = """\
def visit(record, lookups):
    value = record.json()
    return [{"user": value["user"], "seconds": value["seconds"]}]
"""


def environment(place: Path) -> Environment:
    """Return where the data set below a folder is, and where it builds."""
    return Environment(
        root=str(place / "root"),
        landing=str(place / "landing"),
        work=str(place / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(place / "recorded"))},
        datasets=place / "datasets",
    )


def prepare(place: Path) -> None:
    """Record four days of a topic, and publish all but the last."""
    (place / "datasets" / "visits").mkdir(parents=True)
    spec_text = SPEC.replace("@hourly", "@daily")
    (place / "datasets" / "visits" / "dataset.yaml").write_text(spec_text)
    (place / "datasets" / "visits" / "preprocess.py").write_text(CODE)
    _record(place, timedelta(days=1))
    env = environment(place)
    init_root(place / "root")
    spec = load_spec(env.datasets / "visits")
    for number in range(DAYS - 1):
        name = f"{START + timedelta(days=number):%Y-%m-%d}"
        build_interval(spec, spec.schedule_model().interval_named(name), env)


def build(place: Path, out: Path) -> None:
    """Build the last day, as a command does."""
    shutil.copytree(place, out)
    env = environment(out)
    variables = {
        "TRAINFEED_ROOT": env.root,
        "TRAINFEED_LANDING": env.landing,
        "TRAINFEED_WORK": env.work,
        "TRAINFEED_DATASETS": str(env.datasets),
        "TRAINFEED_KAFKA": f"recorded:{out / 'recorded'}",
    }
    name = f"{START + timedelta(days=DAYS - 1):%Y-%m-%d}"
    command = [sys.executable, "-m", "trainfeed", "build", "visits", "--interval", name]
    subprocess.run(command, env={**os.environ, **variables}, check=True)


def prepare_versions(place: Path) -> None:
    """Publish an hour, and make a thousand hours of it."""
    (place / "datasets" / "visits").mkdir(parents=True)
    (place / "datasets" / "visits" / "dataset.yaml").write_text(SPEC)
    (place / "datasets" / "visits" / "preprocess.py").write_text(CODE)
    _record(place, timedelta(hours=1))
    env = environment(place)
    init_root(place / "root")
    spec = load_spec(env.datasets / "visits")
    build_interval(spec, spec.schedule_model().interval_named("2024-03-01T00"), env)
    versions = place / "root" / "visits" / "versions"
    for number in range(1, VERSIONS):
        start = START + timedelta(hours=number)
        target = versions / f"{start:%Y-%m-%dT%H}" / "g0001"
        shutil.copytree(versions / "2024-03-01T00" / "g0001", target)
        manifest = json.loads((target / "MANIFEST.json").read_bytes())
        manifest["interval"] = {
            "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
            "end": f"{start + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        }
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        for name, data in (
            ("MANIFEST.json", text.encode()),
            ("MANIFEST.sha256", hashlib.sha256(text.encode()).hexdigest().encode() + b"\n"),
        ):
            (target / name).chmod(0o644)
            (target / name).write_bytes(data)


def open_all(place: Path) -> None:
    """Open the thousand hours as one range."""
    last = START + timedelta(hours=VERSIONS - 1)
    asked = f"2024-03-01T00/{last:%Y-%m-%dT%H}"
    reader = open_dataset("visits", interval=asked, split="train", root=place / "root")
    if len(reader.versions) != VERSIONS:
        sys.exit(f"expected {VERSIONS} versions, got {len(reader.versions)}")


def _record(place: Path, step: timedelta) -> None:
    """Record the topic of two partitions; four steps of time, each with as many records."""
    partitions: dict[int, list[pa.RecordBatch]] = {}
    for partition in range(2):
        count = RECORDS // 2
        stamps = [
            int((START + number * step + index * step / count).timestamp() * 1000)
            for number in range(DAYS)
            for index in range(count)
        ]
        values = [
            b'{"user": %d, "seconds": %d.5}' % (index % 97, index % 60)
            for index in range(len(stamps))
        ]
        rows = {
            "offset": range(len(stamps)),
            "timestamp": stamps,
            "timestamp_type": [0] * len(stamps),
            "key": [None] * len(stamps),
            "value": values,
            "headers": [[] for _ in stamps],
        }
        columns = [pa.array(rows[field.name], field.type) for field in LANDING_SCHEMA]
        partitions[partition] = [pa.record_batch(columns, schema=LANDING_SCHEMA)]
    topic = Location.parse(str(place / "recorded")) / "visits"
    record_topic(topic, "visits", "5e1f1e1d-0000-4000-8000-000000000001", partitions, 10_000)
