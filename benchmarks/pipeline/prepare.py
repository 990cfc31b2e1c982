"""Makes the input of the build benchmark: the year of departures, copied, as topic and as lines.

``python -m benchmarks.pipeline.prepare FOLDER [--copies 10]`` writes below FOLDER/x<copies>::

    recorded/flights        a recorded topic of four partitions, for trainfeed
    lines/<partition>.json  the same records as lines, for the other engines
    datasets/flights        the data set, with the schedule and tasks of the benchmark

Copies differ in ``id``, so that every record has one of its own; broken lines are left out, because
the other engines cannot tell them from good ones. Records are stamped one millisecond apart.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from examples.flights.events import NUM_PARTITIONS, read_events
from examples.flights.lookups import write_lookups
from trainfeed.files.stores import Location
from trainfeed.sources import LANDING_SCHEMA, record_topic

ROOT: Final = Path(__file__).parents[2]
ROWS_PER_FILE: Final = 100_000
IDS_PER_COPY: Final = 1_000_000
START_MS: Final = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp() * 1000)
UUID: Final = "5e1f1e1d-0000-4000-8000-{:012d}"

EDITS: Final = (
    ('schedule: "@daily" ', 'schedule: "@yearly"'),
    ("end: 2014-01-01", "end: 2013-01-01"),
    ("samples_per_shard: 500", "samples_per_shard: 200000"),
    ("settle: 30m", "settle: 0s"),
)


def main() -> None:
    """Prepare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "nycflights13")
    options = parser.parse_args()
    place = options.folder / f"x{options.copies}"
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)
    events = read_events(options.data)
    events = events.filter(pc.is_null(events["planted"])).combine_chunks()
    topic = Location.parse(str(place / "recorded")) / "flights"
    partitions = {
        number: list(_batches(events, number, options.copies)) for number in range(NUM_PARTITIONS)
    }
    record_topic(topic, "flights", UUID.format(options.copies), partitions, ROWS_PER_FILE)
    _write_lines(place / "lines", partitions)
    _write_datasets(place / "datasets", options.data)
    records = sum(batch.num_rows for batches in partitions.values() for batch in batches)
    print(f"{records} records in {place}")


def _batches(events: pa.Table, partition: int, copies: int) -> Iterator[pa.RecordBatch]:
    mine = events.filter(pc.equal(events["partition"], partition)).combine_chunks()
    count = len(mine)
    for copy in range(copies):
        ids = pc.cast(pc.add(mine["event_id"], copy * IDS_PER_COPY), pa.utf8())
        tails = pc.replace_substring_regex(
            pc.cast(mine["value"], pa.utf8()), pattern=r'^\{"id": [0-9]+', replacement=""
        )
        lines = pc.binary_join_element_wise('{"id": ', ids, tails, "")
        offsets = np.arange(copy * count, (copy + 1) * count)
        yield pa.record_batch(
            [
                pa.array(offsets),
                pa.array(START_MS + offsets),
                pa.array(np.ones(count, np.int8)),
                mine["key"].combine_chunks(),
                lines.cast(pa.binary()).combine_chunks(),
                pa.array([[]] * count, LANDING_SCHEMA.field("headers").type),
            ],
            schema=LANDING_SCHEMA,
        )


def _write_lines(folder: Path, partitions: dict[int, list[pa.RecordBatch]]) -> None:
    folder.mkdir()
    for number, batches in partitions.items():
        with (folder / f"{number}.json").open("wb") as file:
            for batch in batches:
                file.write(b"\n".join(batch.column("value").to_pylist()) + b"\n")


def _write_datasets(datasets: Path, data: Path) -> None:
    """Write the data set in two forms, for batches and for single records."""
    source = ROOT / "include" / "datasets" / "flights"
    batch = Path(__file__).with_name("batch_flights")
    for form, function in (("batch", "batch:flights_batch"), ("record", "preprocess:flights")):
        folder = datasets / form / "flights"
        folder.mkdir(parents=True)
        for file in (*source.glob("*.py"), *batch.glob("*.py")):
            shutil.copy(file, folder)
        write_lookups(data, folder)
        text = (source / "dataset.yaml").read_text()
        edits = [
            *EDITS,
            ('"preprocess:flights", input: record', f'"{function}", input: {form}'),
            ("resources: {", "resources: {processes: 2, "),
        ]
        for old, new in edits:
            if old not in text:
                raise SystemExit(f"expected {old!r} in {source / 'dataset.yaml'}: edit EDITS")
            text = text.replace(old, new)
        (folder / "dataset.yaml").write_text(text)


if __name__ == "__main__":
    main()
