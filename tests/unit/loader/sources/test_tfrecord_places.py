"""Places of records are found once; later loaders read only data, and verify the places."""

import os
import shutil
import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.unit.loader.datasets import record_of
from trainfeed.errors import ChecksumError, FormatError, StorageError
from trainfeed.loader import DataLoader, TFRecordFiles
from trainfeed.loader import tfrecord_source as _tfrecord_places
from trainfeed.tfrecord import TFRecordWriter

NUM_RECORDS = 4000
RECORD_BYTES = 1024 + 16
LONG_AGO_NS = 1_600_000_000_000_000_000


@pytest.fixture
def path(tmp_path):
    """4,000 records of 1 KiB, which were written long ago."""
    write(tmp_path / "a.tfrecord", range(NUM_RECORDS))
    return tmp_path / "a.tfrecord"


def write(path, numbers, mtime_ns=LONG_AGO_NS):
    with TFRecordWriter(path) as writer:
        for i in numbers:
            writer.write(record_of(i))
    os.utime(path, ns=(mtime_ns, mtime_ns))


def bytes_read():
    """Return what this process has read from files, cached or not."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))


def epoch(files, **options):
    """Return the records of an epoch, the state, and what was read per byte of the files."""
    before = bytes_read()
    with DataLoader(files, 100, **options) as loader:
        rows = [bytes(record) for batch in loader for record in batch["record"]]
        state = loader.state_dict()
    size = sum(Path(path).stat().st_size for path in files.paths)
    return rows, state, (bytes_read() - before) / size


def flip(path, offset_bytes):
    data = bytearray(path.read_bytes())
    data[offset_bytes] ^= 0x10
    path.write_bytes(data)


def test_the_second_loader_of_the_same_files_reads_each_byte_once(path):
    files = TFRecordFiles(path)
    first, state, _ = epoch(files)
    again, same, read = epoch(files)
    assert (again, same) == (first, state)
    assert read <= 1.1


@pytest.mark.parametrize("options", [{}, {"num_threads": 1}])
def test_with_an_index_folder_another_process_reads_each_byte_once(path, tmp_path, options):
    plain, state, _ = epoch(TFRecordFiles(path))
    folder = tmp_path / "made" / "index"
    first, same, _ = epoch(TFRecordFiles(path, index_folder=folder))
    again, too, read = epoch(TFRecordFiles(path, index_folder=folder), **options)
    assert first == again == plain
    assert same == too == state
    assert read <= 1.1
    shuffled = {"shuffle": True, "seed": 7}
    orders = [TFRecordFiles(path), TFRecordFiles(path, index_folder=folder)]
    assert epoch(orders[0], **shuffled)[:2] == epoch(orders[1], **shuffled)[:2]
    (kept,) = folder.iterdir()
    assert kept.stat().st_size <= 8 * NUM_RECORDS + 64


def test_of_a_file_that_changed_nothing_kept_counts(path, tmp_path):
    folder = tmp_path / "index"
    files = TFRecordFiles(path, index_folder=folder)
    epoch(files)
    path.unlink()
    write(path, range(1, NUM_RECORDS + 1), LONG_AGO_NS + 1)
    for other in (files, TFRecordFiles(path, index_folder=folder)):
        rows, _, _ = epoch(other)
        assert sorted(rows) == sorted(map(record_of, range(1, NUM_RECORDS + 1)))
    assert epoch(TFRecordFiles(path, index_folder=folder))[2] <= 1.1


def test_of_a_file_that_changed_just_now_nothing_is_kept(path, tmp_path):
    os.utime(path)
    files = TFRecordFiles(path, index_folder=tmp_path / "index")
    epoch(files)
    assert not (tmp_path / "index").exists()
    assert epoch(files)[2] > 1.9


@pytest.mark.parametrize("damage", ["empty", "cut", "longer", "flipped", "other"])
def test_an_index_that_is_damaged_is_made_again(path, tmp_path, damage):
    folder = tmp_path / "index"
    plain, state, _ = epoch(TFRecordFiles(path, index_folder=folder))
    (kept,) = folder.iterdir()
    data = kept.read_bytes()
    changed = {
        "empty": b"",
        "cut": data[:-8],
        "longer": data + bytes(8),
        "flipped": data[:1000] + bytes([data[1000] ^ 1]) + data[1001:],
        "other": b"what is this? " * 100,
    }
    kept.write_bytes(changed[damage])
    rows, same, _ = epoch(TFRecordFiles(path, index_folder=folder))
    assert (rows, same) == (plain, state)
    assert kept.read_bytes() == data


def test_what_a_wrong_index_says_is_compared_with_the_records(tmp_path):
    path, folder = tmp_path / "a.tfrecord", tmp_path / "index"
    with TFRecordWriter(path) as writer:
        for i in range(100):
            writer.write(bytes(1000 + i % 2))
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    epoch(TFRecordFiles(path, index_folder=folder))
    (kept,) = folder.iterdir()
    data = kept.read_bytes()
    # The sizes of all pairs the other way round, with a checksum that is right.
    sizes = struct.unpack("<100I", data[36 : 36 + 400])
    swapped = [sizes[i ^ 1] for i in range(100)]
    body = struct.pack("<100I", *swapped) + data[36 + 400 :]
    kept.write_bytes(data[:32] + struct.pack("<I", crc32c(body)) + body)
    with pytest.raises(FormatError, match="100 records with the lengths") as caught:
        epoch(TFRecordFiles(path, index_folder=folder))
    assert caught.value.path == str(path)
    assert "index_folder" in str(caught.value)


def test_damage_of_data_is_found_with_an_index_as_without(path, tmp_path):
    folder = tmp_path / "index"
    epoch(TFRecordFiles(path, index_folder=folder))
    flip(path, 3500 * RECORD_BYTES + 500)
    flip(path, 100 * RECORD_BYTES)
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    with pytest.raises(ChecksumError):
        epoch(TFRecordFiles(path, index_folder=folder))
    with DataLoader(TFRecordFiles(path, index_folder=folder), 100) as loader:
        with pytest.raises(ChecksumError) as caught:
            list(loader)
        assert caught.value.offset_bytes == 100 * RECORD_BYTES


def test_a_file_that_was_cut_is_found_when_it_is_opened(path, tmp_path):
    files = TFRecordFiles(path, index_folder=tmp_path / "index")
    epoch(files)
    os.truncate(path, 2000 * RECORD_BYTES + 5)
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    with pytest.raises(FormatError, match="expected a header of 12 bytes, the file has 5"):
        DataLoader(files, 100)


def test_little_is_remembered(path, monkeypatch):
    monkeypatch.setattr(_tfrecord_places, "_MAX_REMEMBERED_BYTES", 20 * NUM_RECORDS + 20)
    copy = path.with_name("b.tfrecord")
    shutil.copy2(path, copy)
    assert epoch_of_second(TFRecordFiles(path)) <= 1.1
    assert epoch_of_second(TFRecordFiles([path, copy])) > 1.9


def epoch_of_second(files):
    epoch(files)
    return epoch(files)[2]


def test_an_index_folder_that_cannot_be_made_is_an_error_that_names_it(path, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file"):
        DataLoader(TFRecordFiles(path, index_folder=tmp_path / "file" / "index"), 100)
