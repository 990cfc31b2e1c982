"""Time and memory that it takes to refuse files that are made to harm.

    PYTHONPATH=include python benchmarks/convert/bench_hostile.py

Each file is read in a process of its own. Memory is the peak above the memory of the process after
its imports. The benchmark ends with status 1 if a file was not refused, took more than a
second, or more than 64 MiB.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
from crc32c import crc32c

from trainfeed.damage import DamagePolicy, DamageReport
from trainfeed.errors import TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.recordio import Codec, FluidScanner, RecordIndex, RecordScanner, iter_chunks
from trainfeed.samples import Field, SampleReader, Schema
from trainfeed.sources import LandingFile
from trainfeed.tfrecord import TFRecordIndex, TFRecordReader, iter_records

MOST_SECONDS = 1.0
MOST_MEBIBYTES = 64
LIMIT_BYTES = 64 << 20
SCHEMA = Schema((Field("x", "int32"),))
MAGIC = 0x01020304


def chunk(payload: bytes, num_records: int, codec: int) -> bytes:
    """A chunk of RecordIO with a right checksum."""
    return (
        struct.pack("<5I", MAGIC, zlib.crc32(payload), codec, len(payload), num_records) + payload
    )


def zeros(codec: Codec, num_bytes: int) -> bytes:
    """Zeros as a codec stores them."""
    data = bytes(num_bytes)
    match codec:
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress(data))
        case Codec.GZIP:
            return zlib.compress(data, 9, 31)
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress_block(data, store_size=True))
        case _:
            return bytes(cramjam.zstd.compress(data, level=19))


def header(num_bytes: int) -> bytes:
    """A length of TFRecord with a right checksum."""
    length = struct.pack("<Q", num_bytes)
    crc = crc32c(length)
    return length + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def bomb(codec: Codec) -> bytes:
    """One chunk of four bytes more than a reader takes memory for."""
    num_bytes = LIMIT_BYTES + 4
    return chunk(zeros(codec, num_bytes), num_bytes // 4, codec)


def fluid_bomb() -> bytes:
    """The same in the Fluid layout."""
    payload = zeros(Codec.SNAPPY, LIMIT_BYTES + 4)
    words = (MAGIC, LIMIT_BYTES // 4 + 1, zlib.crc32(payload), 1, len(payload))
    return struct.pack("<5I", *words) + payload


def tfrecord_bomb(window_bits: int) -> bytes:
    """A record of more than a reader takes memory for."""
    return zlib.compress(header(LIMIT_BYTES + 1) + bytes(LIMIT_BYTES + 5), 9, window_bits)


def magics() -> bytes:
    """Magics, each of which announces a payload up to the end, with a wrong checksum."""
    rows = 40_000
    sizes = [max(20 * (rows - row) - 21, 0) for row in range(rows)]
    return b"".join(struct.pack("<5I", MAGIC, 1, 0, size, 1) for size in sizes)


def lengths() -> bytes:
    """Lengths of TFRecord, each of which announces data up to the end."""
    rows = 40_000
    data = bytearray(b"".join(header(max(12 * (rows - row) - 17, 0)) for row in range(rows)))
    data[0] ^= 1
    return bytes(data)


FILES: dict[str, Callable[[], bytes]] = {
    **{
        f"RecordIO, bomb of {codec.name.lower()}": lambda c=codec: bomb(c)
        for codec in list(Codec)[1:]
    },
    "RecordIO, 2^32 - 1 records in 400 bytes": lambda: chunk(bytes(400), 2**32 - 1, 0),
    "RecordIO, a record of 2^32 - 1 bytes": lambda: chunk(b"\xff" * 4 + bytes(9), 1, 0),
    "RecordIO, a payload of 2^32 - 1 bytes": lambda: struct.pack("<5I", MAGIC, 0, 0, 2**32 - 1, 1),
    "RecordIO, 40,000 magics, skipping": magics,
    "Fluid layout, bomb of snappy": fluid_bomb,
    "TFRecord, bomb of GZIP": lambda: tfrecord_bomb(31),
    "TFRecord, bomb of ZLIB": lambda: tfrecord_bomb(15),
    "TFRecord, a record of 2^64 - 1 bytes": lambda: header(2**64 - 1) + bytes(99),
    "TFRecord, a record of 64 MiB that is not there": lambda: header(LIMIT_BYTES) + bytes(99),
    "TFRecord, 40,000 lengths, skipping": lengths,
}
ODD = {"a pipe": os.mkfifo, "a folder": Path.mkdir, "a device": lambda p: p.symlink_to("/dev/zero")}


def read_landing(path: Path) -> None:
    """Read a landing file."""
    with LandingFile.open(Location.parse(str(path))) as landing:
        landing.verify()


READERS: dict[str, Callable[[Path], object]] = {
    "RecordIO": lambda path: list(RecordScanner([path])),
    "index of RecordIO": RecordIndex.load,
    "samples": lambda path: list(SampleReader([path], SCHEMA).iter_batches(8)),
    "Fluid layout": lambda path: list(FluidScanner(path)),
    "TFRecord": lambda path: list(TFRecordReader([path])),
    "index of TFRecord": TFRecordIndex.load,
    "landing file": read_landing,
}


def read(name: str, path: Path) -> None:
    """Read a hostile file as its name says."""
    kind, _, what = name.partition(", ")
    if not what.endswith("skipping"):
        READERS[kind](path)
        return
    skip, report = DamagePolicy.skip_chunk(max=1_000_000), DamageReport()
    if kind == "RecordIO":
        list(iter_chunks(path, on_damage=skip, report=report))
    else:
        list(iter_records(path, on_damage=skip, report=report))


def peak_bytes() -> int:
    """Return the most memory that this process ever had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    raise RuntimeError("no VmHWM in /proc/self/status")


def measure(name: str, path: Path) -> dict[str, float | str]:
    """Read a file and return what came of it; in a process of its own."""
    before, started, error = peak_bytes(), time.monotonic(), "nothing"
    try:
        read(name, path)
    except TrainFeedError as caught:
        error = type(caught).__name__
    seconds = time.monotonic() - started
    return {"error": error, "seconds": seconds, "mebibytes": (peak_bytes() - before) / (1 << 20)}


def main() -> int:
    """Print the table; return 1 if a file did harm."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
        return 0
    harm = 0
    print("| file | error | seconds | MiB |\n| --- | --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        makers: dict[str, Callable[[], object]] = {
            name: lambda make=make: path.write_bytes(make()) for name, make in FILES.items()
        }
        for kind in READERS:
            makers |= {
                f"{kind}, {what}": lambda make=make: make(path) for what, make in ODD.items()
            }
        for name, make in makers.items():
            make()
            command = [sys.executable, __file__, name, str(path)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            path.rmdir() if path.is_dir() else path.unlink()
            harm += found["error"] == "nothing"
            harm += found["seconds"] > MOST_SECONDS or found["mebibytes"] > MOST_MEBIBYTES
            print(
                f"| {name} | {found['error']} | {found['seconds']:.2f} | {found['mebibytes']:.0f} |"
            )
    return int(harm > 0)


if __name__ == "__main__":
    sys.exit(main())
