"""The marker of an interval that a data set goes without."""

import json
import os
from dataclasses import replace

import pytest

from tests.support.roots import write_sealed
from trainfeed.errors import ConfigError, FormatError
from trainfeed.versions import DatasetFolder, Skip, lift_skip, read_skip, write_skip

DAY = "2026-03-05"
SKIP = Skip(
    DAY,
    "folder /logs/dt=2026-03-05 is not there",
    "2026-03-08T00:00:00Z",
    "2026-03-07T12:00:00Z",
    start="2026-03-05T00:00:00Z",
    end="2026-03-06T00:00:00Z",
)


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "clicks")


def test_a_marker_says_why_when_and_until_when_was_waited(folder):
    assert write_skip(folder, SKIP) == SKIP
    assert read_skip(folder, DAY) == SKIP
    value = json.loads((folder.path / f"plans/{DAY}/SKIPPED.json").read_bytes())
    assert len(value.pop("digest")) == 64
    assert value == {
        "at": "2026-03-08T00:00:00Z",
        "dataset": "clicks",
        "end": "2026-03-06T00:00:00Z",
        "interval": "2026-03-05",
        "start": "2026-03-05T00:00:00Z",
        "until": "2026-03-07T12:00:00Z",
        "why": "folder /logs/dt=2026-03-05 is not there",
    }


def test_an_interval_without_a_marker_is_not_skipped(folder):
    assert read_skip(folder, DAY) is None
    assert not lift_skip(folder, DAY)


def test_of_two_runs_the_first_decision_holds(folder):
    write_skip(folder, SKIP)
    assert write_skip(folder, Skip(DAY, "another reason", "2026-03-09T00:00:00Z", None)) == SKIP


def test_a_decision_about_another_time_of_the_same_name_takes_the_place_of_the_first(folder):
    write_skip(folder, SKIP)
    moved = replace(SKIP, why="gone", start="2026-03-05T06:00:00Z", end="2026-03-06T06:00:00Z")
    assert write_skip(folder, moved) == moved
    assert read_skip(folder, DAY).span == moved.span


def test_a_marker_that_is_lifted_is_gone_and_may_be_written_anew(folder):
    write_skip(folder, SKIP)
    assert lift_skip(folder, DAY)
    assert read_skip(folder, DAY) is None
    later = Skip(DAY, "gone again", "2026-03-09T00:00:00Z", None)
    assert write_skip(folder, later) == later


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"at":"2026-03-08T00:00:00Z","interval":"2026-03-05","until":null}',
        b'{"at":"yesterday","interval":"2026-03-05","until":null,"why":"x"}',
        b'{"at":"2026-03-08T00:00:00Z","interval":"2026-03-06","until":null,"why":"x"}',
        b'{"at":"2026-03-08T00:00:00Z","interval":"2026-03-05","until":7,"why":"x"}',
        b'{"at":null,"interval":"2026-03-05","until":null,"why":"x"}',
        b"\xff" * 100,
        b" " * (64 << 10) + b"{}",
    ],
)
def test_a_damaged_marker_is_an_error_that_names_the_file(folder, content):
    path = folder.skip(DAY)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"remove the file and build .*SKIPPED\.json"):
        read_skip(folder, DAY)


def test_a_link_in_place_of_a_marker_is_refused(folder, tmp_path):
    write_skip(folder, SKIP)
    path = folder.skip(DAY)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="expected a plain file"):
        read_skip(folder, DAY)


def test_keys_that_a_later_version_adds_are_left_alone(folder):
    write_skip(folder, SKIP)
    path = folder.skip(DAY)
    value = json.loads(path.read_bytes()) | {"added": 1}
    del value["digest"]
    write_sealed(path, value)
    assert read_skip(folder, DAY) == SKIP


def test_every_account_can_read_a_marker_whatever_the_umask_is(folder):
    before = os.umask(0o077)
    try:
        write_skip(folder, SKIP)
    finally:
        os.umask(before)
    path = folder.skip(DAY)
    assert [p.stat().st_mode & 0o777 for p in (path, path.parent, path.parent.parent)] == [
        0o644,
        0o755,
        0o755,
    ]


def test_a_name_that_leaves_the_folder_is_refused(folder):
    with pytest.raises(ConfigError):
        read_skip(folder, "../elsewhere")
