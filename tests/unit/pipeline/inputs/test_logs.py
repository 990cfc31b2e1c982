"""Building from log files: the same set for any pieces, and only from planned files."""

import gzip
import os
import shutil

import pytest

import trainfeed.pipeline.check as check_stage
from tests.unit.pipeline.log_project import DAY, make_log_project, rewrite
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    SourceReplacedError,
    WindowOpenError,
)
from trainfeed.files.stores.local import LocalFileSystem
from trainfeed.pipeline import Build
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs.source_readers import PieceReader
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.planner.decision import folders_of_logs, require_complete
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.quarantine import raw_records
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.stage import Stage
from trainfeed.versions import Ledger

SOURCES = [f"logs:dt={DAY}/part-{n}.txt{end}" for n, end in enumerate(["", ".gz", ".zst", ""])]


@pytest.fixture
def project(tmp_path):
    return make_log_project(tmp_path)


def planned(project):
    report = plan(project.spec, project.interval(), project.env)
    return Build(project.spec, project.env, report.ref)


def ranges(project):
    ref = planned(project).ref
    return load_plan(project.folder, ref)


def piece(project, number):
    stage = Stage.open(planned(project))
    return stage, stage.plan.ranges[number]


def test_every_line_is_accounted_for(project):
    report = project.build()
    ledger = Ledger.from_json(project.version().manifest.ledger)
    assert project.version().manifest.sources == SOURCES
    assert [ledger[source].read.records for source in SOURCES] == [100, 80, 40, 0]
    assert report["source_reads"] == 220
    assert (report["samples"], report["quarantined"], report["filtered"]) == (175, 22, 30)


def test_the_bytes_of_a_line_are_counted_without_its_end(project):
    (project.logs / "part-0.txt").write_bytes(b'{"value": 1}\r\n\n{"value": 2}')
    project.build()
    ledger = Ledger.from_json(project.version().manifest.ledger)
    assert ledger[SOURCES[0]].read.bytes == 24


@pytest.mark.parametrize("split", ["1B", "7B", "16B", "100B", "1KiB"])
def test_the_size_of_pieces_and_tasks_changes_nothing(project, split):
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    project.edit("64MiB", split)
    with (project.env.datasets / "clicks" / "dataset.yaml").open("a") as file:
        file.write("resources: {records_per_task: 20}\n")
    project.build()
    assert project.version().manifest.content_digest == (
        undisturbed.version().manifest.content_digest
    )
    assert project.version().manifest.fingerprint == undisturbed.version().manifest.fingerprint


def test_landing_first_changes_nothing(project):
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    project.edit("split_bytes: 64MiB", "split_bytes: 300B, land: true")
    report = project.build()
    assert report["source_reads"] == 220
    assert project.version().manifest == undisturbed.version().manifest


def test_plain_files_are_cut_and_compressed_ones_are_not(project):
    project.edit("64MiB", "500B")
    plan = ranges(project)
    size = (project.logs / "part-0.txt").stat().st_size
    pieces = [(r.source, r.start, r.end) for r in plan.ranges]
    wanted = [(SOURCES[0], n, min(n + 500, size)) for n in range(0, size, 500)]
    for source, name in zip(SOURCES[1:3], ["part-1.txt.gz", "part-2.txt.zst"], strict=True):
        wanted.append((source, 0, (project.logs / name).stat().st_size))
    assert pieces == wanted


def test_the_plan_knows_what_identifies_a_file(project):
    project.build()
    info = (project.logs / "part-0.txt").stat()
    assert project.version().manifest.inputs[SOURCES[0]] == {
        "connection": "hdfs_default",
        "path": f"/logs/clicks/dt={DAY}/part-0.txt",
        "compression": "none",
        "timestamp_ms": 1709251200000,
        "start": 0,
        "end": info.st_size,
        "modified_ms": info.st_mtime_ns // 10**6,
        "file_id": info.st_ino,
        "checksum": None,
    }


def test_a_line_is_stamped_with_the_start_of_its_interval(project):
    code = """
def clicks(record, lookups):
    return {"value": 0.0, "label": int(record.timestamp.timestamp())}
"""
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    project.build()
    manifest = project.version().manifest
    statistics = project.version().path / "statistics.json"
    assert '"max":1709251200' in statistics.read_text()
    assert manifest.late["late"] == manifest.late["future"] == 0
    assert manifest.late["policy"] == {"logs": "keep"}


def test_an_empty_folder_is_an_empty_interval(project):
    for file in project.logs.glob("part-*"):
        file.unlink()
    report = project.build()
    assert report["samples"] == 0
    assert project.version().manifest.empty
    assert project.version().manifest.sources == []


def test_a_folder_that_is_not_complete_is_waited_for_and_nothing_is_written(project):
    (project.logs / "_SUCCESS").unlink()
    with pytest.raises(WindowOpenError, match="it has no _SUCCESS"):
        project.build()
    assert not list(project.folder.path.glob("plans/**/*.json"))
    (project.logs / "_SUCCESS").touch()
    assert project.build()["verdict"] == "built"


def test_a_second_build_finds_the_first_and_reads_nothing(project):
    project.build()
    report = project.build()
    assert (report["verdict"], report["source_reads"]) == ("identical", 0)


def test_a_published_interval_outlives_its_logs(project):
    project.build()
    shutil.rmtree(project.logs)
    assert project.build()["verdict"] == "identical"
    assert require_complete(project.spec, project.interval(), project.env) == 0
    with pytest.raises(WindowOpenError, match="the folder is not there"):
        project.build(rebuild="again")


def test_what_has_landed_is_built_again_when_its_logs_are_gone(project):
    project.edit("split_bytes: 64MiB", "split_bytes: 1KiB, land: true")
    project.build()
    digest = project.version().manifest.content_digest
    shutil.rmtree(project.logs)
    report = project.build(rebuild="the work folder was lost")
    assert (report["generation"], report["source_reads"]) == ("g0002", 0)
    assert project.version().manifest.content_digest == digest


def test_what_has_not_landed_is_not_built_again_when_its_logs_are_gone(project):
    project.edit("split_bytes: 64MiB", "land: true")
    project.build()
    shutil.rmtree(project.logs)
    next((project.path / "landing").rglob("*.arrow")).unlink()
    with pytest.raises(WindowOpenError, match="the folder is not there"):
        project.build(rebuild="why not")


def test_a_published_interval_whose_marker_is_gone_is_identical(project):
    project.build()
    (project.logs / "_SUCCESS").unlink()
    assert require_complete(project.spec, project.interval(), project.env) == 0
    assert project.build()["verdict"] == "identical"


def test_a_published_interval_without_its_marker_is_not_built_again(project):
    project.build()
    (project.logs / "_SUCCESS").unlink()
    with pytest.raises(WindowOpenError, match="it has no _SUCCESS"):
        project.build(rebuild="why not")


def test_a_published_folder_that_changed_while_its_marker_is_gone_is_named(project):
    project.build()
    (project.logs / "_SUCCESS").unlink()
    (project.logs / "part-1.txt.gz").write_bytes(b"")
    with pytest.raises(SourceReplacedError, match=r"part-1\.txt\.gz: length \d+ → 0"):
        project.build()


def test_logs_rewritten_after_publication_are_named(project):
    project.build()
    rewrite(project.logs / "part-0.txt", b'"value": 7', b'"value": 9')
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt: modification time .*--rebuild"):
        project.build()
    assert project.build(rebuild="the logs were mended")["generation"] == "g0002"


def test_a_file_that_comes_after_publication_is_named(project):
    """Case HD-06."""
    project.build()
    (project.logs / "part-4.txt").write_text("late\n")
    with pytest.raises(ConflictError, match=rf"logs:dt={DAY}/part-4\.txt: None → "):
        project.build()


def change(project):
    rewrite(project.logs / "part-0.txt", b'"value": 7', b'"value": 9')


def lengthen(project):
    with (project.logs / "part-1.txt.gz").open("ab") as file:
        file.write(gzip.compress(b"{}\n"))


def remove(project):
    (project.logs / "part-2.txt.zst").unlink()


def exchange(project):
    path = project.logs / "part-0.txt"
    copy = path.with_name("copy.tmp")
    shutil.copy2(path, copy)  # same bytes, same time
    copy.rename(path)


def add(project):
    (project.logs / "part-4.txt").write_text("late\n")


def remove_all(project):
    shutil.rmtree(project.logs)


CHANGES = [
    (change, r"part-0\.txt: modification time \d+ → \d+"),
    (lengthen, r"part-1\.txt\.gz: length \d+ → \d+"),
    (remove, r"part-2\.txt\.zst is gone"),
    (exchange, r"part-0\.txt: file id \d+ → \d+"),
    (add, r"part-4\.txt was added"),
    (remove_all, r"part-0\.txt is gone.*part-1\.txt\.gz is gone"),
]


@pytest.mark.parametrize(("happen", "message"), CHANGES, ids=[c[0].__name__ for c in CHANGES])
@pytest.mark.parametrize("land", ["false", "true"])
def test_what_changed_between_plan_and_ingest_is_named(project, happen, message, land):
    """Case HD-05."""
    project.edit("split_bytes: 64MiB", f"land: {land}")
    where = planned(project)
    happen(project)
    with pytest.raises(SourceReplacedError, match=f"{message}.*nothing was published; run"):
        ingest(where, 0)
    assert not project.folder.interval(DAY).exists()
    assert not (project.path / "landing").exists()


def test_the_names_in_a_folder_are_compared_once_and_each_file_by_its_own_task(project):
    """All names with each task would take a time that grows with the square of their number."""
    project.edit("split: {", "resources: {records_per_task: 100}\nsplit: {")
    where = planned(project)
    first, *others = range(len(load_plan(project.folder, where.ref).ingest))
    add(project)
    assert [ingest(where, unit).verdict for unit in others] == ["verified"] * len(others)
    with pytest.raises(SourceReplacedError, match=r"part-4\.txt was added"):
        ingest(where, first)
    (project.logs / "part-4.txt").unlink()
    remove(project)
    with pytest.raises(SourceReplacedError, match=r"part-2\.txt\.zst is gone"):
        ingest(where, others[-1])


@pytest.mark.parametrize(
    ("happen", "message"),
    [c for c in CHANGES if c[0] is not add],
    ids=[c[0].__name__ for c in CHANGES if c[0] is not add],
)
def test_what_changed_between_ingest_and_preprocess_is_named(project, happen, message):
    where = planned(project)
    ingest(where, 0)
    happen(project)
    with pytest.raises(SourceReplacedError, match=message.partition(r".*")[0]):
        preprocess(where, 0)
    assert not project.folder.interval(DAY).exists()


@pytest.mark.parametrize(
    ("happen", "part"), [(change, 0), (exchange, 0), (lengthen, 1), (remove, 2)]
)
def test_what_changes_while_it_is_read_is_named(project, happen, part):
    reader = iter(PieceReader(*piece(project, part)))
    next(reader)
    happen(project)
    with pytest.raises(SourceReplacedError, match=rf"part-{part}"):
        list(reader)


def test_of_a_broken_file_that_changed_the_change_is_told(project, monkeypatch):
    path = project.logs / "part-1.txt.gz"
    path.write_bytes(path.read_bytes()[:-9])
    reader = PieceReader(*piece(project, 1))

    def open_read(self, name, original=LocalFileSystem.open_read):
        file = original(self, name)
        lengthen(project)
        return file

    monkeypatch.setattr(LocalFileSystem, "open_read", open_read)
    with pytest.raises(SourceReplacedError, match=r"part-1\.txt\.gz: length"):
        list(reader)


def test_what_has_landed_needs_its_logs_no_more(project):
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    project.edit("split_bytes: 64MiB", "land: true")
    where = planned(project)
    assert ingest(where, 0).verdict == "built"
    shutil.rmtree(project.logs)
    report = ingest(where, 0)
    assert (report.verdict, report.source_reads, report.records) == ("adopted", 0, 220)
    assert preprocess(where, 0).source_reads == 0
    convert(where, 0)
    staged = sorted(p.name for p in project.folder.staged(where.ref.plan_id).iterdir())
    assert any(name.startswith("clicks-train-") for name in staged)


@pytest.mark.parametrize("gone", [0, 2])
def test_names_are_compared_while_any_range_is_to_be_landed(project, gone):
    project.edit("split_bytes: 64MiB", "land: true")
    where = planned(project)
    ingest(where, 0)
    add(project)
    assert ingest(where, 0).verdict == "adopted"
    sorted((project.path / "landing").rglob("*.arrow"))[gone].unlink()
    with pytest.raises(SourceReplacedError, match=r"part-4\.txt was added"):
        ingest(where, 0)


def test_a_torn_landing_file_is_landed_anew(project):
    project.edit("split_bytes: 64MiB", "land: true")
    where = planned(project)
    ingest(where, 0)
    landed = sorted((project.path / "landing").rglob("*.arrow"))
    assert len(landed) == 3
    landed[0].write_bytes(landed[0].read_bytes()[:-20])
    report = ingest(where, 0)
    assert report.verdict == "built"
    assert 0 < report.source_reads < report.records == 220


def test_a_file_that_does_not_decompress_stops_the_build_until_it_is_replaced(project):
    good = (project.logs / "part-1.txt.gz").read_bytes()
    (project.logs / "part-1.txt.gz").write_bytes(good[:-9])
    with pytest.raises(FormatError, match=r"expected gzip.*replace the file.*part-1\.txt\.gz"):
        project.build()
    assert not project.folder.interval(DAY).exists()
    (project.logs / "part-1.txt.gz").write_bytes(good)
    assert project.build()["samples"] == 175


def test_a_line_that_is_too_long_is_named(project):
    project.edit("split_bytes: 64MiB", "max_line_bytes: 15B")
    with pytest.raises(FormatError, match=r"at most 15 bytes.*max_line_bytes.*at byte"):
        project.build()
    assert not project.folder.interval(DAY).exists()
    project.edit("max_line_bytes: 15B", "split_bytes: 64MiB")
    assert project.build()["samples"] == 175


def quarantine(project, most_bytes, before="split_bytes: 64MiB"):
    after = f"max_line_bytes: {most_bytes}B, long_lines: quarantine"
    project.edit(before, after)
    return after


def test_a_line_that_is_too_long_is_quarantined_if_the_specification_says_so(project):
    part = project.logs / "part-0.txt"
    long = b'{"value": 1, "note": "' + b"x" * 5_000 + b'"}\r\n'
    with_end = part.read_bytes().rstrip() + b"\n"
    longest = b'{"value": 3, "note": "'.ljust(998, b"x") + b'"}\n'  # 1,000 bytes without its end
    part.write_bytes(longest + long + with_end + long + b'{"value": 2}\n' + long.rstrip())
    setting = quarantine(project, 1_000)
    report = project.build()
    assert (report["samples"], report["quarantined"]) == (177, 25)
    manifest = project.version().manifest
    assert manifest.quarantine["reasons"] == {"line_too_long": 3, "not_json": 22}
    ledger = Ledger.from_json(manifest.ledger)[SOURCES[0]]
    assert ledger.read.records == 105
    kept = list(raw_records(quarantine_of_version(project.version()), "line_too_long"))
    assert [(record.raw, record.may_be_cut) for record in kept] == [(long[:1_001], True)] * 3
    content = manifest.content_digest
    # Pieces and tasks of any size give the same version.
    project.edit(setting, f"{setting}, split_bytes: 777B")
    assert project.build(rebuild="other pieces")["verdict"] == "built"
    assert project.version().manifest.content_digest == content
    assert project.version().manifest.quarantine == manifest.quarantine
    # With a higher limit the lines are records, which are read whole.
    quarantine(project, 6_000, f"{setting}, split_bytes: 777B")
    report = project.build(rebuild="longer lines")
    assert (report["samples"], report["quarantined"]) == (180, 22)


def test_the_limit_of_lines_is_part_of_what_a_version_is_made_of_where_it_quarantines(project):
    setting = quarantine(project, 1_000)
    project.build()
    quarantine(project, 2_000, setting)
    with pytest.raises(ConflictError):
        project.build()
    project.edit("max_line_bytes: 2000B, long_lines: quarantine", setting)
    assert project.build()["verdict"] == "identical"


def test_landing_and_the_beginnings_of_lines_exclude_each_other(project):
    project.edit("split_bytes: 64MiB", "land: true, long_lines: quarantine")
    with pytest.raises(ConfigError, match="long_lines: quarantine without land: true"):
        project.spec  # noqa: B018 - reads the file


def test_a_compression_that_is_not_read_stops_the_plan_until_it_is_hidden(project):
    odd = project.logs / "part-4.xz"
    odd.write_bytes(b"\xfd7zXZ\0")
    with pytest.raises(FormatError, match=r"one of \.gz, .*\.sz, got 'part-4\.xz'.*hide it"):
        project.build()
    assert list(project.folder.path.glob("plans/**/*.json")) == []
    odd.rename(odd.with_name("_part-4.xz"))
    assert project.build()["samples"] == 175


def test_a_connection_that_is_not_defined_is_named(project):
    project.edit("{path:", "{connection: other, path:")
    with pytest.raises(ConfigError, match=r"'other' is not defined, known are \['hdfs_default'\]"):
        project.build()


def _checksum_of_name(_, path):
    return f"MD5:{path[-7:]}"


def test_a_protocol_that_tells_less_finds_the_same_version(project, monkeypatch):
    """WebHDFS tells file id and checksum, the native client neither."""
    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "checksum", _checksum_of_name)
        project.build()
    fields = project.version().manifest.inputs[SOURCES[0]]
    assert fields["checksum"] == "MD5:t-0.txt"
    assert project.build()["verdict"] == "identical"
    rewrite(project.logs / "part-0.txt", b'"value": 7', b'"value": 9')
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt: modification time"):
        project.build()


def test_a_protocol_that_tells_more_finds_the_same_version(project, monkeypatch):
    project.build()
    monkeypatch.setattr(LocalFileSystem, "checksum", _checksum_of_name)
    assert project.build()["verdict"] == "identical"


def test_a_file_of_equal_id_and_checksum_is_the_same_whatever_its_time(project, monkeypatch):
    monkeypatch.setattr(LocalFileSystem, "checksum", _checksum_of_name)
    project.build()
    os.utime(project.logs / "part-0.txt", (1, 1))
    assert project.build()["verdict"] == "identical"


def test_the_same_bytes_put_there_again_are_the_same(project, monkeypatch):
    monkeypatch.setattr(LocalFileSystem, "checksum", _checksum_of_name)
    project.build()
    copy = project.logs / "_copy"
    shutil.copyfile(project.logs / "part-0.txt", copy)
    copy.replace(project.logs / "part-0.txt")
    assert project.build()["verdict"] == "identical"


def test_another_checksum_of_the_same_length_and_time_is_named(project, monkeypatch):
    state = {"sum": "MD5:1"}
    monkeypatch.setattr(LocalFileSystem, "checksum", lambda *_: state["sum"])
    where = planned(project)
    whole = PieceReader(*piece(project, 0))
    state["sum"] = "MD5:2"
    message = r"part-0\.txt: checksum MD5:1 → MD5:2"
    with pytest.raises(SourceReplacedError, match=message):
        ingest(where, 0)
    with pytest.raises(SourceReplacedError, match=message):
        list(whole)


def test_the_checksum_of_a_cut_file_is_asked_for_once(project, monkeypatch):
    asked = []
    monkeypatch.setattr(
        LocalFileSystem, "checksum", lambda *arguments: asked.append(arguments[1][-10:]) or "MD5:1"
    )
    project.edit("64MiB", "100B")
    where = planned(project)
    asked.clear()
    ingest(where, 0)
    stage = Stage.open(where)
    for first in stage.plan.ranges[:5]:
        list(PieceReader(stage, first))
    assert asked.count("part-0.txt") == 1


def test_a_sensor_asks_before_the_plan_does(project):
    assert require_complete(project.spec, project.interval(), project.env) == 4
    assert folders_of_logs(project.spec, project.interval(), project.env).top.path == str(
        project.logs
    )
    (project.logs / "_SUCCESS").unlink()
    with pytest.raises(WindowOpenError):
        require_complete(project.spec, project.interval(), project.env)


def test_without_airflow_a_variable_says_where_paths_of_logs_start(monkeypatch, tmp_path):
    monkeypatch.setenv("TRAINFEED_DATA", str(tmp_path))
    assert environment_from_environ().logs == {"hdfs_default": str(tmp_path)}
    monkeypatch.setenv("TRAINFEED_LOGS", "webhdfs://hdfs@namenode:9870")
    assert environment_from_environ().logs == {"hdfs_default": "webhdfs://hdfs@namenode:9870"}


def test_of_many_files_a_message_names_some(project):
    for number in range(50):
        (project.logs / f"more-{number:02d}.txt").touch()
    where = planned(project)
    remove_all(project)
    with pytest.raises(SourceReplacedError, match=r"; and \d+ more; nothing") as caught:
        ingest(where, 0)
    assert len(str(caught.value)) < 2000


def test_the_proof_costs_what_a_shard_holds_and_not_what_the_plan_names(project, monkeypatch):
    for number in range(50):
        (project.logs / f"more-{number:02d}.txt").touch()
    accounted = []

    def of(source, offsets, *rest):
        accounted.append(len(offsets))
        return original(source, offsets, *rest)

    original = check_stage.ValidLeaf.of
    monkeypatch.setattr(check_stage.ValidLeaf, "of", of)
    project.build()
    assert accounted
    assert min(accounted) > 0
