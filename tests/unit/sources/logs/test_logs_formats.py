"""A file of another format is no list of lines, whatever its name is."""

import gzip
import io
import sqlite3
import tarfile
import zipfile

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest

from trainfeed.errors import FormatError
from trainfeed.files.stores import Location
from trainfeed.sources import LineRange, iter_lines

TABLE = pa.table({"text": ["a", "b"] * 100, "number": range(200)})
TEXT = b'{"value": 1}\n' * 50


def written(write):
    sink = io.BytesIO()
    write(sink)
    return sink.getvalue()


def tar(sink):
    with tarfile.open(fileobj=sink, mode="w") as archive:
        info = tarfile.TarInfo("a.log")
        info.size = len(TEXT)
        archive.addfile(info, io.BytesIO(TEXT))


def zipped(sink):
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("a.log", TEXT)


def database():
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE a (b)")
        return connection.serialize()


FILES = {
    "Parquet": written(lambda sink: pa.parquet.write_table(TABLE, sink)),
    "ORC": written(lambda sink: pa.orc.write_table(TABLE, sink)),
    "Arrow": written(lambda sink: pa.feather.write_feather(TABLE, sink)),
    "Avro": b"Obj\x01\x04\x16avro.schema" + TEXT,
    "SequenceFile": b"SEQ\x06\x19org.apache.hadoop.io.Text" + TEXT,
    "tar": written(tar),
    "zip": written(zipped),
    "NumPy": written(lambda sink: np.save(sink, np.arange(10))),
    "SQLite": database(),
    "gzip": gzip.compress(TEXT),
    "zstd": bytes(cramjam.zstd.compress(TEXT)),
    "bzip2": bytes(cramjam.bzip2.compress(TEXT)),
    "xz": bytes(cramjam.xz.compress(TEXT)),
    "lz4": bytes(cramjam.lz4.compress(TEXT)),
    "snappy": bytes(cramjam.snappy.compress(TEXT)),
    "deflate": bytes(cramjam.zlib.compress(TEXT)),
    "TFRecord": b"\x0d\0\0\0\0\0\0\0\x11\x22\x33\x44" + TEXT,
    "UTF-16": b"\xff\xfe" + TEXT.decode().encode("utf-16-le"),
    "UTF-16 without a mark": TEXT.decode().encode("utf-16-be"),
    "a hole": b"\0" * 5000 + TEXT,
}
TEXTS = {
    "lines": TEXT,
    "nothing": b"",
    "UTF-8 mark": b"\xef\xbb\xbf" + TEXT,
    "Latin-1": "é\n".encode("latin-1") * 50,
    "words": b"PAR1 is a magic\nORC as well\n",
    "a word": b"ORC\n",
    "a page": b"%PDF-1.4 is not here\n",
    "one byte of 0": b"a\0b\n" + TEXT,
    "colours": b"\x1b[31mred\x1b[0m\n" * 50,
}


def read(path, data):
    path.write_bytes(data)
    span = LineRange(
        location=Location.parse(str(path)),
        compression={".gz": "gzip", ".zst": "zstd"}.get(path.suffix, "none"),
        size_bytes=len(data),
        start=0,
        end=len(data),
        timestamp_ms=0,
        max_line_bytes=1 << 20,
    )
    return [line for batch in iter_lines(span) for line in batch.column("value").to_pylist()]


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_a_file_of_another_format_is_refused_by_its_first_bytes(tmp_path, data):
    with pytest.raises(FormatError, match=r"expected lines of text, got .*nothing was published"):
        read(tmp_path / "app.log", data)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_the_same_inside_of_a_compressed_file(tmp_path, data, suffix):
    packed = gzip.compress(data) if suffix == ".gz" else bytes(cramjam.zstd.compress(data))
    with pytest.raises(FormatError, match=r"expected lines of text, got .*was decompressed"):
        read(tmp_path / f"app.log{suffix}", packed)


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS)
def test_a_text_is_read_whatever_its_first_word_is(tmp_path, data):
    assert read(tmp_path / "app.log", data) == data.split(b"\n")[:-1]
