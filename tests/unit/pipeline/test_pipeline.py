"""One interval from topic to version: complete, repeatable, looked up before it is built."""

import json
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, day, event
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    GateError,
    OffsetOutOfRangeError,
    PreprocessError,
    SourceReplacedError,
    TopicNotFoundError,
)
from trainfeed.readers import open_dataset


def digests(version):
    return [s.sha256 for split in version.manifest.splits.values() for s in split.shards]


def read(project, split):
    return open_dataset(project.version().path, split=split).reader()()


def test_every_record_is_accounted_for_once(project):
    report = project.build()
    manifest = project.version().manifest
    read = sum(leaf["read"]["records"] for leaf in manifest.ledger.values())
    assert read == 60 + 61 + 62
    assert report["source_reads"] == read
    assert manifest.quarantine == {"records": 18, "reasons": {"not_json": 18}}
    assert manifest.filtered == {"negative": 18, "empty": 6}
    assert manifest.num_samples() == report["samples"]
    assert manifest.num_samples() == read - 18 - 18 - 6 + 6


def test_a_second_build_is_identical_and_reads_nothing(project):
    first = project.build()
    again = project.build()
    assert (first["verdict"], again["verdict"]) == ("built", "identical")
    assert again["source_reads"] == 0
    assert again["generation"] == first["generation"] == "g0001"


def test_the_same_interval_built_elsewhere_has_equal_bytes(project):
    project.build()
    other = project.elsewhere("other")
    other.edit("seed: 7", "seed: 7\nresources: {records_per_task: 7}")
    report = other.build()
    assert report["source_reads"] > 0
    assert digests(other.version()) == digests(project.version())
    assert other.version().manifest.content_digest == project.version().manifest.content_digest


def test_neighbouring_days_share_their_boundary_in_any_order(project):
    for name in ("2024-03-03", "2024-03-01", "2024-03-02"):
        project.build(name)
    ends = project.version("2024-03-01").manifest.inputs
    starts = project.version("2024-03-02").manifest.inputs
    assert {s: i["end"] for s, i in ends.items()} == {s: i["start"] for s, i in starts.items()}
    total = [project.version(f"2024-03-0{d}").manifest.ledger for d in (1, 2, 3)]
    assert sum(leaf["read"]["records"] for part in total for leaf in part.values()) == 396


def test_an_interval_without_records_is_published_empty(project):
    report = project.build("2024-03-20")
    assert report["samples"] == 0
    assert project.version("2024-03-20").manifest.empty
    reader = open_dataset(project.version("2024-03-20").path, split="train")
    assert list(reader.reader()()) == []


def test_the_reader_yields_every_sample_once_over_any_number_of_ranks(project):
    project.build()
    whole = list(open_dataset(project.version().path, split="train").reader()())
    for world_size in (1, 2, 3, 7):
        parts = [
            list(
                open_dataset(project.version().path, split="train").reader(
                    rank=rank, world_size=world_size
                )()
            )
            for rank in range(world_size)
        ]
        assert sum(map(len, parts)) == len(whole)
        for i, sample in enumerate(whole):
            assert parts[i % world_size][i // world_size] == sample


def test_a_published_version_is_intact_and_a_flipped_byte_is_named(project):
    project.build()
    version = project.version()
    version.verify()
    shard = version.shard_paths("train")[0]
    shard.chmod(0o644)
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    (problem,) = version.problems()
    assert shard.name in str(problem)


def test_changed_code_needs_a_reason_and_makes_the_next_generation(project):
    project.build()
    project.edit('"label": n', '"label": n + 1', "preprocess.py")
    with pytest.raises(ConflictError, match=r"inputs: the code; .*--rebuild WHY"):
        project.build()
    assert [p.name for p in project.folder.interval("2024-03-01").glob("g*")] == ["g0001"]
    report = project.build(rebuild="labels start at 1")
    assert report["generation"] == "g0002"
    assert report["source_reads"] == 0
    assert project.version().manifest.supersedes == {"generation": 1, "why": "labels start at 1"}


def test_asking_again_for_the_same_rebuild_is_identical(project):
    project.build()
    assert project.build(rebuild="because")["generation"] == "g0002"
    assert project.build(rebuild="because")["verdict"] == "identical"
    assert project.build(rebuild="once more")["generation"] == "g0003"


def test_a_replaced_topic_is_named_even_when_its_records_are_equal(project):
    project.build()
    project.record(
        {p: [batch(day(0, 60 + p) + day(1, 40 + p) + day(2, 30))] for p in range(3)},
        uuid="22222222-2222-4222-8222-222222222222",
    )
    with pytest.raises(SourceReplacedError, match="22222222"):
        project.build()


def test_a_missing_topic_is_named(project):
    project.edit("topic: clicks", "topic: klicks")
    with pytest.raises(TopicNotFoundError, match="klicks"):
        project.build()


def test_records_deleted_before_the_window_cannot_be_proven_and_stop_the_build(project):
    rows = day(1, 40)
    project.record({0: [batch(rows, first=500)]})
    with pytest.raises(OffsetOutOfRangeError, match=r"kafka:clicks/0 offsets \[0, 500\)"):
        project.build("2024-03-01")
    assert not project.folder.interval("2024-03-01").exists()
    report = project.build("2024-03-01", allow_gap="lost with the old cluster")
    assert report["samples"] == 0
    (gap,) = project.version().manifest.gaps
    assert (gap["source"], gap["start"], gap["end"]) == ("kafka:clicks/0", 0, 500)
    assert gap["why"] == "lost with the old cluster"
    assert project.build("2024-03-01")["verdict"] == "identical"


def test_a_broken_gate_publishes_nothing_and_names_value_and_limit(project):
    project.edit("seed: 7", "seed: 7\nquality: [{check: quarantine_ratio, max: 0.05}]")
    with pytest.raises(GateError, match=r"quarantine_ratio is 0\.098.*allowed: max 0\.05"):
        project.build()
    assert not project.folder.interval("2024-03-01").exists()
    project.edit("max: 0.05", "max: 0.5")
    report = project.build()
    assert (report["verdict"], report["source_reads"]) == ("built", 0)


def test_a_function_that_raises_stops_the_build_at_a_named_record(project):
    project.edit('row["value"] < 0', 'row["value"] < None', "preprocess.py")
    with pytest.raises(PreprocessError, match=r"raised TypeError.*kafka:clicks/0 offset 0"):
        project.build()


def test_a_sample_that_breaks_the_schema_names_the_field_and_the_record(project):
    project.edit('"label": n', '"label": "x"', "preprocess.py")
    with pytest.raises(PreprocessError, match=r"label.*|offset.*"):
        project.build()


def test_samples_above_the_memory_bound_go_through_files_and_are_the_same(project):
    rows = [event(1, START_MS + i, copies=600) for i in range(60)]
    project.record({0: [batch(rows)]})
    project.build()
    small = project.elsewhere("small")
    small.edit("seed: 7", "seed: 7\nresources: {memory_bytes: 1MiB}")
    small.build()
    assert digests(small.version()) == digests(project.version())


def test_late_records_are_counted_and_may_get_a_split_of_their_own(project):
    project.edit("settle: 0s", "settle: 0s, late: separate")
    rows = day(0, 20) + day(1, 10) + [event(9, START_MS + DAY_MS - 5)] + day(2, 5)
    project.record({0: [batch(rows)]})
    project.build("2024-03-02")
    manifest = project.version("2024-03-02").manifest
    assert manifest.late["late"] == 1
    assert manifest.late["max_lateness_ms"] == 5
    assert manifest.splits["late"].samples == 1


LATE, FUTURE = START_MS + DAY_MS - 5, START_MS + 3 * DAY_MS


@pytest.mark.parametrize(("of", "stamp"), [("late", LATE), ("future", FUTURE), ("unstamped", -1)])
@pytest.mark.parametrize("late", ["keep", "separate"])
def test_a_share_of_misplaced_records_above_a_threshold_stops_the_build(project, of, stamp, late):
    """Two of twelve records: exactly the threshold passes, and anything below it does not."""
    gate = f"quality:\n  - {{check: late_ratio, of: {of}, max: 0.16}}\n"
    project.edit("settle: 0s", f"settle: 0s, late: {late}")
    project.edit("seed: 7\n", "seed: 7\n" + gate)
    odd = [event(9, stamp), event(8, stamp)]
    rows = day(0, 20) + day(1, 10)[:5] + odd + day(1, 10)[5:] + day(2, 5)
    project.record({0: [batch(rows)]})
    with pytest.raises(GateError, match=rf"late_ratio of {of} is 0\.166667, .*2 of 12 records"):
        project.build("2024-03-02")
    project.edit("0.16", "0.1666667")
    project.build("2024-03-02")
    manifest = project.version("2024-03-02").manifest
    assert [(gate["check"], gate["passed"]) for gate in manifest.gates] == [("late_ratio", True)]
    assert manifest.late[of] == 2


def test_late_records_may_stop_the_build(project):
    project.edit("settle: 0s", "settle: 0s, late: fail")
    rows = day(0, 20) + day(1, 10) + [event(9, START_MS + DAY_MS - 5)] + day(2, 5)
    project.record({0: [batch(rows)]})
    with pytest.raises(GateError, match="late is 1"):
        project.build("2024-03-02")


def test_a_split_by_field_keeps_equal_values_together(project):
    project.edit("by: record", "by: [value]")
    rows = [event(i % 7, START_MS + i * 1000) for i in range(70)]
    project.record({0: [batch(rows)]})
    project.build()
    values = {
        split: {float(sample["value"]) for sample in read(project, split)}
        for split in ("train", "eval")
    }
    assert values["train"] | values["eval"] == set(map(float, range(7)))
    assert not values["train"] & values["eval"]


def test_a_torn_landing_file_is_landed_anew(project):
    project.edit("seed: 7", "seed: 7\nquality: [{check: quarantine_ratio, max: 0}]")
    with pytest.raises(GateError):
        project.build()
    torn = min(Path(project.env.landing).rglob("*.arrow"))
    torn.write_bytes(torn.read_bytes()[:-20])
    project.edit("max: 0", "max: 1")
    report = project.build()
    assert 60 <= report["source_reads"] <= 62


def test_what_is_published_says_what_it_was_made_of(project):
    project.build()
    path = project.version().path
    manifest = json.loads((path / "MANIFEST.json").read_bytes())
    assert manifest["sources"] == [f"kafka:clicks/{p}" for p in range(3)]
    assert manifest["plan"] == f"{manifest['fingerprint'][:16]}-g0001"
    assert (path / "quarantine" / "records.arrow").stat().st_mode & 0o777 == 0o600
    assert all(p.stat().st_mode & 0o777 == 0o444 for p in path.glob("clicks-*"))


@pytest.mark.parametrize("reason", ["", "  "])
def test_a_rebuild_without_a_reason_is_refused(project, reason):
    with pytest.raises(ConfigError, match="expected a reason for rebuild"):
        project.build(rebuild=reason)


def test_a_topic_whose_id_begins_with_an_underscore_is_built_like_any_other(project):
    expected = project.build()["content_digest"]
    records = {p: [batch(day(0, 60 + p) + day(1, 40 + p) + day(2, 30))] for p in range(3)}
    project.record(records, uuid="_pjVbp3pR46ZgUaHaiSlbQ")
    assert project.elsewhere("other").build()["content_digest"] == expected
