"""Whole intervals are retired: nothing of them can be read or is built again, but for a reason."""

import signal
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.roots import write_sealed
from tests.support.warm import command as trainfeed
from trainfeed.core import faults
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.pipeline.plan import plan
from trainfeed.upkeep.retention import Context, prune
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.retire import retirement_of

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]


@pytest.fixture
def three(project):
    """Three intervals, the first with two generations; only the newest two intervals are kept."""
    project.edit("seed: 7", "seed: 7\nretention: {keep_intervals: 2, landing: {keep: 100}}")
    for day in DAYS:
        project.prebuilt(day)
    project.prebuilt(DAYS[0], rebuild="again")
    return project


def run(project, **options):
    return prune(Context.of(project.spec, project.env, who="ann"), **options)


def retired(project):
    return [day for day in DAYS if retirement_of(project.folder, day) is not None]


def test_the_oldest_interval_goes_with_its_plans_and_says_who_and_why(three):
    removals = run(three)
    assert [(each.item.name, each.why) for each in removals.expired] == [
        (DAYS[0], "keep_intervals: 2")
    ]
    assert removals.num_bytes > 0
    folder = three.folder
    assert folder.generations(DAYS[0]) == []
    assert sorted(path.name for path in folder.interval(DAYS[0]).glob("g*")) == [
        "g0001.removed",
        "g0002.removed",
    ]
    found = retirement_of(folder, DAYS[0])
    assert (found.who, found.why, found.last_generation) == ("ann", "keep_intervals: 2", 2)
    # Landing files are found through plans, so these go last.
    assert {each.item.kind for each in run(three).expired} == {"landing"}
    assert {each.item.kind for each in run(three).expired} == {"plans"}
    assert folder.plan_ids(DAYS[0]) == []
    assert run(three).expired == ()


def test_a_retired_interval_is_not_built_again_but_for_a_reason(three):
    run(three)
    with pytest.raises(ConflictError, match=r"retired at .* by ann \(.*keep_intervals"):
        three.build(DAYS[0])
    assert retired(three) == [DAYS[0]]
    assert three.build(DAYS[0], rebuild="the audit asks for it")["generation"] == "g0003"
    assert retired(three) == []
    assert list(three.version(DAYS[0]).problems()) == []


def test_a_dry_run_names_the_same_and_changes_nothing(three):
    before = sorted(str(path) for path in three.folder.path.rglob("*"))
    planned = run(three, dry_run=True)
    assert sorted(str(path) for path in three.folder.path.rglob("*")) == before
    assert run(three) == planned


def test_by_days_after_the_end_and_after_the_last_publication(three):
    three.edit("keep_intervals: 2", "keep_intervals_days: 30")
    now = datetime.now(UTC)
    assert run(three).expired == ()
    later = Context.of(three.spec, three.env, now=now + timedelta(days=31))
    # The newest interval stays whatever its age.
    assert [each.item.name for each in prune(later).expired] == DAYS[:2]


def test_by_bytes_the_oldest_go_until_the_rest_fits(three):
    sizes = {each.item.name: each.item.num_bytes for each in whole(three).expired}
    three.edit("max_bytes: 0", f"max_bytes: {sizes[DAYS[1]] + 10**6}")
    assert run(three).expired == ()


def whole(project):
    project.edit("keep_intervals: 2", "max_bytes: 0")
    return run(project, dry_run=True)


def test_bytes_that_cannot_be_reached_are_said(three):
    removals = whole(three)
    assert [each.item.name for each in removals.expired] == DAYS[:2]
    assert [each.item.name for each in removals.kept] == [DAYS[2]]
    (excess,) = removals.excess
    assert "bytes stay, max_bytes is 0" in excess.told


def test_an_interval_that_a_reader_holds_stays_whole(three):
    with hold_versions(three.folder, [(DAYS[0], 1)], "a test"):
        removals = run(three)
        assert removals.expired == ()
        assert "a test" in removals.kept[0].why
    assert [each.item.name for each in run(three).expired] == [DAYS[0]]


def test_a_lease_between_look_and_mark_keeps_the_interval(three):
    context = Context.of(three.spec, three.env)
    with hold_versions(three.folder, [(DAYS[0], 2)], "a test"):
        removals = prune(context)
        assert removals.expired == ()
        assert removals.kept[0].item.name == DAYS[0]
        assert three.folder.generations(DAYS[0]) == [1, 2]
        assert list(three.version(DAYS[0]).problems()) == []
    assert retired(three) == []


def test_a_training_that_begins_between_look_and_mark_keeps_the_interval(three):
    context = Context.of(three.spec, three.env)
    job = three.folder.training(DAYS[0], "job-1")
    job.mkdir(parents=True)
    versions = [{"interval": DAYS[0], "generation": "g0002"}]
    write_sealed(job / "job.json", {"versions": versions})
    assert prune(context).expired == ()
    assert three.version(DAYS[0]).manifest.generation == 2


def test_a_damaged_retirement_still_stands(three):
    run(three)
    three.folder.retirement(DAYS[0]).write_bytes(b"{")
    with pytest.raises(ConflictError, match="who and why cannot be told"):
        three.build(DAYS[0])


POINTS = [
    "history.after_action",
    "retirement.after_file",
    "prune.after_mark",
    "discard.after_rename",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_retirement_shows_the_newest_generation_or_none_and_is_completed(three, point):
    killed = prune_command(three, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    try:
        assert three.version(DAYS[0]).manifest.generation == 2
    except NotFoundError:
        assert three.folder.generations(DAYS[0]) == []
    for _ in range(3):
        run(three)
    assert retired(three) == [DAYS[0]]
    assert three.folder.plan_ids(DAYS[0]) == []
    assert [path.name for path in three.folder.interval(DAYS[0]).iterdir() if path.is_dir()] == []
    assert run(three).expired == ()


def prune_command(project, fault):
    variables = {
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_DATASETS": str(project.env.datasets),
        faults.VARIABLE: f"{fault}:kill",
    }
    return trainfeed("prune", "clicks", env=variables)


def test_superseded_generations_go_before_whole_intervals_do(three):
    three.edit("keep_intervals: 2", "keep_generations: 1, max_bytes: 0")
    sizes = [each.item.num_bytes for each in run(three, dry_run=True).expired]
    newest = run(three, dry_run=True).kept[0].item.num_bytes
    superseded = sizes[0] // 2
    three.edit("max_bytes: 0", f"max_bytes: {newest + sum(sizes) - superseded + 1000}")
    assert [each.item.name for each in run(three).expired] == [f"{DAYS[0]}/g0001"]


def test_versions_that_gates_of_an_open_build_compare_with_stay(three):
    three.edit("keep_intervals: 2", "keep_intervals: 2, keep_generations: 1")
    plan(three.spec, three.interval("2024-03-02"), three.env, rebuild="open")
    (kept,) = [each for each in run(three, dry_run=True).kept if each.item.name == DAYS[0]]
    assert "compares with it and may still be published" in kept.why


def test_plans_that_were_never_published_have_an_end_of_their_own(three):
    three.edit("keep_intervals: 2", "plans: {keep_days: 30}")
    plan(three.spec, three.interval(DAYS[1]), three.env, rebuild="given up")
    assert run(three).expired == ()
    later = datetime.now(UTC) + timedelta(days=31)
    (gone,) = prune(Context.of(three.spec, three.env, now=later)).expired
    assert (gone.item.kind, gone.item.name[:11]) == ("plans", f"{DAYS[1]}/")
    assert len(three.folder.plan_ids(DAYS[1])) == 1


def test_a_reader_of_a_retired_interval_learns_who_retired_it_and_how_it_comes_back(three):
    run(three)
    with pytest.raises(NotFoundError, match=r"retired at .* by ann .*keep_intervals: 2.*--rebuild"):
        three.version(DAYS[0])
