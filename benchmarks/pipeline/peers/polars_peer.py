# ruff: noqa: E501
"""The benchmark's work in polars: ``python polars_peer.py FOLDER/x10 OUT records|parquet``."""

import sys
from pathlib import Path

import numpy as np
import polars as pl
from records import NUM_SHARDS, NUM_VALUES, NUMBERS, SCALES, TEXTS, Shards, pack


def main(place: Path, out: Path, form: str) -> None:
    """Read, join, hash, sort and write."""
    out.mkdir(parents=True)
    schema = dict.fromkeys(NUMBERS, pl.Int32) | dict.fromkeys(TEXTS, pl.String)
    lookups = place / "datasets" / "batch" / "flights"
    weather, planes = (pl.read_parquet(lookups / f"{n}.parquet") for n in ("weather", "planes"))
    values = [
        ((pl.col(name) - typical) / spread).cast(pl.Float32).fill_null(0).alias(f"v{5 + number}")
        for number, (name, (typical, spread)) in enumerate(SCALES.items())
    ]
    weather = weather.select(
        "origin", "time_hour", *values, pl.lit(0, pl.Float32).alias("v13"),
        (pl.col("wind_dir") // 45).cast(pl.String).fill_null("?").alias("wind"),
        bucket(18, (pl.col("visib") // 2).cast(pl.String).fill_null("?")),
        bucket(19, (pl.col("precip") * 50).floor().cast(pl.String).fill_null("?")),
    )  # fmt: skip
    planes = planes.select(
        "tailnum", pl.col("year").alias("built"), "seats",
        bucket(14, pl.col("model")), bucket(15, pl.col("manufacturer")), bucket(16, pl.col("engine")),
    )  # fmt: skip
    lines = pl.scan_ndjson(sorted((place / "lines").glob("*.json")), schema=schema)
    table = (
        lines.filter(pl.col("dep_time").is_not_null() & pl.col("arr_delay").is_not_null())
        .join(weather.lazy(), on=["origin", "time_hour"], how="left")
        .join(planes.lazy(), on="tailnum", how="left")
        .select(pl.col("id").hash(7).alias("key"), *features(), label())
        .sort("key")
        .collect(engine="streaming")
    )
    if form == "parquet":
        edges = [(number << 64) // NUM_SHARDS for number in range(NUM_SHARDS)]
        starts = [
            *np.searchsorted(table["key"].to_numpy(), np.array(edges, np.uint64)),
            table.height,
        ]
        for number in range(NUM_SHARDS):
            part = table[starts[number] : starts[number + 1]]
            part.write_parquet(
                out / f"{number:05d}.parquet", compression="zstd", compression_level=1
            )
        print(table.height)
        return
    shards = Shards(out)
    for start in range(0, table.height, 1 << 17):
        part = table[start : start + (1 << 17)]
        shards.write(part["key"].to_numpy(), pack(lambda name, part=part: part[name].to_numpy()))
    shards.close()
    print(shards.num_records)


def bucket(place: int, text: pl.Expr) -> pl.Expr:
    """Return the hashed category at a place of ``indices``."""
    return (text.hash(place) % 65536).cast(pl.Int32).alias(f"i{place}")


def features() -> list[pl.Expr]:
    """Return the columns i0 to i19 and v0 to v13."""
    hour = (pl.col("sched_dep_time") // 100).cast(pl.String)
    day = pl.date(pl.col("year"), pl.col("month"), pl.col("day")).dt.weekday()
    pairs = {
        0: [pl.col("carrier")], 1: [pl.col("origin")], 2: [pl.col("dest")],
        3: [pl.col("origin"), pl.col("dest")], 4: [pl.col("carrier"), pl.col("origin")],
        5: [pl.col("carrier"), pl.col("dest")], 6: [hour], 7: [pl.col("origin"), hour],
        8: [pl.col("carrier"), hour], 9: [(pl.col("sched_arr_time") // 100).cast(pl.String)],
        10: [day.cast(pl.String)], 11: [pl.col("month").cast(pl.String)],
        12: [pl.col("carrier"), pl.col("flight").cast(pl.String)],
        13: [pl.col("tailnum").fill_null("?")],
        17: [pl.col("origin"), pl.col("wind").fill_null("?")],
    }  # fmt: skip
    indices = [
        bucket(place, parts[0] if len(parts) == 1 else pl.concat_str(*parts, separator=">"))
        for place, parts in pairs.items()
    ]
    clock = pl.col("sched_dep_time")
    known = pl.col("seats").is_not_null()
    values = [
        ((pl.col("distance") - 1000) / 1000).alias("v0"),
        ((clock // 100 * 60 + clock % 100 - 800) / 300).alias("v1"),
        ((pl.col("year") - pl.col("built") - 11) / 10).fill_null(0).alias("v2"),
        ((pl.col("seats") - 140) / 80).fill_null(0).alias("v3"),
        pl.when(known).then(0.0).otherwise(1.0).alias("v4"),
        *[pl.col(f"v{number}").fill_null(0) for number in range(5, NUM_VALUES - 1)],
        pl.col("v13").fill_null(1),
    ]
    found = [pl.col(f"i{place}").fill_null(0) for place in (14, 15, 16, 18, 19)]
    return [*indices, *found, *[value.cast(pl.Float32) for value in values]]


def label() -> pl.Expr:
    """Return whether a flight was late."""
    return (pl.col("arr_delay") >= 15).cast(pl.Int64).alias("label")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
