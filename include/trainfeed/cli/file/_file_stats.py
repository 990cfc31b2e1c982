"""``trainfeed file stats``: statistics of the samples in files, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer

from trainfeed.cli._places import target_path
from trainfeed.cli._printing import print_json, print_rows
from trainfeed.cli.file._file_options import (
    AsFormat,
    AsJson,
    Delimiter,
    Files,
    SchemaFile,
    open_file,
    progress,
)
from trainfeed.cli.file._file_page import FieldPlot, write_page
from trainfeed.cli.file._file_plot import write_png
from trainfeed.errors import ConfigError
from trainfeed.printable_text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainfeed.samples import Field, Schema

__all__ = ["print_statistics", "stats"]

_MOST_VALUES: Final = 20_000
_NUM_BINS: Final = 32


def stats(  # noqa: PLR0913 (options of a command)
    files: Files,
    *,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            help="Write a page with a plot per field.",
            parser=target_path,
            metavar="<path>",
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            "--png",
            help="Write a picture with a plot per field.",
            parser=target_path,
            metavar="<path>",
        ),
    ] = None,
    schema: SchemaFile = None,
    file_format: AsFormat = None,
    delimiter: Delimiter = None,
    use_json: AsJson = False,
) -> None:
    """Show count, nulls, range, mean and more of every field."""
    from trainfeed.conversion import paths_of
    from trainfeed.samples import Statistics, TypedCodec

    opened = [open_file(path, schema, file_format, delimiter) for path in paths_of(files)]
    found = opened[0].schema
    if found is None or any(file.schema != found for file in opened):
        raise ConfigError("expected typed samples of one schema; give it with --schema FILE")
    statistics, values = Statistics(found), _Values(found)
    codec = TypedCodec(found)
    with progress("reading") as tell:
        for number, file in enumerate(opened):
            tell(len(opened), number)
            for sample in file.samples():
                # Values from text files and tables are not of the field's type yet: encoding and
                # decoding converts them.
                decoded = sample if file.container else codec.decode(codec.encode(sample))
                statistics.update(decoded)
                values.update(decoded)
    result = statistics.to_json()
    print_json(result) if use_json else print_statistics(result, found)
    plots = [values.plot(field, result[field.name]) for field in found]
    title = ", ".join(file.path.name for file in opened[:3]) + (" …" if len(opened) > 3 else "")
    if html is not None:
        write_page(html, title, plots)
    if png is not None:
        write_png(png, title, plots)


def print_statistics(result: Mapping[str, Mapping[str, Any]], schema: Schema) -> None:
    """Print the statistics of every field, one per line."""
    columns = ("field", "type", "count", "nulls", "min", "mean", "max", "std", "not finite")
    rows = []
    for field in schema:
        each = result[field.name]
        suffix = "_length" if field.is_text else ""
        numbers = [each.get(f"{name}{suffix}") for name in ("min", "mean", "max")]
        cells = [each["count"], each["nulls"], *numbers, each.get("std"), each.get("not_finite")]
        rows.append([field.name, str(field), *map(_number, cells)])
    print_rows(columns, rows)


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


class _Values:
    """Some values of every field: of all samples, later of every second, fourth, … one.

    The histogram of the statistics is not used: its bins are fixed before the first number, so all
    seconds of a day are in one bin, and texts have no bins.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._kept: dict[str, list[NDArray[Any]]] = {field.name: [] for field in schema}
        self._num_values = dict.fromkeys(schema.names, 0)
        self._strides = dict.fromkeys(schema.names, 1)
        self._seen = 0

    def update(self, sample: dict[str, Any]) -> None:
        """Add the values of a sample."""
        for field in self._schema:
            value = sample[field.name]
            if value is not None:
                self._add(field, _as_numbers(field, value))
        self._seen += 1

    def plot(self, field: Field, figures: dict[str, Any]) -> FieldPlot:
        """Return the histogram of a field."""
        kept = self._kept[field.name]
        numbers = np.concatenate([np.empty(0), *kept])
        numbers = numbers[np.isfinite(numbers)]
        whole = field.is_text or field.values_dtype.kind in "biu"
        edges = _edges(numbers, whole=whole)
        counts, _ = np.histogram(numbers, edges)
        texts = tuple((printable(name), _figure(value)) for name, value in figures.items())
        what = "length in bytes" if field.is_text else str(field)
        return FieldPlot(
            field.name, what, edges, counts.astype(np.int64), self._num_values[field.name], texts
        )

    def _add(self, field: Field, numbers: NDArray[np.float64]) -> None:
        name = field.name
        self._num_values[name] += len(numbers)
        if self._seen % self._strides[name]:
            return
        # Only every k-th value of a large array, as many as a plot can show.
        step = -(-len(numbers) // 256)
        kept = self._kept[name]
        kept.append(numbers[:: max(1, step)].copy())
        if sum(map(len, kept)) > _MOST_VALUES and len(kept) > 1:
            del kept[1::2]
            self._strides[name] *= 2


def _as_numbers(field: Field, value: Any) -> NDArray[np.float64]:
    if field.is_text:
        size = len(value.encode()) if isinstance(value, str) else len(value)
        return np.array([size], np.float64)
    return np.asarray(value, np.float64).reshape(-1)


def _edges(numbers: NDArray[np.float64], *, whole: bool) -> NDArray[np.float64]:
    if not len(numbers):
        return np.array([0.0, 1.0])
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        # Half a unit, or for large numbers enough to differ after rounding.
        margin = max(0.5, abs(low) / 2**50)
        return np.array([low - margin, high + margin])
    if whole and max(abs(low), abs(high)) < 2**50:
        # Bins have a whole width, so that all hold equally many integers.
        width = -(-(high - low + 1) // _NUM_BINS)
        return np.arange(low - 0.5, high + width, width)
    with np.errstate(over="ignore"):
        spans = np.isfinite(high - low)
    return np.linspace(low, high, _NUM_BINS + 1) if spans else np.array([low, 0.0, high])


def _figure(value: Any) -> str:
    return _number(value) if isinstance(value, int | float) else printable(str(value))[:200]
