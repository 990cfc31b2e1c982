"""Intervals of an inner join without an accepted upload: wait, and then the rule."""

import pytest

from tests.unit.uploads.labelled import DAY, csv_of
from trainfeed.errors import ConflictError, EmptyUnprovenError, SpecError, WindowOpenError
from trainfeed.specification import load_spec
from trainfeed.versions import read_skip


@pytest.fixture
def inner(labelled):
    """Make the join an inner one, with a rule."""

    def change(rule):
        labelled.edit("join: left, defaults: {label: -1}", f"join: inner, {rule}")
        return labelled

    return change


def test_uploads_are_waited_for_and_the_first_one_ends_the_wait(inner):
    project = inner("wait: 36500d")
    with pytest.raises(WindowOpenError, match=r"waits until 2124-.* \(uploads: wait\): no upload"):
        project.build()
    assert not project.folder.plan_ids(DAY)
    project.put("a.csv", csv_of([(1, 0, None)]))
    assert project.build()["samples"] == 1


def test_after_the_wait_the_interval_fails_by_default_and_the_message_has_the_choices(inner):
    project = inner("wait: 2d")
    with pytest.raises(
        EmptyUnprovenError, match=r"none until 2024-03-04T00:00:00Z: .*uploads\.missing: empty or"
    ):
        project.build()


def test_the_interval_may_be_left_out_and_built_when_labels_come(inner):
    project = inner("wait: 2d, missing: skip")
    assert project.build()["verdict"] == "skipped"
    assert read_skip(project.folder, DAY).why == (
        "no upload of the interval was accepted; it was waited for until 2024-03-04T00:00:00Z"
    )
    project.put("a.csv", csv_of([(1, 0, None), (2, 1, None)]))
    assert project.build()["samples"] == 2
    assert read_skip(project.folder, DAY) is None


def test_the_interval_may_be_published_without_samples_and_later_labels_need_a_reason(inner):
    project = inner("missing: empty")
    assert project.build()["samples"] == 0
    manifest = project.version().manifest
    assert manifest.empty
    assert manifest.empty_because == {
        "uploads": "missing: no upload of the interval was accepted; it was waited for until"
        " 2024-03-02T00:00:00Z"
    }
    assert manifest.filtered == {"unlabelled": 100}
    assert project.build()["verdict"] == "identical"
    project.put("a.csv", csv_of([(1, 0, None)]))
    with pytest.raises(ConflictError, match="--rebuild"):
        project.build()
    assert project.build(rebuild="labels came")["samples"] == 1
    assert project.version().manifest.empty_because == {}


@pytest.mark.parametrize("rule", ["wait: 2d", "missing: skip"])
def test_a_left_join_needs_no_upload_and_has_no_such_rule(labelled, rule):
    labelled.edit("join: left,", f"join: left, {rule},")
    with pytest.raises(SpecError, match="beside join left, which publishes samples"):
        load_spec(labelled.env.datasets / "clicks")
