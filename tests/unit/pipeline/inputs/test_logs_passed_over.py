"""What is not read of a folder of logs is named by plan, version and status."""

import os
from datetime import UTC, datetime

import pytest

from tests.unit.pipeline.log_project import DAY, make_log_project
from trainfeed.errors import ConflictError, FormatError, SourceReplacedError
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, dataset_status
from trainfeed.pipeline import Build
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.planner.decision import require_complete
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preview import describe, dry_run, preview
from trainfeed.sources import log_folders as _logs_entries
from trainfeed.versions.manifest import Manifest

LEFT = {
    "_SUCCESS": "marker",
    ".hidden": "hidden",
    "new.log.tmp": "unfinished",
    "part-0.txt~": "backup",
    "part-0.txt.md5": "checksum",
    "part-1.txt.gz.bak": "backup",
    "latest": "link",
}


@pytest.fixture
def project(tmp_path):
    return make_log_project(tmp_path)


@pytest.fixture
def littered(project):
    for name in LEFT:
        if name == "latest":
            (project.logs / name).symlink_to("part-0.txt")
        else:
            (project.logs / name).write_bytes(b'{"value": 1}\n')
    return project


def planned(project):
    report = plan(project.spec, project.interval(), project.env)
    return Build(project.spec, project.env, report.ref)


def status(project):
    now = datetime.now(UTC)
    attempts = Attempts(Location.parse(project.env.work), now)
    found = dataset_status(
        project.folder, datasets=project.env.datasets, attempts=attempts, now=now
    )
    return found.intervals[0]


def as_before(monkeypatch):
    """Decide as before there were rules: everything but the hidden is a log."""
    monkeypatch.setattr(_logs_entries, "_KNOWN", _logs_entries._KNOWN[:1])
    monkeypatch.setattr(_logs_entries, "_COMPANIONS", {})
    monkeypatch.setattr(_logs_entries, "_twins", lambda _: ())
    monkeypatch.setattr(_logs_entries, "format_of_name", lambda _: None)
    monkeypatch.setattr(_logs_entries, "_doubtful", lambda *_: None)


def test_plan_and_manifest_name_what_was_passed_over(littered):
    littered.build()
    manifest = littered.version().manifest
    assert manifest.passed_over == LEFT
    assert load_plan(littered.folder, planned(littered).ref).passed_over == LEFT
    assert set(manifest.sources) == {
        f"logs:dt={DAY}/part-{n}.txt{end}" for n, end in enumerate(["", ".gz", ".zst", ""])
    }
    assert Manifest.read(littered.version().path)[0].passed_over == LEFT


def test_names_of_passed_over_files_are_outside_of_the_fingerprint(project):
    project.build()
    clean = project.version().manifest
    for name in ("new.log.tmp", ".hidden"):
        (project.logs / name).write_bytes(b"x\n")
    assert project.build()["verdict"] == "identical"
    other = project.elsewhere("other")
    other.build()
    found = other.version().manifest
    assert found.passed_over.keys() - clean.passed_over.keys() == {"new.log.tmp", ".hidden"}
    assert (found.fingerprint, found.content_digest) == (clean.fingerprint, clean.content_digest)


def test_without_such_entries_plan_and_manifest_have_the_bytes_of_before(project):
    project.edit("wait", "stable: 0s, wait")
    (project.logs / "_SUCCESS").unlink()
    project.build()
    manifest = project.version().path / "MANIFEST.json"
    (file,) = project.folder.path.glob(f"plans/{DAY}/*.json")
    assert b"passed_over" not in manifest.read_bytes() + file.read_bytes()


def test_the_report_of_the_plan_tells_and_comes_back_from_its_json(littered):
    report = plan(littered.spec, littered.interval(), littered.env)
    for name, reason in LEFT.items():
        assert name in report.passed_over
        assert reason in report.passed_over
    assert report.to_json()["passed_over"] == report.passed_over


def test_a_warning_names_all_but_markers(littered, caplog):
    littered.build()
    told = " ".join(record.getMessage() for record in caplog.records)
    assert all(name in told for name in LEFT if name != "_SUCCESS")
    assert "marker" not in told


def test_a_dry_run_and_a_preview_tell_it(littered):
    arguments = littered.spec, littered.interval(), littered.env
    assert "new.log.tmp" in "\n".join(describe(dry_run(*arguments)))
    for limit in (1, 1000):
        assert preview(*arguments, limit=limit)["passed_over"] == LEFT


def test_the_status_of_the_interval_tells_all_but_markers(littered):
    littered.build()
    for _ in range(2):  # from the manifest, then from the index
        found = status(littered)
        assert found.state == "published"
        assert "new.log.tmp" in found.reason
        assert "_SUCCESS" not in found.reason


def test_the_status_of_a_folder_with_its_marker_alone_says_nothing(project):
    project.build()
    assert status(project).reason == ""


@pytest.mark.parametrize("marker", ["READY", ".done", "all.txt"])
def test_a_marker_with_words_in_it_is_no_record(project, marker):
    (project.logs / "_SUCCESS").unlink()
    (project.logs / marker).write_text("lines=220\n")
    project.edit("wait", f"done: {marker}, wait")
    project.build()
    manifest = project.version().manifest
    assert sum(leaf["read"]["records"] for leaf in manifest.ledger.values()) == 220
    assert manifest.passed_over == {marker: "marker"}
    (project.logs / marker).unlink()
    assert project.build()["verdict"] == "identical"


def test_a_plan_whose_version_is_there_is_written_again_with_the_names(littered):
    littered.build()
    (file,) = littered.folder.path.glob(f"plans/{DAY}/*.json")
    before = load_plan(littered.folder, planned(littered).ref)
    file.unlink()
    assert planned(littered).ref == before.ref()
    assert load_plan(littered.folder, before.ref()).passed_over == before.passed_over


@pytest.mark.parametrize(
    "names", [("part-9.done",), ("READY",), ("part-0.txt.bak",), ("part-1.txt",), ("x.avro",)]
)
def test_a_version_that_read_what_is_not_read_by_now_stays_identical(project, monkeypatch, names):
    with monkeypatch.context() as patch:
        as_before(patch)
        for name in names:
            (project.logs / name).write_bytes(b'{"value": 1}\n')
        project.build()
    assert len(project.version().manifest.sources) == 4 + len(names)
    assert project.build()["verdict"] == "identical"
    assert require_complete(project.spec, project.interval(), project.env) in {0, 4}


def test_a_rebuild_of_such_a_version_reads_by_the_rules_of_now(project, monkeypatch):
    with monkeypatch.context() as patch:
        as_before(patch)
        (project.logs / "READY").write_bytes(b'{"value": 1}\n')
        project.build()
    project.build(rebuild="without the marker")
    manifest = project.version().manifest
    assert manifest.generation == 2
    assert f"logs:dt={DAY}/READY" not in manifest.sources
    assert manifest.passed_over["READY"] == "marker"
    assert project.build()["verdict"] == "identical"


def test_a_rebuild_of_a_version_with_twins_stops(project, monkeypatch):
    with monkeypatch.context() as patch:
        as_before(patch)
        (project.logs / "part-1.txt").write_bytes(b'{"value": 1}\n')
        project.build()
    with pytest.raises(FormatError, match="count twice"):
        project.build(rebuild="again")


def test_a_further_entry_stops_it_although_others_stay_in_it(project, monkeypatch):
    with monkeypatch.context() as patch:
        as_before(patch)
        (project.logs / "READY").write_bytes(b'{"value": 1}\n')
        project.build()
    (project.logs / "hour=05").mkdir()
    with pytest.raises(FormatError, match="hour=05"):
        project.build()


@pytest.mark.parametrize("name", [b"_a\xff", b".a\nb", b"Icon\r"])
def test_names_that_cannot_be_printed_are_named_with_escapes(project, name):
    (project.logs / os.fsdecode(name)).write_bytes(b"x\n")
    project.build()
    assert project.build()["verdict"] == "identical"
    told = project.version().manifest.passed_over.keys() - {"_SUCCESS"}
    assert all("\\" in each and each.isprintable() for each in told)
    (project.logs / os.fsdecode(b"a\xff")).write_bytes(b"x\n")
    with pytest.raises(FormatError, match="printable"):
        project.build()


def test_an_old_plan_with_twins_is_still_the_folder_that_it_was(project, monkeypatch):
    """A repair runs the stages of the plan again."""
    with monkeypatch.context() as patch:
        as_before(patch)
        (project.logs / "part-1.txt").write_bytes(b'{"value": 1}\n')
        (project.logs / "READY").write_bytes(b'{"value": 1}\n')
        run = planned(project)
    assert ingest(run, 0).verdict == "verified"


def test_a_further_entry_that_stops_a_build_stops_the_look_at_a_version(project):
    project.build()
    (project.logs / "hour=05").mkdir()
    with pytest.raises(FormatError, match="hour=05"):
        project.build()


def test_a_further_log_beside_a_version_is_no_secret(project):
    project.build()
    (project.logs / "part-7.txt").write_bytes(b'{"value": 1}\n')
    with pytest.raises(ConflictError):
        project.build()


def test_what_an_earlier_plan_would_have_read_is_not_gone(project, monkeypatch):
    with monkeypatch.context() as patch:
        as_before(patch)
        (project.logs / "READY").write_bytes(b'{"value": 1}\n')
        planned(project)
    assert project.build()["verdict"] == "built"
    assert project.version().manifest.gaps == []


def test_what_came_after_the_plan_is_named_or_refused_by_the_stage(project):
    run = planned(project)
    (project.logs / "later.log.tmp").write_bytes(b"x\n")
    ingest(run, 0)
    (project.logs / "part-0.txt.gz").write_bytes(b"x\n")
    with pytest.raises(FormatError, match="count twice"):
        ingest(run, 0)
    (project.logs / "part-0.txt.gz").rename(project.logs / "part-7.txt")
    with pytest.raises(SourceReplacedError, match=r"part-7\.txt was added"):
        ingest(run, 0)


@pytest.mark.parametrize("name", ["pipe.log", "part.txt.part", "part-0.txt.gz"])
def test_a_folder_that_is_not_complete_is_waited_for_whatever_lies_in_it(project, name):
    """A compressor or copy at work is no fault before the marker is there."""
    (project.logs / "_SUCCESS").unlink()
    if name == "pipe.log":
        os.mkfifo(project.logs / name)
    else:
        (project.logs / name).write_bytes(b"x\n")
    with pytest.raises(Exception, match="it has no _SUCCESS"):
        project.build()


def test_no_lines_are_skipped_because_of_a_broken_link(project):
    """``missing: empty`` speaks for a folder that holds nothing, and a link is something."""
    for path in project.logs.iterdir():
        path.unlink()
    (project.logs / "part-0.txt").symlink_to("nowhere")
    project.edit("wait: 36500d", "wait: 0s, missing: empty")
    with pytest.raises(Exception, match="holds nothing"):
        project.build()
