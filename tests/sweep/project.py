"""Two small data sets, one of a recorded topic and one of log folders, and commands on them."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import traceback
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, event
from trainfeed.cli import main
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.files.stores import Location
from trainfeed.sources import record_topic
from trainfeed.specification import DatasetSpec, load_spec
from trainfeed.versions import DatasetFolder

__all__ = ["CLICKS", "MODEL", "VIEWS", "Ended", "Project", "day", "without_syncs"]

CLICKS: Final = "clicks"
VIEWS: Final = "views"
MODEL: Final = "click_model"
_DAYS: Final = 10
_PARTITIONS: Final = 2
_BAD_DAYS: Final = (4, 7)
_UUID: Final = "11111111-1111-4111-8111-111111111111"
_CLICKS_SPEC: Final = f"""
name: {CLICKS}
description: clicks on a page
schedule: "@daily"
start: 2024-03-01
end: 2024-03-10
seed: 7
source:
  kafka: {{connection: kafka_default, topic: clicks, settle: 0s}}
preprocess: {{function: "preprocess:clicks", input: record}}
lookups: {{names: names.csv}}
schema:
  value: {{dtype: float32}}
  label: {{dtype: int64}}
split: {{train: 0.8, eval: 0.2, by: record}}
output: {{codec: zstd, samples_per_shard: 8}}
quality: [{{check: quarantine_ratio, max: 0.2}}]
resources: {{processes: 1}}
train:
  entry: "train:main"
  window: 2
  model: {{name: {MODEL}, metrics: {{score: {{min: 0}}}}}}
"""
_CLICKS_CODE: Final = """
from trainfeed.preprocessing import Filtered, Reject


def clicks(record, lookups):
    row = record.json()
    if "value" not in row:
        raise Reject("no_value", "expected a value")
    if row["value"] < 0:
        return Filtered("negative")
    names = lookups["names"].num_rows
    return [{"value": row["value"], "label": n + names} for n in range(row.get("copies", 1))]
"""
_TRAIN_CODE: Final = """
import json


def main(job):
    samples = [s for split in ("train", "eval") for s in job.open(split).reader()()]
    job.save(1, lambda folder: (folder / "model.txt").write_text("half"))
    (job.output / "model.txt").write_text(json.dumps(float(sum(s["value"] for s in samples))))
    return {"score": float(len(samples)), "samples": len(samples)}
"""
_VIEWS_SPEC: Final = f"""
name: {VIEWS}
description: views with labels of people
schedule: "@daily"
start: 2024-03-01
end: 2024-03-10
seed: 9
source:
  logs: {{path: "/logs/views/dt={{start:%Y-%m-%d}}", bytes_per_record: 16, land: true, wait: 0s,
          missing: skip}}
preprocess: {{function: "preprocess:views", input: record}}
schema:
  id: {{dtype: int64}}
  value: {{dtype: float32}}
  label: {{dtype: int8}}
output: {{samples_per_shard: 50}}
resources: {{processes: 1}}
uploads: {{key: [id], labels: [label], join: left, defaults: {{label: -1}}}}
"""
_VIEWS_CODE: Final = """
def views(record, lookups):
    row = record.json()
    return [{"id": row["id"], "value": row["id"] / 2}]
"""


def day(number: int) -> str:
    """Return the name of day ``number``, from 1 on."""
    return f"2024-03-{number:02d}"


@dataclass(frozen=True)
class Ended:
    """What a command printed, and how it ended.

    Attributes:
        status: The exit status; None if an exception ended it that is no error of trainfeed.
        out: What it printed.
        messages: What it said on the error stream, with log lines, or the traceback.
    """

    status: int | None
    out: str
    messages: str


@dataclass(frozen=True)
class Project:
    """A folder with data sets, a topic, logs, a root, a landing area, and work files.

    Attributes:
        path: The folder; a copy of a project is moved there, because files name their places.
    """

    path: Path

    @property
    def root(self) -> Path:
        return self.path / "root"

    @property
    def env(self) -> Environment:
        return Environment(
            root=str(self.root),
            landing=str(self.path / "landing"),
            work=str(self.path / "work"),
            kafka={"kafka_default": KafkaSettings(recorded=str(self.path / "recorded"))},
            datasets=self.path / "datasets",
            logs={"hdfs_default": str(self.path / "store")},
        )

    def spec(self, name: str = CLICKS) -> DatasetSpec:
        return load_spec(self.path / "datasets" / name)

    def folder(self, name: str = CLICKS) -> DatasetFolder:
        return DatasetFolder(self.root, name)

    def write(self) -> None:
        """Write specifications, code, topic and logs."""
        for name, spec, code in (
            (CLICKS, _CLICKS_SPEC, _CLICKS_CODE),
            (VIEWS, _VIEWS_SPEC, _VIEWS_CODE),
        ):
            folder = self.path / "datasets" / name
            folder.mkdir(parents=True)
            (folder / "dataset.yaml").write_text(spec)
            (folder / "preprocess.py").write_text(code)
        clicks = self.path / "datasets" / CLICKS
        (clicks / "train.py").write_text(_TRAIN_CODE)
        (clicks / "names.csv").write_text("id,name\n1,ana\n2,ben\n")
        topic = Location.parse(str(self.path / "recorded")) / CLICKS
        events = {p: [batch(_events(p))] for p in range(_PARTITIONS)}
        record_topic(topic, CLICKS, _UUID, events, rows_per_file=64)
        for number in (1, 3, 4, 5, 6):
            self.log(number)

    def log(self, number: int) -> None:
        """Write the log folder of a day."""
        folder = self.path / "store/logs/views" / f"dt={day(number)}"
        folder.mkdir(parents=True)
        lines = [json.dumps({"id": 100 * number + each}) for each in range(12)]
        (folder / "part-0.txt").write_text("\n".join(lines) + "\n")
        (folder / "_SUCCESS").touch()

    def upload(self, number: int, name: str, rows: dict[int, object]) -> Path:
        """Put a file of labels as people do, by a rename."""
        folder = self.folder(VIEWS).uploads / day(number)
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{name}.part"
        hidden.write_text("id,label\n" + "".join(f"{key},{label}\n" for key, label in rows.items()))
        return hidden.rename(folder / name)

    def run(self, *arguments: str) -> Ended:
        """Run a command in this process."""
        out, messages = io.StringIO(), io.StringIO()
        settings = {
            "TRAINFEED_ROOT": str(self.root),
            "TRAINFEED_LANDING": str(self.path / "landing"),
            "TRAINFEED_WORK": str(self.path / "work"),
            "TRAINFEED_KAFKA": f"recorded:{self.path / 'recorded'}",
            "TRAINFEED_DATASETS": str(self.path / "datasets"),
            "TRAINFEED_LOGS": str(self.path / "store"),
        }
        status: Any = 0
        with (
            _silent_log(messages),
            mock.patch.dict(os.environ, settings),
            mock.patch.object(sys, "argv", ["trainfeed", *arguments]),
            redirect_stdout(out),
            redirect_stderr(messages),
        ):
            try:
                main()
            except SystemExit as ended:
                status = ended.code or 0
            except Exception:  # noqa: BLE001 - what no command may raise is what is looked for
                status = None
                messages.write(traceback.format_exc())
        return Ended(status, out.getvalue(), messages.getvalue())

    def must(self, *arguments: str, status: int = 0) -> Any:
        """Run a command that ends with this status; return the JSON that it printed, if any."""
        ended = self.run(*arguments)
        if ended.status != status:
            raise AssertionError(f"{arguments} ended with {ended.status}: {ended.messages}")
        return json.loads(ended.out) if "--json" in arguments else ended.out


@contextmanager
def without_syncs():
    """Write files without waiting for the disk: nothing here is about durability."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield


@contextmanager
def _silent_log(messages):
    """Send the log of a command to its messages, and leave no handler behind."""
    root = logging.getLogger()
    kept, root.handlers = root.handlers, [logging.StreamHandler(messages)]
    try:
        yield
    finally:
        root.handlers = kept


def _events(partition: int) -> list[dict[str, Any]]:
    rows = []
    for number in range(1, _DAYS + 1):
        count = 8 + (number + partition) % 3
        for each in range(count):
            stamp = START_MS + (number - 1) * DAY_MS + each * (DAY_MS // count) + 1000
            is_bad = each % 3 == 1 if number in _BAD_DAYS else each == 5
            if is_bad:
                rows.append({"value": b"not json", "timestamp": stamp})
            else:
                rows.append(event(1000 * number + 100 * partition + each, stamp))
    return rows
