"""The small data set of clicks, with values of Avro of two writers, and a registry of the test."""

import json

from tests.support.avro import encode
from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, event
from trainfeed.errors import SourceUnreachableError
from trainfeed.pipeline.inputs import registries
from trainfeed.value_formats import WriterSchema

OLD = {"type": "record", "name": "Click", "fields": [
    {"name": "value", "type": ["null", "double"]}, {"name": "copies", "type": "int"},
]}  # fmt: skip
NEW = {"type": "record", "name": "Click", "fields": [
    {"name": "page", "type": "string"}, {"name": "value", "type": ["null", "double"]},
    {"name": "copies", "type": "int"},
]}  # fmt: skip
READER = {"type": "record", "name": "Click", "fields": [
    {"name": "value", "type": ["null", "double"], "default": None},
    {"name": "copies", "type": "long", "default": 1},
    {"name": "page", "type": "string", "default": "none"},
]}  # fmt: skip
KEY = "long"

BATCH_CODE = """
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from trainfeed.preprocessing import columns_of, iter_records

FIELDS = {"value": pa.float64(), "copies": pa.int64()}


def clicks(batch, lookups):
    rows, found = columns_of(batch, FIELDS)
    kept, values, labels, reasons = [], [], [], []
    plain = dict(zip(rows.tolist(), found.to_pylist()))
    for row in range(len(batch)):
        part = plain.get(row)
        if part is None or part["value"] is None:
            kept.append(row), values.append(None), labels.append(None), reasons.append("no_value")
            continue
        for copy in range(part["copies"]):
            kept.append(row), values.append(part["value"]), labels.append(copy)
            reasons.append(None)
    return pa.RecordBatch.from_pydict({
        "_row": pa.array(kept, pa.int64()),
        "value": pa.array(values, pa.float32()),
        "label": pa.array(labels, pa.int64()),
        "_rejected": pa.array(reasons, pa.string()),
    })
"""
RECORD_CODE = """
from trainfeed.preprocessing import Reject


def clicks(record, lookups):
    row = record.fields
    if row["value"] is None:
        raise Reject("no_value")
    return [{"value": row["value"], "label": n} for n in range(row["copies"])]
"""


class FakeRegistry:
    """What the registries of a test have: id → schema; ``down`` gives no answer."""

    def __init__(self):
        self.known = {}
        self.asked = []
        self.down = False

    def __call__(self, name, settings):  # noqa: ARG002 - as a class is called
        assert settings.url == "http://registry"
        return self

    def schema(self, number):
        if self.down:
            raise SourceUnreachableError("no answer")
        self.asked.append(number)
        found = self.known.get(number)
        return None if found is None else WriterSchema("AVRO", json.dumps(found), {})

    def close(self):
        pass


def fake_registry(monkeypatch):
    """Let one that knows the schemas of both writers answer in the place of all registries."""
    fake = FakeRegistry()
    fake.known = {1: OLD, 2: NEW, 9: KEY}
    monkeypatch.setattr(registries, "SchemaRegistry", fake)
    return fake


def of_avro(project, code=BATCH_CODE):
    folder = project.env.datasets / "clicks"
    (folder / "click.avsc").write_text(json.dumps(READER))
    (folder / "preprocess.py").write_text(code)
    mode = "batch" if code is BATCH_CODE else "record"
    project.edit("input: record", f"input: {mode}")
    project.edit("settle: 0s}", "settle: 0s, value: {format: avro, schema: click.avsc}}")
    project.env.registries["registry_default"] = {"url": "http://registry"}
    record_days(project)
    return project


def framed(schema, number, row):
    return b"\0" + number.to_bytes(4, "big") + encode(schema, row)


def written(number, row):
    if number == 1:
        return framed(OLD, 1, row)
    return framed(NEW, 2, {"page": "p", **row})


def rows_of_day(day):
    """A writer of before and one of after noon; some values without a number."""
    return [
        (1 if n < 40 else 2, {"value": None if n % 10 == 3 else n + day / 2, "copies": 1 + n % 2})
        for n in range(80)
    ]


def stamp(day, number):
    return START_MS + day * DAY_MS + number * (DAY_MS // 100)


def record_days(project, change=None):
    """Record both days; ``change`` gets day, number and value, and returns the value to record."""
    records = []
    for day in range(2):
        for number, (writer, row) in enumerate(rows_of_day(day)):
            value = written(writer, row)
            if change is not None:
                value = change(day, number, value)
            records.append({"value": value, "timestamp": stamp(day, number)})
    project.record({0: [batch(records)]})


def record_json(project):
    records = [
        event(row["value"], stamp(day, number), copies=row["copies"])
        for day in range(2)
        for number, (_, row) in enumerate(rows_of_day(day))
    ]
    project.record({0: [batch(records)]})
