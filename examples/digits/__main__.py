"""``python -m examples.digits``: the handwritten digits as log files in date folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainfeed.errors import TrainFeedError


def write(
    *,
    to: Annotated[str, typer.Option(help="Folder or URI that the folders of the days lie in.")],
    ledger: Annotated[Path, typer.Option(help="SQLite file of what was written.")],
    data: Annotated[Path, typer.Option(help="Where scikit-learn was installed.")] = Path(
        "data/scikit-learn"
    ),
) -> None:
    """Write five days of digits, and the ledger of their lines."""
    from examples.digits.images import read_digits
    from examples.digits.writer import write_days
    from trainfeed.files.stores import Location

    place = to if "://" in to else str(Path(to).absolute())
    try:
        counts = write_days(read_digits(data), Location.parse(place), ledger)
    except TrainFeedError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(json.dumps(counts))


if __name__ == "__main__":
    typer.run(write)
