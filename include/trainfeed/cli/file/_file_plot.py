"""Plots as a picture: the only module that needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainfeed.cli.file._file_page import FieldPlot
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.storage.posix import create_exclusive

__all__ = ["write_png"]


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
