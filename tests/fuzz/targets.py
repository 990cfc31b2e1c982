"""Targets for decoders: the errors that each may raise, and the assertions if it raises none.

Each target takes bytes. An exception that is none of trainfeed's own is a finding, and so is an
assertion.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
from crc32c import crc32c

from tests.support.manifests import accounted
from trainfeed.core import canonical_json
from trainfeed.errors import TrainFeedError
from trainfeed.loader.tfrecord_source import RecordPlaces, Stamp, packed_places, parsed_places
from trainfeed.recordio import (
    Codec,
    DamagePolicy,
    DamageReport,
    RandomAccess,
    RecordIndex,
    RecordWriter,
    iter_chunks,
    split_records,
)
from trainfeed.samples import Field, Schema, TypedCodec, ValueCodec
from trainfeed.tfrecord import (
    ExampleCodec,
    TFRecordIndex,
    TFRecordWriter,
    decode_example,
    decode_sequence_example,
    encode_example,
    iter_records,
    parse_examples,
)
from trainfeed.versions import Manifest

__all__ = ["MUTATORS", "SEEDS", "TARGETS"]

_MAX_RAW_BYTES = 1 << 20
_HEADER = struct.Struct("<5I")
_VALUES = ValueCodec()
_FIXED = TypedCodec(Schema((Field("a", "bool", (3,)), Field("b", "int16", (), optional=True))))
_VARIABLE = TypedCodec(
    Schema(
        (
            Field("a", "int32", (None, 2)),
            Field("b", "str", optional=True),
            Field("c", "bytes"),
            Field("d", "float64"),
        )
    )
)
_COLUMNS = {"f": ("float32", (2,)), "i": ("int64", (None,)), "b": ("bytes", ())}


def chunk(data: bytes) -> None:
    """A record file under each policy; what comes out must be split without a rest."""
    for policy in (
        DamagePolicy.strict(),
        DamagePolicy.tolerate_truncated_tail(),
        DamagePolicy.skip_chunk(max=100),
    ):
        chunks = iter_chunks(
            io.BytesIO(data), max_raw_bytes=_MAX_RAW_BYTES, on_damage=policy, report=DamageReport()
        )
        with contextlib.suppress(TrainFeedError):
            for info, framing in chunks:
                assert len(framing) == info.raw_bytes <= _MAX_RAW_BYTES
                records = split_records(framing, info.num_records)
                assert sum(map(len, records)) + 4 * len(records) == len(framing)


def index(data: bytes) -> None:
    """An index, and every record by its number."""
    file = io.BytesIO(data)
    found = RecordIndex.load(file)
    assert sum(chunk.num_records for chunk in found.chunks) == found.num_records
    with RandomAccess(file, found, max_raw_bytes=_MAX_RAW_BYTES) as access:
        ordinals = range(min(found.num_records, 20))
        records = access.get_many(ordinals)
        assert records == [access.get(i) for i in ordinals]


def typed(data: bytes) -> None:
    """A framing as columns and record by record: both say the same, or both refuse."""
    num_records, framing = int.from_bytes(data[:1]), memoryview(data[1:])
    for codec in (_FIXED, _VARIABLE):
        columns = samples = None
        with contextlib.suppress(TrainFeedError):
            columns = codec.decode_columns(framing, num_records)
        with contextlib.suppress(TrainFeedError):
            samples = [codec.decode(record) for record in split_records(framing, num_records)]
        assert (columns is None) == (samples is None)
        for name, column in (columns or {}).items():
            for i, sample in enumerate(samples or []):
                _require_same(column[i], sample[name])


def manifest(data: bytes) -> None:
    """A manifest; what is accepted comes back from its own bytes."""
    found = Manifest.from_bytes(data)
    assert Manifest.from_bytes(found.to_bytes()) == found


def example(data: bytes) -> None:
    """An Example alone, and in a batch, where all ways of parsing must agree."""
    with contextlib.suppress(TrainFeedError):
        decode_sequence_example(data)
    features = decode_example(data)
    again = decode_example(encode_example(features))
    assert again.keys() == features.keys()
    for fields in ({name: kind} for name, kind in _COLUMNS.items()):
        _require_batch_agrees(data, fields)


def tfrecord(data: bytes) -> None:
    """A TFRecord file; what is read and what is dropped are all of it, and its index says so."""
    report, skip = DamageReport(), DamagePolicy.skip_chunk(max=1000)
    options = {"compression": "", "max_record_bytes": _MAX_RAW_BYTES}
    kept = list(iter_records(io.BytesIO(data), on_damage=skip, report=report, **options))
    assert sum(map(len, kept)) + 16 * len(kept) + report.num_bytes == len(data)
    assert report.dropped or kept == list(iter_records(io.BytesIO(data), **options))
    records = list(iter_records(io.BytesIO(data), max_record_bytes=_MAX_RAW_BYTES))
    with contextlib.suppress(TrainFeedError):
        found = TFRecordIndex.load(io.BytesIO(data))
        assert found.sizes.tolist() == list(map(len, records))


def places(data: bytes) -> None:
    """Kept places of the records of a TFRecord file; what counts comes back as it was."""
    stamp = Stamp(*struct.unpack_from("<Qq", data.ljust(24, b"\0"), 8))
    found = parsed_places(data, stamp)
    if found is not None:
        gaps = found.bounds[1:, 0] - found.bounds[:-1, 1]
        assert (gaps == 16).all()
        assert (found.bounds[:, 0] <= found.bounds[:, 1]).all()
        assert packed_places(stamp, found) == data


def value(data: bytes) -> None:
    """A value; what is accepted comes back from its own bytes."""
    record = _VALUES.encode(_VALUES.decode(data))
    assert _VALUES.encode(_VALUES.decode(record)) == record


def _require_batch_agrees(
    data: bytes, fields: dict[str, tuple[str, tuple[int | None, ...]]]
) -> None:
    def parsed(records: list[bytes]) -> list[object] | None:
        try:
            (column,) = parse_examples(records, fields).values()
        except TrainFeedError:
            return None
        return [np.asarray(row).tobytes() if not isinstance(row, bytes) else row for row in column]

    _require_encoder_agrees(data, fields)
    alone = parsed([data])
    other = encode_example({"f": np.ones(2, np.float32), "i": np.arange(3), "b": b"b"})
    for batch in ([data] * 20, [data, *[other] * 7], [data + b"\x78\x01"] + [data] * 5):
        found = parsed(batch)
        assert (found is None) == (alone is None)
        if found is not None and alone is not None:
            assert found[0] == alone[0]


def _require_encoder_agrees(
    data: bytes, fields: dict[str, tuple[str, tuple[int | None, ...]]]
) -> None:
    codec = ExampleCodec(fields)
    try:
        columns = codec.decode_records([data] * 3)
    except TrainFeedError:
        return
    assert codec.encode_columns(columns) == [codec.encode(codec.decode(data))] * 3


def _require_same(a: object, b: object) -> None:
    if b is None:
        assert a is None or a is np.ma.masked
    elif isinstance(b, np.ndarray):
        assert np.asarray(a).tobytes() == b.tobytes()
    else:
        assert a == b


TARGETS: dict[str, Callable[[bytes], None]] = {
    "chunk": chunk,
    "index": index,
    "typed": typed,
    "manifest": manifest,
    "example": example,
    "tfrecord": tfrecord,
    "places": places,
    "value": value,
}


def _repaired_chunks(data: bytes) -> bytes:
    """Make the checksums of a record file right, so that what lies behind them is reached."""
    fixed, start = bytearray(data), 0
    while start + _HEADER.size <= len(fixed):
        magic, _, codec, stored_bytes, num_records = _HEADER.unpack_from(fixed, start)
        payload = bytes(fixed[start + _HEADER.size : start + _HEADER.size + stored_bytes])
        words = (0x01020304, zlib.crc32(payload), codec, len(payload), num_records)
        _HEADER.pack_into(fixed, start, *words)
        start += _HEADER.size + max(len(payload), 1 if magic != 0x01020304 else 0)
    return bytes(fixed)


def _repaired_records(data: bytes) -> bytes:
    """Make the checksums of a TFRecord file right."""
    fixed, start = bytearray(data), 0
    while start + 12 <= len(fixed):
        length = min(int.from_bytes(fixed[start : start + 8], "little"), len(fixed))
        fixed[start + 8 : start + 12] = _masked(bytes(fixed[start : start + 8]))
        end = start + 12 + length
        if end + 4 <= len(fixed):
            fixed[end : end + 4] = _masked(bytes(fixed[start + 12 : end]))
        start = end + 4
    return bytes(fixed)


def _repaired_places(data: bytes) -> bytes:
    """Make the checksum of kept places right."""
    if len(data) < 36:
        return data
    return data[:32] + struct.pack("<I", crc32c(data[36:])) + data[36:]


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


MUTATORS: dict[str, Callable[[bytes], bytes]] = {
    "chunk": _repaired_chunks,
    "index": _repaired_chunks,
    "tfrecord": _repaired_records,
    "places": _repaired_places,
}


def _record_files() -> list[bytes]:
    files = []
    for codec in Codec:
        file = io.BytesIO()
        with RecordWriter(file, codec=codec, max_chunk_bytes=30) as writer:
            for record in (b"hello", b"", b"a" * 25, b"world"):
                writer.write(record)
        files.append(file.getvalue())
    return [*files, b"".join(files)]


def _examples() -> list[bytes]:
    codec = ExampleCodec({"f": ("float32", (2,)), "i": ("int64", (None,)), "b": ("bytes", ())})
    sample = {"f": np.array([1, 2.5], "<f4"), "i": np.array([1, -1, 300]), "b": b"ab"}
    return [codec.encode(sample), encode_example({"": None, "x": [], "f": [1.0]}), b""]


def _tfrecord_files() -> list[bytes]:
    files = []
    for compression in ("", "GZIP", "ZLIB"):
        file = io.BytesIO()
        with TFRecordWriter(file, compression) as writer:
            for record in (b"hello", b"", b"hello", b"abc" * 9):
                writer.write(record)
        files.append(file.getvalue())
    return files


def _places() -> list[bytes]:
    found = []
    for sizes in ([], [5, 0, 5, 27]):
        ends = np.cumsum(np.array(sizes, np.int64) + 16) - 4
        bounds = np.stack([ends - sizes, ends], axis=1)
        kept = RecordPlaces(bounds, np.arange(len(sizes), dtype=np.uint32))
        found.append(packed_places(Stamp(sum(sizes) + 16 * len(sizes), 1), kept))
    return found


def _framings() -> list[bytes]:
    fixed = [_FIXED.encode({"a": [True, False, True], "b": b}) for b in (1, None, -1)]
    sample = {"a": [[1, 2], [3, 4]], "b": "é", "c": b"bytes", "d": 1.5}
    variable = [_VARIABLE.encode(sample), _VARIABLE.encode({**sample, "b": None, "a": []})]
    return [
        bytes([len(records)]) + b"".join(struct.pack("<I", len(r)) + r for r in records)
        for records in (fixed, variable)
    ]


def _values() -> list[bytes]:
    objects = np.array([None, (1, [2])], object)
    structured = np.zeros(2, [("a", "<i4"), ("b", "<f8", (2,))])
    values = [
        {"a": [1, 2.5, "é", b"x", None, True], (1, 2): 2**80},
        [np.arange(6).reshape(2, 3), np.float32(1), objects, structured, np.str_("s")],
        ((), [], {}),
    ]
    return [_VALUES.encode(value) for value in values]


def _manifests() -> list[bytes]:
    digest = "0" * 64
    dicts = ("late", "ledger", "quarantine", "code", "inputs", "filtered", "lookups", "libraries")
    shard = {"name": "a-00000-of-00000", "bytes": 9, "samples": 1, "sha256": digest}
    split = {"millionths": 1_000_000, "samples": 1}
    manifest = {
        **{key: {} for key in dicts},
        **{key: [] for key in ("gaps", "gates", "waivers")},
        "format": 1,
        "dataset": "a",
        "interval": {"start": "2013-01-01T00:00:00Z", "end": "2013-01-02T00:00:00Z"},
        "generation": 1,
        "supersedes": None,
        "fingerprint": digest,
        "content_digest": digest,
        "empty": False,
        "schema": [{"name": "x", "dtype": "int64", "shape": []}],
        "splits": {"train": {**split, "shards": [{**shard, "records_sha256": digest}]}},
        "files": [{"name": "CHUNKS.arrow", "bytes": 1, "sha256": digest}],
        "sources": ["kafka:a/0"],
        "plan": "0",
        "quarantine": {"records": 0, "reasons": {}},
    }
    return [canonical_json.dumps(accounted(manifest)), b'{"format":1}']


SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "chunk": _record_files,
    "index": _record_files,
    "typed": _framings,
    "manifest": _manifests,
    "example": _examples,
    "tfrecord": _tfrecord_files,
    "places": _places,
    "value": _values,
}
