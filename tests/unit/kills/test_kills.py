"""A sample of the kills of ``make nightly-kills``, and the library that counts and strikes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kills.preload import VARIABLE, library, read_record
from tests.unit.processes import LIMIT_S

ROOT = Path(__file__).parents[3]
# Every N-th call of commands of each kind: these land, build and publish; correct; remove.
SAMPLE = {"build": 90, "withdraw-tagged": 11, "retire": 20, "repair": 40, "accept-hole": 6}
CALLS = """
import os, sys
from pathlib import Path
from tests.kills.preload import Strike, arm
import pyarrow as pa, pyarrow.feather
there, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
arm(Path(os.environ["LD_PRELOAD"]), [there], Path(sys.argv[3]), Strike(*eval(sys.argv[4])))
(elsewhere / "file").write_bytes(b"not counted")
(there / "folder").mkdir()
with (there / "folder" / "file").open("wb", buffering=0) as file:
    file.write(b"1")
    os.pwrite(file.fileno(), b"2", 0)
    os.writev(file.fileno(), [b"3"])
    os.fchmod(file.fileno(), 0o600)
    os.fsync(file.fileno())
(there / "folder" / "file").read_bytes()
os.link(there / "folder" / "file", there / "link")
folder = os.open(there, os.O_RDONLY)
os.rename("link", "renamed", src_dir_fd=folder, dst_dir_fd=folder)
os.unlink("renamed", dir_fd=folder)
os.truncate(there / "folder" / "file", 0)
os.utime(there / "folder" / "file", (0, 0))
os.symlink("file", there / "folder" / "symlink")
(elsewhere / "file").rename(there / "moved")
if not os.fork():
    os.chmod(there / "moved", 0o600)
    os._exit(0)
os.wait()
pyarrow.feather.write_feather(pa.table({"x": [1]}), str(there / "table"))
"""
EXPECTED = [
    *("0 mkdir folder", "0 open64 folder/file", "0 write folder/file", "0 pwrite64 folder/file"),
    *("0 writev folder/file", "0 fchmod folder/file", "0 fsync folder/file", "0 link folder/file"),
    *("0 renameat link", "0 unlinkat renamed", "0 truncate64 folder/file"),
    *("0 utimensat folder/file", "0 symlink folder/symlink", "0 rename moved", "1 chmod moved"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return library(tmp_path_factory.mktemp("library"))


def called(built, tmp_path, strike):
    """Make calls in a new process; return how it ended, its errors, and what was counted."""
    for name in ("there", "elsewhere"):
        (tmp_path / name).mkdir()
    record = tmp_path / "record"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            CALLS,
            *(tmp_path / n for n in ("there", "elsewhere")),
            record,
            strike,
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}", VARIABLE: str(built)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stderr, read_record(record)


def shown(calls, tmp_path):
    return [f"{c.process} {c.name} {c.path.removeprefix(f'{tmp_path}/there/')}" for c in calls]


def test_every_call_that_changes_something_is_counted_once_for_its_process(built, tmp_path):
    status, said, calls = called(built, tmp_path, "()")
    assert status == 0, said
    assert shown(calls, tmp_path)[: len(EXPECTED)] == EXPECTED
    by_arrow = {call.name for call in calls[len(EXPECTED) :]}
    assert by_arrow >= {"open64", "write"} or by_arrow >= {"open", "write"}
    own = [call.number for call in calls if call.process == 0]
    assert own == list(range(1, len(own) + 1))


def test_a_process_dies_before_the_call_takes_effect(built, tmp_path):
    status, _, calls = called(built, tmp_path, "(0, 8)")
    assert (status, len(calls)) == (-9, 8)
    assert (tmp_path / "there/folder/file").exists()
    assert not (tmp_path / "there/link").exists()


def test_a_full_disk_refuses_what_needs_space_and_all_that_follows(built, tmp_path):
    status, said, calls = called(built, tmp_path, "(0, 6, 28, True)")
    assert (status, shown(calls, tmp_path)[-1]) == (1, "0 refused folder/file")
    assert "OSError: [Errno 28]" in said
    # Its mode needs no space.
    assert shown(calls, tmp_path)[-3:-1] == ["0 fchmod folder/file", "0 fsync folder/file"]


@pytest.mark.ci
def test_commands_that_are_killed_or_find_no_space_end_as_if_nothing_had_happened(tmp_path):
    for name, every in SAMPLE.items():
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.kills", "--only", name, "--every", str(every)),
                *("--state", tmp_path),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        counts = json.loads((tmp_path / "local" / f"{name}.json").read_text())["counts"]
        assert counts["killed"] >= 4
        assert (counts["faults"], counts.get("not reached", 0)) == (0, 0)
