"""How many samples a second become Examples in a shard of a TFRecord data set, and come back?

Method: typed records of 1 MiB and more through ``ExampleRunWriter`` into memory, and the runs
through ``ExampleRunDecoder``; processor time, the best of three. One thread.

    PYTHONPATH=include python benchmarks/convert/bench_examples.py
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.versions.examples import ExampleRunDecoder, ExampleRunWriter

RUNS = 3
CHOOSE = np.random.default_rng(0)


def clicks(i: int) -> dict[str, Any]:
    """Integers that take 1 to 3 bytes, some of them 10."""
    dense = CHOOSE.integers(-5, 1 << 20, 24, dtype=np.int32)
    return {"dense": dense, "sparse": CHOOSE.random(8, dtype=np.float32), "label": i % 2}


def columns(i: int) -> dict[str, Any]:
    """The same as fields without shape."""
    integers = {f"i{k:02d}": value for k, value in enumerate(clicks(i)["dense"].tolist())}
    floats = {f"f{k}": value for k, value in enumerate(clicks(i)["sparse"].tolist())}
    return {**integers, **floats, "label": i % 2}


def optional(i: int) -> dict[str, Any]:
    """Numbers, a fifth of those in the first fields absent."""
    values = CHOOSE.random(20, dtype=np.float32).tolist()
    return {f"f{k:02d}": None if k < 7 and (7 * i + k) % 5 == 0 else values[k] for k in range(20)}


def texts(i: int) -> dict[str, Any]:
    """A name, and up to 29 numbers."""
    numbers = CHOOSE.random(int(CHOOSE.integers(0, 30)), dtype=np.float32)
    return {"name": f"name {i}", "numbers": numbers, "label": i}


def images(i: int) -> dict[str, Any]:
    """An image and its label."""
    return {"image": CHOOSE.integers(0, 256, 784, dtype=np.uint8), "label": i % 10}


CASES: dict[str, tuple[Callable[[int], dict[str, Any]], tuple[Field, ...], int]] = {
    "24 int32 and 8 float32 as two fields, int64": (
        clicks,
        (Field("dense", "int32", (24,)), Field("sparse", "float32", (8,)), Field("label", "int64")),
        12_000,
    ),
    "24 int32, 8 float32, int64, a field each": (
        columns,
        (
            *(Field(f"i{k:02d}", "int32") for k in range(24)),
            *(Field(f"f{k}", "float32") for k in range(8)),
            Field("label", "int64"),
        ),
        12_000,
    ),
    "uint8 (784), int64": (
        images,
        (Field("image", "uint8", (784,)), Field("label", "int64")),
        12_000,
    ),
    "20 float32, 7 of them optional": (
        optional,
        tuple(Field(f"f{k:02d}", "float32", (), optional=k < 7) for k in range(20)),
        15_000,
    ),
    "str, float32 (n), int64": (
        texts,
        (Field("name", "str"), Field("numbers", "float32", (None,)), Field("label", "int64")),
        15_000,
    ),
}


def best_of(run: Callable[[], Any]) -> float:
    """Return the processor time of the fastest run."""
    best = float("inf")
    for _ in range(RUNS):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best


def written(schema: Schema, records: list[bytes]) -> tuple[io.BytesIO, ExampleRunWriter]:
    """Write records as a shard."""
    file = io.BytesIO()
    writer = ExampleRunWriter(file, schema, max_chunk_bytes=1 << 20)
    for record in records:
        writer.write(record)
    writer.close()
    return file, writer


def main() -> None:
    """Print thousands of samples per second."""
    print("| samples | encode | decode |\n| --- | ---: | ---: |")
    for name, (make, fields, number) in CASES.items():
        schema = Schema(fields)
        codec = TypedCodec(schema)
        records = [codec.encode(make(i)) for i in range(number)]
        encode = best_of(lambda schema=schema, records=records: written(schema, records))
        file, writer = written(schema, records)
        decoder = ExampleRunDecoder(schema)
        decode = best_of(
            lambda decoder=decoder, file=file, writer=writer: [
                decoder.read(file, run) for run in writer.chunks
            ]
        )
        print(f"| {name} | {number / encode / 1000:.0f} | {number / decode / 1000:.0f} |")


if __name__ == "__main__":
    main()
