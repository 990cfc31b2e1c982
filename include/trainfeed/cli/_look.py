"""``trainfeed ls``, ``show`` and ``verify``: published versions, and whether they are intact."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._look_target import (
    LookTarget,
    complete_target,
    known_folder,
    parse_target,
    readable_environment,
    specified,
)
from trainfeed.cli._printing import (
    print_json,
    print_mapping,
    print_message,
    print_rows,
    printable_lines,
    program,
)
from trainfeed.cli.file import progress
from trainfeed.config import Environment
from trainfeed.dataset import Coverage, DatasetFolder, Version, published_in
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import AccessDeniedError, FormatError, NotFoundError, StorageError
from trainfeed.intervals import parse_range

__all__ = ["ls", "show", "verify"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_DATASET_COLUMNS: Final[tuple[str, ...]] = ("dataset", "intervals", "newest", "state")
_CLOSED: Final = "closed to this account"
_COLUMNS = ("interval", "generation", "samples", "quarantined", "filtered", "bytes", "content")


def ls(
    name: Annotated[
        str | None,
        typer.Argument(help="A data set; by default all of them.", autocompletion=complete_target),
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """List data sets, or the published intervals of one."""
    env = readable_environment()
    columns = _DATASET_COLUMNS if name is None else _COLUMNS
    if name is None:
        rows = _datasets(env)
    else:
        rows = [_row(version) for version in _versions(known_folder(name))]
    if as_json:
        print_json(rows)
    else:
        print_rows(columns, [[row[column] for column in columns] for row in rows])
    if name is not None and not rows:
        hint = f"build one: {program()} build {name} --interval I"
        print_message(f"{name} has no published version yet; {hint}")


def show(
    target: Annotated[
        str,
        typer.Argument(
            help="NAME or NAME/RANGE for a list; NAME/INTERVAL, …/gNNNN for one.",
            autocompletion=complete_target,
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Show the manifest of one version, or list the versions of a data set or range."""
    found = parse_target(target)
    if found.asked is None:
        ls(found.folder.name, as_json=as_json)
    elif found.is_range():
        _show_range(found.coverage(), as_json=as_json)
    else:
        _show_one(found.one(), as_json=as_json)


def _show_one(version: Version, *, as_json: bool) -> None:
    manifest = version.manifest.to_json()
    if as_json:
        print_json(manifest)
        return
    names = ("fingerprint", "content_digest", "interval", "filtered", "quarantine", "late", "gates")
    print_mapping({"version": version.name, "path": version.path, **_row(version)})
    print_mapping({name: manifest[name] for name in (*names, *_optional(manifest))})


def _optional(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in ("empty_because",) if name in manifest)


def _show_range(found: Coverage, *, as_json: bool) -> None:
    if not found.versions:
        found.require("fail")
    rows = [_row(version) for version in found.versions]
    if as_json:
        print_json(rows)
    else:
        print_rows(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])
    _tell_gaps(found)


def _tell_gaps(found: Coverage) -> None:
    """Print the skipped intervals of a range; missing ones end the command with status 1."""
    for skip in found.skipped:
        print_message(f"{skip.interval} was decided to be left out on {skip.at}: {skip.why}")
    found.require("fail")


def verify(
    target: Annotated[
        str,
        typer.Argument(
            help="NAME for all its versions, NAME/RANGE, NAME/INTERVAL/gNNNN.",
            autocompletion=complete_target,
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Compare every file of a version, or of all, with its manifest.

    Status 3 when one differs, 1 when one cannot be read or is missing in a range.
    """
    found = parse_target(target)
    checked = _all_checked(_places(found))
    if as_json:
        print_json(checked if found.is_range() else checked[0])
    else:
        for report in checked:
            unreadable = [f"could not be read: {reason}" for reason in report["unreadable"]]
            problems = "\n".join([*report["problems"], *unreadable])
            typer.echo(printable_lines(problems or f"{report['target']} is intact"))
    _end_of_verify(checked)
    if found.asked is not None and found.generation is None:
        _tell_gaps(found.coverage())


def _end_of_verify(checked: list[dict[str, Any]]) -> None:
    if damaged := [report["target"] for report in checked if report["problems"]]:
        name, interval, *_ = damaged[0].split("/")
        remedy = f"{program()} build {name} --interval {interval} --rebuild WHY"
        print_message(f"build it again: {remedy}")
        raise typer.Exit(3)
    if any(report["unreadable"] for report in checked):
        print_message("what could be read is intact; ask as the account that builds, or again")
        raise typer.Exit(1)


def _places(target: LookTarget) -> list[tuple[str, Path]]:
    """Return the versions of a target, each with its name and folder."""
    folder, asked = target.folder, target.asked
    if asked is not None and not target.is_range():
        number = target.generation or folder.require_generation(asked)
        suffix = f"/{generation_name(number)}" if target.generation else ""
        return [(f"{folder.name}/{asked}{suffix}", folder.version(asked, number))]
    if asked is None:
        found = [(name, n) for name in folder.intervals() for n in folder.generations(name)]
    else:
        found = list(published_in(folder, parse_range(asked)).items())
        if not found:
            target.coverage().require("fail")
    if not found:
        raise NotFoundError(
            f"data set {folder.name!r} has no published version in {folder.path}; build one:"
            f" trainfeed build {folder.name} --interval I"
        )
    return [
        (f"{folder.name}/{name}/{generation_name(number)}", folder.version(name, number))
        for name, number in found
    ]


def _all_checked(places: list[tuple[str, Path]]) -> list[dict[str, Any]]:
    checked = []
    with progress("verifying") as tell:
        for number, (name, place) in enumerate(places):
            tell(len(places), number)
            checked.append(_checked(name, place))
    return checked


def _checked(target: str, path: Path) -> dict[str, Any]:
    found: list[FormatError | StorageError] = []
    try:
        found += Version.open(path).problems()
    except NotFoundError:
        raise
    except (FormatError, StorageError) as error:
        found.append(error)
    return {
        "target": target,
        "problems": [str(each) for each in found if isinstance(each, FormatError)],
        "unreadable": [str(each) for each in found if isinstance(each, StorageError)],
    }


def _datasets(env: Environment) -> list[dict[str, Any]]:
    """Return every data set that has a specification, a version, or both."""
    known, published = specified(env), data_sets_of(Path(env.root))
    rows = []
    for name in sorted({*known, *published}):
        row: dict[str, Any] = {"dataset": name, "intervals": "", "newest": "", "state": _CLOSED}
        with suppress(AccessDeniedError):
            intervals = _intervals(DatasetFolder(Path(env.root), name))
            row["intervals"] = len(intervals)
            row["newest"] = intervals[-1] if intervals else ""
            row["state"] = _state(name in known, bool(intervals))
        rows.append(row)
    return rows


def _intervals(folder: DatasetFolder) -> list[str]:
    return [name for name in folder.intervals() if folder.readable_generation(name)]


def _state(is_specified: bool, is_built: bool) -> str:
    state = "published" if is_built else "not built yet"
    return state if is_specified else f"{state}, without a specification here"


def _versions(folder: DatasetFolder) -> list[Version]:
    return [Version.resolve(folder, name) for name in _intervals(folder)]


def _row(version: Version) -> dict[str, Any]:
    manifest = version.manifest
    return {
        "interval": version.path.parent.name,
        "generation": version.path.name,
        "samples": manifest.num_samples(),
        "quarantined": manifest.quarantine["records"],
        "filtered": sum(manifest.filtered.values()),
        "bytes": sum(num_bytes for num_bytes, _ in manifest.file_digests().values()),
        "content": manifest.content_digest[:12],
    }
