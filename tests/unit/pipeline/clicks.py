"""A small data set over a recorded topic, from which every stage test starts."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from trainfeed.core import canonical_json
from trainfeed.core.config import Environment
from trainfeed.files.stores import Location
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.local import build
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

DAY_MS = 86_400_000
START_MS = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp() * 1000)

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
  value: {dtype: float32}
  label: {dtype: int64}
split: {train: 0.8, eval: 0.2, by: record}
output: {codec: zstd, samples_per_shard: 50}
"""

CODE = """
from trainfeed.preprocessing import Filtered, Reject


def clicks(record, lookups):
    row = record.json()
    if "value" not in row:
        raise Reject("no_value", "expected a value")
    if row["value"] < 0:
        return Filtered("negative")
    return [{"value": row["value"], "label": n} for n in range(row.get("copies", 1))]
"""


def event(value, stamp_ms, **more):
    return {"value": json.dumps({"value": value, **more}).encode(), "timestamp": stamp_ms}


def batch(events, first=0):
    rows = [
        {"offset": first + i, "timestamp_type": 0, "key": None, "headers": [], **row}
        for i, row in enumerate(events)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)


def day(number, count):
    """``count`` events spread over a day; some quarantined, filtered, with no or two samples."""
    step = DAY_MS // count
    rows = []
    for i in range(count):
        stamp = START_MS + number * DAY_MS + i * step
        if i % 10 == 3:
            rows.append({"value": b"not json", "timestamp": stamp})
        elif i % 10 == 4:
            rows.append(event(-1, stamp))
        elif i % 10 == 5:
            rows.append(event(i, stamp, copies=i % 3))
        else:
            rows.append(event(i, stamp))
    return rows


def rewrite_sealed(path, change):
    """Change the JSON of a sealed file in place, and seal it again: no digest shows the change."""
    value = json.loads(path.read_bytes())
    del value["digest"]
    change(value)
    path.unlink()
    path.write_bytes(canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}")))


# Files, and a folder, in which a build of the same things has other identities and times.
_NAMED_ANEW = {"TRAINFEED.json", "BUILT.json", "boundaries"}
_PREBUILT = {}


@dataclass(frozen=True)
class Project:
    """A data set folder, a recorded topic, and where to build."""

    path: Path
    env: Environment

    @property
    def spec(self):
        return load_spec(self.env.datasets / "clicks")

    @property
    def folder(self):
        return DatasetFolder(Path(self.env.root), "clicks")

    def interval(self, name="2024-03-01"):
        return self.spec.schedule_model().interval_named(name)

    def build(self, name="2024-03-01", **request):
        request = BuildRequest(**request)
        return build(self.spec, self.interval(name), self.env, request).to_json()

    def prebuilt(self, name="2024-03-01", **request):
        """Build an interval that a test starts from, or copy what an equal project became by it.

        It is for what has to be there; what a test is about is built.
        """
        key = (name, repr(sorted(request.items())), self._digest())
        kept = _PREBUILT.get(key)
        if kept is None:
            self.build(name, **request)
            kept = _PREBUILT[key] = tempfile.TemporaryDirectory(prefix="trainfeed-prebuilt-")
            copies = [(place, Path(kept.name) / place.name) for place in self._written()]
        else:
            copies = [(Path(kept.name) / place.name, place) for place in self._written()]
        for source, target in copies:
            shutil.rmtree(target, ignore_errors=True)
            if source.exists():
                shutil.copytree(source, target, symlinks=True)

    def _written(self):
        return [Path(place) for place in (self.env.root, self.env.landing, self.env.work)]

    def _digest(self):
        """A digest of all that a build reads, without identities and times of earlier ones."""
        digest = hashlib.sha256(repr(self.env).replace(str(self.path), "").encode())
        for path in sorted(self.path.rglob("*")):
            digest.update(f"{path.relative_to(self.path)}\0{path.lstat().st_mode}\0".encode())
            if path.is_file() and not _NAMED_ANEW & set(path.parts):
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()

    def version(self, name="2024-03-01", generation=None):
        return Version.resolve(self.folder, name, generation)

    def edit(self, old, new, file="dataset.yaml"):
        path = self.env.datasets / "clicks" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def record(self, partitions, uuid="11111111-1111-4111-8111-111111111111"):
        location = Location.parse(str(self.path / "recorded")) / "clicks"
        location.delete(recursive=True)
        record_topic(location, "clicks", uuid, partitions, rows_per_file=64)

    def elsewhere(self, name):
        """The same data set and topic, with root, landing and work of its own."""
        base = self.path / name
        places = {place: str(base / place) for place in ("root", "landing", "work")}
        env = replace(self.env, **places)
        init_root(base / "root")
        return Project(self.path, env)
