"""Topics without a record of an interval, or that are not there: wait, and then the rule."""

import json
from datetime import UTC, datetime

import pytest

from tests.unit.pipeline.clicks import batch, day, rewrite_sealed
from trainfeed.errors import SourceMissingError, TopicNotFoundError, WindowOpenError
from trainfeed.files.stores import Location
from trainfeed.pipeline.preview import dry_run
from trainfeed.sources import record_topic
from trainfeed.versions import Manifest, read_skip
from trainfeed.versions.layout import MANIFEST

# Days 0, 1 and 2 of March have records. A wait of a hundred years has not ended, one of two has.
IDLE, NEXT = "2024-03-04", "2024-03-05"
LONG, OVER = "wait: 36500d", "wait: 2d"


def rule(project, text):
    project.edit("settle: 0s", f"settle: 0s, {text}")


def put(project, *days, partitions=3):
    """Write the topic again, with further days behind the first three: it has grown."""
    rows = [day(0, 60 + p) + day(1, 40 + p) + day(2, 30) for p in range(partitions)]
    for number, count in days:
        for partition in rows:
            partition.extend(day(number, count))
    project.record({p: [batch(each)] for p, each in enumerate(rows)})


def boundaries(project):
    return sorted(path.name for path in (project.folder.path / "boundaries").rglob("*Z.json"))


def ranges(project, name):
    return {s: (i["start"], i["end"]) for s, i in project.version(name).manifest.inputs.items()}


def test_a_topic_without_settings_is_published_as_empty_at_once(project):
    assert project.build(IDLE)["samples"] == 0
    assert set(project.version(IDLE).manifest.empty_because.values()) == {"log_end"}


def test_while_a_first_record_may_come_nothing_is_fixed_and_then_it_is_in_its_interval(project):
    rule(project, LONG)
    with pytest.raises(
        WindowOpenError, match=r"waits until 2124-.*'clicks' has no record"
    ) as raised:
        project.build(IDLE)
    assert raised.value.until > datetime(2124, 1, 1, tzinfo=UTC)
    assert boundaries(project) == []
    assert not project.folder.plan_ids(IDLE)
    put(project, (3, 20))
    assert project.build(IDLE)["verdict"] == "built"
    assert project.version(IDLE).manifest.ledger["kafka:clicks/0"]["read"]["records"] == 20


def test_records_behind_the_interval_end_the_wait_because_none_of_it_can_follow(project):
    rule(project, f"{LONG}, missing: skip")
    put(project, (5, 10))
    assert project.build(IDLE)["verdict"] == "skipped"
    assert "kafka:clicks/0: later_record" in read_skip(project.folder, IDLE).why


@pytest.mark.parametrize("missing", ["empty", "skip"])
def test_an_interval_that_waits_is_in_nobodys_way_and_no_record_is_lost_or_doubled(
    project, missing
):
    rule(project, f"{LONG}, missing: {missing}")
    with pytest.raises(WindowOpenError):
        project.build(IDLE)
    with pytest.raises(WindowOpenError):
        project.build(NEXT)  # as idle as the one before: it must not fix the boundary of both
    assert boundaries(project) == []
    put(project, (4, 12))
    project.build(NEXT)
    project.build(IDLE)
    before, after = ranges(project, NEXT), project.build("2024-03-03")
    assert after["verdict"] == "built"
    assert {s: end for s, (_, end) in ranges(project, "2024-03-03").items()} == {
        s: start for s, (start, _) in before.items()
    }
    assert (read_skip(project.folder, IDLE) is not None) == (missing == "skip")


def test_after_the_wait_the_interval_fails_if_records_have_to_come(project):
    rule(project, f"{OVER}, missing: fail")
    message = (
        r"expected records for clicks/2024-03-04, waited for until 2024-03-07T00:00:00Z"
        r" \(source\.kafka clicks: wait\), got none: topic 'clicks' has no record of it; nothing"
        r" was read or published; .* 'missing: empty' or 'missing: skip' of source\.kafka clicks"
    )
    with pytest.raises(SourceMissingError, match=message):
        project.build(IDLE)
    assert not project.folder.plan_ids(IDLE)
    assert project.build("2024-03-03")["verdict"] == "built"


def test_after_the_wait_the_interval_may_be_left_out_with_its_evidence(project):
    rule(project, f"{OVER}, missing: skip")
    report = project.build(IDLE)
    assert (report["verdict"], report["source_reads"]) == ("skipped", 0)
    skip = read_skip(project.folder, IDLE)
    assert (skip.interval, skip.until) == (IDLE, "2024-03-07T00:00:00Z")
    assert skip.why == (
        "topic 'clicks' has no record of the interval (kafka:clicks/0: log_end; kafka:clicks/1:"
        " log_end; kafka:clicks/2: log_end); it was waited for until 2024-03-07T00:00:00Z"
    )
    assert project.build(IDLE)["verdict"] == "skipped"
    project.edit("missing: skip", "missing: empty")
    assert project.build(IDLE)["samples"] == 0
    assert read_skip(project.folder, IDLE) is None


def unproved(value):
    for partition in value["partitions"].values():
        del partition["evidence"]
        partition |= {"method": "scan", "log_end": partition["offset"] + 1}


def test_an_interval_is_not_left_out_without_a_proof_that_it_has_no_record(project):
    rule(project, f"{OVER}, missing: skip")
    project.build(IDLE)
    for path in (project.folder.path / "boundaries").rglob("*Z.json"):
        rewrite_sealed(path, unproved)
    with pytest.raises(SourceMissingError, match="'missing: skip' needs a proof of that: kafka:"):
        project.build(IDLE)


def test_an_interval_whose_records_retention_may_have_deleted_is_not_left_out(project):
    rule(project, f"{OVER}, missing: skip")
    project.record({0: [batch(day(5, 10), first=100)]})
    with pytest.raises(SourceMissingError, match=r"\[0, 100\) may have been deleted"):
        project.build(IDLE)
    assert read_skip(project.folder, IDLE) is None


def test_one_topic_that_has_to_have_records_fails_the_interval_of_all(project):
    """The other one has records of the day; the settings are those of each topic."""
    record_topic(
        Location.parse(str(project.path / "recorded")) / "views",
        "views",
        "22222222-2222-4222-8222-222222222222",
        {0: [batch(day(0, 10) + day(3, 10))]},
        rows_per_file=64,
    )
    both = (
        "[{{connection: kafka_default, topic: clicks, settle: 0s{}}}, {{topic: views, settle: 0s}}]"
    )
    project.edit("{connection: kafka_default, topic: clicks, settle: 0s}", both.format(""))
    assert project.build("2024-03-05")["samples"] == 0
    project.edit("topic: clicks, settle: 0s", "topic: clicks, settle: 0s, missing: fail")
    with pytest.raises(SourceMissingError, match="topic 'clicks' has no record of it"):
        project.build(IDLE)
    project.edit("missing: fail", "missing: empty")
    assert project.build(IDLE)["samples"] > 0


def gone(project):
    (project.path / "recorded").rename(project.path / "kept")


def test_a_topic_that_is_not_there_is_waited_for(project):
    rule(project, LONG)
    gone(project)
    with pytest.raises(WindowOpenError, match="waits until 2124"):
        project.build()
    (project.path / "kept").rename(project.path / "recorded")
    assert project.build()["verdict"] == "built"


@pytest.mark.parametrize("missing", ["fail", "empty", "skip"])
def test_a_topic_that_is_not_there_in_time_fails_whatever_the_rule_is(project, missing):
    rule(project, f"{OVER}, missing: {missing}")
    gone(project)
    with pytest.raises(TopicNotFoundError, match="TOPIC"):
        project.build()
    assert not project.folder.plan_ids("2024-03-01")
    assert read_skip(project.folder, "2024-03-01") is None


@pytest.mark.parametrize("missing", ["fail", "empty", "skip"])
def test_a_published_interval_stays_when_its_topic_is_gone(project, missing):
    rule(project, f"{OVER}, missing: {missing}")
    project.build()
    gone(project)
    assert project.build()["verdict"] == "identical"


def test_a_published_interval_is_neither_waited_for_nor_left_out(project):
    project.build(IDLE)
    rule(project, f"{LONG}, missing: fail")
    assert project.build(IDLE)["verdict"] == "identical"


def test_the_rule_changes_no_fingerprint(project):
    other = project.elsewhere("other")
    project.build()
    rule(project, f"{LONG}, missing: fail")
    other.build()
    first, second = (
        Manifest.model_validate(json.loads((each.version().path / MANIFEST).read_bytes()))
        for each in (project, other)
    )
    assert first.to_bytes() == second.to_bytes()


def test_a_dry_run_says_the_same_and_writes_nothing(project):
    rule(project, f"{OVER}, missing: skip")
    assert "has no record" in dry_run(project.spec, project.interval(IDLE), project.env).note
    assert read_skip(project.folder, IDLE) is None
    project.edit(OVER, LONG)
    with pytest.raises(WindowOpenError):
        dry_run(project.spec, project.interval(IDLE), project.env)


def test_a_recorded_topic_of_a_data_set_has_the_same_rule(project):
    place = project.path / "recorded" / "clicks"
    project.edit(
        "kafka: {connection: kafka_default, topic: clicks, settle: 0s}",
        f"recorded: {{path: {place}, {LONG}, missing: skip}}",
    )
    with pytest.raises(WindowOpenError, match=r"\(source\.recorded: wait\)"):
        project.build(IDLE)
    project.edit(LONG, OVER)
    assert project.build(IDLE)["verdict"] == "skipped"
