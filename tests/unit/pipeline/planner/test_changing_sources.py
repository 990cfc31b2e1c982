"""History and live under one name: each interval has one source, and the list may grow."""

import gzip
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.look.status.test_status import status_of
from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, event
from trainfeed import open_dataset
from trainfeed.errors import (
    ConflictError,
    OffsetOutOfRangeError,
    Outcome,
    SourceReplacedError,
    SpecError,
    StorageError,
    TopicNotFoundError,
    WindowOpenError,
)
from trainfeed.look.outdated import find_outdated
from trainfeed.pipeline.preview import dry_run
from trainfeed.specification.model import fingerprint_fields

TOPIC = "  kafka: {connection: kafka_default, topic: clicks, settle: 0s}"
ONE = f"source:\n{TOPIC}\n"
ARCHIVE = '{path: "/archive/dt={start:%Y-%m-%d}", wait: 36500d, stable: 0s}'
OLDEST = '{path: "/oldest/{start:%Y}/{start:%m}/{start:%d}", wait: 36500d, done: _DONE}'
# The topic from March 4 on; before it files, in two layouts.
TWO = f"""sources:
  - logs: {ARCHIVE}
    until: 2024-03-04
  -{TOPIC[1:]}
"""
THREE = f"""sources:
  - logs: {OLDEST}
    until: 2024-03-02
  - logs: {ARCHIVE}
    until: 2024-03-04
  -{TOPIC[1:]}
"""
LAST = f"  -{TOPIC[1:]}\n"
DAYS = [f"2024-03-0{number}" for number in range(1, 7)]
PER_DAY = 20


def keys(number):
    return range(number * PER_DAY, (number + 1) * PER_DAY)


@pytest.fixture
def project(project):
    """The topic has days 4 to 6, from offset 0 on; older days are in files."""
    rows = [
        event(key, START_MS + day * DAY_MS + (key % PER_DAY) * 1000)
        for day in (3, 4, 5)
        for key in keys(day)
    ]
    # One of day 5 comes a day late; another stays in order, so that the day has a boundary.
    rows.append(event(999, START_MS + 6 * DAY_MS + 5000))
    project.record({0: [batch(rows[0::2])], 1: [batch(rows[1::2])]})
    for day, folder in enumerate(
        ["oldest/2024/03/01", "archive/dt=2024-03-02", "archive/dt=2024-03-03"]
    ):
        path = project.path / "store" / folder
        path.mkdir(parents=True)
        lines = [json.dumps({"value": key}) for key in keys(day)]
        (path / "part-0.gz").write_bytes(gzip.compress("\n".join(lines[:7]).encode()))
        (path / "part-1").write_text("\n".join(lines[7:]))
        if folder.startswith("oldest"):
            (path / "_DONE").touch()
    return replace(
        project, env=replace(project.env, logs={"hdfs_default": str(project.path / "store")})
    )


def read_keys(project, days=DAYS):
    """The keys of all samples that readers get, each with how often."""
    found = Counter()
    for split in ("train", "eval"):
        asked = {"interval": f"{days[0]}/{days[-1]}", "split": split, "root": project.env.root}
        found.update(int(sample["value"]) for sample in open_dataset("clicks", **asked).reader()())
    return found


def kinds_of(sources):
    return {source.partition(":")[0] for source in sources}


def digests(project, days):
    manifests = {day: project.version(day).manifest for day in days}
    return {day: (found.fingerprint, found.content_digest) for day, found in manifests.items()}


def test_a_backfill_over_the_changes_has_every_record_once(project):
    project.edit(ONE, THREE)
    for day in reversed(DAYS):
        assert project.build(day)["verdict"] == "built"
    assert read_keys(project) == dict.fromkeys(range(6 * PER_DAY), 1)
    kinds = {
        day: {source.partition(":")[0] for source in project.version(day).manifest.inputs}
        for day in DAYS
    }
    assert kinds == {day: {"logs"} if day < "2024-03-04" else {"kafka"} for day in DAYS}


def test_what_is_published_stays_as_it_is_while_the_list_grows_twice(project):
    for day in DAYS[3:]:
        project.build(day)
    before = digests(project, DAYS[3:])
    project.edit(ONE, TWO)
    for day in DAYS[1:]:
        assert project.build(day)["verdict"] == ("built" if day < "2024-03-04" else "identical")
    before |= digests(project, DAYS[1:3])
    project.edit(TWO, THREE)
    assert project.build(DAYS[0])["verdict"] == "built"
    for day in DAYS[1:]:
        assert project.build(day)["verdict"] == "identical"
    assert digests(project, DAYS[1:]) == before
    assert {each.state for each in find_outdated(project.spec, project.env).intervals} == {
        "current"
    }
    # And back: a day is then built from what one source has of it.
    project.edit(THREE, ONE)
    with pytest.raises((SourceReplacedError, ConflictError)):
        project.build(DAYS[1])


def test_the_part_of_the_fingerprint_is_that_of_the_one_source(project):
    alone = fingerprint_fields(project.spec)
    project.edit(ONE, TWO)
    first, last = (fingerprint_fields(each) for each in project.spec.of_each_source)
    assert last == alone
    assert first["source"] != alone["source"]


def test_an_interval_belongs_to_the_source_that_has_not_ended_at_its_start(project):
    project.edit(ONE, THREE)
    change = datetime(2024, 3, 4, tzinfo=UTC)
    found = [project.spec.for_interval(change + n * timedelta(days=1)) for n in range(-3, 2)]
    paths = [None if spec.source.logs is None else spec.source.logs.path for spec in found]
    assert [path and path.split("/")[1] for path in paths] == [
        "oldest",
        "archive",
        "archive",
        None,
        None,
    ]


def test_a_specification_of_several_sources_has_none_of_its_own(project):
    project.edit(ONE, TWO)
    with pytest.raises(LookupError, match="ask for one interval"):
        project.spec.source  # noqa: B018


def test_records_of_the_topic_from_before_the_change_are_the_archives_business(project):
    """A system wrote both for a while: what the topic has of days of the archive is not read."""
    project.edit(ONE, THREE.replace("until: 2024-03-04", "until: 2024-03-05"))
    folder = project.path / "store/archive/dt=2024-03-04"
    folder.mkdir()
    (folder / "part-0").write_text("\n".join(json.dumps({"value": key}) for key in keys(3)))
    for day in DAYS:
        project.build(day)
    assert read_keys(project) == dict.fromkeys(range(6 * PER_DAY), 1)


def test_records_that_come_after_the_change_belong_to_the_day_of_the_topic_and_are_counted(project):
    """A record of the archive's time that the topic got later is late there, not lost."""
    late = event(999, START_MS + 2 * DAY_MS)
    rows = [event(key, START_MS + 3 * DAY_MS + key * 1000) for key in keys(3)]
    project.record({0: [batch([*rows[:10], late, *rows[10:], event(0, START_MS + 4 * DAY_MS)])]})
    project.edit(ONE, THREE)
    project.build(DAYS[3])
    manifest = project.version(DAYS[3]).manifest
    assert manifest.late["late"] == 1
    # The archive counts its own: a file of March 3 has what was written into it.
    project.build(DAYS[2])
    assert project.version(DAYS[2]).manifest.num_samples() == PER_DAY


def test_each_source_waits_by_its_own_rules(project, tmp_path):
    project.edit(ONE, THREE)
    (project.path / "store/archive/dt=2024-03-03").rename(tmp_path / "away")
    with pytest.raises(WindowOpenError, match="the folder is not there"):
        project.build(DAYS[2])
    assert project.build(DAYS[3])["verdict"] == "built"
    found = status_of(project)
    states = {each.interval: each.state for each in found.intervals}
    assert states[DAYS[2]] == "waiting"
    assert states[DAYS[3]] == "published"


def test_an_archive_that_is_away_stops_only_its_own_days(project):
    project.edit(ONE, THREE)
    project.build(DAYS[2])
    away = replace(project, env=replace(project.env, logs={"hdfs_default": "hdfs://127.0.0.1:1/"}))
    assert away.build(DAYS[3])["verdict"] == "built"
    assert away.build(DAYS[2])["verdict"] == "identical"
    with pytest.raises(StorageError) as caught:
        away.build(DAYS[1])
    assert caught.value.outcome is Outcome.RETRY
    assert not project.folder.interval(DAYS[1]).exists()
    assert project.build(DAYS[1])["verdict"] == "built"
    assert read_keys(project, DAYS[1:4]) == dict.fromkeys([*keys(1), *keys(2), *keys(3)], 1)


def test_a_topic_that_is_away_stops_only_its_own_days(project):
    project.edit(ONE, THREE)
    project.build(DAYS[3])
    (project.path / "recorded/clicks").rename(project.path / "away")
    for day in DAYS[:3]:
        assert project.build(day)["verdict"] == "built"
    assert project.build(DAYS[3])["verdict"] == "identical"
    with pytest.raises(TopicNotFoundError):
        project.build(DAYS[4])


def test_a_topic_that_was_made_again_at_the_change_touches_no_day_of_the_archive(project):
    project.edit(ONE, THREE)
    for day in (DAYS[2], DAYS[3]):
        project.build(day)
    before = digests(project, [DAYS[2], DAYS[3]])
    rows = [event(key, START_MS + 4 * DAY_MS + key * 1000) for key in keys(4)]
    rows.append(event(0, START_MS + 6 * DAY_MS))
    project.record({0: [batch(rows)]}, uuid="22222222-1111-4111-8111-111111111111")
    with pytest.raises(SourceReplacedError, match="clicks"):
        project.build(DAYS[3])
    with pytest.raises(OffsetOutOfRangeError, match="deleted and created again"):
        project.build(DAYS[4])
    assert project.build(DAYS[2])["verdict"] == "identical"
    assert project.build(DAYS[1])["verdict"] == "built"
    assert digests(project, [DAYS[2], DAYS[3]]) == before
    # A person who knows that nothing is lost says so.
    assert project.build(DAYS[4], allow_gap="nobody wrote meanwhile")["verdict"] == "built"
    found = read_keys(project, DAYS[1:5])
    assert found == dict.fromkeys([key for day in range(1, 5) for key in keys(day)], 1)


def test_a_dry_run_reads_what_the_interval_has(project):
    project.edit(ONE, THREE)
    for day, kind in ((DAYS[0], "logs"), (DAYS[3], "kafka")):
        said = dry_run(project.spec, project.interval(day), project.env)
        assert kinds_of(each.source for each in said.reads) == {kind}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    until: 2024-03-02\n", "", "expected until, the time at which the next source begins"),
        ("until: 2024-03-02", "until: 2024-03-04", "expected a time after 2024-03-04T00:00:00Z"),
        ("until: 2024-03-02", "until: 2024-03-01", "order the sources by time"),
        ("until: 2024-03-04", "until: 2024-03-04T12:00:00Z", "expected the start of an interval"),
        ("until: 2024-03-04", "until: 2024-05-04", "none starts later"),
        (
            f"  -{TOPIC[1:]}\n",
            f"  -{TOPIC[1:]}\n    until: 2024-03-09\n",
            "no until for the last source",
        ),
        (LAST, f"{LAST}{ONE}", "one of source and sources"),
        ("    until: 2024-03-02\n", f"    until: 2024-03-02\n  {TOPIC}\n", "expected one of kafka"),
        (THREE, "", "a source, or a list of sources of different times"),
        (THREE, "sources: []\n", "sources"),
    ],
)
def test_lists_that_leave_a_hole_or_give_a_day_twice_are_refused(project, old, new, message):
    project.edit(ONE, THREE)
    project.edit(old, new)
    with pytest.raises(SpecError, match=message):
        project.spec  # noqa: B018


def test_the_end_of_a_source_is_a_day_of_the_zone_as_the_start_is(project):
    project.edit("start: 2024-03-01\n", "start: 2024-03-01\ntz: Europe/Berlin\n")
    project.edit(ONE, TWO.replace("stable: 0s", "stable: 0s, tz: Europe/Berlin"))
    assert project.spec.ends_of_sources == (datetime(2024, 3, 3, 23, tzinfo=UTC), None)
    assert project.interval("2024-03-03T23").start == project.spec.ends_of_sources[0]
