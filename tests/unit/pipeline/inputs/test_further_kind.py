"""A kind of source that trainfeed does not have is one module and its rows, and builds like any."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from dags._defaults import active_runs, task_limits
from dags._docs import spec_doc
from tests.unit.pipeline.clicks import CODE, Project
from tests.unit.pipeline.inputs.pages_kind import PagesSourceSpec
from trainfeed.core.config import Environment
from trainfeed.errors import SourceReplacedError, SpecError, WindowOpenError
from trainfeed.pipeline import Build
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs.boundary_check import check_boundaries
from trainfeed.pipeline.inputs.source_readers import READERS
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import PlannedFile, PlannedInput, load_plan, planned_of
from trainfeed.pipeline.preview import describe, dry_run, preview
from trainfeed.pipeline.version import version_report
from trainfeed.specification import (
    DatasetSpec,
    KafkaTopics,
    LogsSourceSpec,
    RecordedSourceSpec,
    SourceKind,
    SourceSpec,
)
from trainfeed.versions import Ledger, init_root

DAY = "2024-03-01"
SOURCE = f"pages:{DAY}.json"
SPEC = """
name: clicks
schedule: "@daily"
start: 2024-03-01
end: 2024-03-31
seed: 7
source:
  pages: {folder: FOLDER, land: LAND}
preprocess: {function: "preprocess:clicks"}
schema:
  value: {dtype: float32}
  label: {dtype: int64}
split: {train: 0.8, eval: 0.2, by: record}
output: {samples_per_shard: 50}
resources: {processes: 2, records_per_task: 40}
"""


class WithPages(SourceSpec):
    """The table of sources with a further row."""

    pages: PagesSourceSpec | None = None


@pytest.fixture(autouse=True)
def row():
    """The row in what a specification may say."""
    field = DatasetSpec.model_fields["one_source"]
    before = field.annotation
    field.annotation = WithPages
    DatasetSpec.model_rebuild(force=True)
    yield
    field.annotation = before
    DatasetSpec.model_rebuild(force=True)


@pytest.fixture(params=["true", "false"], ids=["lands", "read by preprocess"])
def project(request, tmp_path):
    datasets = tmp_path / "datasets"
    (datasets / "clicks").mkdir(parents=True)
    text = SPEC.replace("FOLDER", str(tmp_path / "pages")).replace("LAND", request.param)
    (datasets / "clicks" / "dataset.yaml").write_text(text)
    (datasets / "clicks" / "preprocess.py").write_text(CODE)
    init_root(tmp_path / "root")
    places = {place: str(tmp_path / place) for place in ("root", "landing", "work")}
    env = Environment(**places, kafka={}, datasets=datasets)
    (tmp_path / "pages").mkdir()
    write_page(tmp_path, [{"value": i} for i in range(100)])
    return Project(tmp_path, env)


def write_page(path, rows):
    (path / "pages" / f"{DAY}.json").write_text(json.dumps(rows))


def ledger(project):
    return Ledger.from_json(project.version().manifest.ledger)[SOURCE]


def test_a_further_kind_goes_from_plan_to_a_version(project):
    report = project.build()
    assert (report["verdict"], report["samples"], report["source_reads"]) == ("built", 100, 100)
    assert ledger(project).read.records == 100
    assert project.version().manifest.inputs[SOURCE]["kind"] == "pages"
    again = project.build()
    assert (again["verdict"], again["source_reads"]) == ("identical", 0)


def test_what_a_further_kind_gives_does_not_depend_on_where_it_is_read(project):
    project.build()
    digest = project.version().manifest.content_digest
    other = project.elsewhere("other")
    lands = other.spec.source.kind.lands
    other.edit(f"land: {lands}".lower(), f"land: {not lands}".lower())
    other.build()
    assert other.version().manifest.content_digest == digest


def test_ranges_of_a_further_kind_are_cut_and_land_in_a_folder_of_its_own(project):
    report = plan(project.spec, project.interval(), project.env)
    build = Build(project.spec, project.env, report.ref)
    made = load_plan(project.folder, report.ref)
    assert [(piece.start, piece.end) for piece in made.ranges] == [(0, 40), (40, 80), (80, 100)]
    lands = project.spec.source.kind.lands
    verdicts = set()
    for unit in range(len(made.ingest)):
        verdicts.add(ingest(build, unit).verdict)
    assert verdicts == ({"built"} if lands else {"verified"})
    landed = list((project.path / "landing").rglob("*.arrow"))
    assert len(landed) == (3 if lands else 0)
    assert all(file.is_relative_to(project.path / "landing" / "_pages") for file in landed)


def test_a_page_that_changed_since_the_plan_is_refused(project):
    ref = plan(project.spec, project.interval(), project.env).ref
    write_page(project.path, [{"value": 1}])
    with pytest.raises(SourceReplacedError, match="is not the one that was planned"):
        ingest(Build(project.spec, project.env, ref), 0)


def test_a_page_that_changed_since_the_version_needs_a_rebuild(project):
    project.build()
    write_page(project.path, [{"value": 1}])
    with pytest.raises(SourceReplacedError, match=r"inputs of clicks/.* were replaced"):
        project.build()
    assert project.build(rebuild="a new page")["generation"] == "g0002"


def test_a_page_that_is_not_there_is_what_the_kind_says_of_it(project):
    with pytest.raises(WindowOpenError, match="is not there yet"):
        project.build("2024-03-02")


def test_an_empty_page_says_why(project):
    write_page(project.path, [])
    report = plan(project.spec, project.interval(), project.env)
    assert report.empty_because == {SOURCE: "no_rows"}
    assert project.build()["samples"] == 0


def test_a_dry_run_and_a_preview_read_a_further_kind(project):
    report = dry_run(project.spec, project.interval(), project.env)
    assert (report.offsets, report.reads[0].unit) == (100, "offsets")
    assert f"would read     {SOURCE} [0, 100): 100 offsets" in "\n".join(describe(report))
    assert preview(project.spec, project.interval(), project.env, limit=7)["records"] == 7


def test_pages_reports_and_dags_speak_of_a_further_kind(project):
    project.build()
    (source,) = version_report(project.version(), project.folder)["sources"]
    assert (source["source"], source["unit"]) == (SOURCE, "offsets")
    assert f"**Source:** pages in `{project.path}/pages`" in spec_doc(project.spec)
    assert task_limits(project.spec) == {}
    assert active_runs(project.spec) == project.spec.resources.max_active_runs
    assert check_boundaries(project.spec, project.env) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("folder: /", "folder: ./", "source.pages.folder: expected an absolute path, got './"),
        ("land:", "lnad:", "source.pages.lnad: unknown field; did you mean 'land'?"),
        (
            "pages:",
            "pagse:",
            "expected one of kafka, recorded, logs, iceberg, union, pages, got pagse; did you",
        ),
    ],
)
def test_mistakes_in_a_further_kind_are_named_as_in_any_other(project, old, new, message):
    project.edit(old, new)
    with pytest.raises(SpecError) as caught:
        assert project.spec
    assert message in str(caught.value)


def test_every_row_of_a_specification_has_a_reader():
    assert {KafkaTopics, RecordedSourceSpec, LogsSourceSpec} <= set(READERS)
    rows = {
        "kafka": {"topic": "clicks"},
        "recorded": {"path": "./topic"},
        "logs": {"path": "/logs/dt={start:%Y-%m-%d}"},
        "iceberg": {"table": "shop.clicks"},
        "union": {"eu": {"kafka": {"topic": "a"}}, "us": {"kafka": {"topic": "b"}}},
        "pages": {"folder": "/pages"},
    }
    assert list(rows) == list(WithPages.model_fields)
    for name, value in rows.items():
        kind = WithPages.model_validate({name: value}).kind
        assert isinstance(kind, SourceKind)
        assert type(kind) in READERS


TOPIC = {
    "connection": "c",
    "topic": "t",
    "topic_uuid": "u",
    "cluster": "k",
    "partition": 0,
    "start": 0,
    "end": 9,
}
FILE = {
    "connection": "c",
    "path": "/p/a",
    "compression": "none",
    "timestamp_ms": 0,
    "start": 0,
    "end": 9,
    "modified_ms": 1,
    "file_id": None,
    "checksum": "x",
}


def test_the_kind_of_a_planned_input_is_no_path():
    with pytest.raises(ValidationError, match="kind"):
        planned_of({**FILE, "kind": "../pages"})


@pytest.mark.parametrize(
    ("value", "made", "folder"),
    [
        (TOPIC, PlannedInput, "t/u/p=0"),
        (FILE, PlannedFile, "_logs/"),
        ({**TOPIC, "kind": "pages"}, PlannedInput, "_pages/t/u/p=0"),
        ({**FILE, "kind": "pages"}, PlannedFile, "_pages/"),
    ],
)
def test_planned_inputs_of_two_kinds_never_share_a_landing_file(value, made, folder):
    planned = planned_of(value)
    assert type(planned) is made
    assert planned.model_dump() == value  # no key that does not apply
    assert planned.landing_folder.startswith(folder)
