"""The life that is played: every command on data sets with every kind of file."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.golden.steps import Recorded, Script
from tests.kills.prepared import COMMANDS as CORRECTIONS
from tests.kills.prepared import Places, prepare, topic
from tests.sweep.commands import COMMANDS as LOOKS
from tests.sweep.project import without_syncs
from tests.sweep.root import Life
from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, day, event

__all__ = ["PARTS", "play"]

# Rows of text that every format of files can hold, and their fields.
_ROWS = "".join(f'{{"id": {n}, "value": {n / 4}, "name": "n{n % 7}"}}\n' for n in range(300))
_SCHEMA = """
[{"name": "id", "dtype": "int64"}, {"name": "value", "dtype": "float32"},
 {"name": "name", "dtype": "str"}]
"""
# Each is made of the file before it.
_CHAINS = (("recordio", "arrow", "parquet", "csv"), ("tfrecord", "tar"), ("npz",))


def play(script: Script, home: Path, parts: tuple[str, ...]) -> None:
    """Play parts of the life in an empty folder, each from its beginning."""
    for part in parts:
        folder = home / "life"
        folder.mkdir()
        with without_syncs():
            PARTS[part](script, folder)
        shutil.rmtree(folder)


def _whole(script: Script, folder: Path) -> None:
    """Live a whole life, stop a build after each of its stages, and ask every question."""
    script.begin("life", Recorded(folder / "now"))
    life = Life.lived(folder, Recorded)
    for _, command in LOOKS:
        if command != ("read",):
            life.project.run(*command)


def _corrections(script: Script, folder: Path) -> None:
    """Every command that publishes or corrects, on what was prepared for it, and then ``gc``."""
    for name, command in CORRECTIONS.items():
        places = Places(folder / name, folder / name / "root")
        prepare(command, places)
        project = Recorded(places.path)
        script.begin(name, project)
        project.must(*command.arguments, status=command.status)
        project.must("gc", "--older-than", "0")
        project.must("history", "clicks", "--json")


def _late(script: Script, folder: Path) -> None:
    """Records that come after their day was built, under each policy."""
    for policy in ("keep", "separate", "fail"):
        places = Places(folder / policy, folder / policy / "root")
        places.path.mkdir()
        made = topic(places)
        made.edit("settle: 0s", f"settle: 0s, late: {policy}")
        late = event(5, START_MS + DAY_MS // 2)
        rows = [*day(0, 20), *day(1, 10), late, *day(2, 10)]
        made.record({0: [batch(rows)]})
        project = Recorded(places.path)
        script.begin(f"late: {policy}", project)
        project.must("build", "clicks/2024-03-01", "--json")
        project.run("build", "clicks/2024-03-02", "--json")
        for look in ("show", "outdated", "drift"):
            project.run(look, "clicks", "--json")


def _conversions(script: Script, folder: Path) -> None:
    """A file through all formats, into shards, damaged and repaired."""
    project = Recorded(folder)
    files = folder / "converted"
    files.mkdir()
    (files / "rows.jsonl").write_text(_ROWS)
    schema = files / "schema.json"
    schema.write_text(_SCHEMA)
    script.begin("files", project)
    for chain in _CHAINS:
        last = files / "rows.jsonl"
        for suffix in chain:
            made = files / f"made.{suffix}"
            project.run("file", "convert", str(last), str(made), "--schema", str(schema))
            for look in ("inspect", "stats", "verify"):
                project.run("file", look, str(made), "--json")
            last = made
    rows = str(files / "made.recordio")
    shards = str(files / "shards")
    project.must("file", "reshard", rows, shards, "--shards", "3", "--prefix", "part")
    record = files / "made.recordio"
    data = bytearray(record.read_bytes())
    data[len(data) // 2] ^= 1
    record.write_bytes(data)
    project.run("file", "verify", str(record), "--json")
    project.run("file", "repair", str(record), str(files / "repaired.recordio"), "--json")
    project.must("file", "head", str(files / "made.parquet"), "-n", "2")


PARTS = {
    "life": _whole,
    "corrections": _corrections,
    "late": _late,
    "files": _conversions,
}
