"""The identity of a plan, a gap and a version: other content never gets an old name."""

import json
import logging
import threading
from dataclasses import replace

import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, day, event
from trainfeed.errors import (
    ChecksumError,
    CodeChangedError,
    ConfigError,
    ConflictError,
    FormatError,
    GateError,
    MemoryLimitError,
    NonDeterminismError,
    OffsetOutOfRangeError,
    PreprocessError,
    QuotaExceededError,
)
from trainfeed.pipeline import Build, PlanRef
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs.topics import TopicInputs
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.sorting.spill_files import ArrowWithTrailer, TrailerWriter
from trainfeed.readers import open_dataset


def planned(project, **request):
    made = plan(project.spec, project.interval(), project.env, **request)
    return Build(project.spec, project.env, made.ref)


def test_a_spec_that_changes_between_two_tasks_stops_the_run(project):
    where = planned(project)
    ingest(where, 0)
    project.edit("seed: 7", "seed: 8")
    with pytest.raises(CodeChangedError, match=r"spec\.seed: 7 → 8"):
        preprocess(replace(where, spec=project.spec), 0)


def test_a_run_that_plans_while_another_publishes_adopts_its_generation(project, monkeypatch):
    without_losses = TopicInputs.without_losses

    def slowly(self, current, allow_gap):
        monkeypatch.setattr(TopicInputs, "without_losses", without_losses)
        project.build()
        return without_losses(self, current, allow_gap)

    monkeypatch.setattr(TopicInputs, "without_losses", slowly)
    report = project.build()
    assert report["generation"] == "g0001"
    assert project.folder.last_generation("2024-03-01") == 1


def test_the_log_of_an_identical_run_says_what_is_true_and_alarms_nobody(project, caplog):
    project.build()
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="trainfeed"):
        assert project.build()["verdict"] == "identical"
    said = [record.getMessage() for record in caplog.records]
    assert {record.levelname for record in caplog.records} <= {"INFO", "DEBUG"}
    assert "publish clicks/2024-03-01/g0001: nothing to do, published before" in said
    assert not [line for line in said if "clear" in line or "missing" in line]
    name = "clicks/2024-03-01/g0001"
    assert f"{name} was published before; this run made nothing to compare with it" in said


def lost(project, first, rows):
    project.record({0: [batch(rows, first=first)]})


def test_an_unproven_gap_is_never_forgotten(project):
    lost(project, 500, day(1, 40))
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError):
            project.build("2024-03-01")
    project.build("2024-03-01", allow_gap="lost")
    project.build("2024-03-01", rebuild="again")
    for generation in (1, 2):
        (gap,) = project.version(generation=generation).manifest.gaps
        assert (gap["end"], gap["why"]) == (500, "lost")


def test_landing_files_do_not_excuse_an_unproven_gap(project):
    project.edit("seed: 7", "seed: 7\nquality: [{check: count, min: 10000}]")
    lost(project, 500, day(0, 40)[1:] + day(1, 40))
    with pytest.raises(GateError):
        project.build(allow_gap="lost")
    project.edit("min: 10000", "min: 1")
    with pytest.raises(OffsetOutOfRangeError, match=r"\[0, 500\) may have been deleted"):
        project.build()


def test_a_rebuild_keeps_a_known_gap_and_the_records_that_have_landed(project):
    rows = day(0, 60) + day(1, 40)
    lost(project, 0, rows)
    planned(project)  # both boundaries are known from now on
    lost(project, 20, rows[20:])
    with pytest.raises(OffsetOutOfRangeError, match=r"\[0, 20\) were deleted"):
        project.build("2024-03-01")
    first = project.build("2024-03-01", allow_gap="disk full")
    lost(project, 40, rows[40:])
    again = project.build("2024-03-01", rebuild="see")
    assert (again["samples"], again["source_reads"]) == (first["samples"], 0)
    (gap,) = project.version().manifest.gaps
    assert (gap["start"], gap["end"], gap["why"]) == (0, 20, "disk full")


@pytest.mark.parametrize("again", [{}, {"rebuild": "views are gone"}])
def test_a_gap_in_a_topic_that_left_the_specification_leaves_with_it(project, again):
    from tests.unit.pipeline.clicks import SPEC

    record(project, "views", [batch(day(0, 60)[1:], first=500)])
    project.edit(
        "kafka: {connection: kafka_default, topic: clicks, settle: 0s}",
        "kafka: [{topic: clicks, settle: 0s}, {topic: views, settle: 0s}]",
    )
    project.build(allow_gap="lost")
    assert [gap["source"] for gap in project.version().manifest.gaps] == ["kafka:views/0"]
    (project.env.datasets / "clicks" / "dataset.yaml").write_text(SPEC)
    if not again:
        with pytest.raises(ConflictError, match="is published from other inputs"):
            project.build()
        return
    assert project.build(**again)["generation"] == "g0002"
    assert project.version().manifest.gaps == []


def test_other_content_that_appears_just_before_the_rename_is_loud(project, monkeypatch):
    where = planned(project)
    for stage in (ingest, preprocess, convert):
        stage(where, 0)
    check(where)
    other = project.elsewhere("other")
    other.build()
    path = other.version().path
    manifest = json.loads((path / "MANIFEST.json").read_bytes()) | {"content_digest": "0" * 64}

    from tests.unit.pipeline.test_concurrent import fake_version
    from trainfeed.pipeline import publish as module

    verify = module.seal_folder

    def sealed(staged):
        verify(staged)
        fake_version(project, manifest)

    monkeypatch.setattr(module, "seal_folder", sealed)
    with pytest.raises(NonDeterminismError, match="pure function"):
        publish(where)


def test_a_removed_generation_is_not_made_again(project):
    project.build()
    ref = PlanRef("clicks", "2024-03-01", project.version().manifest.plan)
    version = project.version().path
    version.rename(project.path / "removed")
    (version.parent / "g0001.removed").touch()
    with pytest.raises(ConflictError, match="its number is never used again"):
        ingest(Build(project.spec, project.env, ref), 0)
    assert project.build()["generation"] == "g0002"


def test_a_cleared_rebuild_of_a_new_interval_builds_nothing_twice(project):
    reports = [project.build(rebuild="because") for _ in range(3)]
    assert [report["generation"] for report in reports] == ["g0001"] * 3


def test_a_published_plan_that_was_deleted_is_made_again(project):
    project.build()
    plan_file = project.folder.plan("2024-03-01", project.version().manifest.plan)
    content = plan_file.read_bytes()
    plan_file.unlink()
    assert project.build()["verdict"] == "identical"
    assert plan_file.read_bytes() == content


@pytest.mark.parametrize("cut", [0, 100])
def test_a_published_plan_that_is_damaged_is_made_again(project, caplog, cut):
    project.build()
    plan_file = project.folder.plan("2024-03-01", project.version().manifest.plan)
    content = plan_file.read_bytes()
    plan_file.write_bytes(content[:cut])
    with caplog.at_level(logging.WARNING):
        assert project.build()["verdict"] == "identical"
    assert plan_file.read_bytes() == content
    assert str(plan_file) in caplog.text
    plan_file.write_bytes(content[:cut])
    assert project.build(rebuild="because")["generation"] == "g0002"


def test_a_damaged_plan_of_a_version_of_other_code_is_no_error_of_its_own(project):
    project.build()
    project.folder.plan("2024-03-01", project.version().manifest.plan).write_bytes(b"{")
    project.edit('"label": n', '"label": n + 1', "preprocess.py")
    with pytest.raises(ConflictError, match="the code"):
        project.build()


def test_the_digest_of_a_plan_is_computed_once_for_all_shards_of_a_task(project, monkeypatch):
    build = planned(project)
    for stage in (ingest, preprocess):
        stage(build, 0)
    digests = []
    real = Plan.sha256
    monkeypatch.setattr(Plan, "sha256", lambda each: digests.append(1) or real(each))
    assert convert(build, 0).shards > 2
    assert len(digests) == 1


def test_a_topic_added_to_the_spec_is_a_changed_input_not_a_replaced_one(project):
    project.build()
    record(project, "views", [batch(day(0, 5))])
    project.edit(
        "kafka: {connection: kafka_default, topic: clicks, settle: 0s}",
        "kafka: [{topic: clicks, settle: 0s}, {topic: views, settle: 0s}]",
    )
    with pytest.raises(ConflictError, match=r"inputs\.kafka:views/0"):
        project.build()


def record(project, topic, batches):
    from trainfeed.files.stores import Location
    from trainfeed.sources import record_topic

    location = Location.parse(str(project.path / "recorded")) / topic
    uuid = "33333333-3333-4333-8333-333333333333"
    record_topic(location, topic, uuid, {0: batches}, rows_per_file=64)


def test_one_topics_late_records_do_not_fail_another(project):
    record(project, "views", [batch([event(1, START_MS), event(1, START_MS - 5)])])
    project.edit(
        "kafka: {connection: kafka_default, topic: clicks, settle: 0s}",
        "kafka: [{topic: clicks, settle: 0s, late: fail}, {topic: views, settle: 0s}]",
    )
    project.build()
    assert project.version().manifest.late["late"] == 1


def test_neighbouring_boundaries_found_at_once_agree(project):
    rows = [event(1, START_MS + 5 * DAY_MS // 2), *day(1, 20), *day(2, 20), *day(3, 20)]
    project.record({0: [batch(rows)]})
    names = ["2024-03-02", "2024-03-03", "2024-03-04"]
    threads = [threading.Thread(target=project.build, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = [
        (planned["start"], planned["end"])
        for name in names
        for planned in project.version(name).manifest.inputs.values()
    ]
    assert [end for _, end in read[:-1]] == [start for start, _ in read[1:]]
    # The first record is stamped in the middle of the second day: which boundary is found first
    # decides whether it lies before all of them, or in one.
    assert read[0][0] in {0, 1}
    assert read[-1][1] == 61


@pytest.mark.parametrize("position", [0.2, 0.5, 0.8])
def test_a_flipped_bit_in_a_work_file_is_never_published(project, position):
    project.edit(
        '"value": row["value"]', '"value": hash((row["value"], n)) % 1000', "preprocess.py"
    )
    where = planned(project)
    ingest(where, 0)
    preprocess(where, 0)
    (spill,) = (project.path / "work").rglob("00000.arrow")
    data = bytearray(spill.read_bytes())
    data[int(len(data) * position)] ^= 4
    spill.write_bytes(data)
    with pytest.raises(FormatError, match=r"00000\.arrow"):
        convert(where, 0)


def test_batches_are_bounded_and_exact(project, tmp_path):
    import pyarrow as pa

    from trainfeed.files.stores import Location

    table = pa.table(
        {"offset": pa.array(range(1000)), "raw": [bytes([i % 256]) * 40_000 for i in range(1000)]}
    )
    location = Location.parse(str(tmp_path)) / "file"

    def write(file):
        writer = TrailerWriter(file, table.schema)
        writer.write(table)
        writer.close({"x": 1})

    location.write_atomic(write)
    reader = ArrowWithTrailer(location)
    assert reader.trailer["held_bytes"] <= 8 << 20
    assert reader.trailer["starts"] == [0, 209, 418, 627, 836]
    for start, end in ((0, 0), (0, 1), (5, 900), (208, 210), (990, 1000)):
        numbers = reader.batches(start, end)
        assert numbers == range(start // 209, -(-end // 209))
        found = [row for number in numbers for row in reader.head(number)["offset"].to_pylist()]
        assert found[start - start // 209 * 209 :][: end - start] == list(range(start, end))
    reader.close()


def test_a_stale_task_number_is_a_typed_error(project):
    with pytest.raises(CodeChangedError, match="none with number 7"):
        preprocess(planned(project), 7)


def test_a_verdict_counts_for_the_gates_that_it_was_reached_with(project):
    where = planned(project)
    for stage in (ingest, preprocess, convert):
        stage(where, 0)
    check(where)
    project.edit("seed: 7", "seed: 7\nquality: [{check: count, min: 10000}]")
    where = planned(project)
    with pytest.raises(GateError, match="count is"):
        check(where)
    with pytest.raises(GateError, match="was made again and has not passed check since"):
        publish(where)


def test_a_second_check_does_not_take_the_verdict_from_a_run_that_publishes(project):
    where = planned(project)
    for stage in (ingest, preprocess, convert):
        stage(where, 0)
    check(where)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainfeed.pipeline.check._accounts", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            check(where)
    assert publish(where).verdict == "built"


@pytest.mark.parametrize("statement", ["raise SystemExit(0)", "import sys; sys.exit(3)"])
def test_a_function_that_exits_is_a_mistake_at_a_named_record(project, statement):
    project.edit("    row = record.json()", f"    {statement}", "preprocess.py")
    with pytest.raises(PreprocessError, match=r"raised SystemExit.*offset 0"):
        project.build()


def test_a_module_that_exits_when_imported_is_a_setting_error(project):
    project.edit("def clicks", "raise SystemExit(0)\n\n\ndef clicks", "preprocess.py")
    with pytest.raises(ConfigError, match=r"importing .* failed: SystemExit"):
        project.build()


def test_the_training_module_cannot_be_imported_by_preprocessing(project):
    folder = project.env.datasets / "clicks"
    (folder / "train.py").write_text("X = 1\ndef main(job):\n    return {}\n")
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main"}')
    project.edit("def clicks", "from .train import X\n\n\ndef clicks", "preprocess.py")
    with pytest.raises(ConfigError, match="not a Python file that the code digest covers"):
        project.build()


def test_compiled_code_cannot_be_imported_by_preprocessing(project):
    import py_compile

    folder = project.env.datasets / "clicks"
    (folder / "fast.py").write_text("X = 1\n")
    py_compile.compile(str(folder / "fast.py"), cfile=str(folder / "fast.pyc"))
    (folder / "fast.py").unlink()
    project.edit("def clicks", "from .fast import X\n\n\ndef clicks", "preprocess.py")
    with pytest.raises(ConfigError, match="not a Python file that the code digest covers"):
        project.build()


def test_lookups_cannot_be_changed_from_record_to_record(project):
    project.edit(
        "    row = record.json()", "    lookups['n'] = 1\n    row = record.json()", "preprocess.py"
    )
    with pytest.raises(PreprocessError, match="raised TypeError"):
        project.build()


def test_a_lock_file_of_an_editor_is_no_code(project):
    (project.env.datasets / "clicks" / ".#preprocess.py").symlink_to("nobody@nowhere")
    assert project.build()["verdict"] == "built"


def test_a_reason_with_broken_text_is_quarantined(project):
    project.edit(
        'raise Reject("no_value", "expected a value")',
        'raise Reject("no_value", "\\udcff")',
        "preprocess.py",
    )
    project.record({0: [batch([{"value": b"{}", "timestamp": START_MS}])]})
    project.build()
    assert project.version().manifest.quarantine["reasons"] == {"no_value": 1}


def test_a_split_field_of_the_wrong_type_is_named(project):
    project.edit("by: record", "by: [value]")
    project.edit('"value": row["value"]', '"value": "abc"', "preprocess.py")
    with pytest.raises(PreprocessError, match="field 'value'"):
        project.build()


def test_a_lookup_that_cannot_be_read_is_named(project):
    (project.env.datasets / "clicks" / "names.csv").write_text('a,b\n1\n"')
    project.edit("seed: 7", "seed: 7\nlookups: {names: names.csv}")
    with pytest.raises(ConfigError, match=r"lookup file .*names\.csv cannot be read"):
        project.build()


def test_quarantined_bytes_count_for_the_memory_bound(project):
    project.edit("seed: 7", "seed: 7\nresources: {memory_bytes: 1MiB}")
    rows = [{"value": b"x" * 60_000, "timestamp": START_MS + i} for i in range(30)]
    project.record({0: [batch(rows)]})
    with pytest.raises(MemoryLimitError, match="quarantined records of one task"):
        project.build()


def test_a_full_disk_is_a_typed_error_and_leaves_nothing(project, monkeypatch):
    import errno
    import os

    def full(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    from trainfeed.versions.publication import StagedFile

    project.folder.staged("p").mkdir(parents=True)
    with (
        pytest.raises(QuotaExceededError),
        StagedFile(project.folder.staged("p"), "x", mode=0o444) as file,
    ):
        file.write(b"x" * 100)
    assert list((project.folder.staging / "tmp").iterdir()) == []


def test_a_garbled_pointer_is_repaired(project):
    project.build()
    pointer = project.folder.interval("2024-03-01") / "CURRENT"
    pointer.write_text("zzz")
    project.build()
    assert pointer.read_text() == "g0001\n"


def test_positions_may_be_left_out_and_the_report_says_where_the_proof_ends(project):
    project.edit("codec: zstd", "codec: zstd, positions: false")
    where = planned(project)
    for stage in (ingest, preprocess, convert):
        stage(where, 0)
    assert check(where).proof == "spill"
    publish(where)
    assert not (project.version().path / "POSITIONS.arrow").exists()
    assert list(open_dataset(project.version().path, split="train").reader()())


def test_a_damaged_landing_file_between_two_tasks_says_what_to_do(project):
    where = planned(project)
    ingest(where, 0)
    landed = min((project.path / "landing").rglob("*.arrow"))
    data = bytearray(landed.read_bytes())
    data[len(data) // 2] ^= 1
    landed.write_bytes(data)
    with pytest.raises((ChecksumError, FormatError), match="clear the run from ingest on"):
        preprocess(where, 0)
    assert ingest(where, 0).source_reads > 0
