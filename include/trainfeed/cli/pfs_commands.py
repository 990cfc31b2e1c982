"""``trainfeed pfs``: looks at shared storage, changes of names, comparisons and copies."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import wraps
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from trainfeed.cli.printing import Message, Result, Table, error_console, print_message, with_json
from trainfeed.core.datacenters import is_shared
from trainfeed.errors import ConfigError, NotFoundError, TrainFeedError
from trainfeed.files import ShardName, manifest_name
from trainfeed.serving.pfs.compare import compare_places, compare_with_list
from trainfeed.serving.pfs.copy import ABANDONED_S, copy_places, may_be_removed
from trainfeed.serving.pfs.copy_plan import (
    CopyOptions,
    FileOutcome,
    Place,
    RateLimit,
    expanded,
    is_there,
)
from trainfeed.serving.pfs.places import Places
from trainfeed.serving.pfs.tree import Entry, Kind, is_unfinished_name
from trainfeed.versions.manifest import Manifest

# --- Arguments that the commands on shared storage share, and the values behind them

Paths = Annotated[
    list[str],
    typer.Argument(help="Paths or patterns, pfs://home/… or pfs://public/….", show_default=False),
]

_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_RATE: Final = re.compile(r"([0-9]{1,12})(B|KiB|MiB|GiB)?")


def bytes_per_second(text: str | None) -> int | None:
    """Return the bytes in a second that ``10MiB`` stands for; None stays None.

    Raises:
        ConfigError: The text is no number of bytes above 0.
    """
    if text is None:
        return None
    found = _RATE.fullmatch(text)
    rate = int(found[1]) * _UNITS[found[2] or ""] if found else 0
    if rate < 1:
        raise ConfigError(f"expected bytes in a second, such as 10MiB, got {text!r}")
    return rate


def entry_row(path: str, entry: Entry) -> dict[str, object]:
    """Return what tables and JSON show of an entry."""
    modified = datetime.fromtimestamp(entry.modified_ns // 10**9, UTC)
    return {
        "path": path,
        "kind": str(entry.kind),
        "bytes": entry.num_bytes,
        "modified": modified.isoformat(timespec="seconds"),
    }


def tell_failure(error: TrainFeedError) -> None:
    """Print one line about one file that failed; the others go on."""
    print_message(f"{type(error).__name__}: {error}")


# --- One action for each place that a command names; a place that fails does not stop the others


@dataclass
class Failures:
    """What failed in a command so far.

    Attributes:
        count: Number of failures, each of which has a line of its own.
    """

    count: int = 0

    def add(self, error: TrainFeedError) -> None:
        """Print a failure, and count it."""
        tell_failure(error)
        self.count += 1


def for_each_place(paths: Sequence[str], act: Callable[[Place, Failures], None]) -> int:
    """Call ``act`` for each place that paths and patterns name; return the number of failures.

    Raises:
        ConfigError: A path is not one of shared storage; nothing was done.
    """
    failures = Failures()
    with Places() as places:
        for place in [places.shared(path) for path in paths]:
            for each in _expanded(place, failures):
                try:
                    act(each, failures)
                except TrainFeedError as error:
                    failures.add(error)
    return failures.count


def _expanded(place: Place, failures: Failures) -> Iterator[Place]:
    try:
        yield from expanded(place)
    except TrainFeedError as error:
        failures.add(error)


# --- ``trainfeed pfs ls``, ``find``, ``stat`` and ``du``: what lies on shared storage

_COLUMNS: Final = ("path", "kind", "bytes", "modified")
_HOME: Final = "pfs://home"

Rows: TypeAlias = list[dict[str, Any]]
OptionalPaths = Annotated[
    list[str] | None,
    typer.Argument(help="Paths or patterns; by default pfs://home.", show_default=False),
]


@with_json
def ls(
    paths: OptionalPaths = None,
    *,
    all_names: Annotated[
        bool, typer.Option("--all", "-a", help="Show names that begin with a dot, too.")
    ] = False,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Show what is in folders, too.")
    ] = False,
) -> Result:
    """List files, and what is in folders."""

    def rows(place: Place, failures: Failures) -> Iterator[dict[str, Any]]:
        entry = place.tree.stat(place.parts)
        if entry.kind is not Kind.FOLDER:
            yield entry_row(place.shown, entry)
            return
        for below, each in _walk(place, failures) if recursive else _entries(place):
            if all_names or not _is_hidden(place, below):
                yield entry_row(below.shown, each)

    return _rows_result(*_collected(paths or [_HOME], rows))


@with_json
def find(
    paths: OptionalPaths = None,
    *,
    name: Annotated[str | None, typer.Option(help="Pattern of the last name.")] = None,
    kind: Annotated[str | None, typer.Option("--type", help="f: files, d: folders.")] = None,
) -> Result:
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
    paths_found = (row["path"] for row in found)
    return Result(found, paths_found, status=Result.FAILED if failures else 0)


@with_json
def stat(
    paths: Paths,
    *,
    digest: Annotated[
        bool, typer.Option("--digest", help="Read each file, and show SHA-256 of its chunks.")
    ] = False,
) -> Result:
    """Show kind, size and time of files and folders."""

    def rows(place: Place, _: Failures) -> Iterator[dict[str, Any]]:
        entry = place.tree.stat(place.parts)
        row = entry_row(place.shown, entry)
        if digest and entry.kind is Kind.FILE:
            row["sha256_of_chunks"] = place.tree.digests(place.parts).sha256_of_chunks
        yield row

    return _rows_result(*_collected(paths, rows))


@with_json
def du(paths: OptionalPaths = None) -> Result:
    """Sum up the sizes of files below folders.

    And of the unfinished copies among them.
    """

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

    return _rows_result(*_collected(paths or [_HOME], rows))


def _collected(
    paths: Sequence[str], rows: Callable[[Place, Failures], Iterator[dict[str, Any]]]
) -> tuple[Rows, int]:
    """Return the rows of all paths, and the number of failures, each with a line of its own."""
    found: Rows = []
    count = for_each_place(paths, lambda place, failures: found.extend(rows(place, failures)))
    return found, count


def _rows_result(found: Rows, failures: int) -> Result:
    columns = tuple(dict.fromkeys(key for row in found for key in row)) or _COLUMNS
    shown = Table(columns, [[row.get(column, "") for column in columns] for row in found])
    return Result(found, shown, status=Result.FAILED if failures else 0)


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


# --- ``trainfeed pfs rm``, ``mkdir`` and ``mv``: changes of names on shared storage

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
    """Make folders, and missing folders above them.

    A folder that is there is kept.
    """
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


# --- ``trainfeed pfs verify``: compares contents on shared storage


@with_json
def verify(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH [OTHER]",
            help="Two files or folders; or one folder with TRANSFER.json or MANIFEST.sha256.",
            show_default=False,
        ),
    ],
) -> Result:
    """Compare two contents, or a folder with its digests.

    The list of digests lies in the folder. Status 3 when they differ.
    """
    if len(paths) > 2:
        raise ConfigError(f"expected one or two paths, got {len(paths)}; nothing was compared")
    with Places() as places, error_console().status("reading"):
        found = [places.place(path) for path in paths]
        if len(found) == 2:
            result = compare_places(*found)
        else:
            result = compare_with_list(*found, version_files=_files)
    what = f"{len(result.differences)} differences" if result.differences else "equal"
    text = [
        *(Message(f"{each.name or paths[0]}: {each.what}") for each in result.differences),
        f"compared {result.files} files, {result.num_bytes} bytes: {what}",
    ]
    status = Result.DAMAGED if result.differences else 0
    return Result(result.to_json(), text, status=status)


def _files(data: bytes) -> dict[str, tuple[int, str]]:
    return Manifest.from_bytes(data).file_digests()


# --- ``trainfeed pfs cp``: copies to, from and within shared storage


@with_json
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
) -> Result:
    """Copy files and folders, each completely or not at all."""
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
    return _copied(found)


def _run(sources: list[Place], target: Place, options: CopyOptions) -> list[FileOutcome]:
    found = []
    # Closed also after a signal, so that all threads end before the process does.
    with closing(copy_places(sources, target, options)) as outcomes:
        for outcome in outcomes:
            if outcome.error is not None:
                tell_failure(outcome.error)
            found.append(outcome)
    return found


def _copied(found: list[FileOutcome]) -> Result:
    verdicts = Counter(outcome.verdict for outcome in found)
    sent = sum(outcome.sent_bytes for outcome in found)
    counts = {verdict: verdicts[verdict] for verdict in ("copied", "equal", "failed")}
    equal = f", {verdicts['equal']} were there already" if verdicts["equal"] else ""
    failed = f", {verdicts['failed']} failed" if verdicts["failed"] else ""
    return Result(
        {**counts, "sent_bytes": sent, "files": [outcome.to_json() for outcome in found]},
        f"copied {verdicts['copied']} files, sent {sent} bytes{equal}{failed}",
        status=Result.FAILED if failed else 0,
    )


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


# --- ``trainfeed paddle cp``: ``trainfeed pfs cp`` that copies sets of shards with their manifests


# The arguments and options are those of ``copy``.
@wraps(copy, assigned=("__annotations__",))
def copy_with_manifests(paths: list[str], **options: Any) -> None:
    """Copy files and folders, and manifests of whole sets.

    A whole set of shards is copied with the manifest beside it.
    """
    manifests = _missing_manifests(paths[:-1])
    for each in manifests:
        print_message(f"{each} is copied too: it says what the records of these files are")
    copy(paths=[*paths[:-1], *manifests, *paths[-1:]], **options)


def _missing_manifests(sources: list[str]) -> list[str]:
    """Return the manifests of whole sets among the sources that are not sources themselves."""
    with Places() as places:
        found = {each.address: each for text in sources for each in _expanded_sources(places, text)}
        wanted = (each for each in _manifests(found.values()) if each.address not in found)
        return [each.shown for each in wanted if is_there(each)]


def _expanded_sources(places: Places, text: str) -> list[Place]:
    try:
        return expanded(places.place(text))
    except NotFoundError:
        return []  # the copy names the source that is not there


def _manifests(files: Iterable[Place]) -> Iterator[Place]:
    numbers: defaultdict[tuple[str, ShardName], set[int]] = defaultdict(set)
    folders: dict[tuple[str, ShardName], Place] = {}
    for place in files:
        name = ShardName.parse(place.parts[-1]) if place.parts else None
        if name is not None:
            above = Place(place.tree, place.parts[:-1])
            one_set = (above.address, name._replace(number=0))
            numbers[one_set].add(name.number)
            folders[one_set] = above
    for one_set, above in folders.items():
        # A part of a set stays without a manifest, which would call the other shards missing.
        if len(numbers[one_set]) == one_set[1].num_shards:
            yield above.joined(manifest_name(one_set[1].prefix))
