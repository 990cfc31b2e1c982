# ruff: noqa: PLC0415 - what runs in a worker of Spark imports there
"""The benchmark's work in PySpark: ``python pyspark_peer.py FOLDER/x10 OUT records|parquet``."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from records import NUM_SHARDS, NUM_VALUES, NUMBERS, SCALES, TEXTS

HERE = str(Path(__file__).parent)


def main(place: Path, out: Path, form: str) -> None:
    """Read, join, hash, sort and write."""
    out.mkdir(parents=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(NUM_SHARDS))
        .config("spark.local.dir", str(out / "tmp"))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(1 << 16))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    types = {name: t.IntegerType() for name in NUMBERS} | {name: t.StringType() for name in TEXTS}
    schema = t.StructType([t.StructField(name, kind) for name, kind in types.items()])
    lookups = place / "datasets" / "batch" / "flights"
    weather, planes = (spark.read.parquet(f"{lookups}/{n}.parquet") for n in ("weather", "planes"))
    values = [
        f.coalesce((f.col(name) - typical) / spread, f.lit(0.0))
        .cast("float")
        .alias(f"v{5 + number}")
        for number, (name, (typical, spread)) in enumerate(SCALES.items())
    ]
    weather = weather.select(
        "origin", "time_hour", *values, f.lit(0.0).cast("float").alias("v13"),
        f.coalesce(f.floor(f.col("wind_dir") / 45).cast("string"), f.lit("?")).alias("wind"),
        bucket(18, f.floor(f.col("visib") / 2)), bucket(19, f.floor(f.col("precip") * 50)),
    )  # fmt: skip
    planes = planes.select(
        "tailnum", f.col("year").alias("built"), "seats",
        bucket(14, f.col("model")), bucket(15, f.col("manufacturer")), bucket(16, f.col("engine")),
    )  # fmt: skip
    key = f.xxhash64(f.lit(7), f.col("id")).alias("key")
    table = (
        spark.read.schema(schema).json(f"{place}/lines")
        .where("dep_time is not null and arr_delay is not null")
        .join(f.broadcast(weather), ["origin", "time_hour"], "left")
        .join(f.broadcast(planes), "tailnum", "left")
        .select(key, *features(), (f.col("arr_delay") >= 15).cast("long").alias("label"))
        .repartitionByRange(NUM_SHARDS, "key")
        .sortWithinPartitions("key")
    )  # fmt: skip
    if form == "parquet":
        table.write.option("compression", "zstd").parquet(f"{out}/parquet")
    else:
        counts = table.mapInArrow(writer(str(out)), "n long").collect()
        print(sum(row.n for row in counts))
    spark.stop()


def writer(out: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that writes the batches of a partition as one shard."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        sys.path.insert(0, HERE)
        import numpy as np
        import pyarrow as pa
        from pyspark import TaskContext
        from records import Shards, pack

        folder = Path(out) / f"part-{TaskContext.get().partitionId():05d}"
        folder.mkdir()
        shards = Shards(folder)
        for batch in batches:
            column = lambda name, batch=batch: batch.column(name).to_numpy(zero_copy_only=False)  # noqa: E731
            # One shard per partition, whatever the keys.
            shards.write(np.zeros(batch.num_rows, np.uint64), pack(column))
        shards.close()
        yield pa.RecordBatch.from_pydict({"n": [shards.num_records]})

    return write


def bucket(place: int, *parts: Column) -> Column:
    """Return the hashed category at a place of ``indices``."""
    return f.pmod(f.xxhash64(f.lit(place), *parts), f.lit(65536)).cast("int").alias(f"i{place}")


def features() -> list[Column]:
    """Return the columns i0 to i19 and v0 to v13."""
    hour = f.floor(f.col("sched_dep_time") / 100)
    carrier, origin, dest = (f.col(name) for name in ("carrier", "origin", "dest"))
    categories = {
        0: [carrier], 1: [origin], 2: [dest], 3: [origin, dest], 4: [carrier, origin],
        5: [carrier, dest], 6: [hour], 7: [origin, hour], 8: [carrier, hour],
        9: [f.floor(f.col("sched_arr_time") / 100)],
        10: [f.dayofweek(f.make_date("year", "month", "day"))], 11: [f.col("month")],
        12: [carrier, f.col("flight")], 13: [f.coalesce("tailnum", f.lit("?"))],
        17: [origin, f.coalesce("wind", f.lit("?"))],
    }  # fmt: skip
    indices = [bucket(place, *parts) for place, parts in categories.items()]
    indices += [f.coalesce(f"i{n}", f.lit(0)).alias(f"i{n}") for n in (14, 15, 16, 18, 19)]
    clock = f.col("sched_dep_time")
    values = [
        (f.col("distance") - 1000) / 1000,
        (f.floor(clock / 100) * 60 + clock % 100 - 800) / 300,
        f.coalesce((f.col("year") - f.col("built") - 11) / 10, f.lit(0.0)),
        f.coalesce((f.col("seats") - 140) / 80, f.lit(0.0)),
        f.when(f.col("seats").isNull(), 1.0).otherwise(0.0),
        *[f.coalesce(f"v{number}", f.lit(0.0)) for number in range(5, NUM_VALUES - 1)],
        f.coalesce("v13", f.lit(1.0)),
    ]
    columns = [value.cast("float").alias(f"v{number}") for number, value in enumerate(values)]
    return [*indices, *columns]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
