"""A look writes nothing: every command that only reads leaves the folders as they were.

Meant to be written by looks are the index of ``trainfeed status``, which spares the next look its
reading, the audit of shown quarantined records, and the place in the work area in which a preview
has such records for a moment.
"""

from __future__ import annotations

import ctypes
import os
import sys

import pytest

from tests.unit.cli.conftest import cli, project
from tests.unit.forks import in_a_fork
from trainfeed.cli import main

__all__ = ["cli", "project"]

DAY, NEXT = "2024-03-01", "2024-03-02"
PLACES = ("root", "landing", "work", "datasets", "recorded")
MEANT = ("STATUS.jsonl", "quarantine-audit.jsonl", "previews")
LOOKS = [
    "status", "status clicks", f"status clicks {DAY} --json",
    "outdated clicks", "outdated clicks --against-source", f"bring-forward clicks {DAY} --dry-run",
    "ls", "ls clicks", f"show clicks/{DAY}", f"head clicks/{DAY}", f"stats clicks/{DAY}",
    f"verify clicks/{DAY}", f"diff clicks {DAY}/g0001 {DAY}/g0002", f"lineage clicks/{DAY}",
    f"diff clicks/{DAY}", "connections check", "file schema {shard}",
    "drift clicks", "tags clicks", "leases clicks", "history clicks", "waivers ls clicks",
    "boundaries check clicks", f"repair clicks/{DAY} --dry-run",
    f"withdraw clicks/{DAY}/g0001 --dry-run", f"tag clicks {DAY} prod --dry-run",
    "prune clicks --dry-run", "prune --all --dry-run", f"retire clicks/{DAY} --dry-run",
    "gc --dry-run", "gc --older-than 0 --dry-run",
    f"build clicks --interval {NEXT} --dry-run", f"build clicks --interval {DAY} --dry-run",
    f"build clicks --interval {NEXT} --limit 5",
    f"quarantine ls clicks/{DAY}", f"quarantine show clicks/{DAY}", "quarantine show clicks",
    f"quarantine preview clicks/{DAY}", "uploads ls clicks",
    "models ls", "models ls clicks", "models show clicks", "jobs ls", "jobs ls clicks",
    "jobs show {job}", "jobs logs {job}", "pfs ls pfs://public/", "pfs find pfs://public/",
    "file inspect {shard}", "file head {shard}", "file stats {shard}", "file verify {shard}",
    "file index {shard}", "bench read clicks", "dispatch status 127.0.0.1:1",
]  # fmt: skip
# The small data set has no model, no server and no history of distributions to show.
MAY_FAIL = ("models show", "dispatch", "drift", "bring-forward", "pfs", "bench")
FAILING = "def main(job):\n    raise ValueError('no')\n"
DAC_OVERRIDE, FOWNER = 1, 3


@pytest.fixture
def looked(cli, project):
    """Two generations of a day, a quarantined record, a failed job; gives the looks to run."""
    (project.env.datasets / "clicks" / "train.py").write_text(FAILING)
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main"}')
    project.prebuilt(DAY)
    project.prebuilt(DAY, rebuild="again")
    assert cli("train", "clicks", "--interval", DAY)[0] != 0
    (home,) = project.folder.path.glob(f"training/{DAY}/clicks-*")
    shard = next(project.folder.version(DAY, 2).glob("*-train-*"))
    names = {"root": project.env.root, "job": home.name, "shard": shard}
    return [each.format(**names) for each in LOOKS]


def tree(project):
    """Return path → what a change of it would change."""
    found = {}
    for place in PLACES:
        for path in (project.path / place).rglob("*"):
            if path.name not in MEANT:
                state = path.lstat()
                data = path.read_bytes() if path.is_file() else b""
                found[path] = (state.st_mtime_ns, state.st_mode, data)
    return found


def changed(before, after):
    return sorted(str(path) for path in {*before, *after} if before.get(path) != after.get(path))


def test_no_look_changes_a_file_or_a_folder(looked, cli, project):
    for look in ("status clicks", f"quarantine preview clicks/{DAY}"):
        cli(*look.split())  # makes the files that are meant
    writers, failed, before = {}, {}, tree(project)
    for look in looked:
        status, _, message = cli(*look.split())
        after = tree(project)
        if found := changed(before, after):
            writers[look] = found
        before = after
        if status not in {0, 1} and not look.startswith(MAY_FAIL):
            failed[look] = (status, message)
    assert writers == {}
    assert sorted(failed) == [], failed


def test_an_account_that_may_not_write_sees_the_same(looked, cli, project, tmp_path):
    expected = {look: cli(*look.split())[:2] for look in looked}
    seen = tmp_path / "seen"
    seen.mkdir()
    paths = [path for place in PLACES for path in (project.path / place).rglob("*")]
    for path in (*paths, *(project.path / place for place in PLACES)):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    before = tree(project)

    def look_around():
        drop_rights()
        for number, look in enumerate(looked):
            with (seen / str(number)).open("w") as out:
                sys.stdout, sys.argv = out, ["trainfeed", *look.split()]
                try:
                    main()
                except SystemExit as ended:
                    out.write(f"status {ended.code or 0}")

    assert in_a_fork(look_around) == 0
    assert changed(before, tree(project)) == []
    different = {
        look: text
        for number, look in enumerate(looked)
        if not look.startswith("quarantine")
        and (text := (seen / str(number)).read_text()).rpartition("status ")[2]
        != str(expected[look][0])
    }
    assert different == {}


def test_a_failed_local_job_is_seen_as_failed_by_every_account(looked, cli, project):
    (home,) = project.folder.path.glob(f"training/{DAY}/clicks-*")
    (home / ".lock").chmod(0o444)
    home.chmod(0o555)

    def look():
        drop_rights()
        sys.argv = ["trainfeed", "jobs", "ls"]
        with (project.path / "out").open("w") as sys.stdout:
            main()

    in_a_fork(look)
    assert "failed" in (project.path / "out").read_text()
    (home / ".lock").unlink()
    assert "failed" in cli("jobs", "ls")[1]
    assert not (home / ".lock").exists()


def drop_rights():
    """Take from root the right to write where modes forbid it; it may still read."""
    if os.geteuid():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    sets[0] &= ~(1 << DAC_OVERRIDE | 1 << FOWNER)
    assert libc.capset(header, sets) == 0
