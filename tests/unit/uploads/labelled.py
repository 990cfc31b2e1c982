"""A small data set of clicks whose labels are uploaded, from which tests of uploads start."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tests.unit.pipeline.clicks import START_MS, Project, batch
from tests.unit.pipeline.conftest import make_project
from trainfeed.uploads import ReceiptBook, check_uploads

SPEC = """
name: clicks
description: test
schedule: "@daily"
start: 2024-03-01
end: 2024-03-31
seed: 7
source:
  kafka: {connection: kafka_default, topic: clicks, settle: 0s}
preprocess: {function: "preprocess:clicks", input: record}
schema:
  id: {dtype: int64}
  value: {dtype: float32}
  label: {dtype: int8}
  note: {dtype: str, optional: true}
split: {train: 0.8, eval: 0.2}
output: {samples_per_shard: 50}
uploads: {key: [id], labels: [label, note], join: left, defaults: {label: -1}}
"""

CODE = """
from trainfeed.preprocessing import Filtered, Reject


def clicks(record, lookups):
    row = record.json()
    if "id" not in row:
        raise Reject("no_id")
    if row["id"] < 0:
        return Filtered("negative")
    return [{"id": row["id"] + n, "value": row["id"] / 2} for n in range(row.get("copies", 1))]
"""

BATCH_CODE = """
import json

import pyarrow as pa


def clicks(batch, lookups):
    rows = []
    for number, value in enumerate(batch.column("value").to_pylist()):
        row = json.loads(value)
        if "id" not in row:
            rows.append({"_row": number, "_rejected": "no_id"})
        elif row["id"] < 0:
            rows.append({"_row": number, "_filtered": "negative"})
        elif not row.get("copies", 1):
            rows.append({"_row": number, "_filtered": "empty"})
        else:
            for n in range(row.get("copies", 1)):
                rows.append({"_row": number, "id": row["id"] + n, "value": row["id"] / 2})
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


SCHEMA = pa.schema({"_row": pa.int32(), "_rejected": pa.utf8(), "_filtered": pa.utf8(),
                    "id": pa.int64(), "value": pa.float32()})
"""

DAY = "2024-03-01"
KINDS = (pa.int64(), pa.int8(), pa.utf8())


@dataclass(frozen=True)
class Labelled(Project):
    """The project with uploads."""

    @property
    def book(self):
        return ReceiptBook(self.folder)

    def put(self, name, data, day=DAY):
        """Put a file as people do: under another name first, then by a rename."""
        folder = self.folder.uploads / day
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{name}.part"
        hidden.write_bytes(data)
        hidden.rename(folder / name)
        return folder / name

    def check(self, intervals=None):
        return check_uploads(self.spec, self.folder, intervals)

    def refused(self):
        return {refusal.name: refusal.reason for refusal in self.check().refused}


def make_labelled(tmp_path, ids=range(100), code=CODE):
    project = make_project(tmp_path)
    labelled = Labelled(project.path, project.env)
    (tmp_path / "datasets/clicks/dataset.yaml").write_text(SPEC)
    (tmp_path / "datasets/clicks/preprocess.py").write_text(code)
    labelled.record({0: [batch(clicks({"id": number} for number in ids))]})
    return labelled


def clicks(rows):
    """Return events of the first day, and one of the second, which proves where the day ends."""
    found = [
        {"value": json.dumps(row).encode(), "timestamp": START_MS + number * 1000}
        for number, row in enumerate(rows)
    ]
    return [*found, {"value": b'{"id": 1}', "timestamp": START_MS + 86_400_000}]


def csv_of(rows, header=("id", "label", "note")):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["\\N" if cell is None else cell for cell in row])
    return text.getvalue().encode()


def jsonl_of(rows):
    names = ("id", "label", "note")
    return b"".join(json.dumps(dict(zip(names, row, strict=True))).encode() + b"\n" for row in rows)


def parquet_of(rows, kinds=KINDS):
    names = ("id", "label", "note")
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)]
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), sink)
    return sink.getvalue()
