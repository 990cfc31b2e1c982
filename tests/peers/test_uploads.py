"""Joins of builds against DuckDB, which reads the same logs and the same uploaded files."""

import json

import duckdb
import numpy as np
import pytest

from tests.unit.pipeline.clicks import batch
from tests.unit.uploads.labelled import (
    BATCH_CODE,
    CODE,
    DAY,
    clicks,
    csv_of,
    jsonl_of,
    make_labelled,
    parquet_of,
)
from trainfeed.readers import DatasetReader

WRITERS = {"csv": csv_of, "jsonl": jsonl_of, "parquet": parquet_of}
READERS = {
    "csv": "read_csv('{}', nullstr='\\N', columns={{'id': 'BIGINT', 'label': 'TINYINT',"
    " 'note': 'VARCHAR'}})",
    "jsonl": "read_json('{}', format='newline_delimited', columns={{'id': 'BIGINT',"
    " 'label': 'TINYINT', 'note': 'VARCHAR'}})",
    "parquet": "read_parquet('{}')",
}
JOIN = """
with uploads as ({uploads}),
newest as (
    select distinct on (id) id, label, note from uploads order by id, number desc
)
select logs.id, coalesce(newest.label, -1), newest.note
from read_json('{logs}', format='newline_delimited', columns={{'id': 'BIGINT'}}) logs
{join} join newest using (id)
order by all
"""


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("join", ["left", "inner"])
@pytest.mark.parametrize("mode", ["record", "batch"])
def test_a_build_equals_the_join_of_duckdb_over_the_same_files(tmp_path, seed, join, mode):
    random = np.random.default_rng(seed)
    labelled = make_labelled(tmp_path, code=BATCH_CODE if mode == "batch" else CODE)
    labelled.edit("input: record", f"input: {mode}")
    if join == "inner":
        labelled.edit("join: left, defaults: {label: -1}", "join: inner")
    ids = random.integers(0, 4000, 3000).tolist()
    labelled.record({0: [batch(clicks([{"id": n} for n in ids]))]})
    logs = tmp_path / "logs.jsonl"
    logs.write_text("".join(json.dumps({"id": n}) + "\n" for n in ids))
    paths = [_upload(labelled, number, random) for number in range(6)]
    labelled.build()
    expected = _duckdb(paths, logs, join)
    assert _published(labelled.version()) == expected


def _upload(labelled, number, random):
    """Put an upload of random keys and labels; checked at once, so that the numbers are known."""
    kind = list(WRITERS)[number % 3]
    keys = random.choice(5000, random.integers(1, 900), replace=False).tolist()
    rows = [
        (key, int(random.integers(-100, 100)), None if key % 3 else f"note {key}, {number}")
        for key in keys
    ]
    repeated = rows[: len(rows) // 10]
    path = labelled.put(f"labels-{9 - number}.{kind}", WRITERS[kind]([*rows, *repeated]))
    (receipt,) = labelled.check([DAY]).accepted
    assert receipt.number == number + 1
    return kind, path


def _duckdb(paths, logs, join):
    uploads = " union all ".join(
        f"select {number} as number, id, label, note from {READERS[kind].format(path)}"
        for number, (kind, path) in enumerate(paths)
    )
    return duckdb.sql(JOIN.format(uploads=uploads, logs=logs, join=join)).fetchall()


def _published(version):
    rows = [
        (int(sample["id"]), int(sample["label"]), sample["note"])
        for split in version.manifest.splits
        for sample in DatasetReader([version], split).reader()()
    ]
    # None last, as DuckDB orders it.
    return sorted(rows, key=lambda row: (row[0], row[1], row[2] is None, row[2] or ""))
