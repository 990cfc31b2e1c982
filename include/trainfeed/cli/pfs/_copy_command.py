"""``trainfeed pfs cp``: copies to, from and within shared storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from trainfeed.cli._printing import error_console, print_json
from trainfeed.cli.pfs._pfs_options import AsJson, bytes_per_second, tell_failure
from trainfeed.datacenters import is_shared
from trainfeed.errors import ConfigError
from trainfeed.pfs.copy import copy_places
from trainfeed.pfs.copy_plan import CopyOptions, FileOutcome, Place, RateLimit
from trainfeed.pfs.places import Places

__all__ = ["copy"]


def copy(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE... TARGET",
            help="Files, folders or patterns, then a folder or a new name; pfs://… or local.",
            show_default=False,
        ),
    ],
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Copy folders with all that is in them.")
    ] = False,
    no_clobber: Annotated[
        bool, typer.Option("--no-clobber", "-n", help="Never replace a file with other bytes.")
    ] = False,
    limit_rate: Annotated[
        str | None, typer.Option(help="Most bytes sent in a second, such as 10MiB.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, max=64, help="Threads that read, compare and send.")
    ] = 4,
    as_json: AsJson = False,
) -> None:
    """Copy files and folders; each is complete under its name, or absent."""
    if len(paths) < 2:
        raise ConfigError(f"expected one or several sources and a target, got {paths}")
    with Places() as places:
        sources = [places.place(text) for text in paths[:-1]]
        target = places.place(paths[-1])
        _require_shared(paths)
        rate = RateLimit(bytes_per_second(limit_rate))
        with _progress() as tell:
            options = CopyOptions(
                replace=not no_clobber,
                is_recursive=recursive,
                threads=threads,
                rate=rate,
                tell=tell,
            )
            found = _run(sources, target, options)
    _report(found, as_json=as_json)


def _run(sources: list[Place], target: Place, options: CopyOptions) -> list[FileOutcome]:
    found = []
    # Closed also after a signal, so that all threads end before the process does.
    with closing(copy_places(sources, target, options)) as outcomes:
        for outcome in outcomes:
            if outcome.error is not None:
                tell_failure(outcome.error)
            found.append(outcome)
    return found


def _report(found: list[FileOutcome], *, as_json: bool) -> None:
    verdicts = Counter(outcome.verdict for outcome in found)
    sent = sum(outcome.sent_bytes for outcome in found)
    if as_json:
        files: list[dict[str, Any]] = [outcome.to_json() for outcome in found]
        counts = {verdict: verdicts[verdict] for verdict in ("copied", "equal", "failed")}
        print_json({**counts, "sent_bytes": sent, "files": files})
    else:
        equal = f", {verdicts['equal']} were there already" if verdicts["equal"] else ""
        failed = f", {verdicts['failed']} failed" if verdicts["failed"] else ""
        typer.echo(f"copied {verdicts['copied']} files, sent {sent} bytes{equal}{failed}")
    if verdicts["failed"]:
        raise typer.Exit(1)


def _require_shared(paths: list[str]) -> None:
    if not any(is_shared(path) or path.startswith("/pfs/") for path in paths):
        raise ConfigError(
            "expected a path of shared storage, pfs://home/… or pfs://public/…, among sources and"
            " target, got none; nothing was copied; within this machine use cp"
        )


@contextmanager
def _progress() -> Iterator[Any]:
    """Show the bytes done and the rate on a terminal, and nothing in a pipe."""
    console = error_console()
    columns = (TextColumn("copying"), BarColumn(), DownloadColumn(True), TransferSpeedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("copying", total=None)
        yield lambda num_bytes: bar.advance(task, num_bytes)
