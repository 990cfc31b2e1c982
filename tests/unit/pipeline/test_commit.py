"""The commit and the steps after it: confirmed, compared, and readable for other accounts."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import Project, batch, day
from tests.unit.pipeline.test_concurrent import run_until
from trainfeed.errors import (
    CommitUnknownError,
    NonDeterminismError,
    QuotaExceededError,
    StorageError,
)
from trainfeed.files.stores import posix
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preview import describe, dry_run
from trainfeed.pipeline.publish import publish
from trainfeed.versions.root import ROOT_MARKER, init_root

IMPURE = ("import os\n\nfrom trainfeed.preprocessing", "int.from_bytes(os.urandom(2))")


def where(project, ref):
    return Build(project.spec, project.env, ref)


def pointer(project):
    return project.folder.interval("2024-03-01") / "CURRENT"


def fail_once(monkeypatch, project, folder):
    """Let the first sync of ``folder`` fail that comes when the version has its name."""
    sync, version = posix.sync_dir, project.folder.version("2024-03-01", 1)
    failed = []

    def failing_once(path):
        if Path(path) == folder and version.exists() and not failed:
            failed.append(path)
            raise StorageError("injected")
        sync(path)

    monkeypatch.setattr(posix, "sync_dir", failing_once)


@pytest.mark.parametrize("which", ["interval", "staging"])
def test_a_commit_that_nobody_confirmed_is_no_success_and_the_retry_confirms_it(
    project, monkeypatch, which
):
    ref = run_until(project, check)
    folder = project.folder
    fail_once(
        monkeypatch,
        project,
        folder.interval("2024-03-01") if which == "interval" else folder.staging,
    )
    with pytest.raises(
        CommitUnknownError, match="run the task again: it first looks whether the version is there"
    ):
        publish(where(project, ref))
    assert not pointer(project).exists()
    assert publish(where(project, ref)).verdict == "published"
    assert pointer(project).read_text() == "g0001\n"
    project.version().verify()


def test_whoever_finds_the_version_there_confirms_it_before_the_pointer_moves(project, monkeypatch):
    ref = run_until(project, check)
    folder = project.folder

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("trainfeed.pipeline.publish.confirm_folder", killed)
        with pytest.raises(KeyboardInterrupt):
            publish(where(project, ref))
    sync, synced = posix.sync_dir, []

    def noted(path):
        synced.append((Path(path), pointer(project).exists()))
        sync(path)

    monkeypatch.setattr(posix, "sync_dir", noted)
    publish(where(project, ref))
    assert synced[:2] == [(folder.interval("2024-03-01"), False), (folder.staging, False)]


def test_readers_get_a_new_generation_also_if_there_is_no_space_for_the_pointer(
    project, monkeypatch
):
    project.record({0: [batch(day(0, 20) + day(1, 2))]})
    project.build()
    replace_file = posix.replace_file

    def full(path, *args, **options):
        if Path(path).name == "CURRENT":
            raise QuotaExceededError("no space")
        replace_file(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(posix, "replace_file", full)
        assert project.build(rebuild="again")["generation"] == "g0002"
    assert project.folder.readable_generation("2024-03-01") == 2
    # The next run writes it again.
    project.build()
    assert pointer(project).read_text() == "g0002\n"


def beside(project):
    """The same data set, published to the same place, with work files of its own."""
    return Project(project.path, replace(project.env, work=str(project.path / "beside")))


def make_impure(project):
    project.edit("from trainfeed.preprocessing", IMPURE[0], "preprocess.py")
    project.edit('"value": row["value"]', f'"value": {IMPURE[1]}', "preprocess.py")


def test_the_slower_of_two_runs_with_other_bytes_is_told_and_the_published_version_stays(project):
    make_impure(project)
    slower, faster = beside(project), project
    ref = run_until(slower, check)
    run_until(faster, check)
    first = publish(where(faster, ref))
    with pytest.raises(NonDeterminismError, match="make preprocessing a pure function"):
        publish(where(slower, ref))
    assert project.version().manifest.content_digest == first.summary.content_digest
    project.version().verify()
    assert (Path(slower.env.work) / "spill" / ref.plan_id / "00000.arrow").exists()


def test_after_that_has_been_said_the_interval_is_published_for_everybody(project):
    make_impure(project)
    slower = beside(project)
    ref = run_until(slower, check)
    run_until(project, check)
    publish(where(project, ref))
    with pytest.raises(NonDeterminismError):
        publish(where(slower, ref))
    assert slower.build()["verdict"] == "identical"
    assert not (Path(slower.env.work) / "spill" / ref.plan_id).exists()


def test_the_slower_of_two_runs_with_equal_bytes_adopts_the_version(project):
    slower = beside(project)
    ref = run_until(slower, check)
    project.build()
    assert publish(where(slower, ref)).verdict == "published"


def test_a_verdict_that_cannot_be_read_does_not_undo_a_success(project):
    slower = beside(project)
    ref = run_until(slower, check)
    project.build()
    verdict = Path(slower.env.work) / "spill" / ref.plan_id / "check.json"
    verdict.write_bytes(b"{")
    assert publish(where(slower, ref)).verdict == "published"


def test_a_version_can_be_read_by_other_accounts_whatever_the_umask(project):
    root = project.path / "new" / "root"
    project = Project(project.path, replace(project.env, root=str(root)))
    before = os.umask(0o077)
    try:
        init_root(root)
        project.build()
    finally:
        os.umask(before)
    version = project.version().path
    for folder in (version, *(path for path in version.parents if path.is_relative_to(root))):
        assert folder.stat().st_mode & 0o777 == 0o755, folder
    for file in (pointer(project), root / ROOT_MARKER):
        assert file.stat().st_mode & 0o777 == 0o644


def test_folders_that_are_there_keep_their_mode(project):
    project.folder.path.mkdir()
    project.folder.path.chmod(0o750)
    project.build()
    assert project.folder.path.stat().st_mode & 0o777 == 0o750


def test_a_reason_counts_once_and_that_is_said(project):
    project.build()
    project.build(rebuild="damaged")
    interval = project.interval()
    assert plan(project.spec, interval, project.env).note is None
    planned = plan(project.spec, interval, project.env, rebuild="damaged")
    assert planned.verdict == "identical"
    assert "g0002 was built for this reason already" in planned.note
    report = project.build(rebuild="damaged")
    assert (report["verdict"], report["note"]) == ("identical", planned.note)
    (line,) = describe(dry_run(project.spec, interval, project.env, rebuild="damaged"))
    assert line.endswith(planned.note)
    assert project.build(rebuild="damaged on 2024-04-01")["generation"] == "g0003"


def test_a_plan_of_what_has_landed_reads_no_landing_file(project, monkeypatch):
    ref = run_until(project, ingest)
    monkeypatch.setattr("trainfeed.pipeline.landed_ranges.landed_leaf", lambda *_: 1 / 0)
    again = plan(project.spec, project.interval(), project.env)
    assert again.ref == ref


def test_a_landing_file_is_looked_at_once(project, monkeypatch):
    from trainfeed.sources import LandingFile

    ref = run_until(project, ingest)
    read, batches = LandingFile.read_batch, []

    def counted(self, index):
        # The file itself: the id of one that is gone may be that of the next.
        batches.append((self, index))
        return read(self, index)

    monkeypatch.setattr(LandingFile, "read_batch", counted)
    assert ingest(where(project, ref), 0).verdict == "adopted"
    assert len(batches) == len({(id(file), index) for file, index in batches}) > 0
