"""Boundary files go when no interval and no proof needs them; neighbours never disagree."""

import shutil
import signal
from datetime import timedelta

import pytest

from tests.unit.pipeline.clicks import Project, batch, day, rewrite_sealed
from tests.unit.pipeline.conftest import environment_of, make_project
from tests.unit.upkeep.retention.test_intervals import prune_command
from trainfeed.errors import ConflictError
from trainfeed.pipeline.inputs.boundary_files import read_boundary
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.planner import planner as _planner
from trainfeed.upkeep.retention import KINDS, Context, prune, retire, scheduled_kinds
from trainfeed.upkeep.retention.boundaries import BoundaryFiles
from trainfeed.versions.history import actions
from trainfeed.versions.lease import hold_build

UUID = "11111111-1111-4111-8111-111111111111"
DAYS = [f"2024-03-{number:02d}" for number in range(1, 8)]
KIND = (BoundaryFiles(),)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Seven intervals, of which the last three are kept; the others have no plan any more."""
    project = make_project(tmp_path_factory.mktemp("week"))
    rows = [row for number in range(9) for row in day(number, 12)]
    project.record({partition: [batch(rows)] for partition in range(3)})
    project.edit("seed: 7", "seed: 7\nretention: {keep_intervals: 3, landing: {keep: 100}}")
    for name in DAYS:
        project.prebuilt(name)
    for _ in range(3):
        prune(context(project), [each for each in KINDS if each.name != "boundaries"])
    return project


@pytest.fixture
def week(built, tmp_path):
    """A copy of them."""
    shutil.copytree(built.path, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, environment_of(tmp_path))


def context(project, **more):
    return Context.of(project.spec, project.env, **{"who": "ann", **more})


def place(project, uuid=UUID):
    return project.folder.boundaries("clicks", uuid)


def there(project, uuid=UUID):
    return sorted(path.stem[:8] for path in place(project, uuid).glob("*Z.json"))


def stems(names):
    return [name.replace("-", "") for name in names]


def run(project, **options):
    return prune(context(project), KIND, **options)


def told(found):
    return {each.item.name.rpartition("/")[2][:8]: each.why for each in found}


ALL = [*stems(DAYS), "20240308"]


def test_those_of_retired_intervals_go_but_for_the_neighbour_and_its_evidence(week):
    assert there(week) == ALL
    found = run(week, dry_run=True)
    assert list(told(found.expired)) == ["20240301", "20240302", "20240303"]
    assert told(found.expired)["20240301"] == "2024-03-01 is retired, and no plan of it is left"
    assert "evidence for the boundary at 2024-03-05T00:00:00Z" in told(found.kept)["20240304"]
    assert "was or may be planned" in told(found.kept)["20240305"]
    assert found.num_bytes > 0
    assert there(week) == ALL
    assert run(week) == found
    assert there(week) == ["20240304", *ALL[4:]]
    assert run(week).expired == ()
    (done,) = [each for each in actions(week.folder) if each.details["kind"] == "boundaries"]
    assert (done.action, done.who, len(done.details["items"])) == ("prune", "ann", 3)


def test_the_schedule_removes_them_without_a_rule(week):
    assert "boundaries" in [each.name for each in scheduled_kinds(week.spec)]
    assert prune(context(week), scheduled_kinds(week.spec)).expired
    assert there(week) == ["20240304", *ALL[4:]]


def test_a_neighbour_plans_the_same_as_before_and_a_rebuild_fits_in_between(week):
    before = week.version(DAYS[4]).manifest
    run(week)
    assert week.build(DAYS[4])["verdict"] == "identical"
    assert week.build(DAYS[4], rebuild="again")["generation"] == "g0002"
    assert week.version(DAYS[4]).manifest.content_digest == before.content_digest
    report = week.build(DAYS[1], rebuild="the audit")
    assert report["generation"] == "g0002"
    assert sum(leaf["read"]["records"] for leaf in week.version(DAYS[1]).manifest.ledger.values())
    assert there(week) == ["20240302", "20240303", "20240304", *ALL[4:]]
    assert run(week).expired == ()


def test_an_interval_between_that_is_not_retired_keeps_its_boundaries(week):
    week.prebuilt(DAYS[1], rebuild="the audit")
    found = run(week)
    assert told(found.expired) == {}  # each is evidence for the next, or needed
    assert there(week) == ALL


def test_an_interval_that_may_still_be_planned_keeps_its_boundaries(week):
    week.folder.retirement(DAYS[1]).unlink()
    for mark in week.folder.interval(DAYS[1]).glob("*.removed"):
        mark.unlink()
    assert "20240302" not in told(run(week).expired)
    assert {"20240302", "20240303"} <= set(there(week))


def test_a_plan_keeps_them(week):
    plan(week.spec, week.interval(DAYS[1]), week.env, rebuild="the audit")
    assert {"20240302", "20240303"}.isdisjoint(told(run(week).expired))


def test_a_build_keeps_them(week):
    with hold_build(week.folder, DAYS[1], 2, "a test", length=timedelta(minutes=5)):
        assert {"20240302", "20240303"}.isdisjoint(told(run(week).expired))


def test_a_plan_between_look_and_removal_keeps_its_boundaries(week):
    """The planner reads, retention looks, the plan is written, and its boundaries are there."""
    found = context(week)
    items = [each for each in KIND[0].find(found) if hasattr(each, "item")]
    expired = [each for each in items if each.why.endswith("is left")]
    plan(week.spec, week.interval(DAYS[1]), week.env, rebuild="the audit")
    kept = KIND[0].remove(found, expired)
    assert {"20240302", "20240303"} <= set(told(kept))
    assert {"20240302", "20240303"} <= set(there(week))


def planning(week, monkeypatch, meanwhile):
    """Plan a retired interval; between its boundaries and its plan something else happens."""
    real = _planner.Planner.make

    def make(self, *args, **options):
        monkeypatch.undo()
        meanwhile()
        return real(self, *args, **options)

    monkeypatch.setattr(_planner.Planner, "make", make)
    return plan(week.spec, week.interval(DAYS[1]), week.env, rebuild="the audit")


def test_a_plan_that_was_written_after_the_removal_writes_its_boundaries_again(week, monkeypatch):
    wanted = {name: (place(week) / f"{name}T000000Z.json").read_bytes() for name in ALL[1:3]}
    planning(week, monkeypatch, lambda: run(week))
    for name, data in wanted.items():
        assert (place(week) / f"{name}T000000Z.json").read_bytes() == data
    assert {"20240302", "20240303"} <= set(there(week))
    assert run(week).expired == ()


def test_a_plan_whose_boundary_was_decided_again_is_refused(week, monkeypatch):
    def meanwhile():
        path = place(week) / "20240303T000000Z.json"
        offset = read_boundary(path).offset(0)

        def earlier(value):
            value["partitions"]["0"].pop("evidence")
            value["partitions"]["0"].update(offset=offset - 1, method="scan")

        rewrite_sealed(path, earlier)
        assert read_boundary(path).offset(0) == offset - 1

    with pytest.raises(ConflictError, match=r"decided again while this plan.*run the"):
        planning(week, monkeypatch, meanwhile)


def test_a_damaged_file_keeps_those_of_its_topic(week):
    (place(week) / "20240304T000000Z.json").write_bytes(b"{}")
    found = run(week)
    assert found.expired == ()
    assert "a boundary file of the topic is damaged" in told(found.kept)["20240301"]


def test_an_interval_whose_times_cannot_be_told_keeps_all(week):
    (week.folder.path / "plans" / "no-time").mkdir()
    found = run(week)
    assert found.expired == ()
    assert "interval no-time starts and ends cannot be told" in told(found.kept)["20240301"]


def test_a_longer_interval_of_a_former_schedule_keeps_its_end(week):
    """Such an interval ends where only retired ones of today's schedule begin and end."""
    planned = plan(week.spec, week.interval(DAYS[0]), week.env, rebuild="the audit")
    path = week.folder.plan(DAYS[0], planned.ref.plan_id)
    ends = '"end":"2024-03-02T00:00:00Z"'
    text = path.read_text()
    assert ends in text
    path.write_text(text.replace(ends, '"end":"2024-03-03T00:00:00Z"'))
    assert "20240303" not in told(run(week).expired)


def test_a_topic_that_was_made_again_keeps_a_file_that_shows_the_old_one(week):
    run(week)
    other = place(week, "0" * 8)
    other.mkdir()
    for name in ALL[:3]:
        copy = other / f"{name}T000000Z.json"
        shutil.copy(place(week) / "20240304T000000Z.json", copy)
        at = f"{name[:4]}-{name[4:6]}-{name[6:]}T00:00:00Z"
        rewrite_sealed(copy, lambda value: value.update(at=at, topic_uuid="0" * 8))  # noqa: B023
    whys = told([each for each in run(week).kept if each.item.name.startswith("clicks/00000000")])
    assert "it is the newest of its topic" in whys["20240303"]
    assert there(week, "0" * 8)[-1:] == ["20240303"]


POINTS = ["history.after_action", "boundaries.after_look", "boundaries.after_rename"]
POINTS += ["boundaries.after_renames"]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_is_completed_by_the_next_one(week, point):
    killed = prune_command(week, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert week.build(DAYS[4])["verdict"] == "identical"
    assert set(ALL[4:]) <= set(there(week))
    for _ in range(2):
        prune(context(week))
    assert there(week) == ["20240304", *ALL[4:]]
    assert list(week.folder.trash.iterdir()) == []
    assert prune(context(week)).expired == ()


def test_retired_by_a_person_they_go_with_the_next_run(week):
    retire(context(week), f"{DAYS[4]}/{DAYS[5]}", "no longer wanted")
    prune(context(week), scheduled_kinds(week.spec))
    assert there(week) == ["20240306", "20240307", "20240308"]


def test_without_a_retired_interval_nothing_goes(project):
    project.prebuilt(DAYS[0])
    assert list(KIND[0].find(context(project))) == []
