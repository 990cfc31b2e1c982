"""Inputs that are hostile to a bound of memory: large, wide, many, uneven, and all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CASES", "LARGE_CASES", "Case"]

_FIXED: Final = "import numpy as np\nV = np.arange({n}, dtype=np.float32)\n"
_BYTES: Final = "def size(n):\n    return {size}\n"
_RECORD: Final = "\ndef make(record, lookups):\n    n = record.offset\n    return {returned}\n"
_BATCH: Final = """
import pyarrow as pa

def make(batch, lookups):
    rows = batch.column("offset").to_pylist()
    return pa.RecordBatch.from_pydict({{
        "v": pa.array([{value} for n in rows], {kind}),
        "_row": batch.column("_row"),
    }})
"""


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        name: What is said of it.
        records: How many records the topic has.
        fields: The schema, in YAML.
        code: The module with the function ``make``.
        mode: ``record`` or ``batch``.
        resources: Settings besides ``memory_bytes``.
        output: Settings of the output.
    """

    name: str
    records: int
    fields: str
    code: str
    mode: str = "record"
    resources: str = "records_per_task: 1000000"
    output: str = "shards: 2, codec: none"


def _fixed(values: int) -> str:
    return f"v: {{dtype: float32, shape: [{values}]}}"


def _record(returned: str, before: str = "") -> str:
    return before + _RECORD.format(returned=returned)


def _sized(size: str) -> str:
    return _record("{'v': b'x' * size(n)}", _BYTES.format(size=size))


def _wide(fields: int) -> str:
    return "\n".join(f"  f{number}: {{dtype: int64}}" for number in range(fields)).strip()


def _batches(value: str, kind: str) -> str:
    return _BATCH.format(value=value, kind=kind)


_TEXT: Final = "v: {dtype: bytes}"
_WIDE: Final = "{{f'f{{i}}': n + i for i in range({n})}}"

CASES: Final = (
    Case("one record", 1, _fixed(1), _record("{'v': V}", _FIXED.format(n=1))),
    Case("300,000 of 4 bytes", 300_000, _fixed(1), _record("{'v': V}", _FIXED.format(n=1))),
    Case("200,000 of 1 KB", 200_000, _fixed(256), _record("{'v': V}", _FIXED.format(n=256))),
    Case("20,000 of 100 KB", 20_000, _fixed(25_600), _record("{'v': V}", _FIXED.format(n=25_600))),
    Case("1,000 of 1 MB", 1000, _fixed(250_000), _record("{'v': V}", _FIXED.format(n=250_000))),
    Case("600 of 4 MB", 600, _fixed(10**6), _record("{'v': V}", _FIXED.format(n=10**6))),
    Case(
        "100 of 32 MB, two processes",
        100,
        _fixed(8 * 10**6),
        _record("{'v': V}", _FIXED.format(n=8 * 10**6)),
        resources="records_per_task: 10, processes: 2",
    ),
    Case("60 of 60 MB", 60, _fixed(15 * 10**6), _record("{'v': V}", _FIXED.format(n=15 * 10**6))),
    Case("60 of 60 MB, bytes", 60, _TEXT, _sized("60_000_000")),
    Case("1 KB, each hundredth 4 MB", 30_000, _TEXT, _sized("4_000_000 if n % 100 == 0 else 1000")),
    Case("10 bytes, one 60 MB", 100_000, _TEXT, _sized("60_000_000 if n == 777 else 10")),
    Case("0 bytes to 1 MB, evenly", 4000, _TEXT, _sized("n * 250")),
    Case(
        "a record of 20,000 samples of 100 KB",
        3,
        _TEXT,
        _record("[{'v': b'x' * 100_000}] * 20_000"),
    ),
    Case(
        "22,400 of 100 KB in 350 tasks",
        22_400,
        _fixed(25_600),
        _record("{'v': V}", _FIXED.format(n=25_600)),
        resources="records_per_task: 64",
        output="samples_per_shard: 100000, codec: none",
    ),
    Case(
        "batch mode, 20,000 of 100 KB",
        20_000,
        _TEXT,
        _batches("b'x' * 100_000", "pa.binary()"),
        "batch",
    ),
    Case(
        "batch mode, 300 of 8 MB", 300, _TEXT, _batches("b'x' * 8_000_000", "pa.binary()"), "batch"
    ),
    Case(
        "batch mode, 10 bytes, each thousandth 1 MB",
        400_000,
        _TEXT,
        _batches("b'x' * (1_000_000 if n % 1000 == 0 else 10)", "pa.binary()"),
        "batch",
    ),
    Case(
        "400,000 in 400 tasks and 400 shards",
        400_000,
        _fixed(1),
        _record("{'v': V}", _FIXED.format(n=1)),
        resources="records_per_task: 1000",
        output="shards: 400",
    ),
    Case("2,000 fields, 1,000 records", 1000, _wide(2000), _record(_WIDE.format(n=2000))),
    Case("10,000 fields, 1,000 records", 1000, _wide(10_000), _record(_WIDE.format(n=10_000))),
)

# Samples near the largest that a record takes; for these 1 GiB.
LARGE_CASES: Final = (
    Case("30 of 32 MB", 30, _fixed(8 * 10**6), _record("{'v': V}", _FIXED.format(n=8 * 10**6))),
    Case("20 of 60 MB", 20, _fixed(15 * 10**6), _record("{'v': V}", _FIXED.format(n=15 * 10**6))),
    Case("20 of 60 MB, bytes", 20, _TEXT, _sized("60_000_000 - n")),
    Case(
        "batch mode, 20 of 60 MB, bytes",
        20,
        _TEXT,
        _batches("b'x' * (60_000_000 - n)", "pa.binary()"),
        "batch",
    ),
    Case(
        "batch mode, 30 of 32 MB to 61 MB, two processes",
        30,
        _TEXT,
        _batches("b'x' * (32_000_000 + n * 1_000_000)", "pa.binary()"),
        "batch",
        resources="records_per_task: 10, processes: 2",
    ),
)
