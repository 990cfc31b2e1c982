"""Files of 20 GB in the place of small ones: refused by their size, whatever reads them."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.pipeline.test_kill import ROOT
from trainfeed.core.config.deployment import read_connections
from trainfeed.errors import ConfigError

SIZE = 20 << 30
# What each reader is called with: a file of that size, in a folder of its own.
READERS = {
    "a boundary file": ("a/boundaries/t/u/20130101T000000Z.json", "read_boundary(path)"),
    "a plan": (
        "a/plans/2013-01-01/0123456789abcdef-g0001.json",
        "load_plan(folder, PlanRef('a', '2013-01-01', '0123456789abcdef-g0001'))",
    ),
    "a job": ("job.json", "JobSpec.read(path)"),
    "the result of a job": ("result.json", "JobResult.read(path)"),
    "a skipped interval": ("a/plans/2013-01-01/SKIPPED.json", "read_skip(folder, '2013-01-01')"),
    "a schedule": ("a/SCHEDULE.json", "read_schedule(folder)"),
    "the mark of a root": ("TRAINFEED.json", "require_root(path.parent, 'TRAINFEED_ROOT')"),
    "a module": ("preprocess.py", "read_module(path)"),
    "a specification": ("dataset.yaml", "load_spec(path.parent)"),
    "the manifest of a set": ("p.shards.json", "ShardManifest.load(path.parent, 'p')"),
    "a schema": ("schema.json", "load_schema(path)"),
    "the account of records": ("x.records.json", "load_schema(path)"),
    "a recorded topic": ("TOPIC.json", "RecordedTopic(Location.parse(str(path.parent))).identity"),
    "connections": ("connections.json", "read_connections(path)"),
    "clusters": ("clusters.yaml", "read_settings(path)"),
    "an attempt at a job": ("attempts/0001.json", "JobRecord(path.parents[1]).attempt(1)"),
    "a landing file": ("a.arrow", "LandingFile.open(Location.parse(str(path)))"),
    "a work file": ("a.arrow", "ArrowWithTrailer(Location.parse(str(path)))"),
    "the list of base64 files": ("list", "process_base64(path.parent, 'list', 1)"),
}
PROGRAM = """
import json, os, resource, sys
from pathlib import Path
from trainfeed.core.config.deployment import read_settings
from trainfeed.core.config.deployment import read_connections
from trainfeed.pipeline.inputs.boundary_files import read_boundary
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.reports import PlanRef
from trainfeed.pipeline.sorting.spill_files import ArrowWithTrailer
from trainfeed.conversion import ShardManifest, load_schema, process_base64
from trainfeed.versions import DatasetFolder, read_schedule, read_skip, require_root
from trainfeed.errors import TrainFeedError
from trainfeed.training.jobs import JobRecord, JobResult, JobSpec
from trainfeed.sources import LandingFile, RecordedTopic
from trainfeed.specification import load_spec, read_module
from trainfeed.files.stores import Location

base, size, readers = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
for number, (kind, (name, call)) in enumerate(readers.items()):
    home = base / str(number)
    path, folder = home / name, DatasetFolder(home, "a")
    path.parent.mkdir(parents=True)
    path.touch()
    os.truncate(path, size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        eval(call)
    except TrainFeedError as error:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(json.dumps([kind, grown, str(error)]))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each reader said of such a file, and by how much it made the process grow, in KiB."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path_factory.mktemp("large"), str(SIZE),
         json.dumps(READERS)],
        env={"PYTHONPATH": f"{ROOT / 'include'}:{ROOT}"},
        # Not of addresses: what threads and allocators reserve of those grows with the cores.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30)),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return {kind: (grown, text) for kind, grown, text in lines}


@pytest.mark.parametrize("kind", READERS)
def test_a_file_of_20_gb_is_an_error_of_ours_and_is_not_read(said, kind):
    grown, text = said[kind]
    assert grown < 32 << 10
    assert READERS[kind][0].rpartition("/")[2].partition(".")[0] in text


def test_connections_may_come_from_a_pipe():
    reading, writing = os.pipe()
    os.write(writing, b'{"logs": "file:///logs"}')
    os.close(writing)
    assert read_connections(Path(f"/proc/self/fd/{reading}")) == {"logs": "file:///logs"}
    os.close(reading)


def test_connections_above_their_limit_are_refused(tmp_path):
    path = tmp_path / "connections.json"
    path.write_bytes(b" " * (5 << 20))
    with pytest.raises(ConfigError, match="at most 4194304 bytes"):
        read_connections(path)
