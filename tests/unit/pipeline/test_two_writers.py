"""Two builders of one interval: while the first stands at any point, the second builds it whole.

The second has the same work folder, or another one as on another machine, or other code. Whatever
they meet, one version is published, it is whole, and it is that of the first to publish.
"""

import shutil
from dataclasses import replace

import pytest

from tests.unit.pipeline.test_kill import POINTS
from trainfeed.core import faults
from trainfeed.errors import ConflictError
from trainfeed.versions import read_unpublished
from trainfeed.versions.lease import leases

DAY = "2024-03-01"
# Points of processes that work for the builder, and the one in the commit, where the builder holds
# the lock of the interval, so that the second one waits; at the others the second can build.
NOT_HERE = {"preprocess.after_range", "publish.before_rename"}
OURS = [point for point in POINTS if point not in NOT_HERE]


def same_folders(project):
    return project


def another_machine(project):
    places = {place: str(project.path / f"second {place}") for place in ("landing", "work")}
    return replace(project, env=replace(project.env, **places))


def another_checkout(project):
    datasets = project.path / "second datasets"
    shutil.copytree(project.env.datasets, datasets)
    second = replace(project, env=replace(project.env, datasets=datasets))
    second.edit('"label": n', '"label": n + 1', "preprocess.py")
    return second


def build_both(project, second, point, monkeypatch):
    """Build with the first builder, and with the second while the first stands at a point."""
    reports = []

    def meet(name):
        if name == point and not reports:
            reports.append(None)
            try:
                reports[0] = second.build()
            except ConflictError as error:
                reports[0] = error

    monkeypatch.setattr(faults, "point", meet)
    try:
        first = project.build()
    except ConflictError as error:
        first = error
    assert reports, f"{point} was not met"
    return first, reports[0]


@pytest.mark.parametrize(
    "second", [same_folders, pytest.param(another_machine, marks=pytest.mark.ci)]
)
@pytest.mark.parametrize("point", OURS)
def test_of_two_builders_with_one_plan_the_later_adopts_the_version(
    project, point, second, monkeypatch
):
    first, other = build_both(project, second(project), point, monkeypatch)
    # Behind the rename, the second finds the version of the first.
    is_first = point == "publish.after_rename"
    assert (first["verdict"], other["verdict"]) == (
        ("built", "identical") if is_first else ("published", "built")
    )
    assert first["content_digest"] == other["content_digest"]
    assert_one_version(project)


@pytest.mark.parametrize("point", OURS)
def test_of_two_builders_with_other_code_the_later_is_refused(project, point, monkeypatch):
    first, other = build_both(project, another_checkout(project), point, monkeypatch)
    if point == "publish.after_rename":
        first, other = other, first
    assert isinstance(first, ConflictError)
    assert "g0001" in str(first)
    assert "the published version stays" in str(first)
    assert other["verdict"] == "built"
    assert project.version().manifest.content_digest == other["content_digest"]
    assert_one_version(project)


def test_the_later_of_two_builders_stops_before_its_next_stage_and_says_why(project, monkeypatch):
    second = another_checkout(project)
    first, _ = build_both(project, second, "ingest.after_rename", monkeypatch)
    ended = read_unpublished(project.folder, DAY)
    assert (ended.work, ended.error) == ("preprocess", "ConflictError")
    assert "was published by plan" in str(first)
    assert "nothing of this run is visible" in ended.why


def assert_one_version(project):
    assert project.folder.generations(DAY) == [1]
    project.version().verify()
    assert leases(project.folder) == []
