"""A version in a bucket is converted to the bytes that the same version in a folder gives."""

from __future__ import annotations

import re

import pytest

from tests.support.memory_root import memory_bucket, moved
from tests.unit.conversion.conftest import contents
from tests.unit.pipeline.clicks import batch, day
from tests.unit.pipeline.conftest import make_project
from trainfeed.conversion import (
    ColumnOptions,
    ConversionRequest,
    ConvertOptions,
    FileFormat,
    Format,
    Roots,
    SinkOptions,
    SourceOptions,
    convert_files,
    gather_shards,
    input_paths,
    merge_files,
    open_sample_file,
    paths_of,
    plan_conversion,
    publish_conversion,
    repair_file,
    scatter_files,
    transcode,
)
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.readers.split_chunks import SplitChunks

__all__ = ["memory_bucket"]

VARIABLE = (
    "label: {dtype: int64}",
    "label: {dtype: int64}\n  words: {dtype: int32, shape: [null]}",
)


@pytest.fixture(params=["recordio", "tfrecord"])
def container(request):
    return request.param


@pytest.fixture(params=["fixed", "variable"])
def built(request, tmp_path, container):
    """A version with several chunks in each shard."""
    project = make_project(tmp_path)
    project.record({0: [batch(day(0, 400))]})
    project.edit("output: {codec: zstd,", f"output: {{format: {container}, codec: none,")
    project.edit("samples_per_shard: 50", "samples_per_shard: 50, chunk_bytes: 200")
    if request.param == "variable":
        project.edit(*VARIABLE)
        project.edit('"label": n}', '"label": n, "words": [n] * (n % 3)}', "preprocess.py")
    project.build()
    return project


@pytest.fixture
def root(built, memory_bucket):
    return moved(memory_bucket, built.env.root)


def versions(built, root):
    return built.version().path, root.version().path


@pytest.mark.parametrize("file_format", list(FileFormat))
@pytest.mark.parametrize("below", ["", "/clicks-train-*", "/clicks-eval-00000-*,{}/clicks-train-*"])
def test_shards_are_those_of_the_folder(built, root, tmp_path, file_format, below):
    options = ConvertOptions(file_format=file_format)
    made = []
    for folder in versions(built, root):
        out = tmp_path / f"out-{len(made)}"
        convert_files(f"{folder}{below.format(folder)}", out, 3, "q", seed=5, options=options)
        made.append(contents(out))
    assert made[0] == made[1]
    assert not list(root.version().path.glob("clicks-*"))


def test_a_split_is_opened_once_for_all_of_its_shards(built, root, tmp_path, monkeypatch):
    opened = []

    class Counted(SplitChunks):
        def __init__(self, versions, split):
            opened.append(split)
            super().__init__(versions, split)

    monkeypatch.setattr(input_paths, "SplitChunks", Counted)
    folder = root.version().path
    assert len(paths_of(folder)) > 8
    convert_files(folder, tmp_path / "out", 3, "q", seed=5)
    assert sorted(opened) == sorted(built.version().manifest.splits)


@pytest.mark.parametrize("target", ["recordio", "tfrecord", "parquet", "jsonl", "webdataset"])
def test_a_shard_is_written_to_any_format_as_the_file_is(built, root, tmp_path, target):
    written = []
    for number, folder in enumerate(versions(built, root)):
        path = paths_of(f"{folder}/clicks-train-*")[1]
        output = tmp_path / f"{number}.out"
        transcode(open_sample_file(path, SourceOptions()), output, SinkOptions(Format(target)))
        written.append(output.read_bytes())
    assert written[0] == written[1]


def test_a_schema_may_be_given(built, root):
    schema = built.version().schema
    mine, theirs = (
        [
            list(open_sample_file(path, SourceOptions(schema=schema)).samples())
            for path in paths_of(folder)
        ]
        for folder in versions(built, root)
    )
    assert str(mine) == str(theirs)


def request(folder, output, **changes):
    options = {"shards": 4, "prefix": "p", "seed": 3, "codec": "none", "run": "1"} | changes
    return ConversionRequest(
        input=str(folder), output=str(output), file_format=FileFormat.RECORDIO, **options
    )


@pytest.mark.parametrize("below", ["", "/clicks-train-*"])
def test_the_steps_of_the_dag_make_the_same_files(built, root, tmp_path, below):
    made = []
    for number, folder in enumerate(versions(built, root)):
        roots = Roots((folder.parents[3],), (tmp_path / "out",), tmp_path / f"work-{number}")
        wanted = request(f"{folder}{below}", tmp_path / "out" / str(number))
        planned = plan_conversion(wanted, roots, max_units=3)
        for step in (scatter_files, gather_shards):
            for unit in range(planned["units"]):
                step(roots, planned["plan"], unit)
        publish_conversion(roots, planned["plan"])
        made.append(contents(tmp_path / "out" / str(number)))
    convert_files(f"{built.version().path}{below}", tmp_path / "one", 4, "p", seed=3)
    assert made[0] == made[1] == contents(tmp_path / "one")


def test_a_version_that_was_removed_after_the_plan_is_an_error(built, root, tmp_path):
    roots = Roots((root.state,), (tmp_path / "out",), tmp_path / "work")
    planned = plan_conversion(request(root.version().path, "new"), roots, max_units=1)
    for key in root.shards():
        del root.bucket.objects[key]
    with pytest.raises(NotFoundError, match="s3://bucket/root/clicks/versions"):
        scatter_files(roots, planned["plan"], 0)
    (root.version().path / "MANIFEST.json").unlink()
    with pytest.raises(NotFoundError, match="clicks-"):
        scatter_files(roots, planned["plan"], 0)


def test_a_folder_outside_is_refused(built, root, tmp_path):
    (tmp_path / "in").mkdir()
    roots = Roots((tmp_path / "in",), (tmp_path / "out",), tmp_path / "work")
    with pytest.raises(ConfigError, match="expected a path below"):
        roots.input_files(str(root.version().path))
    (tmp_path / "in" / "link").symlink_to(root.version().path)
    for pattern in ("link", "l*", "link/clicks-*"):
        with pytest.raises(ConfigError, match="expected a path below"):
            roots.input_files(pattern)


def test_damage_is_fetched_again_and_then_named(built, root, tmp_path):
    folder = root.version().path
    (key, *_) = root.shards()
    root.flip(key)
    with pytest.raises(FormatError, match="fetched twice.*" + re.escape(f"s3://bucket/{key}")):
        convert_files(folder, tmp_path / "out", 2, "q")
    assert not (tmp_path / "out").exists()
    root.flip(key)
    convert_files(folder, tmp_path / "out", 2, "q")


def test_a_chunk_that_was_damaged_on_the_local_disk_is_fetched_again(built, root, tmp_path):
    folder = root.version().path
    convert_files(folder, tmp_path / "one", 2, "q")
    kept = [path for path in (tmp_path / "cache" / "parts").glob("*/*") if path.name.isdigit()]
    assert len(kept) > 10
    for path in kept:
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
    convert_files(folder, tmp_path / "two", 2, "q")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_second_conversion_fetches_nothing(built, root, tmp_path):
    folder = root.version().path
    convert_files(folder, tmp_path / "one", 2, "q")
    root.gets.clear()
    convert_files(folder, tmp_path / "two", 3, "q")
    assert root.gets == []


def test_what_works_on_bytes_of_files_says_where_they_are(built, root, tmp_path):
    path = paths_of(root.version().path)[0]
    with pytest.raises(ConfigError, match="they are in s3://bucket/root"):
        merge_files([path], tmp_path / "new")
    with pytest.raises(ConfigError, match="they are in s3://bucket/root"):
        repair_file(path, tmp_path / "new", Format.RECORDIO)
    assert not (tmp_path / "new").exists()


def test_a_format_that_the_shard_does_not_have_is_refused(built, root):
    path = paths_of(root.version().path)[0]
    with pytest.raises(FormatError, match="expected a file of csv, got a shard of"):
        open_sample_file(path, SourceOptions(file_format=Format.CSV))
    with pytest.raises(ConfigError, match="only columns of Parquet"):
        open_sample_file(path, SourceOptions(columns=ColumnOptions(flatten=("a",))))


def test_of_a_shard_nothing_is_fetched_but_its_own_chunks(built, root):
    path = paths_of(f"{root.version().path}/clicks-train-*")[1]
    samples = list(open_sample_file(path, SourceOptions()).samples())
    assert samples
    keys = {key for key in root.gets if "/clicks-" in key}
    assert {key.rpartition("/")[2] for key in keys} == {path.name}
