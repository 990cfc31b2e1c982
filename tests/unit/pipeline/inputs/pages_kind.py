# ruff: noqa: ARG002 - arguments that this kind needs none of
"""A kind of source that trainfeed does not have: one JSON file a day with a list of records.

The module is complete: the part of the specification, the planning and the reading. The kind stands
for S3 objects, tables of a database and all other possible sources.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from trainfeed.core.intervals import parse_time
from trainfeed.errors import SourceReplacedError, WindowOpenError
from trainfeed.pipeline.inputs.protocols import Head, SourceReader
from trainfeed.pipeline.inputs.source_readers import READERS
from trainfeed.pipeline.plans import PlannedInput
from trainfeed.sources import LANDING_SCHEMA
from trainfeed.specification import LateRule, Measure

KIND = "pages"


class PagesSourceSpec(BaseModel):
    """What stands below ``source.pages``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    folder: str
    land: bool = True

    settle: ClassVar[timedelta] = timedelta(0)
    folder_wait: ClassVar[timedelta | None] = None
    missing_rules: ClassVar[dict[str, Any]] = {}
    topics: ClassVar[tuple[Any, ...]] = ()
    clusters: ClassVar[tuple[str, ...]] = ()
    file_systems: ClassVar[tuple[str, ...]] = ()

    @property
    def lands(self):
        return self.land

    def measure(self, records_per_task):
        return Measure(records_per_task, 1)

    def late_rule(self, label):
        return LateRule("keep")

    def fingerprint(self):
        return {"format": KIND}

    def described(self):
        yield f"pages in `{self.folder}`"

    def contradictions(self, schedule, zone, intervals):
        if not Path(self.folder).is_absolute():
            yield (KIND, "folder"), f"expected an absolute path, got {self.folder!r}; write it out"


class PagesInputs:
    """The page of one interval."""

    marker = None
    passed_over: ClassVar = {}

    def __init__(self, path, name):
        self._path, self._name = path, name

    def inputs(self, current):
        digest, rows = page(self._path)
        planned = PlannedInput(
            kind=KIND,
            connection=str(self._path.parent),
            topic=self._path.name,
            topic_uuid=digest,
            cluster=KIND,
            partition=0,
            start=0,
            end=len(rows),
        )
        return {f"{KIND}:{self._path.name}": planned}

    def skip(self):
        return None

    def without_losses(self, current, allow_gap):
        return self.inputs(current), []

    def confirm(self):
        pass

    def empty_because(self, inputs, allow_gap):
        read = any(planned.start < planned.end for planned in inputs.values())
        return {} if read else dict.fromkeys(inputs, "no_rows")


class PagesReader(SourceReader):
    """Reads pages, and compares each with its digest in the plan."""

    @contextmanager
    def open(self, spec, env, folder, interval):
        path = Path(spec.source.kind.folder) / f"{interval.name}.json"
        if not path.is_file():
            raise WindowOpenError(f"page {path} is not there yet; nothing was read")
        yield PagesInputs(path, interval.name)

    def check_names(self, stage, pieces):
        pass  # a page is one file

    def check(self, stage, sources):
        for source in sources:
            rows_of(stage.plan.inputs[source])

    def batches(self, stage, piece):
        rows = rows_of(stage.plan.inputs[piece.source])
        stamp = int(parse_time(stage.plan.interval["start"]).timestamp() * 1000)
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "offset": offset,
                    "timestamp": stamp,
                    "timestamp_type": 0,
                    "key": None,
                    "headers": [],
                    "value": json.dumps(rows[offset]).encode(),
                }
                for offset in range(piece.start, piece.end)
            ],
            schema=LANDING_SCHEMA,
        )

    def head(self, spec, interval, env, place, limit):
        return Head(env)


def page(path):
    """Return the digest of a page, which is safe as a folder name, and its rows."""
    data = path.read_bytes()
    return hashlib.sha256(data).hexdigest()[:32], json.loads(data)


def rows_of(planned):
    path = Path(planned.connection, planned.topic)
    digest, rows = page(path)
    if digest != planned.topic_uuid:
        raise SourceReplacedError(f"page {path} is not the one that was planned; build again")
    return rows


# The row. It stands here and not in a test, because worker processes import this module with the
# specification that they get, and no test.
READERS[PagesSourceSpec] = PagesReader()
