"""``trainfeed train``: trainings on this machine or on a cluster, without Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._asked_intervals import Intervals, Json, Name, is_range, open_asked
from trainfeed.cli._printing import (
    error_console,
    print_json,
    print_mapping,
    print_message,
    print_rows,
)
from trainfeed.cli.training._train_options import print_rendered, with_launcher
from trainfeed.config import Environment, environment_from_environ
from trainfeed.dataset import DatasetFolder, TrainingMarks
from trainfeed.errors import ConfigError, WindowIncompleteError
from trainfeed.intervals import intervals_in, parse_range
from trainfeed.specification import DatasetSpec, LauncherName, check_name, load_spec
from trainfeed.training.launch import train as run_train
from trainfeed.training.launch import train_missed
from trainfeed.training.tagged import tagged_training

__all__ = ["train"]

_TRAINED: Final = ("interval", "verdict", "job", "metrics", "note")


class CatchUp(StrEnum):
    """Choices of untrained intervals."""

    MISSED = "missed"
    ALL = "all"


def train(  # noqa: PLR0913 - options of a command
    name: Name,
    *,
    interval: Intervals = None,
    catch_up: Annotated[
        CatchUp | None,
        typer.Option(
            help="Train on every published interval that no training has seen; all: also on"
            " intervals from before the data set had a training, and on declined ones."
        ),
    ] = None,
    launcher: Annotated[
        LauncherName | None,
        typer.Option(help="Where the training runs, in the place of train.launcher."),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(help="Train on the versions of this tag, or of TAG#3, not on a window."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only print what would be made, as YAML. A start model without TRANSFER.json on"
            " its store is downloaded all the same: the job's name depends on its files.",
        ),
    ] = False,
    again: Annotated[
        str | None,
        typer.Option(
            help="Start a job on a cluster that has failed again, for this reason; each reason"
            " starts it once."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train on the window that ends with --interval, or on a tag; reuse a finished job.

    The intervals of a range are trained on in order, until one fails. Status 0: done; 1: failed;
    2: wrong usage or settings.
    """
    if catch_up is not None:
        if launcher is not None or dry_run or again is not None or tag is not None:
            raise ConfigError(
                "expected no --launcher, --dry-run, --again or --tag beside --catch-up; leave it"
                " out"
            )
        _catch_up(name, interval, older=catch_up is CatchUp.ALL, as_json=as_json)
        return
    if tag is not None:
        _train_tag(name, interval, tag, launcher, again, dry_run=dry_run, as_json=as_json)
        return
    spec, env, asked = open_asked(name, interval)
    spec = with_launcher(spec, launcher)
    chosen = intervals_in(spec.schedule_model(), parse_range(asked))
    if dry_run:
        print_rendered(spec, env, chosen, as_json=as_json)
        return
    reports = []
    for each in chosen:
        with error_console().status(f"{spec.name}/{each.name}: train"):
            reports.append(run_train(spec, env, each, again=again))
        if not as_json:
            print_mapping(reports[-1])
    if as_json:
        print_json(reports if is_range(chosen, asked) else reports[0])


def _train_tag(  # noqa: PLR0913 - options of the command
    name: str,
    interval: str | None,
    text: str,
    launcher: LauncherName | None,
    again: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    if interval is not None or "/" in name:
        raise ConfigError("expected --tag or an interval, got both; nothing was started")
    env = environment_from_environ()
    spec = with_launcher(load_spec(env.datasets / check_name(name)), launcher)
    tag, last = tagged_training(spec, DatasetFolder(Path(env.root), spec.name), text)
    if dry_run:
        print_rendered(spec, env, [last], tag, as_json=as_json)
        return
    with error_console().status(f"{spec.name}@{tag.name}: train"):
        report = run_train(spec, env, last, again=again, tag=tag)
    if as_json:
        print_json(report)
    else:
        print_mapping(report)


def _catch_up(name: str, interval: str | None, *, older: bool, as_json: bool) -> None:
    if interval is not None or "/" in name:
        raise ConfigError(
            "expected an interval or --catch-up, got both; leave one out: --catch-up finds the"
            " intervals itself"
        )
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    reports = []
    with error_console().status(f"{spec.name}: train") as status:
        for report in train_missed(spec, env, older=older):
            reports.append(report)
            status.update(f"{spec.name}: train, {len(reports)} intervals done")
    if as_json:
        print_json(reports)
    elif not reports:
        print_message("no published interval waits for a training")
    else:
        print_rows(_TRAINED, [_trained_row(report) for report in reports])
    _tell_declined(spec, env)
    if missing := [report["interval"] for report in reports if report["verdict"] == "incomplete"]:
        raise WindowIncompleteError(
            f"{len(missing)} intervals of {spec.name} wait for others of their window:"
            f" {', '.join(missing)}; they were not trained; build the intervals that their"
            " notes name, and run this command again"
        )


def _tell_declined(spec: DatasetSpec, env: Environment) -> None:
    """Name the versions that stay untrained because their builds wanted no training."""
    declined = TrainingMarks(DatasetFolder(Path(env.root), spec.name)).declined()
    if declined:
        first, last = declined[0].version.interval, declined[-1].version.interval
        print_message(
            f"{len(declined)} published intervals were declined, {first} to {last}"
            f" ({declined[-1].why}); --catch-up all trains on them, too"
        )


def _trained_row(report: Mapping[str, Any]) -> list[object]:
    metrics = ", ".join(f"{name} {value:g}" for name, value in report.get("metrics", {}).items())
    return [{**report, "metrics": metrics}.get(column, "") for column in _TRAINED]
