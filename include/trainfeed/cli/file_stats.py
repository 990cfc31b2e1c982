"""``trainfeed file stats``: statistics of the samples in files, also as a page and a picture."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import numpy as np
import typer

from trainfeed.cli.arguments import target_path
from trainfeed.cli.file_contents import (
    AsFormat,
    Delimiter,
    Files,
    SchemaFile,
    open_file,
)
from trainfeed.cli.printing import Result, Table, progress, with_json
from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.files.stores.posix import create_exclusive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainfeed.samples import Field, Schema


# --- A self-contained page of plots: no script, and no style or picture from another place

_WIDTH: Final = 480
_HEIGHT: Final = 140
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;"
    "color:#1c2733;background:#fff}section{display:flex;gap:2rem;flex-wrap:wrap;"
    "border-top:1px solid #d8dee4;padding:1rem 0}h2{font-size:1.05rem;margin:0 0 .5rem}"
    "table{border-collapse:collapse;font-size:.85rem}td{padding:.1rem .8rem .1rem 0}"
    "td:last-child{text-align:right;font-variant-numeric:tabular-nums}"
    "text{font-size:11px;fill:#57606a}rect{fill:#2f6feb}"
    "@media(prefers-color-scheme:dark){body{color:#d8dee4;background:#14191f}"
    "section{border-color:#30363d}}"
)


class FieldPlot(NamedTuple):
    """A histogram of a field.

    Attributes:
        name: Name of the field.
        what: Text about the counted values: the type, or lengths in bytes.
        edges: Edges of the bins, float64 of shape ``(n + 1,)``.
        counts: Values per bin, int64 of shape ``(n,)``.
        num_values: Number of values; the histogram may have only some of them.
        figures: Further statistics as pairs of name and text.
    """

    name: str
    what: str
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    num_values: int
    figures: tuple[tuple[str, str], ...]


def write_page(path: Path, title: str, plots: Sequence[FieldPlot]) -> None:
    """Write the page.

    Raises:
        ConflictError: The name is taken.
    """
    sections = "".join(map(_section, plots))
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{sections}</body></html>\n"
    )
    if not create_exclusive(path, page.encode("utf-8", "backslashreplace")):
        raise ConflictError(f"{path} exists; choose another name, or delete it first")


def _section(plot: FieldPlot) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in plot.figures
    )
    return (
        f"<section><div><h2>{escape(plot.name)} <small>{escape(plot.what)}</small></h2>"
        f"{_svg(plot)}</div><table>{rows}</table></section>"
    )


def _svg(plot: FieldPlot) -> str:
    counts = plot.counts.tolist()
    shown, highest = sum(counts), max([*counts, 1])
    width = _WIDTH / max(1, len(counts))
    bars = "".join(
        f'<rect x="{i * width:.2f}" y="{_HEIGHT - _HEIGHT * count / highest:.2f}"'
        f' width="{max(width - 1, 1):.2f}" height="{_HEIGHT * count / highest:.2f}">'
        f"<title>{_range(plot, i)}: {count:,}</title></rect>"
        for i, count in enumerate(counts)
        if count
    )
    low, high = f"{plot.edges[0]:.6g}", f"{plot.edges[-1]:.6g}"
    note = "" if shown >= plot.num_values else f"{shown:,} of {plot.num_values:,} values"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 20}" width="{_WIDTH}" role="img"'
        f' aria-label="Histogram of {escape(plot.name)}">{bars}'
        f'<text x="0" y="{_HEIGHT + 15}">{low}</text>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT + 15}" text-anchor="middle">{note}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 15}" text-anchor="end">{high}</text></svg>'
    )


def _range(plot: FieldPlot, i: int) -> str:
    return f"{plot.edges[i]:.6g} to {plot.edges[i + 1]:.6g}"


# --- Plots as a picture: the only module that needs matplotlib


def write_png(path: Path, title: str, plots: Sequence[FieldPlot]) -> None:
    """Write a picture with a plot per field, one below another.

    Raises:
        ConfigError: Matplotlib is not installed.
        ConflictError: The name is taken.
    """
    figure = _figure_class()(figsize=(7, 2.2 * len(plots) + 0.6), layout="constrained")
    # A dollar sign would start a formula.
    figure.suptitle(_plain(title))
    for number, plot in enumerate(plots, 1):
        axes = figure.add_subplot(len(plots), 1, number)
        axes.stairs(plot.counts, plot.edges, fill=True)
        axes.set_title(_plain(f"{plot.name}  {plot.what}"), loc="left", fontsize="medium")
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120)
    if not create_exclusive(path, data.getvalue()):
        raise ConflictError(f"{path} exists; choose another name, or delete it first")


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "pictures are drawn by matplotlib, which is not installed; install trainfeed[plots],"
            " or write a page with --html"
        ) from error
    return Figure


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace("$", r"\$")


# --- ``trainfeed file stats``: statistics of the samples in files, field by field

_MOST_VALUES: Final = 20_000
_NUM_BINS: Final = 32


@with_json
def stats(
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
) -> Result:
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
    plots = [values.plot(field, result[field.name]) for field in found]
    title = ", ".join(file.path.name for file in opened[:3]) + (" …" if len(opened) > 3 else "")

    def pages() -> Iterator[str]:
        """Write the pages behind the table, which stands also where one cannot be written."""
        if html is not None:
            write_page(html, title, plots)
        if png is not None:
            write_png(png, title, plots)
        yield from ()

    return Result(result, statistics_table(result, found), pages())


def statistics_table(result: Mapping[str, Mapping[str, Any]], schema: Schema) -> Table:
    """Return the statistics of every field, one per row."""
    columns = ("field", "type", "count", "nulls", "min", "mean", "max", "std", "not finite")
    rows = []
    for field in schema:
        each = result[field.name]
        suffix = "_length" if field.is_text else ""
        numbers = [each.get(f"{name}{suffix}") for name in ("min", "mean", "max")]
        cells = [each["count"], each["nulls"], *numbers, each.get("std"), each.get("not_finite")]
        rows.append([field.name, str(field), *map(_number, cells)])
    return Table(columns, rows)


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
