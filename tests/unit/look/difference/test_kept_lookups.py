"""Lookups are kept by their digest: bounded, private, whole or absent, and shown in differences."""

import hashlib
import os
import signal
import subprocess
import sys

import pytest

from tests.unit.pipeline.conftest import project
from trainfeed.core import faults
from trainfeed.look.difference import Side, difference
from trainfeed.pipeline.code_copies import keep_lookups, kept_lookup

__all__ = ["project"]

CODE = """
import sys
from pathlib import Path
from trainfeed.core import faults
from trainfeed.versions import DatasetFolder
from trainfeed.pipeline.code_copies import keep_lookups
from trainfeed.specification import load_spec
keep_lookups(DatasetFolder(Path(sys.argv[1]), "clicks"), load_spec(sys.argv[2]))
"""


@pytest.fixture
def looked_up(project):
    project.edit("schema:", "lookups: {rates: rates.csv, picture: picture.arrow}\nschema:")
    rates(project, "a,1\nb,2\n")
    picture(project, b"\0\1")
    return project


def rates(project, text):
    (project.env.datasets / "clicks" / "rates.csv").write_text(text)


def picture(project, data):
    (project.env.datasets / "clicks" / "picture.arrow").write_bytes(data)


def kept(project):
    folder = project.folder.path / "lookups"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def digest(data):
    return hashlib.sha256(data).hexdigest()


def test_lookups_are_kept_once_under_their_digest_for_the_builder_alone(looked_up):
    keep_lookups(looked_up.folder, looked_up.spec)
    keep_lookups(looked_up.folder, looked_up.spec)
    assert kept(looked_up) == sorted([digest(b"a,1\nb,2\n"), digest(b"\0\1")])
    path = looked_up.folder.lookup(digest(b"\0\1"))
    assert (path.stat().st_mode & 0o777, path.read_bytes()) == (0o600, b"\0\1")


def test_nothing_is_kept_if_the_specification_says_so(looked_up):
    looked_up.edit("lookups: {", "keep_lookups: false\nlookups: {")
    keep_lookups(looked_up.folder, looked_up.spec)
    assert kept(looked_up) == []


def test_the_option_and_the_kept_files_do_not_enter_the_fingerprint(looked_up, project):
    picture(looked_up, b"")
    looked_up.edit("lookups: {rates: rates.csv, picture: picture.arrow}", "lookups: {r: rates.csv}")
    looked_up.prebuilt()
    first = looked_up.version().manifest.fingerprint
    looked_up.edit("lookups: {", "keep_lookups: false\nlookups: {")
    assert looked_up.build()["verdict"] == "identical"
    assert looked_up.version().manifest.fingerprint == first


def test_a_lookup_above_a_mebibyte_is_not_kept_and_that_is_said(looked_up):
    data = b"x" * ((1 << 20) + 1)
    picture(looked_up, data)
    keep_lookups(looked_up.folder, looked_up.spec)
    assert kept(looked_up) == [digest(b"a,1\nb,2\n")]
    found = kept_lookup(looked_up.folder, digest(data))
    assert (found.data, "larger than 1 MiB" in found.why_not) == (None, True)


def test_a_falsified_file_is_not_shown(looked_up):
    keep_lookups(looked_up.folder, looked_up.spec)
    path = looked_up.folder.lookup(digest(b"\0\1"))
    path.write_bytes(b"\0\2")
    found = kept_lookup(looked_up.folder, digest(b"\0\1"))
    assert (found.data, "is damaged" in found.why_not) == (None, True)
    path.unlink()
    path.symlink_to("/etc/hostname")
    assert kept_lookup(looked_up.folder, path.name).data is None


def run(project, point=None):
    environ = {**os.environ, faults.VARIABLE: "" if point is None else f"{point}:kill"}
    arguments = [sys.executable, "-c", CODE, project.env.root, project.env.datasets / "clicks"]
    return subprocess.Popen(arguments, env=environ)


def test_two_writers_at_once_leave_one_whole_file(looked_up):
    looked_up.folder.path.mkdir(exist_ok=True)
    both = [run(looked_up), run(looked_up)]
    assert [each.wait() for each in both] == [0, 0]
    assert kept(looked_up) == sorted([digest(b"a,1\nb,2\n"), digest(b"\0\1")])


@pytest.mark.parametrize("point", ["plan.before_kept_lookup", "plan.after_kept_lookup"])
def test_a_killed_writer_leaves_whole_files_and_the_next_one_goes_on(looked_up, point):
    looked_up.folder.path.mkdir(exist_ok=True)
    assert run(looked_up, point).wait() == -signal.SIGKILL
    for name in kept(looked_up):
        assert digest(looked_up.folder.lookup(name).read_bytes()) == name
    assert run(looked_up).wait() == 0
    assert kept(looked_up) == sorted([digest(b"a,1\nb,2\n"), digest(b"\0\1")])


def test_the_lines_of_a_changed_lookup_are_shown_and_binary_ones_are_said(project):
    project.edit("schema:", "lookups: {rates: rates.csv}\nschema:")
    rates(project, "a,b\n1,2\n")
    project.prebuilt()
    rates(project, "a,b\n1,3\n")
    project.prebuilt(rebuild="new rates")
    found = difference(*(Side.of(project.folder, "2024-03-01", number) for number in (1, 2)))
    lookups = next(each for each in found.sections if each.name == "lookups")
    assert {"-1,2", "+1,3"} <= set(lookups.texts[0].lines)
    for name in kept(project):
        project.folder.lookup(name).unlink()
    found = difference(*(Side.of(project.folder, "2024-03-01", number) for number in (1, 2)))
    lookups = next(each for each in found.sections if each.name == "lookups")
    assert "was not kept" in lookups.texts[0].note
