"""Dry run and preview of a data set of log files: the same promises as for topics."""

import gzip
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import cramjam
import pyarrow as pa
import pytest

from tests.unit.pipeline.clicks import day
from tests.unit.pipeline.preview.test_dry_run import tree
from trainfeed.errors import FormatError, LogsMissingError, WindowOpenError
from trainfeed.pipeline.local import build
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preview import describe, dry_run, preview
from trainfeed.pipeline.quarantine import raw_records
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.versions import Version


@pytest.fixture
def logs(project):
    """The small data set over two log files a day, one of them compressed."""
    source = "  kafka: {connection: kafka_default, topic: clicks, settle: 0s}\n"
    project.edit(source, '  logs: {path: "/clicks/{start:%Y-%m-%d}"}\n')
    folder = project.path / "logs" / "clicks" / "2024-03-01"
    folder.mkdir(parents=True)
    lines = [event["value"] + b"\n" for event in day(0, 90)]
    (folder / "a.log").write_bytes(b"".join(lines[:50]))
    (folder / "b.log.gz").write_bytes(gzip.compress(b"".join(lines[50:])))
    (folder / "_SUCCESS").touch()
    for path in [*folder.iterdir(), folder]:
        os.utime(path, (0, 0))
    object.__setattr__(
        project, "env", replace(project.env, logs={"hdfs_default": str(folder.parents[1])})
    )
    return project


def dry(project):
    return dry_run(project.spec, project.interval(), project.env)


def test_a_dry_run_names_the_files_and_their_sizes(logs):
    before = tree(logs.path)
    said = dry(logs)
    assert [part.unit for part in said.reads] == ["bytes", "bytes"]
    sizes = [path.stat().st_size for path in sorted(logs.path.glob("logs/*/*/*log*"))]
    assert [part.bytes for part in said.reads] == sizes
    assert said.read_bytes == sum(sizes)
    assert f"2 sources in all, about {sum(sizes)} B of it" in "\n".join(describe(said))
    assert tree(logs.path) == before


def test_log_files_that_do_not_land_need_no_space_there(logs):
    assert dry(logs).space[0].needed_bytes == 0


def test_log_files_that_land_do(logs):
    logs.edit('%d}"}', '%d}", land: true}')
    assert dry(logs).space[0].needed_bytes is None
    build(logs.spec, logs.interval(), logs.env)
    said = dry_run(logs.spec, logs.interval(), logs.env, rebuild="again")
    assert said.space[0].needed_bytes == 0
    assert "landed already" in describe(said)[1]


@pytest.mark.parametrize(("limit", "records"), [(1, 1), (20, 20), (1000, 90)])
def test_a_preview_reads_the_first_lines_of_every_file(logs, limit, records):
    before = tree(logs.path)
    report = preview(logs.spec, logs.interval(), logs.env, limit=limit)
    assert report["records"] == records
    assert tree(logs.path) == before


@pytest.mark.parametrize("suffix", [".zst", ".bz2", ".lz4", ".snappy", ".sz"])
def test_a_preview_of_a_compressed_file_gives_the_samples_of_a_build(logs, suffix):
    (packed,) = logs.path.glob("logs/*/*/b.log.gz")
    modules = {".zst": cramjam.zstd, ".bz2": cramjam.bzip2, ".lz4": cramjam.lz4}
    text = gzip.decompress(packed.read_bytes())
    path = packed.with_name(f"b.log{suffix}")
    path.write_bytes(modules.get(suffix, cramjam.snappy).compress(text))
    packed.unlink()
    for each in (path, path.parent):
        os.utime(each, (0, 0))
    report = preview(logs.spec, logs.interval(), logs.env, limit=1000)
    built = build(logs.spec, logs.interval(), logs.env).to_json()
    assert (report["records"], sum(report["samples"].values())) == (90, built["samples"])
    assert sum(report["quarantined"].values()) == built["quarantined"]


def test_a_preview_of_lines_that_are_too_long_has_the_positions_of_a_build(logs):
    logs.edit('%d}"}', '%d}", max_line_bytes: 100B, long_lines: quarantine}')
    (path,) = logs.path.glob("logs/*/*/a.log")
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\r\n".join((b"x" * 500, *lines[:5], b"y" * 101, *lines[5:])))
    for each in (path, path.parent):
        os.utime(each, (0, 0))
    build(logs.spec, logs.interval(), logs.env)
    version = Version.resolve(logs.folder, logs.interval().name, None)
    assert version.manifest.quarantine["reasons"]["line_too_long"] == 2
    rejected = raw_records(quarantine_of_version(version))
    kept = [(record.source, record.offset) for record in rejected]
    report = preview(logs.spec, logs.interval(), logs.env, limit=1000)
    assert report["quarantined"] == version.manifest.quarantine["reasons"]
    shown = [(each["source"], each["offset"]) for each in report["first_quarantined"]]
    assert len(shown) > 1
    assert shown == kept[: len(shown)]


def test_a_preview_names_the_files_as_a_build_does(logs):
    build(logs.spec, logs.interval(), logs.env)
    sources = set(logs.version().manifest.inputs)
    report = preview(logs.spec, logs.interval(), logs.env, limit=1000)
    assert {row["source"] for row in report["first_quarantined"]} <= sources


@pytest.mark.parametrize("look", [dry, lambda p: preview(p.spec, p.interval(), p.env, limit=9)])
def test_a_folder_without_its_marker_is_not_looked_at(logs, look):
    for marker in logs.path.glob("logs/*/*/_SUCCESS"):
        marker.unlink()
    with pytest.raises((WindowOpenError, LogsMissingError), match="_SUCCESS"):
        look(logs)


def test_a_folder_that_is_complete_when_nothing_changes_can_be_previewed(logs):
    logs.edit('%d}"}', '%d}", stable: 10m}')
    assert preview(logs.spec, logs.interval(), logs.env, limit=10)["records"] == 10


def test_of_many_files_a_dry_run_names_some_and_counts_all(logs):
    folder = next(logs.path.glob("logs/clicks/*"))
    for number in range(200):
        (folder / f"more-{number:03d}.log").write_text("{}\n")
    said = dry(logs)
    assert (len(said.reads), said.sources) == (100, 202)
    assert said.read_bytes == sum(path.stat().st_size for path in folder.iterdir())
    lines = describe(said)
    assert "would read     102 more, and so on" in lines
    assert any("202 sources in all" in line for line in lines)


def test_a_preview_copies_only_the_files_that_it_shows_lines_of(logs, monkeypatch):
    folder = next(logs.path.glob("logs/clicks/*"))
    for number in range(50):
        (folder / f"more-{number:03d}.log").write_text("{}\n")
    planned = []

    def spy(spec, interval, env, **options):
        planned.append(len(list(Path(env.logs["hdfs_default"]).glob("*/*/*.log*"))))
        return plan(spec, interval, env, **options)

    monkeypatch.setattr("trainfeed.pipeline.preview.plan", spy)
    report = preview(logs.spec, logs.interval(), logs.env, limit=10)
    assert (report["records"], planned) == (10, [10])


def test_a_preview_of_lines_that_end_with_crlf_has_the_offsets_of_a_build(logs):
    path = next(logs.path.glob("logs/clicks/*/a.log"))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    build(logs.spec, logs.interval(), logs.env)
    report = preview(logs.spec, logs.interval(), logs.env, limit=1000)
    version = logs.version()
    (file,) = version.path.glob("quarantine/*")
    with pa.OSFile(str(file)) as opened:
        offsets = set(pa.ipc.open_file(opened).read_all()["offset"].to_pylist())
    assert {row["offset"] for row in report["first_quarantined"]} <= offsets


def test_a_preview_that_comes_to_the_end_of_a_cut_file_ends_as_its_build_does(logs):
    logs.edit('%d}"}', '%d}", cut_line: fail}')
    path = next(logs.path.glob("logs/clicks/*/a.log"))
    path.write_bytes(path.read_bytes()[:-3])
    assert preview(logs.spec, logs.interval(), logs.env, limit=20)["records"] == 20
    with pytest.raises(FormatError, match="expected a last line that ends with LF"):
        preview(logs.spec, logs.interval(), logs.env, limit=1000)


@pytest.mark.parametrize("end", [b"", b"\r\n"])
def test_a_cr_at_the_end_of_a_last_line_stays_in_the_record(logs, end):
    path = next(logs.path.glob("logs/clicks/*/a.log"))
    path.write_bytes(b"not json\r" + end)
    report = preview(logs.spec, logs.interval(), logs.env, limit=1000)
    assert "not json\r" in [row["raw"] for row in report["first_quarantined"]]


@pytest.mark.parametrize("suffix", [".log", ".log.gz", ".log.snappy"])
def test_a_line_as_long_as_memory_is_passed_by_in_pieces(logs, suffix):
    logs.edit('%d}"}', '%d}", max_line_bytes: 100B, long_lines: quarantine}')
    path = next(logs.path.glob("logs/clicks/*/a.log"))
    text = b"x" * (64 << 20) + b"\nnot json\n"
    path.unlink()
    packed = {".log": bytes, ".log.gz": gzip.compress, ".log.snappy": cramjam.snappy.compress}
    path.with_name(f"a{suffix}").write_bytes(packed[suffix](text))
    del text
    tracemalloc.start()
    try:
        report = preview(logs.spec, logs.interval(), logs.env, limit=4)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 40 << 20
    found = [(row["reason"], row["offset"]) for row in report["first_quarantined"]]
    assert found[:2] == [("line_too_long", 0), ("not_json", (64 << 20) + 1)]
