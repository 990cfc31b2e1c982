"""A small published set with the fields of a training on ranks: two days, 350 and 290 samples."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.files.stores import Location
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.local import build
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.specification import load_spec
from trainfeed.versions import init_root

NAME = "points"
INTERVALS = "2024-03-01/2024-03-02"
NUM_SAMPLES = (350, 290)

_DAY_MS = 86_400_000
_START_MS = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp() * 1000)

_SPEC = """
name: points
description: test
schedule: "@daily"
start: 2024-03-01
end: 2024-03-31
seed: 7
source:
  kafka: {connection: kafka_default, topic: points, settle: 0s}
preprocess: {function: "preprocess:points", input: record}
schema:
  indices: {dtype: int32, shape: [3]}
  values: {dtype: float32, shape: [5]}
  label: {dtype: int64}
split: {train: 1.0, by: record}
output: {codec: zstd, samples_per_shard: 60}
"""

_CODE = """
def points(record, lookups):
    n = record.json()
    values = [((n * k) % 17 - 8) / 8 for k in (3, 5, 7, 11, 13)]
    label = int(sum(values) + (n % 29) / 9 > 1)
    return [{"indices": [n % 101, 200 + n % 7, 900 + n % 3], "values": values, "label": label}]
"""


def publish(folder: Path, root: Path) -> None:
    """Record a topic, and build and publish both days of it."""
    datasets = folder / "datasets"
    (datasets / NAME).mkdir(parents=True)
    (datasets / NAME / "dataset.yaml").write_text(_SPEC)
    (datasets / NAME / "preprocess.py").write_text(_CODE)
    rows = [
        {
            "offset": sum(NUM_SAMPLES[:day]) + i,
            "timestamp": _START_MS + day * _DAY_MS + i * 1000,
            "timestamp_type": 0,
            "key": None,
            "value": json.dumps(sum(NUM_SAMPLES[:day]) + i).encode(),
            "headers": [],
        }
        for day, count in enumerate(NUM_SAMPLES)
        for i in range(count)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)
    location = Location.parse(str(folder / "recorded")) / NAME
    uuid = "11111111-1111-4111-8111-111111111111"
    record_topic(location, NAME, uuid, {0: [batch]}, rows_per_file=1000)
    init_root(root)
    env = Environment(
        root=str(root),
        landing=str(folder / "landing"),
        work=str(folder / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(folder / "recorded"))},
        datasets=datasets,
    )
    spec = load_spec(datasets / NAME)
    for name in INTERVALS.split("/"):
        build(spec, spec.schedule_model().interval_named(name), env, BuildRequest())
