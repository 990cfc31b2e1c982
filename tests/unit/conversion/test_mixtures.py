"""Readers of ``p-*-of-*`` under conversions into the folder: one whole set, or an error."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import numpy as np
import pytest

from tests.unit.conversion.conftest import FIXED, fixed_samples
from trainfeed.conversion import ConvertOptions, FileFormat, convert, convert_files
from trainfeed.core import faults
from trainfeed.errors import ConflictError, FileReplacedError, NotFoundError
from trainfeed.loader import DataLoader, RecordFiles, TFRecordFiles
from trainfeed.readers import recordio, tfrecord
from trainfeed.recordio import RecordScanner
from trainfeed.samples import SampleReader, TypedCodec
from trainfeed.tfrecord import ExampleCodec, TFRecordReader

POINTS = [
    "convert.before_commit",
    "convert.after_commit",
    "convert.after_move",
    "convert.before_manifest",
    "convert.before_cleanup",
]
CODEC, EXAMPLES = TypedCodec(FIXED), ExampleCodec(FIXED)


def of_loader(files):
    with DataLoader(files, batch_size=7) as loader:
        yield from (label for batch in loader for label in batch["label"].tolist())


def of_samples(pattern, **options):
    for batch in SampleReader(pattern, FIXED, **options).iter_batches(7):
        yield from batch["label"].tolist()


def of_ranks(pattern):
    readers = [recordio(pattern, FIXED, rank=rank, world_size=2) for rank in range(2)]
    yield from (sample["label"] for reader in readers for sample in reader())


def converted(pattern, folder):
    convert_files(pattern, folder / "copy", 1, "q")
    yield from of_samples(str(folder / "copy" / "q-*"))


# Container, and the labels of what a pattern matches.
READERS = {
    "RecordScanner": (
        "recordio",
        lambda p, _: (CODEC.decode(r)["label"] for r in RecordScanner(p)),
    ),
    "recordio": ("recordio", lambda p, _: (s["label"] for s in recordio(p, FIXED)())),
    "recordio of ranks": ("recordio", lambda p, _: of_ranks(p)),
    "SampleReader": ("recordio", lambda p, _: of_samples(p)),
    "SampleReader with threads": ("recordio", lambda p, _: of_samples(p, threads=2)),
    "SampleReader of maps": ("recordio", lambda p, _: of_samples(p, mapped=True)),
    "RecordFiles": ("recordio", lambda p, _: of_loader(RecordFiles(p, FIXED))),
    "RecordFiles of maps": (
        "recordio",
        lambda p, _: of_loader(RecordFiles(p, FIXED, immutable=True)),
    ),
    "convert_files": ("recordio", converted),
    "TFRecordReader": (
        "tfrecord",
        lambda p, _: (EXAMPLES.decode(r)["label"] for r in TFRecordReader(p)),
    ),
    "tfrecord": ("tfrecord", lambda p, _: (s["label"] for s in tfrecord(p, FIXED)())),
    "TFRecordFiles": ("tfrecord", lambda p, _: of_loader(TFRecordFiles(p, FIXED))),
}


@pytest.fixture(params=READERS)
def reader(request, tmp_path):
    container, read = READERS[request.param]
    return FileFormat(container), lambda pattern: read(str(pattern), tmp_path)


def write(folder, first, shards, container, fault=None):
    """Convert samples ``first`` to ``first + 39`` in a process that the fault kills."""
    process = os.fork()
    if process == 0:
        with suppress(BaseException):
            os.environ[faults.VARIABLE] = f"{fault}:kill" if fault else ""
            faults._plan.cache_clear()
            convert(folder, samples(first), shards, "p", schema=FIXED, options=options(container))
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def samples(first):
    return lambda: ({**each, "label": each["label"] + first} for each in fixed_samples(40)())


def options(container):
    return ConvertOptions(memory_bytes=1 << 16, file_format=container)


def labels(found):
    return sorted(int(np.asarray(label)) for label in found)


OLD, NEW = list(range(40)), list(range(100, 140))


@pytest.mark.parametrize("index", [0, 2, 3])
def test_a_missing_shard_is_an_error_that_names_it(reader, tmp_path, index):
    container, read = reader
    write(tmp_path / "out", 0, 4, container)
    (tmp_path / "out" / f"p-0000{index}-of-00003").unlink()
    with pytest.raises(NotFoundError, match=f"all 4 shards .* got 3: p-0000{index}-of-00003"):
        list(read(tmp_path / "out" / "p-*-of-*"))


def test_two_sizes_of_a_set_under_one_pattern_are_an_error(reader, tmp_path):
    container, read = reader
    write(tmp_path / "out", 0, 2, container)
    write(tmp_path / "other", 0, 3, container)
    for path in (tmp_path / "other").glob("p-*"):
        path.rename(tmp_path / "out" / path.name)
    with pytest.raises(ConflictError, match="files of two: p-00000-of-00001 and p-00000-of-00002"):
        list(read(tmp_path / "out" / "p-*"))


@pytest.mark.parametrize("shards", [3, pytest.param(5, marks=pytest.mark.ci)])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_conversion_leaves_a_whole_set_or_an_error(reader, tmp_path, point, shards):
    container, read = reader
    out = tmp_path / "out"
    assert write(out, 0, 3, container) == 0
    assert write(out, 100, shards, container, point) == -signal.SIGKILL
    try:
        found = labels(read(out / "p-*-of-*"))
    except (FileReplacedError, NotFoundError):
        found = None
    assert found == OLD or (found is None and point != "convert.before_commit")
    # The next conversion carries it out; so does finish_publication.
    assert write(out, 100, shards, container) == 0
    assert labels(read(out / "p-*-of-*")) == NEW


def test_a_set_that_is_replaced_under_an_open_reader_is_noticed(reader, tmp_path):
    container, read = reader
    out = tmp_path / "out"
    write(out, 0, 3, container)
    opened = read(out / "p-*-of-*")
    found = [next(opened)]
    assert write(out, 100, 3, container) == 0
    with suppress(FileReplacedError):
        found += opened
        # What was opened before is read to its end.
        assert labels(found) == OLD


def test_a_reader_that_looks_all_the_time_sees_one_set_or_an_error(reader, tmp_path):
    container, read = reader
    out = tmp_path / "out"
    write(out, 0, 3, container)
    writer = os.fork()
    if writer == 0:
        with suppress(BaseException):
            for number in range(12):
                convert(out, samples(100 * (number % 2)), 3, "p", schema=FIXED,
                        options=options(container))  # fmt: skip
            os._exit(0)
        os._exit(1)
    ended = 0
    while not ended:
        ended, status = os.waitpid(writer, os.WNOHANG)
        try:
            found = labels(read(out / "p-*-of-*"))
        except (ConflictError, FileReplacedError, NotFoundError):
            continue
        assert found in (OLD, NEW)
    assert os.waitstatus_to_exitcode(status) == 0


def test_files_that_are_named_are_read_although_others_are_missing(tmp_path):
    write(tmp_path, 0, 4, FileFormat.RECORDIO)
    (tmp_path / "p-00002-of-00003").unlink()
    for paths in (
        [tmp_path / "p-00000-of-00003", tmp_path / "p-00001-of-00003"],
        str(tmp_path / "p-0000[01]-of-*"),
        str(tmp_path / "p-00003-of-*"),
    ):
        assert list(RecordScanner(paths))


def test_names_as_tensorflow_writes_them_count_the_files(tmp_path):
    write(tmp_path / "ours", 0, 3, FileFormat.TFRECORD)
    others = tmp_path / "others"
    others.mkdir()
    for number in range(3):
        data = (tmp_path / "ours" / f"p-0000{number}-of-00002").read_bytes()
        (others / f"p-0000{number}-of-00003").write_bytes(data)
    assert len(list(TFRecordReader(str(others / "p-*")))) == 40
    (others / "p-00001-of-00003").unlink()
    with pytest.raises(NotFoundError, match="all 3 shards"):
        TFRecordReader(str(others / "p-*"))


def test_records_in_names_of_another_tool_are_read_by_their_names(tmp_path):
    """The last number of a RecordIO set is an index; whose names count files has to say so."""
    write(tmp_path / "ours", 0, 3, FileFormat.RECORDIO)
    others = tmp_path / "others"
    others.mkdir()
    for number in range(3):
        data = (tmp_path / "ours" / f"p-0000{number}-of-00002").read_bytes()
        (others / f"p-0000{number}-of-00003").write_bytes(data)
    with pytest.raises(NotFoundError, match=r"another tool.*name the files"):
        list(recordio(f"{others}/p-*")())
    assert len(list(recordio(sorted(others.iterdir()))())) == 40
    (others / "p-00001-of-00003").unlink()
    with pytest.raises(NotFoundError) as refused:
        list(recordio(f"{others}/p-*")())
    assert "another tool" not in str(refused.value)
