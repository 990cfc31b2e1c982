"""``trainfeed build`` and ``trainfeed train``: one interval in this process, without Airflow."""

from __future__ import annotations

from typing import Annotated

import typer

from trainfeed.build.dry_run import describe
from trainfeed.build.dry_run import dry_run as run_dry
from trainfeed.build.pipeline import BuildRequest
from trainfeed.build.pipeline import build as run_build
from trainfeed.build.preview import preview
from trainfeed.cli._output import error_console, print_json, print_mapping
from trainfeed.cli._preview import print_preview
from trainfeed.config import Environment, environment_from_environ
from trainfeed.errors import ConfigError
from trainfeed.spec import DatasetSpec, check_name, load_spec
from trainfeed.training.launch import train as run_train

__all__ = ["build", "train"]

Name = Annotated[str, typer.Argument(help="Name of the data set.")]
IntervalName = Annotated[
    str, typer.Option("--interval", help="Interval, as in 2013-01-01: a tick of the schedule.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def build(  # noqa: PLR0913 - options of a command
    name: Name,
    *,
    interval: IntervalName,
    rebuild: Annotated[
        str | None,
        typer.Option(help="Build a published interval again, and say why; a reason counts once."),
    ] = None,
    allow_gap: Annotated[
        str | None, typer.Option(help="Accept that retention deleted records, and say why.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be read, built and published.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Build so many records in a temporary folder, show what came."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build and publish one interval of a data set, or look at what a build would give."""
    if dry_run and limit is not None:
        raise ConfigError("expected --dry-run or --limit, got both; leave one out")
    request = BuildRequest(rebuild=rebuild, allow_gap=allow_gap)
    if dry_run:
        _dry_run(name, interval, request, as_json=as_json)
    elif limit is not None:
        _preview(name, interval, request, limit=limit, as_json=as_json)
    else:
        _build(name, interval, request, as_json=as_json)


def _build(name: str, interval: str, request: BuildRequest, *, as_json: bool) -> None:
    spec, env = _open(name)
    with error_console().status("") as status:
        report = run_build(
            spec,
            spec.schedule_model().interval_named(interval),
            env,
            request,
            on_stage=lambda stage: status.update(f"{name}/{interval}: {stage}"),
        )
    print_json(report) if as_json else print_mapping(report)


def _dry_run(name: str, interval: str, request: BuildRequest, *, as_json: bool) -> None:
    spec, env = _open(name)
    with error_console().status(f"{name}/{interval}: plan"):
        report = run_dry(
            spec,
            spec.schedule_model().interval_named(interval),
            env,
            rebuild=request.rebuild,
            allow_gap=request.allow_gap,
        )
    print_json(report) if as_json else typer.echo("\n".join(describe(report)))


def _preview(name: str, interval: str, request: BuildRequest, *, limit: int, as_json: bool) -> None:
    if request.rebuild is not None:
        raise ConfigError("expected no --rebuild beside --limit, which publishes nothing")
    spec, env = _open(name)
    with error_console().status(f"{name}/{interval}: the first {limit} records"):
        report = preview(
            spec,
            spec.schedule_model().interval_named(interval),
            env,
            limit=limit,
            allow_gap=request.allow_gap,
        )
    print_json(report) if as_json else print_preview(report)


def train(name: Name, *, interval: IntervalName, as_json: Json = False) -> None:
    """Train on the window of intervals that ends with one, or find the finished job."""
    spec, env = _open(name)
    with error_console().status(f"{name}/{interval}: train"):
        report = run_train(spec, env, spec.schedule_model().interval_named(interval))
    print_json(report) if as_json else print_mapping(report)


def _open(name: str) -> tuple[DatasetSpec, Environment]:
    env = environment_from_environ()
    return load_spec(env.datasets / check_name(name)), env
