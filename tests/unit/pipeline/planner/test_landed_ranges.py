"""Landing files are written while their source makes the next records."""

from __future__ import annotations

import io
import threading

import pyarrow as pa
import pytest

from trainfeed.errors import FormatError, IngestError
from trainfeed.files.stores import Location
from trainfeed.pipeline.landed_ranges import landed_batches, opened_landing, write_landing
from trainfeed.sources import LANDING_SCHEMA

SOURCE = "kafka:clicks/0"


def batch_of(*offsets):
    rows = [
        {"offset": each, "timestamp": each, "timestamp_type": 1, "key": None, "value": b"v" * each,
         "headers": []}
        for each in offsets
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)


def helpers():
    return [each for each in threading.enumerate() if "trainfeed-landing" in each.name]


def written(file):
    return pa.ipc.open_file(pa.BufferReader(file.getvalue())).read_all()["offset"].to_pylist()


class Refusing(io.BytesIO):
    """A file whose disk is full."""

    def write(self, _):
        raise OSError(28, "No space left on device")


def test_all_records_are_written_in_order_and_counted():
    file = io.BytesIO()
    batches = [batch_of(first, first + 1) for first in range(0, 40, 2)]
    leaf = write_landing(file, iter(batches), SOURCE)
    assert written(file) == list(range(40))
    assert (leaf.records, leaf.bytes) == (40, sum(range(40)))
    assert not helpers()


def test_a_range_without_records_is_a_whole_file():
    file = io.BytesIO()
    assert write_landing(file, iter(()), SOURCE).records == 0
    assert written(file) == []


def test_the_next_batch_is_made_while_the_last_one_is_written():
    begun = threading.Event()

    class Waiting(io.BytesIO):
        def write(self, data):
            if helpers():
                assert begun.wait(10)
            return super().write(data)

    def batches():
        yield batch_of(1)
        begun.set()
        yield batch_of(2)

    file = Waiting()
    write_landing(file, batches(), SOURCE)
    assert written(file) == [1, 2]


def test_a_slow_disk_holds_the_reading_back():
    third = threading.Event()
    seen = []

    class Slow(io.BytesIO):
        def write(self, data):
            if helpers() and not seen:
                seen.append(third.wait(0.3))
            return super().write(data)

    def batches():
        yield batch_of(1)
        yield batch_of(2)
        third.set()
        yield batch_of(3)

    file = Slow()
    write_landing(file, batches(), SOURCE)
    assert seen == [False]
    assert written(file) == [1, 2, 3]


def test_a_source_that_fails_leaves_no_whole_file_and_no_thread():
    def batches():
        yield batch_of(1)
        raise IngestError("the broker is gone")

    file = io.BytesIO()
    with pytest.raises(IngestError, match="the broker is gone"):
        write_landing(file, batches(), SOURCE)
    with pytest.raises(pa.ArrowInvalid):
        written(file)
    assert not helpers()


def test_a_full_disk_ends_the_reading():
    asked = []

    def batches():
        for number in range(1, 100):
            asked.append(number)
            yield batch_of(number)

    with pytest.raises(OSError, match="No space left"):
        write_landing(Refusing(), batches(), SOURCE)
    assert len(asked) <= 2
    assert not helpers()


def test_an_error_of_another_file_is_no_damage_of_the_open_one(tmp_path):
    place = Location.parse(str(tmp_path / "landed"))
    place.write_atomic(lambda file: write_landing(file, [batch_of(0)], SOURCE))
    other = FormatError("damaged", path="another file")

    def read():
        with opened_landing(place) as landing:
            for _ in landed_batches(landing):
                raise other

    with pytest.raises(FormatError) as raised:
        read()
    assert raised.value is other
