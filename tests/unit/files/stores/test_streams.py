from __future__ import annotations

import io

import pytest

from trainfeed.errors import StorageError
from trainfeed.files.stores.hadoop import RangeSource, UploadTarget


class Asked:
    """A file of ten bytes that notes what it is asked for."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.released = 0

    def read_at(self, offset_bytes: int, num_bytes: int) -> bytes:
        self.ranges.append((offset_bytes, num_bytes))
        return b"0123456789"[offset_bytes : offset_bytes + num_bytes]

    def release(self) -> None:
        self.released += 1

    def source(self, size_bytes: int = 10) -> RangeSource:
        return RangeSource("x://y", size_bytes, read_at=self.read_at, release=self.release)


def test_nothing_is_asked_for_beyond_the_end() -> None:
    asked = Asked()
    with asked.source() as source:
        source.seek(8)
        assert source.read(100) == b"89"
        assert source.read(100) == b""
        source.seek(1000)
        assert source.read(1) == b""
        assert source.readall() == b""
    assert asked.ranges == [(8, 2)]


def test_reading_everything_is_one_request() -> None:
    asked = Asked()
    with io.BufferedReader(asked.source(), 4) as file:
        assert file.read() == b"0123456789"
    assert asked.ranges == [(0, 10)]


def test_a_buffer_asks_for_whole_blocks() -> None:
    asked = Asked()
    with io.BufferedReader(asked.source(), 4) as file:
        assert [file.read(1) for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    assert asked.ranges == [(0, 4), (4, 4)]


def test_a_short_answer_is_an_error_and_no_end_of_file() -> None:
    """HD-11."""
    asked = Asked()
    with (
        asked.source(size_bytes=20) as source,
        pytest.raises(StorageError, match="x://y at byte 0: expected 20 bytes, got 10"),
    ):
        source.read(20)


def test_what_is_held_is_released_once() -> None:
    asked = Asked()
    file = io.BufferedReader(asked.source(), 4)
    file.close()
    file.close()
    assert asked.released == 1
    with pytest.raises(ValueError, match="closed"):
        file.read()


class Sent:
    """Takes blocks until it fails."""

    def __init__(self, *, fail_after: int = 100) -> None:
        self.blocks: list[bytes] = []
        self.fail_after = fail_after
        self.ends: list[int | str] = []

    def send(self, data: bytes) -> None:
        if len(self.blocks) == self.fail_after:
            raise StorageError("full")
        self.blocks.append(data)

    def target(self) -> UploadTarget:
        return UploadTarget(
            "x://y",
            send=self.send,
            finish=self.ends.append,
            abandon=lambda: self.ends.append("abandoned"),
        )


def test_a_file_is_finished_once_with_its_length() -> None:
    sent = Sent()
    file = io.BufferedWriter(sent.target(), 4)
    file.write(b"012345")
    assert file.tell() == 6
    file.close()
    file.close()
    assert b"".join(sent.blocks) == b"012345"
    assert sent.ends == [6]


def test_after_a_failed_block_nothing_more_is_sent_and_the_file_is_abandoned() -> None:
    sent = Sent(fail_after=1)
    file = io.BufferedWriter(sent.target(), 4)
    with pytest.raises(StorageError, match="full"):
        file.writelines([b"0123", b"4567", b"89ab"])
    sent.fail_after = 100
    with pytest.raises(StorageError, match="earlier write failed"):
        file.close()
    assert file.closed
    assert sent.blocks == [b"0123"]
    assert sent.ends == ["abandoned"]
