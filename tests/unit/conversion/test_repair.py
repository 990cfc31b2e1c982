"""``repair_file`` keeps the whole parts of a damaged file and reports the dropped ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import accumulate, pairwise

import pytest

from tests.unit.conversion.conftest import FIXED, fixed_samples
from trainfeed.conversion import (
    Encoding,
    Format,
    SinkOptions,
    SourceOptions,
    convert,
    open_sample_file,
    repair_file,
    repair_in_place,
    transcode,
)
from trainfeed.conversion import record_copies as _repair
from trainfeed.errors import ConfigError, ConflictError, FormatError, TruncatedError
from trainfeed.recordio import RecordScanner, RecordWriter
from trainfeed.tfrecord import TFRecordIndex, TFRecordReader, TFRecordWriter

# Records of many lengths, one of them longer than a page.
RECORDS = [b"%d:" % n + bytes([n]) * (211 * n % 1300) for n in range(1, 30)] + [b"z" * 9000] * 2
TFRECORD_HEADER_BYTES, RECORDIO_HEADER_BYTES = 12, 20
Damage = Callable[[bytearray], object]


def flip(data: bytearray, place: int) -> None:
    data[place] ^= 0x10


def zero(data: bytearray, start: int, end: int) -> None:
    data[start:end] = bytes(end - start)


@pytest.fixture
def tfrecord(tmp_path):
    """A file, and where its records start and the last one ends."""
    with TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for record in RECORDS:
            writer.write(record)
    return tmp_path / "a.tfrecord", [0, *accumulate(16 + len(record) for record in RECORDS)]


@pytest.fixture
def recordio(tmp_path):
    """A file of a record a chunk, and where its chunks start and the last one ends."""
    with RecordWriter(tmp_path / "a.recordio", max_chunk_bytes=1, quantum_records=1) as writer:
        for record in RECORDS:
            writer.write(record)
    assert len(writer.chunks) == len(RECORDS)
    return tmp_path / "a.recordio", [0, *(chunk.end_bytes for chunk in writer.chunks)]


def repaired(file, damaged, tmp_path):
    """Damage a file, repair it; return the records of the new one and the ranges dropped."""
    path, _ = file
    path.write_bytes(damaged)
    is_recordio = path.suffix == ".recordio"
    target = tmp_path / f"whole{path.suffix}"
    target.unlink(missing_ok=True)
    report = repair_file(path, target, Format(path.suffix[1:]))
    assert path.read_bytes() == damaged
    found = list(RecordScanner([target]) if is_recordio else TFRecordReader([target]))
    assert report.num_records == len(found)
    lost_bytes = sum(part.end_bytes - part.start_bytes for part in report.dropped)
    assert lost_bytes + target.stat().st_size == len(damaged)
    return found, [(part.start_bytes, part.end_bytes) for part in report.dropped]


@pytest.mark.parametrize("container", ["tfrecord", "recordio"])
@pytest.mark.parametrize("number", [0, 13, len(RECORDS) - 1])
@pytest.mark.parametrize("part", ["start", "length", "checksum", "data", "foot"])
def test_one_damaged_part_loses_one_record(request, tmp_path, container, number, part):
    file = path, ends = request.getfixturevalue(container)
    damaged = bytearray(path.read_bytes())
    start, end = ends[number], ends[number + 1]
    if container == "tfrecord":
        places = {"length": start + 2, "checksum": start + 9, "data": start + 13, "foot": end - 2}
    else:
        places = {"length": start + 13, "checksum": start + 5, "data": start + 25, "foot": end - 1}
    flip(damaged, {"start": start, **places}[part])
    found, dropped = repaired(file, damaged, tmp_path)
    assert found == RECORDS[:number] + RECORDS[number + 1 :]
    assert dropped == [(start, end)]


@pytest.mark.parametrize("container", ["tfrecord", "recordio"])
def test_a_zeroed_page_loses_what_it_touches(request, tmp_path, container):
    file = path, ends = request.getfixturevalue(container)
    data = path.read_bytes()
    for page in range(0, len(data) - 4096, 4096):
        damaged = bytearray(data)
        zero(damaged, page, page + 4096)
        found, dropped = repaired(file, damaged, tmp_path)
        kept = [
            record
            for (start, end), record in zip(pairwise(ends), RECORDS, strict=True)
            if end <= page or start >= page + 4096
        ]
        assert found == kept, f"page at {page}"
        assert dropped


@pytest.mark.parametrize("container", ["tfrecord", "recordio"])
def test_several_damages_lose_a_record_each(request, tmp_path, container):
    file = path, ends = request.getfixturevalue(container)
    damaged = bytearray(path.read_bytes())
    lost = [0, 3, 4, 17, 30]
    # A start, a length, a last byte, data, and a torn tail.
    flip(damaged, ends[0])
    flip(damaged, ends[3] + (1 if container == "tfrecord" else 12))
    flip(damaged, ends[5] - 1)
    flip(damaged, ends[17] + 24)
    found, dropped = repaired(file, damaged[:-7], tmp_path)
    assert found == [record for n, record in enumerate(RECORDS) if n not in lost]
    assert [start for start, _ in dropped] == [ends[n] for n in lost]


@pytest.mark.parametrize("container", ["tfrecord", "recordio"])
def test_every_page_of_a_file_may_be_its_last(request, tmp_path, container):
    file = path, ends = request.getfixturevalue(container)
    data = path.read_bytes()
    for size in range(0, len(data), 4096):
        found, dropped = repaired(file, data[:size], tmp_path)
        number = sum(end <= size for end in ends) - 1
        assert found == RECORDS[:number]
        assert dropped == ([] if size in ends else [(ends[number], size)])


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_compressed_file_is_kept_up_to_its_first_damage(tmp_path, compression):
    with TFRecordWriter(tmp_path / "a", compression) as writer:
        for record in RECORDS:
            writer.write(record)
    data = bytearray((tmp_path / "a").read_bytes())
    flip(data, len(data) // 2)
    (tmp_path / "a").write_bytes(data)
    report = repair_file(tmp_path / "a", tmp_path / "b", Format.TFRECORD)
    assert list(TFRecordReader([tmp_path / "b"])) == RECORDS[: report.num_records]
    (dropped,) = report.dropped
    assert dropped.start_bytes == (tmp_path / "b").stat().st_size <= dropped.end_bytes
    assert TFRecordIndex.load(tmp_path / "b").num_records == report.num_records < len(RECORDS)


def test_an_intact_file_is_copied_and_no_name_is_taken_from_anybody(tfrecord, tmp_path):
    path, _ = tfrecord
    found, dropped = repaired(tfrecord, path.read_bytes(), tmp_path)
    assert (found, dropped) == (RECORDS, [])
    assert (tmp_path / "whole.tfrecord").read_bytes() == path.read_bytes()
    with pytest.raises(ConflictError):
        repair_file(path, tmp_path / "whole.tfrecord", Format.TFRECORD)
    with pytest.raises(ConfigError):
        repair_file(path, tmp_path / "c", Format.CSV)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("kind", [Format.RECORDIO, Format.TFRECORD])
def test_what_is_known_of_the_records_stays_known(tmp_path, kind):
    convert(tmp_path / "set", fixed_samples(9), 1, "p", schema=FIXED)
    shard = tmp_path / "set" / "p-00000-of-00000"
    path = tmp_path / f"a.{kind}"
    transcode(open_sample_file(shard, SourceOptions()), path, SinkOptions(file_format=kind))
    sidecar = path.with_name(f"{path.name}.schema.json").read_bytes()
    repair_file(path, tmp_path / "b", kind)
    assert (tmp_path / "b.schema.json").read_bytes() == sidecar
    opened = open_sample_file(tmp_path / "b", SourceOptions())
    assert (opened.encoding, opened.schema) == (Encoding.TYPED, FIXED)
    # What an earlier try has left, or anything of that name, does not stand in the way.
    (tmp_path / f"{path.name}.repaired").write_bytes(b"mine")
    repair_in_place(path, kind)
    assert (tmp_path / f"{path.name}.repaired").read_bytes() == b"mine"
    (tmp_path / f"{path.name}.repaired").unlink()
    assert path.with_name(f"{path.name}.schema.json").read_bytes() == sidecar
    names = {each.name for each in tmp_path.iterdir()}
    assert names == {"set", path.name, f"{path.name}.schema.json", "b", "b.schema.json"}


def test_a_repaired_shard_of_a_set_says_what_its_records_are(tmp_path):
    convert(tmp_path / "set", fixed_samples(9), 1, "p", schema=FIXED)
    repair_file(tmp_path / "set" / "p-00000-of-00000", tmp_path / "b", Format.RECORDIO)
    assert open_sample_file(tmp_path / "b", SourceOptions()).schema == FIXED


def test_records_of_which_nothing_is_known_get_no_account(recordio, tmp_path):
    path, _ = recordio
    repair_file(path, tmp_path / "b", Format.RECORDIO)
    assert {each.name for each in tmp_path.iterdir()} == {path.name, "b"}
    (tmp_path / f"{path.name}.schema.json").write_text("{}")
    with pytest.raises(FormatError, match=r"schema\.json"):
        repair_file(path, tmp_path / "c", Format.RECORDIO)
    assert not (tmp_path / "c").exists()


def test_a_file_that_becomes_shorter_while_it_is_copied_is_an_error_and_leaves_nothing(
    tmp_path, monkeypatch
):
    path, pieces = tmp_path / "a.recordio", []
    with RecordWriter(path) as writer:
        writer.write(bytes(5_000_000))

    def written(file, piece):
        pieces.append(piece)
        assert len(pieces) < 100, "pieces without end"
        os.truncate(path, 2_000_000)

    monkeypatch.setattr(_repair, "write_all", written)
    with pytest.raises(TruncatedError, match="another process writes to it"):
        repair_file(path, tmp_path / "new", Format.RECORDIO)
    assert not (tmp_path / "new").exists()
