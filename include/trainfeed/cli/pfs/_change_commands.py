"""``trainfeed pfs rm``, ``mkdir`` and ``mv``: changes of names on shared storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from trainfeed.cli.pfs._each_place import Failures, for_each_place
from trainfeed.cli.pfs._pfs_options import Paths, tell_failure
from trainfeed.errors import ConfigError, NotFoundError, TrainFeedError
from trainfeed.pfs.copy import ABANDONED_S, may_be_removed
from trainfeed.pfs.copy_plan import Place
from trainfeed.pfs.places import Places
from trainfeed.pfs.tree import Kind, is_unfinished_name

__all__ = ["mkdir", "mv", "rm"]

_HOUR_S: Final = 3600.0


def rm(
    paths: Paths,
    *,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Remove folders with all that is in them.")
    ] = False,
    unfinished: Annotated[
        bool,
        typer.Option("--unfinished", help="Remove what dead copies have left below the paths."),
    ] = False,
    older_than: Annotated[
        int, typer.Option(min=1, help="With --unfinished: least age in hours.")
    ] = round(ABANDONED_S / _HOUR_S),
) -> None:
    """Remove files, links and folders; links are never followed."""
    removed: list[str] = []

    def remove(place: Place, failures: Failures) -> None:
        if unfinished:
            for each in _unfinished(place, older_than * _HOUR_S, failures):
                each.tree.remove(each.parts, recursive=True)
                removed.append(each.shown)
        else:
            place.tree.remove(place.parts, recursive=recursive)
            removed.append(place.shown)

    failures = for_each_place(paths, remove)
    typer.echo(
        f"removed {len(removed)} {'unfinished copies' if unfinished else 'files or folders'}"
    )
    if failures:
        raise typer.Exit(1)


def mkdir(paths: Paths) -> None:
    """Make folders and missing folders above them; a folder that is there is kept."""
    with Places() as places:
        failures = 0
        for place in [places.shared(path) for path in paths]:
            try:
                place.tree.make_folder(place.parts, parents=True)
                place.tree.sync_names(place.parts)
            except TrainFeedError as error:
                tell_failure(error)
                failures += 1
    if failures:
        raise typer.Exit(1)


def mv(
    source: Annotated[str, typer.Argument(help="A file or folder, pfs://home/….")],
    target: Annotated[str, typer.Argument(help="Its new name, or a folder that gets it.")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a file that has the new name.")
    ] = False,
) -> None:
    """Rename a file or folder within one area, in one step."""
    with Places() as places:
        old, new = places.shared(source), places.shared(target)
        if old.tree is not new.tree:
            raise ConfigError(
                f"expected two paths of one area, got {old.shown} and {new.shown}; nothing was"
                " renamed; copy it with trainfeed pfs cp, then remove it"
            )
        is_folder = _is_folder(new)
        if new.is_folder and not is_folder and not _is_folder(old):
            raise NotFoundError(f"{new.shown}/: expected a folder, got none; make the folder first")
        if is_folder and old.parts:
            new = new.joined(old.parts[-1])
        old.tree.rename(old.parts, new.parts, replace=replace)


def _unfinished(place: Place, older_than_s: float, failures: Failures) -> Iterator[Place]:
    """Yield what dead copies have left below a folder; note folders that cannot be listed."""
    try:
        entries = place.tree.entries(place.parts)
    except TrainFeedError as error:
        failures.add(error)
        return
    for entry in entries:
        below = place.joined(entry.name)
        if is_unfinished_name(entry.name):
            if may_be_removed(entry, older_than_s=older_than_s):
                yield below
        elif entry.kind is Kind.FOLDER:
            yield from _unfinished(below, older_than_s, failures)


def _is_folder(place: Place) -> bool:
    try:
        return place.tree.stat(place.parts).kind is Kind.FOLDER
    except NotFoundError:
        return False
