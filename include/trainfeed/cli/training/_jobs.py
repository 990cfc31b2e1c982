"""``trainfeed jobs``: the jobs of trainings, on this machine and on clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._damaged_entries import DamagedEntries
from trainfeed.cli._known_datasets import readable_environment
from trainfeed.cli._printing import (
    print_json,
    print_mapping,
    print_message,
    print_rows,
    printable_lines,
)
from trainfeed.config import Environment, environment_from_environ
from trainfeed.dataset import require_writable_root
from trainfeed.errors import AccessDeniedError
from trainfeed.jobs import JobLook, JobState
from trainfeed.specification import check_name
from trainfeed.training.kept_jobs import KeptJob, find_job, job_homes, kept_job, told

__all__ = ["app"]

app = typer.Typer(
    help="List the jobs of trainings, show one, read its logs, and cancel it.",
    epilog="Example: trainfeed jobs ls flights",
    no_args_is_help=True,
)
JobName = Annotated[str, typer.Argument(help="Name of a job, as 'jobs ls' and 'train' print it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_COLUMNS: Final = ("job", "state", "launcher", "ranks", "attempt", "reason")
_RANKS: Final = ("rank", "state", "reason")


@app.command("ls", epilog="Example: trainfeed jobs ls flights")
def list_jobs(
    name: Annotated[str | None, typer.Argument(help="A data set; all of them by default.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """List the jobs of a data set, or of all, with their states.

    Status 3 when one is damaged; the others are listed all the same.
    """
    env, damaged = readable_environment(), DamagedEntries()
    homes = job_homes(Path(env.root), None if name is None else check_name(name))
    rows = [_listed(env, home, damaged) for home in homes]
    if as_json:
        print_json(rows)
    elif rows:
        print_rows(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])
    else:
        print_message("no training has been launched yet")
    damaged.end()


@app.command("show", epilog="Example: trainfeed jobs show flights-2013-01-03-0123456789ab")
def show(name: JobName, *, as_json: Json = False) -> None:
    """Show a job: its versions, code and image, state of each rank, and metrics."""
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
    if as_json:
        print_json({**shown, "ranks_seen": ranks})
        return
    print_mapping(shown)
    if ranks:
        print_rows(_RANKS, [[rank[column] for column in _RANKS] for rank in ranks])


@app.command("logs", epilog="Example: trainfeed jobs logs flights-2013-01-03-0123456789ab --rank 1")
def logs(
    name: JobName,
    *,
    rank: Annotated[int, typer.Option(min=0, help="Number of the rank.")] = 0,
    max_bytes: Annotated[
        int, typer.Option("--bytes", min=1, max=16 << 20, help="Bytes of the log's end.")
    ] = 64 << 10,
) -> None:
    """Print the end of a rank's log; passwords and tokens are replaced."""
    env = readable_environment()
    found = find_job(Path(env.root), name).log(env.clusters, rank=rank, max_bytes=max_bytes)
    typer.echo(printable_lines(found))


@app.command("cancel", epilog="Example: trainfeed jobs cancel flights-2013-01-03-0123456789ab")
def cancel(name: JobName, *, as_json: Json = False) -> None:
    """End a job on a cluster; one that has ended stays as it is."""
    env = environment_from_environ()
    require_writable_root(env)
    job = find_job(Path(env.root), name)
    now = job.cancel(env.clusters)
    delivered = job.deliver_cancellation(now, env)
    report = {
        "job": job.job.name,
        "state": now.state.value,
        "reason": now.reason,
        **({"tracking": delivered} if delivered else {}),
    }
    print_json(report) if as_json else print_mapping(report)


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
