"""Berlin days over both changes of 2026, from folders of hours in UTC: built, kept and read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.warm import command
from tests.unit.pipeline.log_project import make_log_project
from trainfeed import open_dataset
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import intervals_in, parse_range
from trainfeed.errors import ConfigError
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, dataset_status
from trainfeed.pipeline import BuildRequest
from trainfeed.pipeline.local import build
from trainfeed.training.launch import window_job
from trainfeed.upkeep.retention import Context, prune, retire
from trainfeed.versions import Version, cover
from trainfeed.versions import schedule as recorded
from trainfeed.versions.tag import apply_change, cover_tag, propose_tag

ZONED = (
    ('schedule: "@daily"\n', 'schedule: "@daily"\ntz: Europe/Berlin\n'),
    ("start: 2024-03-01\nend: 2024-03-31", "start: 2026-03-28\nend: 2026-10-26"),
    ('"/logs/clicks/dt={start:%Y-%m-%d}"', '"/logs/clicks/{hour:%Y-%m-%d/%H}", tz: UTC'),
)
# Three days around each change: the first and last hour of each day in UTC.
DAYS = {
    "2026-03-28": ("2026-03-27T23", 24),
    "2026-03-29": ("2026-03-28T23", 23),
    "2026-03-30": ("2026-03-29T22", 24),
    "2026-10-24": ("2026-10-23T22", 24),
    "2026-10-25": ("2026-10-24T22", 25),
    "2026-10-26": ("2026-10-25T23", 24),
}
HOUR = timedelta(hours=1)


@pytest.fixture
def project(tmp_path):
    """Three lines in every hour of these days, with the hour as the value."""
    project = make_log_project(tmp_path)
    for old, new in ZONED:
        project.edit(old, new)
    schedule = project.spec.schedule_model()
    for name, hours in DAYS.values():
        interval = schedule.interval_named(name)
        assert (interval.end - interval.start) // HOUR == hours
        for number in range(hours):
            hour = interval.start + number * HOUR
            folder = tmp_path / "store/logs/clicks" / f"{hour:%Y-%m-%d/%H}"
            folder.mkdir(parents=True, exist_ok=True)
            value = json.dumps({"value": int(hour.timestamp() // 3600) % 10_000})
            (folder / "part").write_text(f"{value}\n" * 3)
            (folder / "_SUCCESS").touch()
    return project


def built(project, *days):
    schedule = project.spec.schedule_model()
    for day in days:
        for each in intervals_in(schedule, parse_range(day, schedule.zone)):
            build(project.spec, each, project.env, BuildRequest())


def test_every_hour_is_in_one_day_and_ranges_tags_and_status_agree(project):
    built(project, *DAYS)
    names = [name for name, _ in DAYS.values()]
    assert project.folder.intervals() == names
    for name, hours in DAYS.values():
        version = Version.resolve(project.folder, name, None)
        assert version.manifest.ledger["logs:" + _first(version)]["read"]["records"] == 3
        assert sum(e["read"]["records"] for e in version.manifest.ledger.values()) == 3 * hours
    march = cover(project.folder, "2026-03")
    assert [each.path.parent.name for each in march.versions] == names[:3]
    assert march.missing[0] == "2026-03-30T22"  # the 31st
    day = cover(project.folder, "2026-10-25")
    assert [each.path.parent.name for each in day.versions] == ["2026-10-24T22"]
    decision = Decision.now("both changes", who="ana")
    proposal = propose_tag(project.folder, "2026-03-28/2026-03-30", "spring", decision)
    apply_change(project.folder, proposal)
    tag = proposal.after
    assert tag.range == "2026-03-27T23/2026-03-30T21"
    assert len(cover_tag(project.folder, tag).versions) == 3
    attempts = Attempts(Location.parse(project.env.work), datetime.now(UTC))
    span = parse_range("2026-03-28/2026-03-30", "Europe/Berlin")
    found = dataset_status(
        project.folder,
        datasets=project.env.datasets,
        attempts=attempts,
        now=datetime(2026, 11, 1, tzinfo=UTC),
        span=span,
    )
    states = [(each.interval, each.state) for each in found.intervals]
    assert states == [(name, "published") for name in names[:3]]


def test_a_build_by_another_release_of_the_zone_stops_and_changes_nothing(project, monkeypatch):
    """By that release, clocks of Berlin stayed in winter time: the 29th had 24 hours."""
    built(project, "2026-03-28", "2026-03-29")
    before = {path: path.read_bytes() for path in project.folder.path.rglob("*") if path.is_file()}
    monkeypatch.setattr(recorded, "_zone_of", _without_summer(recorded._zone_of))
    with pytest.raises(ConfigError, match="release 2031z here has others from 2026-03-29T01"):
        built(project, "2026-03-30")
    with pytest.raises(ConfigError, match="2031z"):
        open_dataset("clicks", interval="2026-03-29", split="train", root=project.env.root)
    after = {path: path.read_bytes() for path in project.folder.path.rglob("*") if path.is_file()}
    assert {path: after.get(path) for path in before} == before
    monkeypatch.undo()
    built(project, "2026-03-30")


def _without_summer(own):
    def zone_of(name, first, until):
        zone = own(name, first, until)
        return recorded._Zone(zone.name, "2031z", zone.until, zone.offsets[:1])

    return zone_of


TRAIN = "train: {entry: 'train:main', window: 3, launcher: local, ranks: 1}\n"
SPRING, AUTUMN = list(DAYS)[:3], list(DAYS)[3:]


@pytest.mark.parametrize("days", [SPRING, AUTUMN], ids=["spring", "autumn"])
def test_trainings_retention_and_a_second_build_go_by_days_of_the_zone(project, days):
    (project.spec.folder / "train.py").write_text("")
    path = project.spec.folder / "dataset.yaml"
    path.write_text(path.read_text() + TRAIN)
    names = [DAYS[day][0] for day in days]
    span = f"{days[0]}/{days[-1]}"
    built(project, span)
    before = [Version.resolve(project.folder, name, None).manifest for name in names]
    built(project, span)
    assert [Version.resolve(project.folder, name, None).manifest for name in names] == before
    last = project.spec.schedule_model().interval_at(days[-1])
    job = window_job(project.spec, project.env, project.folder, last)
    assert [each.interval for each in job.versions] == names
    hours = sum(hours for _, hours in (DAYS[day] for day in days))
    found = open_dataset("clicks", interval=span, split="train", root=project.env.root)
    other = open_dataset("clicks", interval=span, split="eval", root=project.env.root)
    assert found.num_samples + other.num_samples == 3 * hours
    proposal = propose_tag(project.folder, span, "change", Decision.now("for a test", who="ana"))
    assert [each.interval for each in proposal.after.versions] == names
    context = Context.of(project.spec, project.env, who="ann")
    planned = retire(context, days[1], "for a test", dry_run=True)
    assert [each.item.name for each in planned.intervals] == [names[1]]
    retire(context, days[1], "for a test")
    assert cover(project.folder, span).missing == (names[1],)


def test_the_rules_of_retention_count_days_of_the_zone_over_both_changes(project):
    path = project.spec.folder / "dataset.yaml"
    path.write_text(path.read_text() + "retention: {keep_intervals: 4}\n")
    built(project, *DAYS)
    names = [name for name, _ in DAYS.values()]
    removed = prune(Context.of(project.spec, project.env, who="ann"))
    retired = [each.item.name for each in removed.expired if each.item.kind == "intervals"]
    assert retired == names[:2]
    left = [name for name in names if project.folder.generations(name)]
    assert left == names[2:]
    assert cover(project.folder, "2026-10-24/2026-10-26").missing == ()


def test_commands_take_days_of_the_zone_and_show_both_times(project):
    built(project, "2026-03-29")
    environ = {
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_DATASETS": str(project.env.datasets),
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_LANDING": project.env.landing,
    }
    shown = command("status", "clicks/2026-03-29", "--json", env=environ)
    found = json.loads(shown.stdout)
    (row,) = found["intervals"]
    assert (row["interval"], row["state"]) == ("2026-03-28T23", "published")
    assert row["local"] == "2026-03-29 Europe/Berlin"
    text = command("status", "clicks/2026-03-29", env=environ).stdout
    assert "2026-03-28T23 (2026-03-29 Europe/Berlin)" in text
    one = command("show", "clicks/2026-03-29", "--json", env=environ)
    assert json.loads(one.stdout) == json.loads(
        command("show", "clicks/2026-03-28T23", "--json", env=environ).stdout
    )


def _first(version):
    return min(version.manifest.sources).removeprefix("logs:")
