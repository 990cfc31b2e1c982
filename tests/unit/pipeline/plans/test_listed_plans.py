"""Plans of many files: a list of its own, equal versions, and what becomes of a damaged list."""

import gzip
import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pipeline.log_project import DAY, make_log_project
from trainfeed.core import faults
from trainfeed.errors import ConflictError, FormatError
from trainfeed.pipeline import plans
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.planned_lists import ListedPieces, list_of_plan
from trainfeed.pipeline.planner import planner
from trainfeed.pipeline.plans import PlannedFile, cut, load_plan
from trainfeed.pipeline.preview import dry_run, preview
from trainfeed.upkeep.retention.leftovers import KeptTexts
from trainfeed.upkeep.retention.uses import Look

FILES = 90
MANY = 300
LIMIT = 50


def make_many(path, files=FILES):
    project = make_log_project(path)
    for each in project.logs.iterdir():
        each.unlink()
    for number in range(files):
        lines = b"".join(b'{"value": %d}\n' % value for value in range(number, number + number % 4))
        if number % 7 == 3:
            lines += b"not json\n"
        if number % 5 == 0:
            (project.logs / f"part-{number:04d}.gz").write_bytes(gzip.compress(lines, mtime=0))
        else:
            (project.logs / f"part-{number:04d}").write_bytes(lines)
    (project.logs / "_SUCCESS").touch()
    project.edit("split_bytes: 64MiB", "split_bytes: 20B")
    return project


def low(monkeypatch, limit=LIMIT):
    monkeypatch.setattr(plans, "LISTED_ABOVE", limit)


def planned(project):
    return load_plan(project.folder, plan(project.spec, project.interval(), project.env).ref)


def lists(project):
    return sorted((project.folder.path / "lists").glob("*"))


def plan_file(project, made):
    return project.folder.plan(DAY, made.plan_id)


@pytest.fixture
def project(tmp_path):
    return make_many(tmp_path)


def test_a_version_is_the_same_with_a_list_and_without_one(tmp_path, monkeypatch):
    project = make_many(tmp_path, MANY)
    plain = project.elsewhere("plain")
    plain.build()
    low(monkeypatch)
    project.build()
    found, wanted = project.version().manifest, plain.version().manifest
    assert len(lists(project)) == 1
    assert lists(plain) == []
    assert (found.fingerprint, found.content_digest) == (wanted.fingerprint, wanted.content_digest)
    assert (found.splits, found.quarantine, found.filtered, found.late) == (
        wanted.splits,
        wanted.quarantine,
        wanted.filtered,
        wanted.late,
    )
    assert dict(found.inputs) == wanted.inputs
    assert dict(found.ledger) == wanted.ledger
    assert len(found.inputs) == MANY
    assert list(project.version().problems()) == []


def test_a_plan_with_a_list_has_no_file_itself_and_tells_the_same(project, monkeypatch):
    plain = planned(project.elsewhere("plain"))
    low(monkeypatch)
    made = planned(project)
    text = json.loads(plan_file(project, made).read_bytes())
    assert (text["inputs"], text["ranges"], "inputs" in text["fingerprint_of"]) == ({}, [], False)
    assert text["file_list"]["files"] == FILES
    assert dict(made.inputs) == dict(plain.inputs)
    assert list(made.inputs.items()) == list(dict(plain.inputs).items())
    assert list(made.ranges) == list(plain.ranges)
    assert made.ranges[-1] == plain.ranges[-1]
    assert list(made.ranges[3:9]) == plain.ranges[3:9]
    assert made.sources == plain.sources
    assert made.fingerprint_values == plain.fingerprint_of
    assert (made.fingerprint, made.span) == (plain.fingerprint, plain.span)
    assert "logs:none" not in made.inputs
    assert made.inputs.get("logs:none") is None


def test_at_the_limit_nothing_is_listed(project, monkeypatch):
    low(monkeypatch, FILES)
    made = planned(project)
    assert made.file_list is None
    assert lists(project) == []
    assert b"file_list" not in plan_file(project, made).read_bytes()


def test_a_task_of_a_listed_plan_has_a_bounded_number_of_files(project, monkeypatch):
    low(monkeypatch)
    monkeypatch.setattr(planner, "MOST_FILES", 10)
    groups = planned(project).preprocess
    assert sorted(index for group in groups for index in group) == list(
        range(sum(map(len, groups)))
    )
    assert len(groups) > 5
    assert max(map(len, groups)) <= 10


@pytest.mark.parametrize("damage", ["gone", "flipped", "of other files"])
def test_a_damaged_list_is_an_error_and_the_next_plan_writes_it_again(project, monkeypatch, damage):
    low(monkeypatch)
    made = planned(project)
    (path,) = lists(project)
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "flipped":
        path.chmod(0o644)
        path.write_bytes(data[:900] + bytes([data[900] ^ 1]) + data[901:])
    else:
        path.chmod(0o644)
        shorter = dict(list(made.inputs.items())[:-1])
        path.write_bytes(list_of_plan(shorter, cut(shorter, 20)).data)
    with pytest.raises(FormatError, match="clear the run from plan on"):
        load_plan(project.folder, made.ref())
    assert planned(project).file_list == made.file_list
    assert path.read_bytes() == data


def test_a_list_of_another_plan_is_refused_though_it_is_whole(project, monkeypatch):
    low(monkeypatch)
    made = planned(project)
    files = list_of_plan(made.inputs, cut(made.inputs, 1000))
    plans.keep_list(project.folder.file_list(files.place.sha256), files)
    path = plan_file(project, made)
    path.chmod(0o644)
    plans.PLANS.replace(path, made.model_copy(update={"file_list": files.place}))
    with pytest.raises(FormatError, match="ingest: expected every range"):
        load_plan(project.folder, made.ref())


def test_pieces_that_are_not_the_files_are_found(project, monkeypatch):
    made = planned(project)
    ranges = list(made.ranges)
    last = next(n for n, each in enumerate(ranges) if made.inputs[each.source].is_cut)
    ranges[last] = ranges[last].model_copy(update={"end": ranges[last].end + 500})
    pieces = ListedPieces(list_of_plan(made.inputs, ranges), lambda *piece: piece)
    assert list(pieces.wrong()) == [ranges[last].source]


def test_a_published_interval_is_identical_and_a_changed_file_is_told(project, monkeypatch):
    low(monkeypatch)
    project.build()
    assert project.build()["verdict"] == "identical"
    changed = project.logs / "part-0009"
    changed.write_bytes(changed.read_bytes() + b'{"value": 5}\n')
    with pytest.raises(Exception, match="part-0009"):
        project.build()
    assert project.build(rebuild="more lines")["generation"] == "g0002"


def test_a_changed_seed_is_told_as_it_is_without_a_list(project, monkeypatch):
    low(monkeypatch)
    project.build()
    project.edit("seed: 7", "seed: 8")
    with pytest.raises(ConflictError, match=r"spec.seed"):
        project.build()


def test_a_dry_run_and_a_preview_read_many_files(project, monkeypatch):
    low(monkeypatch)
    report = dry_run(project.spec, project.interval(), project.env)
    assert report.sources == FILES
    assert not (project.folder.path / "lists").exists()
    found = preview(project.spec, project.interval(), project.env, limit=20)
    assert found["records"] == 20


def test_lists_go_with_the_last_plan_that_names_them(project, monkeypatch):
    low(monkeypatch)
    made = planned(project)
    kind = KeptTexts("lists")
    (item,) = kind._items(project.folder)
    assert item.name == f"lists/{made.file_list.sha256}.arrow"
    why_of = kind._wanted(Look.at(project.folder))
    assert why_of(item.name) == "a plan names it"
    plan_file(project, made).unlink()
    assert kind._wanted(Look.at(project.folder))(item.name) is None


def test_lines_that_land_are_the_same(project, monkeypatch):
    project.edit("split_bytes: 20B", "split_bytes: 20B, land: true")
    low(monkeypatch)
    project.build()
    landed = [path for path in Path(project.env.landing).rglob("*.arrow") if path.is_file()]
    assert len(landed) == len(list(planned(project.elsewhere("again")).ranges))


def test_a_plan_that_was_killed_after_its_list_is_made_again(project, monkeypatch):
    low(monkeypatch)
    monkeypatch.setenv(faults.VARIABLE, "plan.after_list:kill")
    faults._plan.cache_clear()
    pid = os.fork()
    if not pid:
        planned(project)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    monkeypatch.delenv(faults.VARIABLE)
    faults._plan.cache_clear()
    assert os.WTERMSIG(status) == signal.SIGKILL
    (path,) = lists(project)
    before = path.stat()
    assert list(project.folder.plans(DAY).glob("*")) == []
    assert planned(project).file_list.files == FILES
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_list_of_files_that_were_not_planned_does_not_pass_check(project, monkeypatch):
    low(monkeypatch)
    made = planned(project)
    assert made.require_fingerprint() is None
    others = {
        source: each.model_copy(update={"checksum": "x"}) for source, each in made.inputs.items()
    }
    update = plans._of_list(list_of_plan(others, made.ranges))
    with pytest.raises(FormatError, match="clear the run from plan on"):
        made.model_copy(update=update).require_fingerprint()


FACTS = st.builds(
    PlannedFile,
    connection=st.sampled_from(["hdfs_default", "other"]),
    path=st.text("ab/\u00e9\U0001f600", min_size=1, max_size=5),
    compression=st.sampled_from(["none", "gzip"]),
    timestamp_ms=st.integers(0, 2**62),
    start=st.just(0),
    end=st.integers(0, 400),
    modified_ms=st.integers(0, 2**62),
    file_id=st.none() | st.integers(0, 2**62),
    checksum=st.none() | st.text("0af", max_size=4),
    kind=st.none() | st.just("parquet"),
    layouts=st.none() | st.just("0" * 64),
)


@given(st.dictionaries(st.text(min_size=1, max_size=4).filter(str.isprintable), FACTS, min_size=1))
def test_a_list_gives_back_every_file_and_piece(files):
    ranges = cut(files, 100)
    made = list_of_plan(files, ranges)
    assert made.data == list_of_plan(dict(reversed(files.items())), ranges).data
    update = plans._of_list(made)
    assert dict(update["inputs"]) == files
    assert list(update["ranges"]) == ranges
    assert {source: update["inputs"][source] for source in files} == files
    assert [update["ranges"][index] for index in range(len(ranges))] == ranges
    assert list(update["ranges"].wrong()) == []
    assert made.sources == sorted(files, key=str.encode)
    assert update["ranges"].span == sum(each.end for each in files.values())


def test_a_list_has_every_fact_of_a_file():
    """All but the start, which is 0, and the snapshot of a table, whose files are in no list."""
    assert set(PlannedFile.model_fields) == {*plans.FACTS, "start", "snapshot"}
