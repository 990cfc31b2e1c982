"""``trainfeed pfs ls``, ``find``, ``stat`` and ``du``: what lies on shared storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, TypeAlias

import typer

from trainfeed.cli._printing import print_json, print_rows, printable_lines
from trainfeed.cli.pfs._each_place import Failures, for_each_place
from trainfeed.cli.pfs._pfs_options import AsJson, Paths, entry_row
from trainfeed.errors import TrainFeedError
from trainfeed.pfs.copy_plan import Place
from trainfeed.pfs.tree import Entry, Kind, is_unfinished_name

__all__ = ["du", "find", "ls", "stat"]

_COLUMNS: Final = ("path", "kind", "bytes", "modified")
_HOME: Final = "pfs://home"

Rows: TypeAlias = list[dict[str, Any]]
OptionalPaths = Annotated[
    list[str] | None,
    typer.Argument(help="Paths or patterns; by default pfs://home.", show_default=False),
]


def ls(
    paths: OptionalPaths = None,
    *,
    all_names: Annotated[
        bool, typer.Option("--all", "-a", help="Show names that begin with a dot, too.")
    ] = False,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Show what is in folders, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List files, and what is in folders."""

    def rows(place: Place, failures: Failures) -> Iterator[dict[str, Any]]:
        entry = place.tree.stat(place.parts)
        if entry.kind is not Kind.FOLDER:
            yield entry_row(place.shown, entry)
            return
        for below, each in _walk(place, failures) if recursive else _entries(place):
            if all_names or not _is_hidden(place, below):
                yield entry_row(below.shown, each)

    _print(_collected(paths or [_HOME], rows), as_json=as_json)


def find(
    paths: OptionalPaths = None,
    *,
    name: Annotated[str | None, typer.Option(help="Pattern of the last name.")] = None,
    kind: Annotated[str | None, typer.Option("--type", help="f: files, d: folders.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the paths of everything below folders, one in a line."""
    kinds = {None: None, "f": Kind.FILE, "d": Kind.FOLDER}
    if kind not in kinds:
        raise typer.BadParameter(f"expected f or d for --type, got {kind!r}")

    def rows(place: Place, failures: Failures) -> Iterator[dict[str, Any]]:
        entry = place.tree.stat(place.parts)
        for below, each in _with_below(place, entry, failures):
            has_name = name is None or fnmatchcase(below.parts[-1] if below.parts else "", name)
            if has_name and kinds[kind] in (None, each.kind) and not _is_unfinished(below):
                yield entry_row(below.shown, each)

    found, failures = _collected(paths or [_HOME], rows)
    if as_json:
        print_json(found)
    else:
        for row in found:
            typer.echo(printable_lines(row["path"]))
    if failures:
        raise typer.Exit(1)


def stat(
    paths: Paths,
    *,
    digest: Annotated[
        bool, typer.Option("--digest", help="Read each file, and show SHA-256 of its chunks.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show kind, size and time of files and folders."""

    def rows(place: Place, _: Failures) -> Iterator[dict[str, Any]]:
        entry = place.tree.stat(place.parts)
        row = entry_row(place.shown, entry)
        if digest and entry.kind is Kind.FILE:
            row["sha256_of_chunks"] = place.tree.digests(place.parts).sha256_of_chunks
        yield row

    _print(_collected(paths, rows), as_json=as_json)


def du(paths: OptionalPaths = None, *, as_json: AsJson = False) -> None:
    """Sum sizes of files below folders, and of unfinished copies among them."""

    def rows(place: Place, failures: Failures) -> Iterator[dict[str, Any]]:
        entry = place.tree.stat(place.parts)
        found = list(_with_below(place, entry, failures))
        files = [(below, each) for below, each in found if each.kind is Kind.FILE]
        unfinished = [each for below, each in files if _is_unfinished(below)]
        yield {
            "path": place.shown,
            "bytes": sum(each.num_bytes for _, each in files),
            "files": len(files),
            "folders": sum(each.kind is Kind.FOLDER for _, each in found),
            "unfinished bytes": sum(each.num_bytes for each in unfinished),
        }

    _print(_collected(paths or [_HOME], rows), as_json=as_json)


def _collected(
    paths: Sequence[str], rows: Callable[[Place, Failures], Iterator[dict[str, Any]]]
) -> tuple[Rows, int]:
    """Return the rows of all paths, and the number of failures, each with a line of its own."""
    found: Rows = []
    count = for_each_place(paths, lambda place, failures: found.extend(rows(place, failures)))
    return found, count


def _print(collected: tuple[Rows, int], *, as_json: bool) -> None:
    found, failures = collected
    if as_json:
        print_json(found)
    else:
        columns = tuple(dict.fromkeys(key for row in found for key in row)) or _COLUMNS
        print_rows(columns, [[row.get(column, "") for column in columns] for row in found])
    if failures:
        raise typer.Exit(1)


def _entries(place: Place) -> Iterator[tuple[Place, Entry]]:
    for entry in place.tree.entries(place.parts):
        yield place.joined(entry.name), entry


def _walk(place: Place, failures: Failures) -> Iterator[tuple[Place, Entry]]:
    """Yield everything below a folder; note folders that cannot be listed."""
    try:
        entries = list(_entries(place))
    except TrainFeedError as error:
        failures.add(error)
        return
    for below, entry in entries:
        yield below, entry
        if entry.kind is Kind.FOLDER:
            yield from _walk(below, failures)


def _with_below(place: Place, entry: Entry, failures: Failures) -> Iterator[tuple[Place, Entry]]:
    yield place, entry
    if entry.kind is Kind.FOLDER:
        yield from _walk(place, failures)


def _is_hidden(above: Place, place: Place) -> bool:
    return any(name.startswith(".") for name in place.parts[len(above.parts) :])


def _is_unfinished(place: Place) -> bool:
    return any(map(is_unfinished_name, place.parts))
