"""A small data set over log files in local folders."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import cramjam

from tests.unit.pipeline.clicks import CODE
from trainfeed.core.config import Environment
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

DAY = "2024-03-01"
SPEC = """
name: clicks
schedule: "@daily"
start: 2024-03-01
end: 2024-03-31
seed: 7
source:
  logs:
    {path: "/logs/clicks/dt={start:%Y-%m-%d}", bytes_per_record: 16, split_bytes: 64MiB,
     wait: 36500d}
preprocess: {function: "preprocess:clicks"}
schema:
  value: {dtype: float32}
  label: {dtype: int64}
split: {train: 0.8, eval: 0.2, by: record}
output: {samples_per_shard: 50}
"""


def lines(first, count):
    """Lines of which some are broken, some filtered, and some give no or two samples."""
    for number in range(first, first + count):
        if number % 10 == 3:
            yield b"not json"
        elif number % 10 == 4:
            yield json.dumps({"value": -1}).encode()
        elif number % 10 == 5:
            yield json.dumps({"value": number, "copies": number % 3}).encode()
        else:
            yield json.dumps({"value": number}).encode()


@dataclass(frozen=True)
class LogProject:
    """A data set folder, folders of logs, and where to build."""

    path: Path
    env: Environment

    @property
    def spec(self):
        return load_spec(self.env.datasets / "clicks")

    @property
    def folder(self):
        return DatasetFolder(Path(self.env.root), "clicks")

    @property
    def logs(self):
        return self.path / "store/logs/clicks" / f"dt={DAY}"

    def interval(self):
        return self.spec.schedule_model().interval_named(DAY)

    def build(self, **request):
        return build(self.spec, self.interval(), self.env, BuildRequest(**request)).to_json()

    def version(self):
        return Version.resolve(self.folder, DAY, None)

    def edit(self, old, new, file="dataset.yaml"):
        path = self.env.datasets / "clicks" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def elsewhere(self, name):
        """The same data set and logs, with root, landing and work of its own."""
        base = self.path / name
        places = {place: str(base / place) for place in ("root", "landing", "work")}
        init_root(base / "root")
        return LogProject(self.path, replace(self.env, **places))


def make_log_project(path):
    """Lay out data set and one day of logs: plain, gzip and zstd."""
    datasets = path / "datasets"
    (datasets / "clicks").mkdir(parents=True)
    (datasets / "clicks" / "dataset.yaml").write_text(SPEC)
    (datasets / "clicks" / "preprocess.py").write_text(CODE)
    init_root(path / "root")
    env = Environment(
        root=str(path / "root"),
        landing=str(path / "landing"),
        work=str(path / "work"),
        kafka={},
        datasets=datasets,
        logs={"hdfs_default": str(path / "store")},
    )
    project = LogProject(path, env)
    project.logs.mkdir(parents=True)
    plain = b"\r\n".join(lines(0, 100))
    halves = [b"".join(line + b"\n" for line in lines(first, 40)) for first in (100, 140)]
    (project.logs / "part-0.txt").write_bytes(plain)
    (project.logs / "part-1.txt.gz").write_bytes(b"".join(gzip.compress(h) for h in halves))
    (project.logs / "part-2.txt.zst").write_bytes(cramjam.zstd.compress(halves[0]))
    (project.logs / "part-3.txt").touch()
    (project.logs / "_SUCCESS").touch()
    return project


def rewrite(path, old, new):
    """Change a file in place, one second later; its length stays when both are equally long."""
    found = path.stat()
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    os.utime(path, ns=(found.st_mtime_ns, found.st_mtime_ns + 10**9))
