"""A self-contained page of plots: no script, and no style or picture from another place."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trainfeed.errors import ConflictError
from trainfeed.storage.posix import create_exclusive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FieldPlot", "write_page"]

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
