"""``trainfeed train`` and ``jobs``: trainings on this machine or a cluster, and their jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from ruamel.yaml import YAML

from trainfeed.cli.arguments import readable_environment
from trainfeed.cli.command_groups import command
from trainfeed.cli.named_versions import Intervals, intervals_asked, is_range, open_asked
from trainfeed.cli.printing import (
    DamagedEntries,
    Part,
    Result,
    Table,
    error_console,
    printable_lines,
    table,
    with_dry_run,
    with_json,
    with_json_or_list,
)
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.core.config import Environment, environment_from_environ
from trainfeed.core.intervals import Interval
from trainfeed.errors import AccessDeniedError, ConfigError, WindowIncompleteError
from trainfeed.specification import (
    DatasetSpec,
    LauncherName,
    check_name,
    load_spec,
    train_contradictions,
)
from trainfeed.training.jobs import JobLook, JobState
from trainfeed.training.kept_jobs import KeptJob, find_job, job_homes, kept_job, told
from trainfeed.training.launch import render, train_missed
from trainfeed.training.launch import train as run_train
from trainfeed.training.tagged import tagged_training
from trainfeed.versions import DatasetFolder, TrainingMarks, require_writable_root
from trainfeed.versions.tag_files import Tag

# --- ``trainfeed jobs``: the jobs of trainings, on this machine and on clusters

jobs = typer.Typer(
    help="List trainings, read their logs, and cancel them.",
    epilog="Example: trainfeed jobs ls flights",
    no_args_is_help=True,
)
JobName = Annotated[str, typer.Argument(help="Name of a job, as 'jobs ls' and 'train' print it.")]

_COLUMNS: Final = ("job", "state", "launcher", "ranks", "attempt", "reason")
_RANKS: Final = ("rank", "state", "reason")


@command(jobs, "ls", "jobs ls flights")
@with_json
def list_jobs(
    name: Annotated[str | None, name_argument("The data set; by default all data sets.")] = None,
) -> Result:
    """List the jobs of a data set, or of all, with their states.

    Status 3 when one is damaged; the others are listed all the same.
    """
    env, damaged = readable_environment(), DamagedEntries()
    asked = None if name is None else check_name(Target.parse(name).of_whole_set())
    homes = job_homes(Path(env.root), asked)
    rows = [_listed(env, home, damaged) for home in homes]
    text = table(_COLUMNS, rows, "no training has been launched yet")
    return Result(rows, text, status=damaged.status)


@command(jobs, "show", "jobs show flights-2013-01-03-0123456789ab")
@with_json
def show(name: JobName) -> Result:
    """Show a job: versions, code, ranks and metrics."""
    env = readable_environment()
    job = find_job(Path(env.root), name)
    now, result = told(job, env.clusters), job.record.result()
    shown = {
        **_row(job, now),
        "identity": job.job.identity,
        "image": job.job.image,
        "image_proven": job.job.is_proven,
        "runs": job.job.entry or job.job.command,
        "versions": [f"{each.interval}/{each.generation}" for each in job.job.versions],
        "metrics": None if result is None else dict(result.metrics),
        "folder": str(job.record.home),
    }
    ranks = [{"rank": r.rank, "state": r.state.value, "reason": r.reason} for r in now.ranks]
    text: list[Part] = [Table.of_pairs(shown), *([Table(_RANKS, ranks)] if ranks else [])]
    return Result({**shown, "ranks_seen": ranks}, text)


@command(jobs, "logs", "jobs logs flights-2013-01-03-0123456789ab --rank 1")
def logs(
    name: JobName,
    *,
    rank: Annotated[int, typer.Option(min=0, help="Number of the rank.")] = 0,
    max_bytes: Annotated[
        int, typer.Option("--bytes", min=1, max=16 << 20, help="Bytes of the log's end.")
    ] = 64 << 10,
) -> None:
    """Print the end of a rank's log.

    Passwords and tokens in it are replaced.
    """
    env = readable_environment()
    found = find_job(Path(env.root), name).log(env.clusters, rank=rank, max_bytes=max_bytes)
    typer.echo(printable_lines(found))


@command(jobs, "cancel", "jobs cancel flights-2013-01-03-0123456789ab")
@with_json
def cancel(name: JobName) -> Result:
    """End a job on a cluster; one that has ended stays as it is."""
    env = environment_from_environ()
    require_writable_root(env)
    job = find_job(Path(env.root), name)
    now = job.cancel(env.clusters)
    delivered = job.deliver_cancellation(now, env)
    return Result(
        {
            "job": job.job.name,
            "state": now.state.value,
            "reason": now.reason,
            **({"tracking": delivered} if delivered else {}),
        }
    )


def _listed(env: Environment, home: Path, damaged: DamagedEntries) -> dict[str, Any]:
    row = {**dict.fromkeys(_COLUMNS), "job": home.name, "state": "damaged"}
    with damaged.named(f"job {home.name}", row):
        row |= _looked_at(env, home)
    return row


def _looked_at(env: Environment, home: Path) -> dict[str, Any]:
    try:
        job = kept_job(Path(env.root), home)
    except AccessDeniedError as error:
        return {"state": JobState.UNKNOWN.value, "reason": str(error)}
    return _row(job, told(job, env.clusters))


def _row(job: KeptJob, now: JobLook) -> dict[str, Any]:
    place = job.job.placement
    return {
        "job": job.job.name,
        "state": now.state.value,
        "launcher": "local" if place is None else place.launcher,
        "ranks": job.job.ranks,
        "attempt": job.job.attempt,
        "reason": now.reason,
    }


# --- Options of ``trainfeed train``: another launcher than that of dataset.yaml, and a dry run


def with_launcher(spec: DatasetSpec, kind: LauncherName | None) -> DatasetSpec:
    """Return the specification with another launcher.

    Raises:
        ConfigError: The data set has no training, or one that this launcher cannot run.
    """
    if kind is None:
        return spec
    if spec.train is None:
        raise ConfigError(f"data set {spec.name!r} has no training; add 'train' to dataset.yaml")
    train = spec.train.model_copy(update={"launcher": kind})
    for name, text in train_contradictions(train):
        raise ConfigError(f"--launcher {kind}: train{'.' if name else ''}{name}: {text}")
    return spec.model_copy(update={"train": train})


def rendered(
    spec: DatasetSpec, env: Environment, chosen: Sequence[Interval], tag: Tag | None = None
) -> Result:
    """Return the objects that launches would make, as YAML or as a JSON list; none are made."""
    found: list[Any] = [each for interval in chosen for each in render(spec, env, interval, tag)]
    plain, text = json.loads(json.dumps(found)), StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump_all(plain, text)
    return Result(plain, text.getvalue().removesuffix("\n"))


# --- ``trainfeed train``: trainings on this machine or on a cluster, without Airflow

_TRAINED: Final = ("interval", "verdict", "job", "metrics", "note")


class CatchUp(StrEnum):
    """Choices of untrained intervals."""

    MISSED = "missed"
    ALL = "all"


@with_json_or_list
@with_dry_run(
    "Only print what would be made, as YAML. A start model without TRANSFER.json on its store is"
    " downloaded all the same: the job's name depends on its files."
)
def train(  # noqa: PLR0913 - options of a command
    name: Annotated[str, name_argument("NAME/RANGE, or NAME@TAG as --tag TAG.")],
    asked: RangeWord = None,
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
    dry_run: bool = False,
    again: Annotated[
        str | None,
        typer.Option(
            help="Start a job on a cluster that has failed again, for this reason; each reason"
            " starts it once."
        ),
    ] = None,
) -> Result:
    """Train on a window of intervals, or on a tag.

    The window ends with the interval that is named; a finished job is used again.

    The intervals of a range are trained on in order, until one fails. Status 0: done; 1: failed;
    2: wrong usage or settings.
    """
    target = Target.parse(name, asked)
    if target.tag is not None and tag is not None:
        raise ConfigError(f"expected one tag, got @{target.tag} and --tag {tag}; leave one out")
    tag = target.tag if tag is None else tag
    if catch_up is not None:
        if launcher is not None or dry_run or again is not None or tag is not None:
            raise ConfigError(
                "expected no --launcher, --dry-run, --again or --tag beside --catch-up; leave it"
                " out"
            )
        return _caught_up(target, interval, older=catch_up is CatchUp.ALL)
    if tag is not None:
        return _train_tag(target, interval, tag, launcher, again, dry_run=dry_run)
    spec, env, asked = open_asked(target, interval, has_option=True)
    spec = with_launcher(spec, launcher)
    chosen = intervals_asked(spec, asked)
    if dry_run:
        return rendered(spec, env, chosen)
    # Each is shown when it has ended.
    reports = _trained(spec, env, chosen, again)
    is_list = is_range(chosen, asked)
    return Result(lambda: list(reports) if is_list else next(reports), map(Table.of_pairs, reports))


def _trained(
    spec: DatasetSpec, env: Environment, chosen: Sequence[Interval], again: str | None
) -> Iterator[dict[str, Any]]:
    for each in chosen:
        with error_console().status(f"{spec.name}/{each.name}: train"):
            report = run_train(spec, env, each, again=again)
        yield report


def _train_tag(
    target: Target,
    interval: str | None,
    text: str,
    launcher: LauncherName | None,
    again: str | None,
    *,
    dry_run: bool,
) -> Result:
    if interval is not None or target.asked is not None:
        raise ConfigError("expected --tag or an interval, got both; nothing was started")
    env = environment_from_environ()
    spec = with_launcher(load_spec(env.datasets / check_name(target.name)), launcher)
    tag, last = tagged_training(spec, DatasetFolder(Path(env.root), spec.name), text)
    if dry_run:
        return rendered(spec, env, [last], tag)
    with error_console().status(f"{spec.name}@{tag.name}: train"):
        return Result(run_train(spec, env, last, again=again, tag=tag))


def _caught_up(target: Target, interval: str | None, *, older: bool) -> Result:
    if interval is not None or target.asked is not None:
        raise ConfigError(
            "expected an interval or --catch-up, got both; leave one out: --catch-up finds the"
            " intervals itself"
        )
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(target.name))
    reports = []
    with error_console().status(f"{spec.name}: train") as status:
        for report in train_missed(spec, env, older=older):
            reports.append(report)
            status.update(f"{spec.name}: train, {len(reports)} intervals done")
    rows = [_trained_row(report) for report in reports]
    text = table(_TRAINED, rows, "no published interval waits for a training")
    return Result(reports, text, _about_untrained(spec, env, reports))


def _about_untrained(
    spec: DatasetSpec, env: Environment, reports: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield which versions stay untrained because their builds wanted no training.

    Raises:
        WindowIncompleteError: Intervals wait for others of their window.
    """
    declined = TrainingMarks(DatasetFolder(Path(env.root), spec.name)).declined()
    if declined:
        first, last = declined[0].version.interval, declined[-1].version.interval
        yield (
            f"{len(declined)} published intervals were declined, {first} to {last}"
            f" ({declined[-1].why}); --catch-up all trains on them, too"
        )
    if missing := [report["interval"] for report in reports if report["verdict"] == "incomplete"]:
        raise WindowIncompleteError(
            f"{len(missing)} intervals of {spec.name} wait for others of their window:"
            f" {', '.join(missing)}; they were not trained; build the intervals that their"
            " notes name, and run this command again"
        )


def _trained_row(report: Mapping[str, Any]) -> list[object]:
    metrics = ", ".join(f"{name} {value:g}" for name, value in report.get("metrics", {}).items())
    return [{**report, "metrics": metrics}.get(column, "") for column in _TRAINED]
