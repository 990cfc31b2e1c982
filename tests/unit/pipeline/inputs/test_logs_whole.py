"""Incomplete log files: empty, cut, gone, or shorter than before."""

import gzip

import pytest

from tests.unit.pipeline.log_project import DAY, make_log_project
from trainfeed.errors import FormatError, SourceReplacedError, WindowOpenError
from trainfeed.pipeline import Build
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preprocess import preprocess

MARKER_GONE = rf"dt={DAY}/_SUCCESS was there and is gone"


@pytest.fixture
def project(tmp_path):
    return make_log_project(tmp_path)


def planned(project):
    report = plan(project.spec, project.interval(), project.env)
    return Build(project.spec, project.env, report.ref)


@pytest.mark.parametrize("name", ["part-1.txt.gz", "part-2.txt.zst"])
def test_a_compressed_file_of_0_bytes_is_no_complete_one(project, name):
    """Case HD-07: it is what a writer leaves that died before its first byte."""
    (project.logs / name).write_bytes(b"")
    with pytest.raises(FormatError, match=rf"0 bytes, .*: {name}; nothing was read .*hide them"):
        project.build()
    (project.logs / name).rename(project.logs / f"_{name}")
    assert project.build()["verdict"] == "built"


def test_a_plain_file_of_0_bytes_is_one_without_lines(project):
    assert (project.logs / "part-3.txt").stat().st_size == 0
    assert project.build()["verdict"] == "built"


def test_a_version_that_was_built_with_such_a_file_stays_identical(project, monkeypatch):
    monkeypatch.setattr("trainfeed.pipeline.inputs.logs.interval_logs.refuse_cut", lambda *_: None)
    monkeypatch.setattr("trainfeed.sources.log_lines._refuse_no_bytes", lambda *_: None)
    (project.logs / "part-1.txt.gz").write_bytes(b"")
    project.build()
    monkeypatch.undo()
    assert project.build()["verdict"] == "identical"


def test_a_file_cut_between_two_members_is_known_by_its_last_line(project):
    """Nothing in the file tells: only a line that is not ended does, where the writer flushed."""
    (project.logs / "part-0.txt").write_bytes(b"{}\n")
    path = project.logs / "part-1.txt.gz"
    path.write_bytes(gzip.compress(b'{"value": 1}\n{"val'))
    assert project.build()["verdict"] == "built"
    project.edit("wait", "cut_line: fail, wait")
    with pytest.raises(FormatError, match=r"ends with LF, got one of 5 bytes .*keep.* at byte 13"):
        project.elsewhere("other").build()


def test_a_last_line_without_an_end_is_found_in_pieces_of_a_plain_file(project):
    for name in ("part-1.txt.gz", "part-2.txt.zst", "part-3.txt"):
        (project.logs / name).unlink()
    project.edit("64MiB", "100B, cut_line: fail")
    with pytest.raises(FormatError, match="expected a last line that ends with LF"):
        project.build()
    path = project.logs / "part-0.txt"
    path.write_bytes(path.read_bytes() + b"\n")
    assert project.elsewhere("other").build()["verdict"] == "built"


def test_the_plan_remembers_the_marker(project):
    ref = planned(project).ref
    assert load_plan(project.folder, ref).marker == "_SUCCESS"
    project.edit("wait", "stable: 0s, wait")
    other = project.elsewhere("other")
    ref = planned(other).ref
    assert b"marker" not in other.folder.plan(DAY, ref.plan_id).read_bytes()


@pytest.mark.parametrize("land", ["false", "true"])
def test_a_marker_that_goes_between_plan_and_ingest_is_named(project, land):
    project.edit("split_bytes: 64MiB", f"land: {land}")
    where = planned(project)
    (project.logs / "_SUCCESS").unlink()
    with pytest.raises(SourceReplacedError, match=MARKER_GONE):
        ingest(where, 0)
    assert not project.folder.interval(DAY).exists()


def test_a_marker_that_goes_before_the_files_are_read_is_named(project):
    where = planned(project)
    ingest(where, 0)
    (project.logs / "_SUCCESS").unlink()
    with pytest.raises(SourceReplacedError, match=MARKER_GONE):
        preprocess(where, 0)


def test_an_unpublished_folder_that_lost_files_since_a_plan_is_refused(project):
    planned(project)
    (project.logs / "part-2.txt.zst").unlink()
    path = project.logs / "part-0.txt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(
        SourceReplacedError,
        match=r"has less than an earlier plan saw: .*part-0\.txt: length \d+ → 100;"
        r" .*part-2\.txt\.zst: gone; nothing was read .*--allow-gap WHY",
    ):
        project.build()
    assert not project.folder.interval(DAY).exists()


def test_less_than_an_earlier_plan_saw_may_be_allowed_and_is_recorded(project):
    planned(project)
    size = (project.logs / "part-2.txt.zst").stat().st_size
    (project.logs / "part-2.txt.zst").unlink()
    assert project.build(allow_gap="the second collector was a test")["verdict"] == "built"
    assert project.version().manifest.gaps == [
        {
            "source": f"logs:dt={DAY}/part-2.txt.zst",
            "start": 0,
            "end": size,
            "why": "the second collector was a test",
        }
    ]
    assert project.build()["verdict"] == "identical"


def test_a_folder_that_grew_since_a_plan_is_built(project):
    planned(project)
    (project.logs / "part-4.txt").write_text('{"value": 1}\n')
    path = project.logs / "part-0.txt"
    path.write_bytes(path.read_bytes() + b'\r\n{"value": 1}\r\n')
    assert project.build()["verdict"] == "built"


def test_plans_of_another_folder_say_nothing_of_this_one(project):
    planned(project)
    elsewhere = project.logs.parent.with_name("views") / f"dt={DAY}"
    elsewhere.mkdir(parents=True)
    (elsewhere / "part-0.txt").write_text('{"value": 1}\n')
    (elsewhere / "_SUCCESS").touch()
    project.edit("/logs/clicks/", "/logs/views/")
    assert project.build()["verdict"] == "built"


def test_an_earlier_plan_that_cannot_be_read_is_named_and_left_out(project, caplog):
    ref = planned(project).ref
    project.folder.plan(DAY, ref.plan_id).rename(project.folder.plan(DAY, "0" * 16 + "-g0001"))
    project.folder.plan(DAY, "0" * 16 + "-g0001").write_bytes(b'{"format":2}')
    (project.logs / "part-2.txt.zst").unlink()
    assert project.build()["verdict"] == "built"
    assert "is not compared with what is there" in caplog.text


def test_a_file_that_is_empty_where_an_earlier_plan_saw_lines_is_named(project):
    planned(project)
    (project.logs / "part-0.txt").write_bytes(b"")
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt: length \d+ → 0"):
        project.build()


def test_an_incomplete_folder_is_waited_for_before_it_is_compared(project):
    planned(project)
    (project.logs / "part-0.txt").unlink()
    (project.logs / "_SUCCESS").unlink()
    with pytest.raises(WindowOpenError, match="it has no _SUCCESS"):
        project.build()
