"""The audit of quarantined bytes: a line before every byte, strict files, nothing lost."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import trainfeed
from tests.unit.processes import LIMIT_S
from trainfeed.core import faults
from trainfeed.errors import AccessDeniedError, FormatError, StorageError
from trainfeed.pipeline.quarantine_access import (
    Access,
    DamagedLine,
    accesses,
    quarantine_of_version,
    read_raw,
    read_raw_at,
)
from trainfeed.versions import DatasetFolder

ROOT = Path(__file__).parents[4]
READ = """
import sys
from pathlib import Path
from trainfeed.versions import Version
from trainfeed.pipeline.quarantine_access import quarantine_of_version, read_raw

root, version = map(Path, sys.argv[1:3])
found = quarantine_of_version(Version.open(version))
for _ in range(int(sys.argv[3])):
    print(len(list(read_raw(root, found, "show", limit=2))), flush=True)
"""


@pytest.fixture
def built(project):
    project.prebuilt()
    return project


def found_of(project):
    return quarantine_of_version(project.version())


def root_of(project):
    return Path(project.env.root)


def read(project, **chosen):
    return list(read_raw(root_of(project), found_of(project), "show", limit=2, **chosen))


def start(project, times, fault=None):
    environ = {"PYTHONPATH": str(ROOT / "include")}
    if fault is not None:
        environ[faults.VARIABLE] = fault
    paths = [project.env.root, str(project.version().path)]
    return subprocess.Popen(
        [sys.executable, "-c", READ, *paths, str(times)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_reading_is_a_line_with_who_when_and_what(built):
    read(built)
    read(built, reason="not_json")
    first, second = accesses(built.folder)
    assert (first.command, first.interval, first.origin) == ("show", "2024-03-01", "g0001")
    assert (first.reason, first.records, first.uid) == (None, 2, os.geteuid())
    assert second.reason == "not_json"
    assert stat.S_IMODE(built.folder.quarantine_audit.stat().st_mode) == 0o600


def test_one_record_is_a_line_too(built):
    found = found_of(built)
    place = list(found.places())[1]
    record = read_raw_at(root_of(built), found, "show --at", place)
    assert (record.source, record.offset, record.raw) == (place.source, place.offset, b"not json")
    assert [each.records for each in accesses(built.folder)] == [1]


def test_the_line_is_there_before_the_first_byte(built):
    reading = read_raw(root_of(built), found_of(built), "show", limit=1)
    assert len(list(accesses(built.folder))) == 1
    assert next(reading).raw == b"not json"


def test_counting_and_positions_are_no_reading(built):
    found = found_of(built)
    assert found.reasons() == {"not_json": 18}
    assert not {"raw", "message"} & set(vars(next(found.places())))
    assert list(accesses(built.folder)) == []


def test_without_a_line_no_byte_is_handed_out(built):
    built.folder.quarantine_audit.mkdir()
    with pytest.raises(StorageError):
        read(built)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_files_that_others_may_read_are_refused(built, mode):
    path = built.version().path / "quarantine/records.arrow"
    path.chmod(mode)
    with pytest.raises(AccessDeniedError, match=f"got mode 0{mode:o}"):
        read(built)


def test_an_audit_that_others_may_write_is_refused(built):
    read(built)
    built.folder.quarantine_audit.chmod(0o660)
    with pytest.raises(AccessDeniedError, match="got mode 0660"):
        read(built)


def test_a_link_in_place_of_the_audit_is_refused(built, tmp_path):
    built.folder.quarantine_audit.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((StorageError, FormatError)):
        read(built)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_account_are_refused(built):
    path = built.version().path / "quarantine/records.arrow"
    os.chown(path, 12345, -1)
    with pytest.raises(AccessDeniedError, match="uid 12345"):
        read(built)


def test_a_torn_line_is_named_and_hides_no_other(built):
    read(built)
    path = built.folder.quarantine_audit
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    read(built)
    found = list(accesses(built.folder))
    assert [type(each) for each in found] == [Access, DamagedLine, Access]
    assert found[1].number == 2


@pytest.mark.parametrize("line", [b"{}", b"[1]", b"\xff", b'{"at": 1}'])
def test_lines_that_are_no_access_are_damage(built, line):
    read(built)
    path = built.folder.quarantine_audit
    value = json.loads(path.read_bytes())
    path.write_bytes(line + b"\n" + json.dumps({**value, "records": "2"}).encode() + b"\n")
    assert all(isinstance(each, DamagedLine) for each in accesses(built.folder))


def test_a_line_that_is_too_long_hides_no_other(built):
    read(built)
    path = built.folder.quarantine_audit
    whole = path.read_bytes()
    path.write_bytes(b"x" * 2047 + whole + whole)
    assert [type(each) for each in accesses(built.folder)] == [DamagedLine, Access]


def test_several_readers_at_once_lose_no_line(built):
    running = [start(built, 20) for _ in range(2)]
    for process in running:
        _, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, errors
    found = list(accesses(built.folder))
    assert len(found) == 40
    assert all(isinstance(each, Access) for each in found)


@pytest.mark.parametrize(
    ("point", "lines"), [("quarantine.before_access", 0), ("quarantine.after_access", 1)]
)
def test_a_kill_never_shows_bytes_without_a_line(built, point, lines):
    process = start(built, 1, f"{point}:kill")
    output, _ = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, output) == (-signal.SIGKILL, "")
    assert len(list(accesses(built.folder))) == lines
    read(built)
    assert len(list(accesses(built.folder))) == lines + 1


def test_a_full_disk_shows_no_byte(built):
    process = start(built, 1, "quarantine.before_access:ENOSPC")
    output, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, output) == (1, "")
    assert "no space left" in errors.lower()


def test_no_other_module_reads_raw_bytes():
    """Assembly of a version and excerpts of a build are the only other readers."""
    package = Path(trainfeed.__file__).parent
    paths = package.rglob("*.py")
    readers = {path.stem for path in paths if re.search(r"\braw_records\b", path.read_text())}
    assert readers == {"quarantine", "quarantine_access"}


def test_the_name_of_the_file_is_below_the_data_set(tmp_path):
    folder = DatasetFolder(tmp_path, "clicks")
    assert folder.quarantine_audit.parent == folder.path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_an_account_that_looks_first_does_not_lock_the_builder_out(built):
    os.chown(built.folder.path, 12345, -1)
    os.chown(built.version().path, 12345, -1)
    path = built.version().path / "quarantine/records.arrow"
    os.chown(path, 12345, -1)
    with pytest.raises(AccessDeniedError, match="run the command as that account"):
        read(built)
    assert not built.folder.quarantine_audit.exists()


def test_the_longest_texts_make_a_line_that_is_read(built):
    read(built, reason="\U0001f4a5" * 500)
    read(built, reason='"\\' * 500)
    assert all(isinstance(each, Access) for each in accesses(built.folder))
    lines = built.folder.quarantine_audit.read_bytes().splitlines()
    assert (len(lines), max(map(len, lines)) < 2048) == (2, True)


def test_positions_are_read_with_the_checks_of_every_reader(built):
    (part,) = found_of(built).positions()
    assert list(part.reasons) == ["not_json"] * 18
    path = built.version().path / "quarantine/records.arrow"
    path.chmod(0o644)
    with pytest.raises(AccessDeniedError, match="got mode 0644"):
        list(found_of(built).positions())
    with pa.ipc.new_file(path, schema := pa.schema({"other": pa.int32()})) as writer:
        writer.write_table(schema.empty_table())
    path.chmod(0o600)
    with pytest.raises(FormatError, match="expected SHA-256"):
        list(found_of(built).positions())


def test_no_changed_bit_of_a_published_quarantine_is_read(built):
    """An offset in the file has no digest of its own: that of the manifest is compared."""
    path = built.version().path / "quarantine/records.arrow"
    data = path.read_bytes()
    for at in range(0, len(data), len(data) // 60):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(FormatError):
            list(found_of(built).positions())
    path.write_bytes(data)
    assert len(list(found_of(built).positions())) == 1
