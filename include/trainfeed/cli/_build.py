"""``trainfeed build`` and ``trainfeed train``: one interval in this process, without Airflow."""

from __future__ import annotations

from typing import Annotated

import typer

from trainfeed.build.pipeline import BuildRequest
from trainfeed.build.pipeline import build as run_build
from trainfeed.cli._output import error_console, print_json, print_mapping
from trainfeed.config import Environment, environment_from_environ
from trainfeed.spec import DatasetSpec, check_name, load_spec
from trainfeed.training.launch import train as run_train

__all__ = ["build", "train"]

Name = Annotated[str, typer.Argument(help="Name of the data set.")]
IntervalName = Annotated[
    str, typer.Option("--interval", help="Interval, as in 2013-01-01: a tick of the schedule.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def build(
    name: Name,
    *,
    interval: IntervalName,
    rebuild: Annotated[
        str | None, typer.Option(help="Build a published interval again, and say why.")
    ] = None,
    allow_gap: Annotated[
        str | None, typer.Option(help="Accept that retention deleted records, and say why.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Build and publish one interval of a data set."""
    spec, env = _open(name)
    console = error_console()
    with console.status("") as status:
        report = run_build(
            spec,
            spec.schedule_model().interval_named(interval),
            env,
            BuildRequest(rebuild=rebuild, allow_gap=allow_gap),
            on_stage=lambda stage: status.update(f"{name}/{interval}: {stage}"),
        )
    print_json(report) if as_json else print_mapping(report)


def train(name: Name, *, interval: IntervalName, as_json: Json = False) -> None:
    """Train on the window of intervals that ends with one, or find the finished job."""
    spec, env = _open(name)
    with error_console().status(f"{name}/{interval}: train"):
        report = run_train(spec, env, spec.schedule_model().interval_named(interval))
    print_json(report) if as_json else print_mapping(report)


def _open(name: str) -> tuple[DatasetSpec, Environment]:
    env = environment_from_environ()
    return load_spec(env.datasets / check_name(name)), env
