from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trainfeed.specification import DatasetSpec, fingerprint_fields, load_spec

Change = Callable[[str, str], DatasetSpec]


def test_the_fields_are_written_out(folder: Path) -> None:
    assert fingerprint_fields(load_spec(folder)) == {
        "schema": [
            {"name": "indices", "dtype": "int32", "shape": [24]},
            {"name": "history", "dtype": "float32", "shape": [None, 4]},
            {"name": "label", "dtype": "int64", "shape": []},
            {"name": "price", "dtype": "float64", "shape": [], "optional": True},
            {"name": "note", "dtype": "str", "shape": []},
        ],
        "preprocess": {"function": "preprocess:clicks", "input": "record"},
        "split": {"by": "record", "millionths": {"eval": 100_000, "train": 900_000}},
        "output": {
            "format": "recordio",
            "codec": "zstd",
            "level": 1,
            "chunk_bytes": 1 << 20,
            "shards": None,
            "samples_per_shard": 1000,
            "positions": True,
        },
        "source": {"format": "topic", "late": {"clicks": "keep"}},
        "seed": 7,
    }


def test_they_are_plain_json(folder: Path) -> None:
    fields = fingerprint_fields(load_spec(folder))
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("by: record}", "by: [label]}"),
        ("seed: 7", "seed: 8"),
        ("{train: 0.9, eval: 0.1", "{train: 0.8, eval: 0.2"),
        ("level: 1", "level: 2"),
        ("format: recordio, codec: zstd, level: 1", "format: tfrecord"),
        ("samples_per_shard: 1000", "shards: 4"),
        ("dtype: int64", "dtype: int32"),
        ("late: keep", "late: separate"),
        ("preprocess:clicks", "preprocess:views"),
        ("  note:    {dtype: str}\n", ""),
    ],
)
def test_what_changes_the_content_changes_them(
    folder: Path, changed: Change, old: str, new: str
) -> None:
    before = fingerprint_fields(load_spec(folder))
    assert fingerprint_fields(changed(old, new)) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("train: 0.9, eval: 0.1", "eval: 0.100, train: 9e-1"),
        ("codec: zstd, level: 1, chunk_bytes: 1MiB", "chunk_bytes: 1024KiB"),
        (", input: record, engine: local", ""),
        ("engine: local", "engine: spark, connection: spark_prod"),
        ("settle: 30m", "settle: 2h, skew: 2h"),
        ("description: Clicks", "description: No clicks"),
        ("end: 2013-12-31", "end: 2014-12-31"),
        ("window: 3", "window: 4"),
        ("max: 0.01", "max: 0.02"),
        ("max_active_runs: 4", "memory_bytes: 1GiB, records_per_task: 5"),
        ("keep_days: 400", "keep_days: 4"),
        (", by: record", ""),
    ],
)
def test_what_does_not_change_the_content_does_not(
    folder: Path, changed: Change, old: str, new: str
) -> None:
    before = fingerprint_fields(load_spec(folder))
    assert fingerprint_fields(changed(old, new)) == before


def test_a_recorded_topic_has_no_place(changed: Change) -> None:
    kafka = "kafka: {connection: kafka_default, topic: clicks, settle: 30m, late: keep}"
    here, there = (
        fingerprint_fields(changed(kafka, f"recorded: {{path: {path}}}")) for path in ("a", "b")
    )
    assert here == there
    assert here["source"] == {"format": "topic", "late": "keep"}
