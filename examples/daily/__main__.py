"""``python -m examples.daily``, which ``make run``, ``make run-services`` and ``make ui`` start."""

from __future__ import annotations

import signal
import threading
import time
from datetime import date
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console

from examples.daily import places, report, runs
from examples.daily.connections import settings_told
from services._home import REPOSITORY
from services._process import ServiceError
from services.airflow import AirflowStack
from trainfeed.errors import TrainFeedError
from trainfeed.specification import DatasetSpec, load_specs

_FIRST: Final = date(2013, 1, 1)
_DATA: Final = REPOSITORY / "data"

console = Console(width=None if Console().is_terminal else 200)


def main(
    *,
    days: Annotated[int, typer.Option(min=1, help="How many days from 2013-01-01 on.")] = 3,
    services: Annotated[bool, typer.Option(help="Use a real Kafka and HDFS.")] = False,
    ui: Annotated[bool, typer.Option(help="Only open Airflow on what was built.")] = False,
) -> None:
    """Build days of flights through Airflow, train, and print the results."""
    started = time.monotonic()
    _unwind_on_signals()
    data = _DATA / "services" if services else _DATA
    places.make_lookups(console.print)
    place = _places(data, days, services=services, ui=ui)
    stack = AirflowStack(place.home, environ=place.environ)
    console.print(f"starting Airflow ({place.title})")
    _own(stack)
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags(_dag_ids(Path(place.environ["TRAINFEED_DATASETS"])))
        if ui:
            _serve(stack)
        else:
            _run(stack, place, days, data / "run.json")
            console.print(f"done in {time.monotonic() - started:.0f} s")
            if services:
                console.print(
                    "Kafka and HDFS go on running; 'make ui-services' opens Airflow with these"
                    " runs in it, 'make services-stop' ends them"
                )
    except ServiceError as error:
        console.print(str(error), markup=False, style="red")
        raise typer.Exit(1) from error
    finally:
        stack.stop()


def _places(data: Path, days: int, *, services: bool, ui: bool) -> places.Places:
    """Make the places of the demonstration ready, or of ``make ui`` those of the environment."""
    if ui and not services:
        try:
            return places.asked(data, partial(console.print, markup=False, soft_wrap=True))
        except TrainFeedError as error:
            console.print(str(error), markup=False, style="red")
            raise typer.Exit(1) from error
    if told := settings_told():
        console.print(
            f"not taken here, where all places are below {data}: {', '.join(told)}; 'make ui'"
            " takes them",
            markup=False,
            soft_wrap=True,
        )
    return places.real(data, _FIRST, days) if services else places.embedded(data, console.print)


def _dag_ids(datasets: Path) -> list[str]:
    """The DAGs of all data sets whose specification is right."""
    specs = load_specs(datasets)
    known = [spec for spec in specs if isinstance(spec, DatasetSpec)]
    trained = [f"train.{spec.name}" for spec in known if spec.train is not None]
    return [*(f"build.{spec.name}" for spec in known), *trained]


def _own(stack: AirflowStack) -> None:
    """Become the only owner of this Airflow; leftovers of a killed owner are taken over."""
    try:
        stack.own()
    except ServiceError as error:
        console.print(str(error), markup=False, style="red")
        raise typer.Exit(1) from error


def _run(stack: AirflowStack, place: places.Places, days: int, results: Path) -> None:
    console.print(f"backfilling {days} days of {places.DATASET}; Airflow is at {stack.url}")
    done = runs.backfill(stack.client, places.DATASET, _FIRST, days, report.Progress(console))
    builds = [runs.collect(stack.client, day) for day in done]
    report.write(results, builds)
    report.show(console, builds)
    console.print(
        f"versions: {place.root}/{places.DATASET}/versions; this table for scripts: {results}\n"
        "next: the same command again finds every day identical; 'make ui' opens Airflow with the"
        " runs of 'make run' in it; read a version with trainfeed.open_dataset (docs/start.md)"
    )


def _serve(stack: AirflowStack) -> None:
    """Keep Airflow up until a user ends it, which is no failure."""
    password = stack.home / "passwords.json"
    console.print(
        f"Airflow: {stack.url}  user: admin, password in {password}\nCtrl-C or 'make stop' ends it",
        markup=False,
    )
    ended = threading.Event()
    try:
        stack.supervise(ended)
    except (KeyboardInterrupt, SystemExit):
        ended.set()
        console.print("stopping Airflow; runs and versions stay")


def _unwind_on_signals() -> None:
    """Let every polite signal stop Airflow, also where a shell had told us to ignore Ctrl-C."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        raise SystemExit(128 + number)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


if __name__ == "__main__":
    typer.run(main)
