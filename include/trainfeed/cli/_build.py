"""``trainfeed build`` and ``trainfeed train``: one interval in this process, without Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from trainfeed.build.dry_run import describe
from trainfeed.build.dry_run import dry_run as run_dry
from trainfeed.build.pipeline import BuildRequest
from trainfeed.build.pipeline import build as run_build
from trainfeed.build.preview import preview
from trainfeed.cli._output import (
    error_console,
    print_json,
    print_mapping,
    print_message,
    print_rows,
)
from trainfeed.cli._preview import print_preview
from trainfeed.config import Environment, environment_from_environ
from trainfeed.errors import ConfigError, WindowIncompleteError
from trainfeed.spec import DatasetSpec, check_name, load_spec
from trainfeed.training.catch_up import train_missed
from trainfeed.training.launch import train as run_train

__all__ = ["build", "train"]

Name = Annotated[str, typer.Argument(help="Name of the data set.")]
IntervalName = Annotated[
    str, typer.Option("--interval", help="Interval, as in 2013-01-01: a tick of the schedule.")
]
_TRAINED: Final = ("interval", "verdict", "job", "metrics", "note")
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


class CatchUp(StrEnum):
    """Which untrained intervals are wanted."""

    MISSED = "missed"
    ALL = "all"


def train(
    name: Name,
    *,
    interval: Annotated[
        str | None,
        typer.Option("--interval", help="Interval, as in 2013-01-01: a tick of the schedule."),
    ] = None,
    catch_up: Annotated[
        CatchUp | None,
        typer.Option(
            help="Train on every published interval that no training has seen; all: also on those"
            " from before the data set had a training."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train on the window of intervals that ends with one, or find the finished job."""
    if (interval is None) == (catch_up is None):
        raise ConfigError("expected --interval or --catch-up, one of them; say what to train on")
    spec, env = _open(name)
    if interval is None:
        _catch_up(spec, env, older=catch_up is CatchUp.ALL, as_json=as_json)
        return
    with error_console().status(f"{name}/{interval}: train"):
        report = run_train(spec, env, spec.schedule_model().interval_named(interval))
    print_json(report) if as_json else print_mapping(report)


def _catch_up(spec: DatasetSpec, env: Environment, *, older: bool, as_json: bool) -> None:
    reports = []
    with error_console().status(f"{spec.name}: train") as status:
        for report in train_missed(spec, env, older=older):
            reports.append(report)
            status.update(f"{spec.name}: train, {len(reports)} intervals done")
    if as_json:
        print_json(reports)
    elif not reports:
        print_message("every published interval has been trained on")
    else:
        print_rows(_TRAINED, [_row(report) for report in reports])
    if missing := [report["interval"] for report in reports if report["verdict"] == "incomplete"]:
        raise WindowIncompleteError(
            f"{len(missing)} intervals of {spec.name} wait for others of their window:"
            f" {', '.join(missing)}; they stay untrained; build what their notes name, and run"
            " this again"
        )


def _row(report: Mapping[str, Any]) -> list[object]:
    metrics = ", ".join(f"{name} {value:g}" for name, value in report.get("metrics", {}).items())
    return [{**report, "metrics": metrics}.get(column, "") for column in _TRAINED]


def _open(name: str) -> tuple[DatasetSpec, Environment]:
    env = environment_from_environ()
    return load_spec(env.datasets / check_name(name)), env
