"""Lines of log files: the same records for all pieces in which a file is read, and clear errors."""

import gzip
import io
from itertools import pairwise

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.errors import FormatError, TruncatedError
from trainfeed.files.stores import Location
from trainfeed.sources import LANDING_SCHEMA, LineRange, iter_lines
from trainfeed.sources import log_lines as _logs_lines
from trainfeed.sources.landing import BATCH_ROWS

FILES = {
    "no byte": b"",
    "one line": b"one\n",
    "no end": b"one\ntwo",
    "empty lines": b"\n\none\n\n\ntwo\n\n",
    "only ends": b"\n\n\n",
    "only windows ends": b"\r\n\r\n",
    "windows": b"one\r\ntwo\r\n\r\nthree",
    "mixed": b"one\r\ntwo\nthr\ree\n\r\r\n",
    "ends with a lone return": b"one\ntwo\r",
    "one byte": b"x",
    "one return": b"\r",
    "longer than any piece": b"short\n" + b"long" * 20 + b"\nshort\n",
    "not utf-8": b"\xff\xfe\x00\n\xef\xbb\xbfbom\n",
}


def expected(data):
    """What a plain loop over the bytes makes of it: offset and line."""
    records, start = [], 0
    while start < len(data):
        end = data.find(b"\n", start)
        if end < 0:
            records.append((start, data[start:]))
            break
        line = data[start:end]
        records.append((start, line[:-1] if line.endswith(b"\r") else line))
        start = end + 1
    return records


@pytest.fixture
def put(tmp_path):
    def put(data, name="log.txt"):
        path = tmp_path / name
        path.write_bytes(data)
        return Location.parse(str(path))

    return put


def span(location, start=0, end=None, **changes):
    size = location.stat().size_bytes
    suffix = location.name.rpartition(".")[2]
    return LineRange(
        location=location,
        compression={"gz": "gzip", "zst": "zstd"}.get(suffix, "none"),
        size_bytes=changes.pop("size_bytes", size),
        start=start,
        end=size if end is None else end,
        timestamp_ms=17,
        max_line_bytes=changes.pop("max_line_bytes", 1 << 20),
        cuts_long=changes.pop("cuts_long", False),
    )


def read(location, start=0, end=None, **changes):
    records = []
    for batch in iter_lines(span(location, start, end, **changes)):
        assert batch.schema == LANDING_SCHEMA
        assert 0 < len(batch) <= BATCH_ROWS
        batch.validate(full=True)
        records += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return records


def read_in_pieces(location, cuts):
    size = location.stat().size_bytes
    edges = [0, *cuts, size]
    return [record for start, end in pairwise(edges) for record in read(location, start, end)]


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_a_file_gives_its_lines(put, data):
    assert read(put(data)) == expected(data)


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_every_split_into_two_gives_the_same_lines(put, data):
    location = put(data)
    for cut in range(len(data) + 1):
        assert read_in_pieces(location, [cut]) == expected(data), cut


@pytest.mark.parametrize("data", [FILES["mixed"], FILES["empty lines"], FILES["no end"]])
def test_every_split_into_three_gives_the_same_lines(put, data):
    location = put(data)
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            assert read_in_pieces(location, [first, second]) == expected(data), (first, second)


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
@pytest.mark.parametrize("num_bytes", [1, 2, 3, 7])
def test_pieces_of_few_bytes_and_blocks_of_few_bytes_give_the_same_lines(
    put, data, num_bytes, monkeypatch
):
    monkeypatch.setattr(_logs_lines, "_BLOCK_BYTES", num_bytes)
    monkeypatch.setattr(_logs_lines, "_REST_BYTES", 2)
    location = put(data)
    assert read_in_pieces(location, list(range(num_bytes, len(data), num_bytes))) == expected(data)


@given(
    data=st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"bc", b"x" * 9]), max_size=30),
    block_bytes=st.integers(1, 12),
    max_line_bytes=st.integers(1, 8),
    cut=st.integers(1, 20),
)
def test_of_a_line_that_is_too_long_the_beginning_is_read(
    tmp_path_factory, data, block_bytes, max_line_bytes, cut
):
    data = b"".join(data)
    path = tmp_path_factory.mktemp("logs") / "log.txt"
    path.write_bytes(data)
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(data))
    wanted = [(offset, value[: max_line_bytes + 1]) for offset, value in expected(data)]
    asked = {"max_line_bytes": max_line_bytes, "cuts_long": True}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_logs_lines, "_BLOCK_BYTES", block_bytes)
        patched.setattr(_logs_lines, "_REST_BYTES", 2)
        for file in (path, packed):
            assert read(Location.parse(str(file)), **asked) == wanted
        edges = [0, *range(cut, len(data), cut), len(data)]
        pieces = (read(Location.parse(str(path)), *edge, **asked) for edge in pairwise(edges))
        assert [record for piece in pieces for record in piece] == wanted


@given(data=st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"bc"]), max_size=40))
def test_any_file_in_any_block_size_gives_its_lines(tmp_path_factory, data):
    data = b"".join(data)
    path = tmp_path_factory.mktemp("logs") / "log.txt"
    path.write_bytes(data)
    location = Location.parse(str(path))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_logs_lines, "_BLOCK_BYTES", 5)
        assert read(location) == expected(data)
        assert read_in_pieces(location, list(range(3, len(data), 3))) == expected(data)


def test_a_piece_in_which_no_line_starts_is_empty(put):
    data = b"a\n" + b"x" * 100 + b"\nb\n"
    assert read(put(data), 10, 60) == []


def test_records_have_the_given_time_and_no_key(put):
    (batch,) = iter_lines(span(put(b"one\ntwo\n")))
    assert batch["timestamp"].to_pylist() == [17, 17]
    assert batch["timestamp_type"].to_pylist() == [0, 0]
    assert batch["key"].to_pylist() == [None, None]
    assert batch["headers"].to_pylist() == [None, None]


def test_many_lines_come_in_bounded_batches(put):
    data = b"x\n" * (BATCH_ROWS * 2 + 5)
    assert len(read(put(data))) == BATCH_ROWS * 2 + 5


GZIP = gzip.compress(b"one\r\ntw", mtime=0) + gzip.compress(b"o\n\nthree", mtime=0)
ZSTD = bytes(cramjam.zstd.compress(b"one\r\ntw")) + bytes(cramjam.zstd.compress(b"o\n\nthree"))


@pytest.mark.parametrize(("name", "data"), [("log.gz", GZIP), ("log.zst", ZSTD)])
def test_members_of_a_compressed_file_are_one_stream(put, name, data, monkeypatch):
    wanted = expected(b"one\r\ntwo\n\nthree")
    assert read(put(data, name)) == wanted
    monkeypatch.setattr(_logs_lines, "_BLOCK_BYTES", 2)
    assert read(put(data, name)) == wanted


def test_zeros_behind_a_member_of_gzip_are_passed_over(put):
    members = gzip.compress(b"one\n", mtime=0), gzip.compress(b"two\n", mtime=0)
    padded = b"".join((members[0], bytes(512), members[1], bytes(10_000)))
    assert read(put(padded, "log.gz")) == [(0, b"one"), (4, b"two")]
    with pytest.raises(FormatError, match="do not decompress"):
        read(put(members[0] + bytes(512) + b"two\n", "other.gz"))


@pytest.mark.parametrize(("name", "data"), [("log.gz", GZIP), ("log.zst", ZSTD)])
def test_a_compressed_file_that_ends_early_is_named(put, name, data):
    members = {0, GZIP.find(b"\x1f\x8b", 2), ZSTD.find(b"\x28\xb5\x2f\xfd", 4)}
    for length in set(range(1, len(data))) - members:
        location = put(data[:length], name)
        with pytest.raises(FormatError, match="data that do not decompress") as caught:
            read(location)
        assert caught.value.path == location.uri


@pytest.mark.parametrize("name", ["log.gz", "log.zst"])
@pytest.mark.parametrize(
    "data", [b"plain lines\n", GZIP + b"rest", ZSTD + b"rest", ZSTD + b"\0" * 8], ids=str
)
def test_what_does_not_decompress_is_named(put, name, data):
    with pytest.raises(FormatError, match=r"expected (gzip|zstd), as the file's name says"):
        read(put(data, name))


def test_a_damaged_gzip_file_is_no_list_of_lines(put):
    damaged = bytearray(GZIP)
    damaged[-8] ^= 1  # the CRC of the last member
    with pytest.raises(FormatError, match="do not decompress"):
        read(put(bytes(damaged), "log.gz"))


@pytest.mark.parametrize(("data", "suffix"), [(GZIP, ".gz"), (ZSTD, ".zst")])
def test_a_compressed_file_with_a_plain_name_is_refused(put, data, suffix):
    with pytest.raises(FormatError, match=rf"let the file's name end with \{suffix}"):
        read(put(data))


@pytest.mark.parametrize("data", [b"ok\n123456\n", b"ok\r\n123456\r\n", b"ok\n123456"])
def test_a_line_may_be_as_long_as_the_limit_and_no_longer(put, data, monkeypatch):
    location = put(data)
    for block in (1, 3, 1 << 20):
        monkeypatch.setattr(_logs_lines, "_BLOCK_BYTES", block)
        assert read(location, max_line_bytes=6) == expected(data)
        with pytest.raises(FormatError, match=r"at most 5 bytes.*max_line_bytes") as caught:
            read(location, max_line_bytes=5)
        assert caught.value.offset_bytes == data.index(b"1")
        assert caught.value.path == location.uri


def test_a_line_without_end_is_given_up_on_early(put, monkeypatch):
    """A file without any LF must not be held in memory to its end."""
    monkeypatch.setattr(_logs_lines, "_BLOCK_BYTES", 1000)
    location = put(gzip.compress(b"x" * 1_000_000, mtime=0), "log.gz")
    lines = iter_lines(span(location, max_line_bytes=5000))
    with pytest.raises(FormatError, match="at most 5000 bytes"):
        next(lines)


def test_a_file_that_is_shorter_than_planned_is_no_complete_file(put):
    location = put(b"one\ntwo\n")
    with pytest.raises(TruncatedError, match="expected 20 bytes, got 8"):
        read(location, end=20, size_bytes=20)


def test_what_was_appended_since_the_plan_is_not_read(put):
    location = put(b"one\ntwo\nthree\n")
    assert read(location, end=6, size_bytes=6) == [(0, b"one"), (4, b"tw")]


def test_an_error_of_the_file_system_is_no_damage(monkeypatch, put):
    location = put(GZIP, "log.gz")

    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError(5, "input/output error")

    monkeypatch.setattr(Location, "open_read", lambda _: Broken())
    with pytest.raises(OSError, match="input/output error"):
        read(location)


@pytest.mark.parametrize(("start", "end"), [(3, 2), (-1, 2), (0, 99)])
def test_a_range_lies_in_its_file(put, start, end):
    with pytest.raises(ValueError, match="expected 0 <= start"):
        span(put(b"one\n"), start, end)


def test_a_compressed_file_is_not_cut(put):
    with pytest.raises(ValueError, match="the whole of a compressed file"):
        span(put(GZIP, "log.gz"), 0, 5)
