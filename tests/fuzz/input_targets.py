"""Targets for files that users bring: inputs of conversion, log files, dataset.yaml.

Each target writes the bytes into a file of the name that such a file has, and reads it by the call
that reads it in a conversion, a build or a command.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import orc

from tests.fuzz.places import place
from tests.support.avro_files import CODECS, container
from trainfeed.conversion import (
    ConvertOptions,
    Format,
    IdxHeader,
    ShardManifest,
    SourceOptions,
    SparseOptions,
    convert_files,
    format_of,
    load_schema,
    open_sample_file,
    process_base64,
    write_arrow,
    write_csv,
    write_idx,
    write_json_lines,
    write_parquet,
)
from trainfeed.core.canonical_json import seal
from trainfeed.errors import TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.sources import LineRange, iter_lines
from trainfeed.sources.column_files import ColumnRange, column_layout, iter_columns
from trainfeed.sources.column_footers import arrow_groups, orc_groups
from trainfeed.specification import SPEC_FILE, load_spec
from trainfeed.uploads import LabelFields
from trainfeed.uploads.files import iter_rows
from trainfeed.uploads.labels import merged, table_of_rows

__all__ = ["INPUT_MUTATORS", "INPUT_SEEDS", "INPUT_TARGETS"]

_MAX_LINE_BYTES = 1000
_SCHEMA = Schema(
    (
        Field("a", "int64"),
        Field("b", "float32", (2,)),
        Field("c", "str", optional=True),
        Field("d", "bytes"),
        Field("e", "uint8", (None, 2)),
    )
)
_LABELS = LabelFields(
    Schema((Field("id", "int64"),)),
    Schema((Field("label", "float32"), Field("note", "str", optional=True))),
)
_LABEL_BYTES = 1 << 24
_SPARSE = SparseOptions(index_base=0, num_features=10)
_OPTIONS = ConvertOptions(memory_bytes=1 << 16)


def _home() -> Path:
    return place("inputs")


def _placed(name: str, data: bytes) -> Path:
    path = _home() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def samples_of(data: bytes, *, kind: Format, schemas: tuple[Schema | None, ...]) -> None:
    """A file of samples: counted, one by one and in blocks; all say the same number."""
    path = _placed(f"input.{kind}", data)
    for schema in schemas:
        sparse = _SPARSE if kind is Format.LIBSVM else None
        with suppress(TrainFeedError):
            file = open_sample_file(path, SourceOptions(kind, schema, sparse=sparse))
            count = sum(1 for _ in file.samples())
            assert file.num_samples() == count
            if file.blocks is not None:
                assert count == sum(len(next(iter(block.values()))) for block in file.blocks())


def any_file(data: bytes) -> None:
    """A file without a telling name, converted into shards and read again."""
    path = _placed("any", data)
    file_format = format_of(path)
    with suppress(TrainFeedError):
        convert_files(_home() / "out", path, 2, "p", options=_OPTIONS)
        again = ShardManifest.load(_home() / "out", "p")
        assert again.problems(_home() / "out", deep=True) == []
    assert format_of(path) == file_format


def base64_rows(data: bytes) -> None:
    """Rows of base64 and label, distributed to ranks."""
    folder = _placed("images/rows", data).parent
    _placed("images/list", b"rows\n")
    report = process_base64(folder, "list", 2, options=_OPTIONS)
    for name in report.files:
        assert (folder / name).read_bytes().count(b"\n") == report.num_per_rank


def base64_list(data: bytes) -> None:
    """The list of such files."""
    folder = _placed("images/rows", b"YQ==\t1\n").parent
    _placed("images/list", data)
    process_base64(folder, "list", 2, options=_OPTIONS)


def base64_commit(data: bytes) -> None:
    """What says which files of ranks were decided, and not yet named."""
    folder = _placed("decided/.base64.commit/ranks.json", data).parent.parent
    _placed("decided/rows", b"YQ==\t1\n")
    _placed("decided/list", b"rows\n")
    process_base64(folder, "list", 2, options=_OPTIONS)
    assert (folder / "list").read_text().split() == ["base64_rank_0", "base64_rank_1"]
    assert not (folder / ".base64.commit").exists()


def log_lines(data: bytes) -> None:
    """A log file of each compression; lines do not depend on where a plain file is cut."""
    location = Location.parse(str(_placed("log", data)))
    for compression in ("gzip", "zstd"):
        with suppress(TrainFeedError):
            _lines(location, compression, 0, len(data), len(data))
    whole = _lines(location, "none", 0, len(data), len(data))
    middle = len(data) // 2
    parts = [_lines(location, "none", 0, middle, len(data))]
    parts.append(_lines(location, "none", middle, len(data), len(data)))
    assert whole == [line for part in parts for line in part]


def _lines(
    location: Location, compression: str, start: int, end: int, size: int
) -> list[tuple[int, bytes]]:
    span = LineRange(location, compression, size, start, end, 0, _MAX_LINE_BYTES)
    return [
        (row["offset"], row["value"])
        for batch in iter_lines(span)
        for row in batch.select(["offset", "value"]).to_pylist()
    ]


def spec(data: bytes) -> None:
    """A specification."""
    _placed("clicks/preprocess.py", b"")
    load_spec(_placed(f"clicks/{SPEC_FILE}", data).parent)


def shards(data: bytes) -> None:
    """The manifest of converted shards; what is accepted comes back from its own bytes."""
    folder = _placed("shards/p.shards.json", data).parent
    found = ShardManifest.load(folder, "p")
    _placed("shards/p.shards.json", found.dump())
    assert ShardManifest.load(folder, "p") == found


def schema_file(data: bytes) -> None:
    """A file with a schema, as commands take it."""
    load_schema(_placed("schema.json", data))


def upload(data: bytes) -> None:
    """An upload of labels, in each of its formats, as far as the table that a build joins."""
    path = _placed("upload", data)
    for kind in ("csv", "jsonl", "parquet"):
        with suppress(TrainFeedError):
            rows = iter_rows(path, kind, _LABELS)
            found = merged([table_of_rows(rows, _LABELS, 0, _LABEL_BYTES)], _LABELS, _LABEL_BYTES)
            assert found.rows == len(found.table) + found.repeated


def _table(kind: Format) -> Callable[[bytes], None]:
    return partial(samples_of, kind=kind, schemas=(None,))


def _text(kind: Format) -> Callable[[bytes], None]:
    return partial(samples_of, kind=kind, schemas=(None, _SCHEMA))


def column_rows(data: bytes, *, file_format: str) -> None:
    """A file of columns as a source: every row of its layout is read, or the file is refused."""
    location = Location.parse(str(_placed("rows", data)))
    layout = column_layout(location, file_format, len(data))
    types = {name: kind for name, kind in layout.types.items() if kind is not None}
    span = ColumnRange(location, file_format, len(data), 0, len(data), 0, types, layout.groups)
    count = sum(batch.num_rows for batch in iter_columns(span))
    assert count == sum(group.num_rows for group in layout.groups)


def column_footers(data: bytes) -> None:
    """Footers that are parsed here; the readers of Arrow get them only when they hold together."""
    for parse in (arrow_groups, orc_groups):
        with suppress(TrainFeedError):
            parse(io.BytesIO(data), len(data))


INPUT_TARGETS: dict[str, Callable[[bytes], None]] = {
    "upload": upload,
    "csv": _text(Format.CSV),
    "jsonl": _text(Format.JSON_LINES),
    "idx": _table(Format.IDX),
    "libsvm": _table(Format.LIBSVM),
    "parquet": _table(Format.PARQUET),
    "arrow": _table(Format.ARROW),
    "any_file": any_file,
    "base64_rows": base64_rows,
    "base64_list": base64_list,
    "base64_commit": base64_commit,
    "log_lines": log_lines,
    "parquet_rows": partial(column_rows, file_format="parquet"),
    "arrow_rows": partial(column_rows, file_format="arrow"),
    "avro_rows": partial(column_rows, file_format="avro"),
    "column_footers": column_footers,
    "spec": spec,
    "shards": shards,
    "schema_file": schema_file,
}


def _samples() -> list[dict[str, object]]:
    return [
        {
            "a": np.int64(number),
            "b": np.array([1, 2.5], np.float32),
            "c": None if number else "é,\n",
            "d": b"\0\xff",
            "e": np.full((number, 2), 7, np.uint8),
        }
        for number in range(2)
    ]


def _written(write: Callable[[io.BytesIO], object]) -> list[bytes]:
    file = io.BytesIO()
    write(file)
    return [file.getvalue()]


def _plain_table() -> pa.Table:
    return pa.table({"a": [1, None], "s": ["x", "y"], "l": [[1], [2, 3]]})


def _parquets() -> list[bytes]:
    import pyarrow.parquet as pq

    own = _written(lambda file: write_parquet(file, _samples(), _SCHEMA, codec="none"))
    return own + _written(lambda file: pq.write_table(_plain_table(), file, compression="none"))


def _arrows() -> list[bytes]:
    def plain(file: io.BytesIO) -> None:
        with pa.ipc.new_file(file, _plain_table().schema) as writer:
            writer.write_table(_plain_table())

    return _written(lambda file: write_arrow(file, _samples(), _SCHEMA)) + _written(plain)


def _idxs() -> list[bytes]:
    block = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    header = IdxHeader(2, (2, 3), block.dtype)
    (plain,) = _written(lambda file: write_idx(file, [block], header))
    return [plain, gzip.compress(plain)]


def _csvs() -> list[bytes]:
    file = io.StringIO(newline="")
    write_csv(file, _samples(), _SCHEMA)
    return [file.getvalue().encode(), b"a,b\n1,\\N\n"]


def _uploads() -> list[bytes]:
    rows = [{"id": 1, "label": 0.5, "note": "a"}, {"id": 2, "label": -1.0, "note": None}]
    schema = Schema((*_LABELS.key, *_LABELS.labels))
    codec = TypedCodec(schema)
    samples = [codec.decode(codec.encode(row)) for row in rows]
    return [
        b"id,label,note\n1,0.5,a\n2,-1,\\N\n1,0.5,a\n",
        b'{"id": 1, "label": 0.5}\n{"id": 2, "label": 1, "note": null}\n',
        *_written(lambda file: write_parquet(file, samples, schema)),
    ]


def _json_lines() -> list[bytes]:
    own = _written(lambda file: write_json_lines(file, _samples(), _SCHEMA))
    return [*own, b'{"a": [1, 2.5, null, "x"]}\n\n[true]\n']


def _rows() -> list[bytes]:
    row = base64.b64encode(b"image")
    return [row + b"\t1\n" + row + b"\t2\r\nbad\n"]


def _logs() -> list[bytes]:
    lines = b"one\r\n\ntwo\nlast"
    zstd = pa.Codec("zstd").compress(lines, asbytes=True)
    return [lines, gzip.compress(lines), zstd, gzip.compress(b"a\n") * 2]


def _specs() -> list[bytes]:
    text = b"""name: clicks
schedule: "@daily"
start: 2026-01-01
source:
  kafka: {topic: clicks, settle: 30m}
preprocess: {function: "preprocess:clicks"}
schema:
  user:  {dtype: int64, shape: [2]}
  label: {dtype: float32, optional: true}
split: {train: 0.9, eval: 0.1}
output: {samples_per_shard: 10, codec: zstd}
resources: {memory_bytes: 256MiB}
quality:
  - {check: count, min: 1}
  - {check: range, field: label, min: 0}
"""
    logs = b'{logs: {path: "/l/dt={start:%Y-%m-%d}", done: _SUCCESS}}'
    return [text, text.replace(b"\n  kafka: {topic: clicks, settle: 30m}", b" " + logs)]


def _shard_manifests() -> list[bytes]:
    from trainfeed.conversion import convert

    manifest = convert(_home() / "seed", lambda: iter([1, "a"]), 2, "p")
    return [manifest.dump()]


def _resealed(data: bytes) -> bytes:
    """Make the digest of a manifest of shards right again."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(value, dict):
        return data
    value.pop("digest", None)
    return seal(json.dumps(value, indent=1).encode("utf-8", "replace") + b"\n")


INPUT_MUTATORS: dict[str, Callable[[bytes], bytes]] = {"shards": _resealed}


def _avros() -> list[bytes]:
    fields = [
        {"name": "a", "type": ["null", "long"]},
        {"name": "b", "type": {"type": "array", "items": "string"}},
        {"name": "c", "type": {"type": "map", "values": "double"}},
    ]
    schema = {"type": "record", "name": "Row", "fields": fields}
    values = [{"a": n or None, "b": ["x"] * n, "c": {"y": 0.5}} for n in range(9)]
    return [container(schema, values, 4, codec) for codec in CODECS]


def _orcs() -> list[bytes]:
    table = pa.table({"a": list(range(300)), "b": [f"row {number}" for number in range(300)]})
    files = []
    for compression in ("uncompressed", "zlib", "snappy", "lz4", "zstd"):
        file = io.BytesIO()
        orc.write_table(table, file, compression=compression, stripe_size=1, batch_size=100)
        files.append(file.getvalue())
    return files


INPUT_SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "upload": _uploads,
    "csv": _csvs,
    "jsonl": _json_lines,
    "idx": _idxs,
    "libsvm": lambda: [b"1 0:1 3:2.5 # c\n-1 9:1e3\n"],
    "parquet": _parquets,
    "arrow": _arrows,
    "any_file": lambda: [*_json_lines(), *_idxs(), *_arrows(), *_logs()],
    "base64_rows": _rows,
    "base64_list": lambda: [b"rows\n", b"rows\r\n\n"],
    "base64_commit": lambda: [b'{"bad_rows":true,"list":"0","ranks":3}'],
    "log_lines": _logs,
    "parquet_rows": _parquets,
    "arrow_rows": lambda: [data for data in _arrows() if data.startswith(b"ARROW1")],
    "avro_rows": _avros,
    "column_footers": lambda: [*_arrows(), *_orcs()],
    "spec": _specs,
    "shards": _shard_manifests,
    "schema_file": lambda: [json.dumps(_SCHEMA.to_json()).encode()],
}
