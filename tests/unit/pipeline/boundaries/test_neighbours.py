"""The boundaries of a plan are compared with what its published neighbours recorded."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.pipeline.clicks import START_MS, Project, batch, day, rewrite_sealed
from tests.unit.pipeline.conftest import environment_of, make_project
from trainfeed.core.intervals import Schedule
from trainfeed.errors import (
    ConflictError,
    FormatError,
    OffsetOutOfRangeError,
    SourceMissingError,
    TrainFeedError,
)
from trainfeed.pipeline.inputs.boundary_files import known_boundaries, read_boundary
from trainfeed.pipeline.inputs.recorded_edges import restore_boundaries
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.planner import planner as _planner
from trainfeed.pipeline.preview import dry_run
from trainfeed.upkeep.retention import Context, retire
from trainfeed.upkeep.withdrawal import Maker, withdraw

UUID = "11111111-1111-4111-8111-111111111111"
DAYS = [f"2024-03-{number:02d}" for number in range(1, 8)]
START = datetime.fromtimestamp(START_MS / 1000, UTC)
WHY = "a test"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Day 1 and day 3 are published, of a topic with seven days and two partitions."""
    project = make_project(tmp_path_factory.mktemp("neighbours"))
    rows = [row for number in range(8) for row in day(number, 20)]
    project.record({0: [batch(rows)], 1: [batch(rows)]})
    project.prebuilt(DAYS[0])
    project.prebuilt(DAYS[2])
    return project


@pytest.fixture
def project(built, tmp_path):
    shutil.copytree(built.path, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, environment_of(tmp_path))


def file_of(project, number, uuid=UUID):
    return project.folder.boundary("clicks", uuid, START + timedelta(days=number))


def move(project, number, by, partition="0", *, evidence=False):
    """Move an offset, and let its evidence agree, or take the evidence away."""

    def change(value):
        found = value["partitions"][partition]
        found["offset"] += by
        if not evidence:
            del found["evidence"]
            found["method"] = "scan"
            return
        at = found["offset"]
        found["method"] = found["evidence"]["method"] = "index"
        found["evidence"]["left"] |= {"first": [at - 1, 0], "last": [at - 1, 0]}
        found["evidence"]["right"] |= {"first": [at, 0], "last": [at, 0]}

    rewrite_sealed(file_of(project, number), change)


def ranges(project, name):
    manifest = project.version(name).manifest
    return {each["partition"]: (each["start"], each["end"]) for each in manifest.inputs.values()}


def planned(project, name, **options):
    return plan(project.spec, project.interval(name), project.env, **options)


@pytest.mark.parametrize("by", [-5, -1, 1, 5])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("evidence", [True, False])
def test_an_offset_that_differs_from_a_published_neighbour_is_refused(
    project, by, number, evidence
):
    """Also if the file is sealed again, and its evidence agrees."""
    move(project, number, by, evidence=evidence)
    with pytest.raises(ConflictError, match=r"kafka:clicks/0: .*boundaries restore clicks"):
        planned(project, DAYS[1])
    assert not list(project.folder.plans(DAYS[1]).glob("*-g*.json"))


def test_a_dry_run_gives_the_same_error(project):
    move(project, 1, 5)
    with pytest.raises(ConflictError, match="have different offsets"):
        dry_run(project.spec, project.interval(DAYS[1]), project.env)


@pytest.mark.parametrize(("number", "partition"), [(1, "1"), (1, "0"), (2, "1"), (2, "0")])
def test_a_partition_that_is_missing_in_a_boundary_file_is_refused(project, number, partition):
    rewrite_sealed(file_of(project, number), lambda value: value["partitions"].pop(partition))
    with pytest.raises((ConflictError, FormatError)):
        planned(project, DAYS[1])


def test_a_file_that_was_removed_and_found_elsewhere_is_refused(project):
    """The log has grown late records meanwhile, so that another boundary is found."""
    file_of(project, 1).unlink()
    rows = [row for number in range(8) for row in day(number, 24)]
    project.record({0: [batch(rows)], 1: [batch(rows)]})
    with pytest.raises(ConflictError, match="in two intervals or in none"):
        planned(project, DAYS[1])


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_the_file_of_the_neighbouring_boundary_is_refused(project, numbers):
    planned(project, DAYS[3])
    here, there = (file_of(project, 2 + number) for number in numbers)
    data = there.read_bytes()
    here.unlink()
    here.write_bytes(data)
    with pytest.raises(FormatError):
        planned(project, DAYS[2], rebuild=WHY)


def test_a_content_that_says_the_time_of_its_path_is_refused_with_its_neighbours(project):
    """Day 2 would be empty, and its records would be those of day 3."""
    data = file_of(project, 2).read_bytes()
    at = f"{START + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    file_of(project, 1).unlink()
    file_of(project, 1).write_bytes(data)
    rewrite_sealed(file_of(project, 1), lambda value: value.update(at=at))
    project.edit("settle: 0s", "settle: 0s, missing: skip")
    with pytest.raises(ConflictError):
        planned(project, DAYS[1])


def test_an_offset_beyond_the_next_boundary_is_refused(project):
    """The boundary in between is not one of the planned interval."""
    planned(project, DAYS[4])
    move(project, 4, 50)
    with pytest.raises(ConflictError, match="wrong order"):
        planned(project, DAYS[3])


def withdrawn(project, name):
    withdraw(project.env, "clicks", name, 1, Maker(who="ann", account="ann", why=WHY))


@pytest.mark.parametrize("name", DAYS[:4])
def test_withdrawn_neighbours_are_compared_and_agree_with_right_boundaries(project, name):
    for each in (DAYS[0], DAYS[2]):
        withdrawn(project, each)
    assert planned(project, name, rebuild=WHY).verdict == "build"


def test_the_boundaries_of_a_withdrawn_neighbour_still_hold(project):
    withdrawn(project, DAYS[0])
    move(project, 1, 5)
    with pytest.raises(ConflictError):
        planned(project, DAYS[1])


def test_a_retired_neighbour_is_not_compared(project):
    retire(Context.of(project.spec, project.env, who="ann"), DAYS[0], WHY)
    move(project, 1, 5)
    assert planned(project, DAYS[1]).verdict == "build"


def test_a_topic_that_was_made_again_is_not_compared(project):
    rows = [row for number in range(8) for row in day(number, 7)]
    project.record(
        {0: [batch(rows)], 1: [batch(rows)]}, uuid="22222222-2222-4222-8222-222222222222"
    )
    assert planned(project, DAYS[1], allow_gap=WHY).verdict == "build"


def test_a_partition_that_was_added_later_begins_at_0(project):
    rows = [row for number in range(8) for row in day(number, 20)]
    project.record({number: [batch(rows)] for number in range(3)})
    planned(project, DAYS[1])
    project.build(DAYS[1])
    assert ranges(project, DAYS[1])[1] == (20, 40)
    project.build(DAYS[3])
    project.build(DAYS[4])
    assert ranges(project, DAYS[4])[2][0] == ranges(project, DAYS[3])[2][1]


def test_a_gap_that_was_allowed_lies_between_neighbours(project):
    """Day 2 begins behind its gap; day 1 is then built again, and day 2 as well."""
    rows = [row for number in range(8) for row in day(number, 20)]
    project.record({0: [batch(rows[25:], first=25)], 1: [batch(rows)]})
    with pytest.raises(OffsetOutOfRangeError):
        project.build(DAYS[1])
    project.build(DAYS[1], allow_gap=WHY)
    assert ranges(project, DAYS[1]) == {0: (25, 40), 1: (20, 40)}
    project.record({0: [batch(rows)], 1: [batch(rows)]})
    for name in DAYS[:3]:
        project.build(name, rebuild=WHY)
    move(project, 1, 7)
    with pytest.raises(ConflictError):
        planned(project, DAYS[0], rebuild="again")


def test_a_file_that_was_moved_aside_explains_what_a_neighbour_recorded(project):
    """The way in which a wrong boundary is put right: moved aside, found again, both built."""
    for number in (1, 2):
        path = file_of(project, number)
        move(project, number, 0)  # without evidence, as a version of before wrote it
        shutil.copy(path, f"{path}.wrong")
        move_again(project, number, 5)
    assert planned(project, DAYS[1]).verdict == "build"
    move_again(project, 1, 1)
    project.build(DAYS[0], rebuild=WHY)
    move_again(project, 1, 1)
    with pytest.raises(ConflictError):
        planned(project, DAYS[1])


def move_again(project, number, by):
    def change(value):
        value["partitions"]["0"]["offset"] += by

    rewrite_sealed(file_of(project, number), change)


def test_restored_files_have_what_the_published_versions_recorded(project):
    before = {number: read_boundary(file_of(project, number)) for number in range(4)}
    file_of(project, 0).unlink()
    file_of(project, 1).unlink()
    file_of(project, 1).write_bytes(b"{}")
    move(project, 2, -3)
    with pytest.raises((ConflictError, FormatError)):
        planned(project, DAYS[1])
    found = {each.path.stem[:8]: each[1:] for each in restore_boundaries(project.folder)}
    assert found == {
        "20240301": ("missing", None),
        "20240302": ("damaged", None),
        "20240303": ("changed", None),
    }
    for number, boundary in before.items():
        again = read_boundary(file_of(project, number))
        assert {p: again.offset(p) for p in (0, 1)} == {p: boundary.offset(p) for p in (0, 1)}
    assert list(restore_boundaries(project.folder)) == []
    project.build(DAYS[1])
    assert ranges(project, DAYS[1]) == {0: (20, 40), 1: (20, 40)}


def test_a_restored_boundary_proves_no_interval_empty(project):
    file_of(project, 1).unlink()
    list(restore_boundaries(project.folder))
    found = read_boundary(file_of(project, 1)).partitions[0]
    assert found.offset < found.log_end
    assert not read_boundary(file_of(project, 1)).is_proved_alone(0) or found.log_start == 0


def test_a_boundary_that_two_versions_recorded_differently_is_not_restored(project, monkeypatch):
    move(project, 1, 5)
    with monkeypatch.context() as patched:
        patched.setattr(_planner, "require_neighbours_agree", lambda *_: None)
        project.build(DAYS[1])
    ((path, was, why),) = restore_boundaries(project.folder)
    assert (path, was) == (file_of(project, 1), "changed")
    assert why is not None
    assert read_boundary(path).offset(0) == 25


def test_a_damaged_neighbour_keeps_nobody_from_being_built(project):
    manifest = project.version(DAYS[0]).path / "MANIFEST.json"
    manifest.chmod(0o644)
    manifest.write_bytes(b"{}")
    assert planned(project, DAYS[1]).verdict == "build"


@pytest.mark.parametrize("cron", ["@daily", "0 * * * *", "*/10 * * * *", "0 0 * * 1"])
def test_neighbours_of_an_interval_are_those_of_the_cron_even_beyond_the_ends(cron):
    first = datetime(2024, 3, 4, tzinfo=UTC)
    schedule = Schedule(cron, first, first)
    interval = schedule.interval_starting(first)
    assert schedule.beside(interval.start)[0].end == interval.start
    assert schedule.beside(interval.start)[1] == interval
    assert schedule.beside(interval.end)[1].start == interval.end


def test_a_plan_that_would_read_nothing_is_compared_too(project):
    """Both boundaries were moved below the end of the day before, which has these records."""
    project.build(DAYS[4])
    retire(Context.of(project.spec, project.env, who="ann"), DAYS[2], WHY)
    move(project, 1, -5)
    move(project, 2, -25)
    with pytest.raises(ConflictError):
        planned(project, DAYS[1], allow_gap=WHY)


def test_no_boundary_is_found_between_wrong_ones(project):
    """Day 5 shares no boundary with a published day, but its start is searched from day 3 on."""
    move(project, 3, -5)
    before = list(project.folder.path.rglob("*Z.json"))
    with pytest.raises(ConflictError, match=r"the boundary at 2024-03-04.*different offsets"):
        planned(project, DAYS[4])
    assert list(project.folder.path.rglob("*Z.json")) == before


@pytest.mark.parametrize(
    "moved", [("start: 2024-03-01", "start: 2024-03-02"), ("end: 2024-03-31", "end: 2024-03-02")]
)
def test_neighbours_outside_of_a_moved_schedule_are_compared(project, moved):
    project.edit(*moved)
    move(project, 1 if "start" in moved[0] else 2, 5)
    with pytest.raises(ConflictError):
        planned(project, DAYS[1])


def test_an_interval_is_not_skipped_because_of_a_changed_boundary(project):
    """Both files say the same offset, and the rule skips intervals without a record."""
    project.edit("settle: 0s", "settle: 0s, missing: skip")
    for partition in "01":
        move(project, 1, 20, partition)
    with pytest.raises(TrainFeedError) as caught:
        planned(project, DAYS[1])
    assert isinstance(caught.value, ConflictError | SourceMissingError)
    assert not project.folder.skip(DAYS[1]).exists()


def test_files_of_a_topic_and_of_the_one_before_it_are_restored(project):
    rows = [row for number in range(8) for row in day(number, 7)]
    other = "22222222-2222-4222-8222-222222222222"
    project.record({0: [batch(rows)], 1: [batch(rows)]}, uuid=other)
    project.build(DAYS[1], allow_gap=WHY)
    file_of(project, 1).unlink()
    file_of(project, 2, other).unlink()
    found = [each.path for each in restore_boundaries(project.folder)]
    assert found == [file_of(project, 1), file_of(project, 2, other)]
    assert read_boundary(file_of(project, 2, other)).offset(0) == 14


def test_a_file_whose_name_is_no_time_is_named(project):
    stray = file_of(project, 1).with_name("notesZ.json")
    stray.write_text("{}")
    with pytest.raises(FormatError, match=r"move the file out of.*notesZ\.json"):
        known_boundaries(project.folder, "clicks", UUID)
