"""Several sources in one interval: members with names, each by its own rules, every record once."""

import gzip
import json
from collections import Counter
from dataclasses import replace

import pytest

from tests.support.manifests import read_by_member
from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, event
from trainfeed import open_dataset
from trainfeed.core.config import KafkaSettings
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    LogsMissingError,
    OffsetOutOfRangeError,
    SourceReplacedError,
    SpecError,
    StorageError,
    WindowOpenError,
)
from trainfeed.files.stores import Location
from trainfeed.look.lineage.tracer import SourcePosition, Tracer
from trainfeed.look.outdated import compare_with_source, find_outdated
from trainfeed.pipeline.preview import describe, dry_run, preview
from trainfeed.sources import record_topic
from trainfeed.specification.model import fingerprint_fields

TOPIC = "  kafka: {connection: kafka_default, topic: clicks, settle: 0s}"
ONE = f"source:\n{TOPIC}\n"
UNION = """source:
  union:
    us: {kafka: {connection: us, topic: clicks, settle: 0s, late: separate}}
    eu: {kafka: {connection: eu, topic: clicks, settle: 1h}}
    zeta: {logs: {connection: first, path: "/days/{start:%Y-%m-%d}", wait: 1h}}
    alpha:
      logs: {connection: second, path: "/days/{start:%Y-%m-%d}", format: json,
             fields: {value: float64}, wait: 36500d, stable: 0s}
"""
DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
# Keys of a member and day: no other has them.
MEMBERS = ("alpha", "eu", "us", "zeta")
PER_DAY = 24


def keys(member, day):
    first = (MEMBERS.index(member) * len(DAYS) + day) * PER_DAY
    return range(first, first + PER_DAY)


def all_keys(days=range(3), members=MEMBERS):
    return {key: 1 for member in members for day in days for key in keys(member, day)}


def record(project, cluster, late=()):
    """Record a topic ``clicks`` of a cluster: two partitions, three days, and a day behind them."""
    rows = [
        event(key, START_MS + day * DAY_MS + (key % PER_DAY) * 1000)
        for day in range(3)
        for key in keys(cluster, day)
    ]
    rows += [event(key, START_MS + 1000) for key in late]
    rows += [event(-1, START_MS + 3 * DAY_MS + 5000), event(-1, START_MS + 3 * DAY_MS + 6000)]
    place = Location.parse(str(project.path / cluster)) / "clicks"
    place.delete(recursive=True)
    uuid = f"{MEMBERS.index(cluster)}" * 8 + "-1111-4111-8111-111111111111"
    record_topic(place, "clicks", uuid, {0: [batch(rows[0::2])], 1: [batch(rows[1::2])]}, 64)


def write_day(project, member, day):
    """Write the folder of a member's day: equal names of files in both folders."""
    folder = project.path / member / "days" / DAYS[day]
    folder.mkdir(parents=True)
    lines = [json.dumps({"value": key}).encode() for key in keys(member, day)]
    (folder / "part-0.gz").write_bytes(gzip.compress(b"\n".join(lines[:7])))
    (folder / "part-1").write_bytes(b"\n".join(lines[7:]) + b"\n")
    (folder / "_SUCCESS").touch()
    return folder


@pytest.fixture
def project(project):
    """Two clusters with a topic of one name, and two stores with folders of one name."""
    env = replace(
        project.env,
        kafka={
            **project.env.kafka,
            **{name: KafkaSettings(recorded=str(project.path / name)) for name in ("eu", "us")},
        },
        logs={"first": str(project.path / "zeta"), "second": str(project.path / "alpha")},
    )
    project = replace(project, env=env)
    for cluster in ("eu", "us"):
        record(project, cluster)
    for member in ("alpha", "zeta"):
        for day in range(3):
            write_day(project, member, day)
    project.edit(ONE, UNION)
    return project


def read_keys(project, asked=f"{DAYS[0]}/{DAYS[-1]}"):
    """The keys of all samples that readers get, each with how often."""
    found = Counter()
    for split in ("train", "eval"):
        where = {"interval": asked, "split": split, "root": project.env.root}
        found.update(int(sample["value"]) for sample in open_dataset("clicks", **where).reader()())
    return found


def test_a_union_has_every_record_of_its_members_once(project):
    for day in DAYS:
        assert project.build(day)["verdict"] == "built"
    assert read_keys(project) == all_keys()
    manifest = project.version(DAYS[0]).manifest
    assert list(manifest.sources) == [
        "alpha/logs:2024-03-01/part-0.gz",
        "alpha/logs:2024-03-01/part-1",
        "eu/kafka:clicks/0",
        "eu/kafka:clicks/1",
        "us/kafka:clicks/0",
        "us/kafka:clicks/1",
        "zeta/logs:2024-03-01/part-0.gz",
        "zeta/logs:2024-03-01/part-1",
    ]
    assert read_by_member(manifest) == dict.fromkeys(MEMBERS, PER_DAY)
    assert manifest.imbalances() == []


def test_equal_builds_have_equal_bytes_whatever_was_there_before(project):
    project.build()
    again = project.elsewhere("again")
    # Another number of processes, and the topics landed already.
    again = replace(again, env=replace(again.env, landing=project.env.landing))
    text = "resources: {processes: 3}\n"
    path = project.env.datasets / "clicks/dataset.yaml"
    path.write_text(path.read_text() + text)
    report = again.build()
    assert report["source_reads"] == 2 * PER_DAY  # the lines of files
    one, two = project.version().path, again.version().path
    names = {path.name for path in one.iterdir()} - {"BUILT.json"}
    assert names == {path.name for path in two.iterdir()} - {"BUILT.json"}
    for name in names - {"quarantine"}:
        assert (one / name).read_bytes() == (two / name).read_bytes()
    assert project.build()["verdict"] == "identical"


def test_a_topic_that_a_union_landed_is_landed_for_a_set_of_it_alone(project):
    project.build()
    alone = project.elsewhere("alone")
    alone = replace(alone, env=replace(alone.env, landing=project.env.landing))
    alone.edit(
        UNION, "source:\n  kafka: {connection: us, topic: clicks, late: separate, settle: 0s}\n"
    )
    assert alone.build()["source_reads"] == 0
    assert list(alone.version().manifest.sources) == ["kafka:clicks/0", "kafka:clicks/1"]


def test_each_task_reads_one_member_and_cuts_it_in_its_own_unit(project):
    path = project.env.datasets / "clicks/dataset.yaml"
    path.write_text(path.read_text() + "resources: {records_per_task: 5}\n")
    report = dry_run(project.spec, project.interval(), project.env)
    assert report.tasks["ingest"] == report.tasks["preprocess"] >= 2 * 5
    assert report.read_bytes is None
    told = "\n".join(describe(report))
    assert "us/kafka:clicks/0 [0, 12): 12 offsets" in told
    project.build()
    assert read_keys(project, DAYS[0]) == all_keys([0])
    # Offsets and bytes of a version say nothing about those of a day to come.
    report = dry_run(project.spec, project.interval(DAYS[1]), project.env)
    assert [each.needed_bytes for each in report.space] == [None, None]


def test_late_records_are_the_matter_of_each_member(project):
    for cluster, key in (("eu", 10_001), ("us", 10_002)):
        record(project, cluster, late=[key])
    for day in DAYS:
        project.build(day)
    manifest = project.version(DAYS[2]).manifest
    assert manifest.splits["late"].samples == 1  # of us alone
    assert manifest.late["late"] == 2
    policies = {source.partition("/")[0]: each for source, each in manifest.late["policy"].items()}
    assert policies == {"alpha": "keep", "eu": "keep", "us": "separate", "zeta": "keep"}


def test_the_interval_waits_for_the_longest_settle_and_for_every_member(project):
    spec, env = project.spec, project.env
    assert spec.source.kind.settle.total_seconds() == 3600
    (project.path / "alpha/days" / DAYS[0]).rename(project.path / "away")
    with pytest.raises(WindowOpenError, match=r"^member alpha of the union: ") as caught:
        project.build()
    assert "days/2024-03-01" in str(caught.value)
    assert not project.folder.interval(DAYS[0]).exists()
    assert spec.wait.days > 36_000
    assert env.logs


@pytest.mark.parametrize("missing", ["fail", "empty", "skip"])
def test_a_member_that_does_not_come_is_decided_by_its_own_rule(project, missing):
    project.edit("wait: 1h}}", f"wait: 1h, missing: {missing}}}}}")
    away = project.path / "zeta/days" / DAYS[1]
    away.rename(project.path / "away")
    assert project.build(DAYS[0])["verdict"] == "built"
    if missing == "fail":
        with pytest.raises(
            LogsMissingError, match=r"^member zeta of the union: .*source.union.zeta.logs.wait"
        ):
            project.build(DAYS[1])
        return
    report = project.build(DAYS[1])
    if missing == "skip":
        assert "member zeta" in report["note"]
        assert not project.folder.interval(DAYS[1]).exists() or not project.folder.generations(
            DAYS[1]
        )
        return
    manifest = project.version(DAYS[1]).manifest
    assert read_keys(project, DAYS[1]) == all_keys([1], ("alpha", "eu", "us"))
    (place,) = [name for name in manifest.passed_over if name.startswith("zeta/")]
    assert manifest.passed_over[place].startswith("missing: ")
    assert project.build(DAYS[1])["verdict"] == "identical"
    # Code changes: the decision holds, and the interval can be built again.
    project.edit("negative", "below", "preprocess.py")
    assert project.build(DAYS[1], rebuild="code")["verdict"] == "built"
    # The folder comes after all.
    (project.path / "away").rename(away)
    with pytest.raises((ConflictError, SourceReplacedError)):
        project.build(DAYS[1])
    assert project.build(DAYS[1], rebuild="it came")["verdict"] == "built"
    assert read_keys(project, DAYS[1]) == all_keys([1])


def test_what_comes_of_an_empty_member_between_plan_and_ingest_is_refused(project, monkeypatch):
    from trainfeed.pipeline import ingest as stage

    project.edit("wait: 1h}}", "wait: 1h, missing: empty}}")
    folder = project.path / "zeta/days" / DAYS[0]
    folder.rename(project.path / "away")
    real = stage._ingest

    def late(*args):
        if not folder.exists():
            (project.path / "away").rename(folder)
        return real(*args)

    monkeypatch.setattr(stage, "_ingest", late)
    with pytest.raises(
        SourceReplacedError, match=r"^member zeta of the union: .*part-0.gz was added"
    ):
        project.build()


def test_a_store_that_is_away_is_told_with_its_member_and_published_days_stay(project):
    project.build()
    gone = replace(
        project, env=replace(project.env, logs={**project.env.logs, "first": "hdfs://127.0.0.1:1/"})
    )
    with pytest.raises(StorageError, match=r"^member zeta of the union: "):
        gone.build(DAYS[1])
    report = gone.build(DAYS[0])
    assert report["verdict"] == "identical"
    assert "member zeta" in report["note"]


def test_a_topic_of_one_member_that_was_made_again_is_told_with_its_name(project):
    project.build(DAYS[0])
    rows = [event(key, START_MS + DAY_MS + key * 1000) for key in keys("eu", 1)]
    rows.append(event(-1, START_MS + 4 * DAY_MS))
    place = Location.parse(str(project.path / "eu")) / "clicks"
    place.delete(recursive=True)
    record_topic(place, "clicks", "99999999-1111-4111-8111-111111111111", {0: [batch(rows)]}, 64)
    with pytest.raises(SourceReplacedError, match="clicks"):
        project.build(DAYS[0])
    with pytest.raises(OffsetOutOfRangeError, match=r"^member eu of the union: .*created again"):
        project.build(DAYS[1])
    assert project.build(DAYS[1], allow_gap="nothing was lost")["verdict"] == "built"
    assert read_keys(project, DAYS[1]) == all_keys([1])


def test_what_two_members_would_read_both_is_refused(project):
    project.edit("us: {kafka: {connection: us,", "us: {kafka: {connection: eu,")
    with pytest.raises(SpecError, match=r"source.union.us: .*member 'eu', got 'clicks' in both"):
        project.spec  # noqa: B018
    project.edit("us: {kafka: {connection: eu,", "us: {kafka: {connection: us,")
    # By two connections it shows only in what they find.
    twice = {**project.env.kafka, "us": project.env.kafka["eu"]}
    with pytest.raises(ConfigError, match=r"eu/kafka:clicks/0 and us/kafka:clicks/0 are one"):
        replace(project, env=replace(project.env, kafka=twice)).build()
    stores = dict.fromkeys(project.env.logs, project.env.logs["first"])
    with pytest.raises(ConfigError, match=r"alpha/logs:.* and zeta/logs:.* are one"):
        replace(project, env=replace(project.env, logs=stores)).build()


def test_history_of_one_source_goes_on_as_a_union_and_its_days_stay(project):
    """The topic of one cluster alone until March 2; then others join it."""
    alone = "source:\n  kafka: {connection: us, topic: clicks, late: separate, settle: 0s}\n"
    project.edit(UNION, alone)
    project.build(DAYS[0])
    before = project.version(DAYS[0]).manifest
    joined = UNION.replace("source:\n  union:", "  - union:").replace("\n    ", "\n      ")
    project.edit(
        alone,
        "sources:\n  - kafka: {connection: us, topic: clicks, late: separate, settle: 0s}\n"
        f"    until: 2024-03-02\n{joined}",
    )
    assert project.build(DAYS[0])["verdict"] == "identical"
    project.build(DAYS[2])
    project.build(DAYS[1])
    after = project.version(DAYS[0]).manifest
    assert (after.fingerprint, after.content_digest) == (before.fingerprint, before.content_digest)
    assert read_keys(project) == all_keys([0], ["us"]) | all_keys([1, 2])
    states = {each.state for each in find_outdated(project.spec, project.env).intervals}
    assert states == {"current"}
    # Boundaries of the topic are compared over the change: the member goes on where it ended alone.
    old = project.version(DAYS[0]).manifest.inputs["kafka:clicks/0"]["end"]
    assert project.version(DAYS[1]).manifest.inputs["us/kafka:clicks/0"]["start"] == old
    path = next((project.folder.path / "boundaries/clicks").rglob("20240302T000000Z.json"))
    value = json.loads(path.read_bytes())
    assert value


def test_the_fingerprint_of_a_member_is_that_of_its_source_under_its_name(project):
    union = fingerprint_fields(project.spec)["source"]["union"]
    parts = {
        name: fingerprint_fields(each)["source"] for name, each in project.spec.members.items()
    }
    assert union == parts
    assert list(union) == sorted(MEMBERS)


def test_an_unresolved_union_has_no_measure_and_no_late_rule(project):
    with pytest.raises(LookupError, match="ask for one of alpha, eu, us, zeta"):
        project.spec.source.kind.measure(1)
    with pytest.raises(LookupError, match="several sources"):
        project.spec.source.kind.late_rule("clicks")


def test_records_know_their_member_and_formats_are_those_of_members(project):
    code = """
from trainfeed.preprocessing import Reject, source_member


def clicks(record, lookups):
    row = record.fields
    member = source_member(record.source)
    if (member == "alpha") != (type(row["value"]) is float):
        raise Reject("wrong_format")
    if row["value"] % 5 == 0:
        raise Reject(f"of_{member}")
    return {"value": row["value"], "label": ["alpha", "eu", "us", "zeta"].index(member)}
"""
    (project.env.datasets / "clicks/preprocess.py").write_text(code)
    project.build()
    manifest = project.version().manifest
    reasons = manifest.quarantine["reasons"]
    assert set(reasons) == {f"of_{member}" for member in MEMBERS}
    version = project.version()
    found = Counter()
    for split in ("train", "eval"):
        for sample in open_dataset(
            "clicks", interval=DAYS[0], split=split, root=project.env.root
        ).reader()():
            assert int(sample["value"]) in keys(MEMBERS[sample["label"]], 0)
            found[MEMBERS[sample["label"]]] += 1
    assert found.total() + sum(reasons.values()) == 4 * PER_DAY
    # A record is traced by its position with the member, and a quarantined one is replayed.
    (project.env.datasets / "clicks/preprocess.py").write_text(code.replace("% 5 == 0", "< 0"))
    for name in ("eu", "us"):
        (project.path / name).rename(project.path / f"{name}-away")
    assert project.build(replay=True)["verdict"] == "built"
    assert read_keys(project, DAYS[0]) == all_keys([0])
    assert project.version().manifest.generation == version.manifest.generation + 1
    position = SourcePosition.parse("us/kafka:clicks/1@3")
    lineage = Tracer(project.env.root).of_position(position)
    assert {fate["fate"] for fate in lineage.fates.values()} <= {"valid", "quarantined"}
    assert len(lineage.fates) == 2


def test_a_preview_takes_a_share_of_every_member(project):
    report = preview(project.spec, project.interval(), project.env, limit=16)
    assert report["records"] == 16
    assert sum(report["samples"].values()) == 16
    assert not project.folder.interval(DAYS[0]).exists()


def test_differences_and_comparisons_with_the_source_go_by_member(project):
    project.build()
    report = find_outdated(project.spec, project.env)
    found = compare_with_source(project.spec, project.env, report)
    assert [each.source.state for each in found.intervals] == ["same"]
    folder = project.path / "zeta/days" / DAYS[0]
    (folder / "part-2").write_bytes(b'{"value": 5000}\n')
    found = compare_with_source(project.spec, project.env, report)
    assert "zeta/logs:2024-03-01/part-2" in found.intervals[0].source.told


def test_a_member_that_is_renamed_or_taken_out_is_another_source(project):
    project.build()
    project.edit("    us: {kafka", "    usa: {kafka")
    with pytest.raises(ConflictError):
        project.build()
    with pytest.raises(SourceReplacedError, match="us/kafka"):
        project.build(replay=True)


@pytest.mark.parametrize(
    ("union", "message"),
    [
        ("{}", "expected 2 to 32 members, got 0"),
        ("{us: {kafka: {topic: a}}}", "write a source that is alone without union"),
        ("{us: {union: {}}, eu: {kafka: {topic: a}}}", "source.union.us: expected one of kafka"),
        ("{US: {kafka: {topic: a}}, eu: {kafka: {topic: b}}}", "expected a name"),
        ("{a: {recorded: {path: ./x}}, b: {recorded: {path: ./x}}}", "'./x' in both"),
        ("{a: {iceberg: {table: s.t}}, b: {iceberg: {table: s.t}}}", "'s.t' in both"),
        (
            '{a: {logs: {path: "/x/{start:%Y-%m-%d}"}}, b: {logs: {path: "/x/{start:%Y-%m-%d}"}}}',
            "'/x/2024-03-01' in both|'x/2024-03-01' in both",
        ),
        ('{a: {logs: {path: "/x/{start:%Y-%m}"}}, b: {kafka: {topic: b}}}', "source.union.a.logs"),
    ],
)
def test_what_a_union_cannot_be_is_refused_with_one_error(project, union, message):
    project.edit(UNION, f"source: {{union: {union}}}\n")
    with pytest.raises(SpecError, match=message):
        project.spec  # noqa: B018
