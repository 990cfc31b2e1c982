"""Which versions a build of now would make otherwise, why, and what that costs."""

from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.uploads.labelled import csv_of, make_labelled
from trainfeed.core.intervals import parse_range
from trainfeed.errors import ConflictError, NotFoundError, SourceUnreachableError
from trainfeed.look.outdated import find_outdated
from trainfeed.pipeline import OutdatedRule
from trainfeed.pipeline.inputs.kept_inputs import PublishedInputs
from trainfeed.pipeline.planner.planner import Planner

DAY, NEXT = "2024-03-01", "2024-03-02"


def found(project, asked=None):
    span = None if asked is None else parse_range(asked)
    return find_outdated(project.spec, project.env, span=span)


def state(project, interval=DAY):
    return {each.interval: each.state for each in found(project).intervals}.get(interval)


def causes(project):
    return [cause.text for each in found(project).intervals for cause in each.causes]


@pytest.fixture
def built(project):
    project.prebuilt()
    return project


def test_a_version_of_the_present_code_is_current(built):
    report = found(built)
    assert report.counts == {"current": 1}
    assert report.is_in_order
    assert (report.causes, report.cost.intervals) == ([], 0)


def test_code_that_changed_is_a_cause(built):
    built.edit("< 0", "<= 0", "preprocess.py")
    (cause,) = causes(built)
    assert cause.startswith("code.preprocess.py: ")
    assert not found(built).is_in_order


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("seed: 7", "seed: 8", ["spec.seed: 7 → 8"]),
        (
            "{train: 0.8, eval: 0.2, by: record}",
            "{train: 0.9, eval: 0.1, by: record}",
            [
                "spec.split.millionths.eval: 200000 → 100000",
                "spec.split.millionths.train: 800000 → 900000",
            ],
        ),
        (
            "label: {dtype: int64}",
            "label: {dtype: int32}",
            ["spec.schema.label.dtype: int64 → int32"],
        ),
        ("end: 2024-03-31", "end: 2024-03-30", []),
        ("seed: 7", "seed: 7\nquality: [{check: count, min: 1}]", []),
    ],
)
def test_values_of_the_specification_are_causes_where_they_determine_content(
    built, old, new, expected
):
    built.edit(old, new)
    assert causes(built) == expected


def test_a_lookup_file_is_a_cause(built):
    (built.env.datasets / "clicks" / "names.csv").write_text("a,b\n1,2\n")
    built.edit("seed: 7", "seed: 7\nlookups: {names: names.csv}")
    (cause,) = causes(built)
    assert cause.startswith("lookups.names: none → ")


def test_an_upload_is_a_cause_once_it_has_its_receipt(tmp_path):
    labelled = make_labelled(tmp_path)
    labelled.prebuilt()
    labelled.put("b.csv", csv_of([(1, 1, None)]))
    assert state(labelled) == "current"
    labelled.check()
    (cause,) = causes(labelled)
    assert cause.startswith("uploads.2024-03-01/b.csv: none → ")
    assert refuses(labelled)


def test_causes_are_counted_with_the_first_version_of_each(built):
    built.edit("seed: 7", "seed: 8")
    built.prebuilt(NEXT)
    built.edit("seed: 8", "seed: 9")
    assert [tuple(cause) for cause in found(built).causes] == [
        ("spec.seed: 7 → 9", 1, f"{DAY}/g0001"),
        ("spec.seed: 8 → 9", 1, f"{NEXT}/g0001"),
    ]


def test_code_whose_text_was_not_kept_is_a_cause_as_a_whole(built):
    shutil.rmtree(built.folder.path / "code")
    built.edit("< 0", "<= 0", "preprocess.py")
    (cause,) = causes(built)
    assert cause.startswith("code: ")


def test_a_file_of_code_that_is_new_is_a_cause(built):
    (built.env.datasets / "clicks" / "words.py").write_text("WORDS = 1\n")
    (cause,) = causes(built)
    assert cause.startswith("code.words.py: none → ")


def test_without_the_plan_the_manifest_has_some_causes(built):
    shutil.rmtree(built.folder.path / "plans")
    built.edit("< 0", "<= 0", "preprocess.py")
    built.edit("label: {dtype: int64}", "label: {dtype: int32}")
    assert [cause.partition(":")[0] for cause in causes(built)] == [
        "code.preprocess.py",
        "spec.schema.label.dtype",
    ]


def test_without_the_plan_a_cause_may_be_unknown(built):
    shutil.rmtree(built.folder.path / "plans")
    built.edit("seed: 7", "seed: 8")
    assert causes(built) == ["a value of the fingerprint that no kept file shows"]


def test_a_plan_that_was_changed_is_not_believed(built):
    path = built.folder.plan(DAY, built.version().manifest.plan)
    plan = json.loads(path.read_text())
    plan["fingerprint_of"]["spec"]["seed"] = 4711
    path.write_text(json.dumps(plan))
    built.edit("seed: 7", "seed: 8")
    assert causes(built) == ["a value of the fingerprint that no kept file shows"]


def test_a_damaged_manifest_is_unreadable_and_keeps_no_other_from_its_state(built):
    built.prebuilt(NEXT)
    (built.version().path / "MANIFEST.json").write_text("{}")
    report = found(built)
    assert {each.interval: each.state for each in report.intervals} == {
        DAY: "unreadable",
        NEXT: "current",
    }
    assert report.is_unreadable


def test_an_interval_that_the_schedule_does_not_have_cannot_be_built_again(built):
    built.edit("start: 2024-03-01", "start: 2024-03-02")
    assert state(built) == "unscheduled"


def test_an_interval_that_was_removed_is_not_outdated(built):
    built.folder.removal_mark(DAY, 1).touch()
    assert state(built) == "removed"


def test_the_newest_generation_counts(built):
    built.edit("seed: 7", "seed: 8")
    built.prebuilt(rebuild="seed")
    assert state(built) == "current"
    built.edit("seed: 8", "seed: 7")
    assert causes(built) == ["spec.seed: 8 → 7"]


def test_a_version_that_readers_do_not_get_yet_is_unfinished_until_the_next_build(built):
    built.edit("seed: 7", "seed: 8")
    built.prebuilt(rebuild="seed")
    (built.folder.interval(DAY) / "CURRENT").write_text("g0001\n")
    (each,) = found(built).intervals
    assert (each.state, each.reason) == (
        "unfinished",
        "readers still get g0001: the publication was not finished",
    )
    assert not found(built).is_in_order
    built.prebuilt(outdated=OutdatedRule.REBUILD)
    assert state(built) == "current"
    assert built.folder.last_generation(DAY) == 2


def test_a_range_has_its_intervals_only(built):
    built.prebuilt(NEXT)
    assert [each.interval for each in found(built, NEXT).intervals] == [NEXT]
    assert [each.interval for each in found(built, "2024-03").intervals] == [DAY, NEXT]


def test_a_range_without_a_version_is_an_error_and_no_good_answer(built):
    for asked in ("2031-01", NEXT):
        with pytest.raises(NotFoundError, match=f"'clicks' has no published version in {asked}"):
            found(built, asked)


def test_days_of_a_range_that_were_never_built_are_named(built):
    report = found(built, f"{DAY}/2024-03-03")
    assert report.is_in_order
    (doubt,) = report.doubts
    assert doubt == (
        f"2 intervals of {DAY}/2024-03-03 have no version, and were not compared: 2024-03-02;"
        f" 2024-03-03; see trainfeed status clicks {DAY}/2024-03-03"
    )
    built.prebuilt(NEXT)
    assert found(built, f"{DAY}/{NEXT}").doubts == ()


def test_the_cost_is_that_of_the_published_version(built):
    built.edit("seed: 7", "seed: 8")
    (each,) = found(built).intervals
    manifest = built.version().manifest
    read = [leaf["read"]["records"] for leaf in manifest.ledger.values()]
    assert each.cost.records == sum(read) > 0
    assert each.cost.landed is True
    assert each.cost.version_bytes == sum(size for size, _ in manifest.file_digests().values())
    assert each.cost.seconds >= 0
    total = found(built).cost
    assert (total.intervals, total.not_landed, total.seconds_known) == (1, 0, 1)


def test_without_landing_files_the_source_is_read_again(built):
    shutil.rmtree(built.env.landing)
    built.edit("seed: 7", "seed: 8")
    (each,) = found(built).intervals
    assert each.cost.landed is False
    assert found(built).cost.not_landed == 1


def test_without_plans_no_time_is_known(built):
    shutil.rmtree(built.folder.path / "plans")
    built.edit("seed: 7", "seed: 8")
    assert found(built).cost.seconds is None


# Place of the edit → the texts between which it changes.
EDITS = {
    "seed": ("dataset.yaml", "seed: 7", "seed: 8"),
    "split": ("dataset.yaml", "train: 0.8, eval: 0.2", "train: 0.5, eval: 0.5"),
    "spelling": ("dataset.yaml", "{codec: zstd,", "{codec: 'zstd',"),
    "codec": ("dataset.yaml", "samples_per_shard: 50", "samples_per_shard: 49"),
    "gate": ("dataset.yaml", "description: test", "description: other"),
    "settle": ("dataset.yaml", "settle: 0s", "settle: 1h"),
    "late": ("dataset.yaml", "topic: clicks,", "topic: clicks, late: separate,"),
    "code": ("preprocess.py", "< 0", "<= 0"),
    "comment": ("preprocess.py", "import Filtered", "import  Filtered"),
}


def each_alone(test):
    """Add the examples with one edit."""
    for name in EDITS:
        test = example(edits=[name])(test)
    return test


@each_alone
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=st.lists(st.sampled_from(sorted(EDITS)), max_size=4, unique=True))
def test_outdated_is_what_the_planner_does_not_find_identical(built, edits):
    for name in edits:
        file, old, new = EDITS[name]
        built.edit(old, new, file)
    try:
        assert (state(built) == "outdated") is refuses(built)
    finally:
        for name in reversed(edits):
            file, old, new = EDITS[name]
            built.edit(new, old, file)


def refuses(project):
    """Return whether the planner of a build refuses the version, from the same inputs."""
    inputs = PublishedInputs(SourceUnreachableError("not asked"))
    planner = Planner(project.spec, project.interval(), project.env, project.folder)
    try:
        return planner.identical(inputs, None) is None
    except ConflictError:
        return True
