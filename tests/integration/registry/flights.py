"""The flights of some days in a topic of a real broker, in every format, and builds of them."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from examples.flights.events import with_offsets
from examples.flights.lookups import write_lookups
from tests.support.avro import encode
from tests.unit.value_formats.messages import add, class_of
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

ROOT = Path(__file__).parents[3]
FLIGHTS = ROOT / "include" / "datasets" / "flights"
BATCH = ROOT / "benchmarks" / "pipeline" / "batch_flights"
TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
DAYS = ("2013-01-01", "2013-01-02")


def rows_of(events):
    """Return partition, stamp, key and fields of every sound event, in the order of the log."""
    names = ("partition", "timestamp_ms", "key", "value")
    table = with_offsets(events.filter(pc.is_null(events["planted"])))
    columns = zip(*(table[name].to_pylist() for name in names), strict=True)
    return [(partition, stamp, key, json.loads(value)) for partition, stamp, key, value in columns]


def avro_schema(names, *, more=()):
    """Return a writer's schema of flights, whose fields may all be null."""
    fields = [{"name": name, "type": ["null", "string" if name in TEXTS else "long"],
               "default": None} for name in names]  # fmt: skip
    return {"type": "record", "name": "Flight", "fields": [*more, *fields]}


def framed(number, datum):
    return b"\0" + number.to_bytes(4, "big") + datum


class AvroWriter:
    """Writes flights; from noon on by a newer schema, with a further field and in another order."""

    def __init__(self, registry, topic, rows):
        names = list(rows[0][3])
        self.old = avro_schema(names)
        self.new = avro_schema(reversed(names), more=[{"name": "gate", "type": "string"}])
        self.ids = [
            registry.register(f"{topic}-value", json.dumps(each)) for each in (self.old, self.new)
        ]
        self.noon = sorted(stamp for _, stamp, _, _ in rows)[len(rows) // 2]
        self.reader = json.dumps(self.old)

    def value(self, stamp, row):
        if stamp < self.noon:
            return framed(self.ids[0], encode(self.old, row))
        return framed(self.ids[1], encode(self.new, {"gate": "B7", **row}))


class ProtobufWriter:
    """Writes flights by Google's library; the schema stands in the registry as text."""

    def __init__(self, registry, topic, rows):
        kinds = {name: "string" if name in TEXTS else "int64" for name in rows[0][3]}
        lines = [
            f"optional {kind} {name} = {n};" for n, (name, kind) in enumerate(kinds.items(), 1)
        ]
        self.reader = f'syntax = "proto3"; message Flight {{ {" ".join(lines)} }}'
        self.ids = [registry.register(f"{topic}-value", self.reader, "PROTOBUF")]

        def fill(message, _):
            for number, (name, kind) in enumerate(kinds.items(), 1):
                add(message, name, number, kind, optional=True)

        self._class = class_of("Flight", fill)

    def value(self, _, row):
        message = self._class(**{name: each for name, each in row.items() if each is not None})
        return framed(self.ids[0], b"\0" + message.SerializeToString())


class JsonSchemaWriter:
    """Writes flights as JSON behind the id of a JSON Schema."""

    def __init__(self, registry, topic, rows):
        properties = {name: {"type": ["string" if name in TEXTS else "integer", "null"]}
                      for name in rows[0][3]}  # fmt: skip
        self.reader = json.dumps({"type": "object", "properties": properties})
        self.ids = [registry.register(f"{topic}-value", self.reader, "JSON")]

    def value(self, _, row):
        return framed(self.ids[0], json.dumps(row).encode())


def produce(broker, topic, rows, value):
    """Send every row; ``value`` makes the bytes of a stamp and a row."""
    by_partition = {}
    for partition, stamp, key, row in rows:
        record = {"value": value(stamp, row), "key": key, "timestamp": stamp}
        by_partition.setdefault(partition, []).append(record)
    for partition, records in sorted(by_partition.items()):
        broker.produce(topic, records, partition)


@dataclass
class Project:
    """A data set of flights over one topic, and where it is built."""

    path: Path
    env: Environment

    @classmethod
    def make(cls, path, data, broker, registry, topic, *, value="", mode="batch"):
        folder = path / "datasets" / "flights"
        folder.mkdir(parents=True)
        for module in (*FLIGHTS.glob("*.py"), *BATCH.glob("*.py")):
            shutil.copy(module, folder)
        write_lookups(data, folder)
        text = (FLIGHTS / "dataset.yaml").read_text()
        text = text.replace("topic: flights, settle: 30m", f"topic: {topic}, settle: 0s{value}")
        assert topic in text
        if mode == "batch":
            text = text.replace("preprocess:flights", "batch:flights_batch")
            text = text.replace("input: record", "input: batch")
            # One function for every format.
            code = (folder / "batch.py").read_text()
            code = code.replace('json_columns(batch.column("value"), ', "columns_of(batch, ")
            code = code.replace("iter_records, json_columns", "columns_of, iter_records")
            (folder / "batch.py").write_text(code)
        (folder / "dataset.yaml").write_text(text)
        init_root(path / "root")
        env = Environment(
            root=str(path / "root"),
            landing=str(path / "landing"),
            work=str(path / "work"),
            kafka={"kafka_default": KafkaSettings({"bootstrap.servers": broker.servers})},
            datasets=path / "datasets",
            registries={"registry_default": {"url": registry.url}},
        )
        return cls(path, env)

    @property
    def spec(self):
        return load_spec(self.env.datasets / "flights")

    def build(self, day, **request):
        spec = self.spec
        interval = spec.schedule_model().interval_named(day)
        return build(spec, interval, self.env, BuildRequest(**request))

    def manifest(self, day):
        return Version.resolve(DatasetFolder(Path(self.env.root), "flights"), day, None).manifest
