"""``python -m examples.ctr``: real impressions as libFM logs, and the dictionary of their items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from trainfeed.errors import TrainFeedError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

_Data = Annotated[Path, typer.Option(help="Where obp was installed.")]
_DATA = Path("data/obp")


@app.command()
def logs(
    *,
    to: Annotated[str, typer.Option(help="Folder or URI that the folders of the days lie in.")],
    ledger: Annotated[Path, typer.Option(help="JSON file of what a reader has to find.")],
    days: Annotated[int, typer.Option(min=1, max=7, help="How many days, from 2019-11-24 on.")] = 7,
    copies: Annotated[int, typer.Option(min=1, help="How often every line is written.")] = 1,
    data: _Data = _DATA,
) -> None:
    """Write days of impressions as log files, and the ledger of their samples."""
    from examples.ctr.writer import DAYS, write_days
    from trainfeed.files.stores import Location

    place = to if "://" in to else str(Path(to).absolute())
    ledger.absolute().parent.mkdir(parents=True, exist_ok=True)
    try:
        written = write_days(
            data, Location.parse(place), ledger.absolute(), days=DAYS[:days], copies=copies
        )
    except TrainFeedError as error:
        _fail(error)
    names = ("lines", "samples", "clicks")
    typer.echo(json.dumps({name: sum(day[name] for day in written.values()) for name in names}))


@app.command()
def dictionary(*, to: Annotated[Path, typer.Option(help="CSV file.")], data: _Data = _DATA) -> None:
    """Write the dictionary of items: the lookup file of the data set."""
    from examples.ctr.dictionary import dictionary_text
    from examples.ctr.feature_numbers import FeatureNumbers
    from trainfeed.files.stores import posix

    try:
        posix.replace_file(to.absolute(), dictionary_text(FeatureNumbers(data)).encode())
    except TrainFeedError as error:
        _fail(error)


def _fail(error: TrainFeedError) -> NoReturn:
    typer.echo(f"{type(error).__name__}: {error}", err=True)
    raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
