"""``trainfeed ls`` and ``show``: the published versions; nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trainfeed.cli.arguments import (
    complete_target,
    known_folder,
    readable_environment,
    specified,
    tell_newer_withdrawals,
)
from trainfeed.cli.printing import (
    DamagedEntries,
    print_json,
    print_mapping,
    print_message,
    print_rows,
    program,
)
from trainfeed.core.config import Environment
from trainfeed.errors import AccessDeniedError
from trainfeed.versions import DatasetFolder
from trainfeed.versions.root import data_sets_of

if TYPE_CHECKING:
    from trainfeed.versions import Coverage, Version


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_DATASET_COLUMNS: Final[tuple[str, ...]] = ("dataset", "intervals", "newest", "state")
_OPTIONAL: Final = (
    "waivers",
    "empty_because",
    "passed_over",
    "uploads",
    "references",
    "schema_changes",
    "shard_skew",
)
_CLOSED: Final = "closed to this account"
_COLUMNS = ("interval", "generation", "samples", "quarantined", "filtered", "bytes", "content")


def ls(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A data set, or NAME@TAG; by default all data sets.",
            autocompletion=complete_target,
        ),
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """List data sets, or the published intervals of one.

    Status 3 when a version is damaged; the others are listed all the same.
    """
    env, damaged = readable_environment(), DamagedEntries()
    columns = _DATASET_COLUMNS if name is None else _COLUMNS
    if name is not None and "@" in name:
        show(name, as_json=as_json)
        return
    folder = None if name is None else known_folder(name)
    rows = _datasets(env) if folder is None else _versions(folder, damaged)
    if as_json:
        print_json(rows)
    else:
        print_rows(columns, [[row[column] for column in columns] for row in rows])
    for told in () if name is None else _retired(name):
        print_message(told)
    if name is not None and not rows:
        hint = f"build one: {program()} build {name} --interval I"
        print_message(f"{name} has no published version yet; {hint}")
    if folder is not None:
        tell_newer_withdrawals(folder, folder.intervals())
    damaged.end()


def show(
    target: Annotated[
        str,
        typer.Argument(
            help="NAME, NAME@TAG or NAME/RANGE for a list; NAME/INTERVAL, …/gNNNN for one.",
            autocompletion=complete_target,
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Show the manifest of one version, or list the versions of a data set or range."""
    # As below: the list of data sets opens no version, and does not wait for Arrow.
    from trainfeed.cli.named_versions import parse_target

    found = parse_target(target)
    if found.asked is None and found.tag is None:
        ls(found.folder.name, as_json=as_json)
    elif found.is_range():
        _show_range(found.coverage(), as_json=as_json)
    else:
        version = found.one()
        _show_one(version, as_json=as_json)
        if found.generation is None and found.tag is None:
            tell_newer_withdrawals(found.folder, [version.path.parent.name])


def _show_one(version: Version, *, as_json: bool) -> None:
    # The lists do without the specification, from which the words of gates are.
    from trainfeed.cli.named_versions import GATE_COLUMNS, gate_rows

    manifest = version.manifest.to_json()
    if as_json:
        print_json(manifest)
        return
    names = ("fingerprint", "content_digest", "interval", "filtered", "quarantine", "late")
    print_mapping({"version": version.name, "path": version.path, **_row(version)})
    print_mapping({name: manifest[name] for name in (*names, *_optional(manifest))})
    if manifest["gates"]:
        rows = gate_rows(manifest["gates"])
        print_rows(GATE_COLUMNS, [[row[column] for column in GATE_COLUMNS] for row in rows])


def _optional(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in _OPTIONAL if manifest.get(name))


def _show_range(found: Coverage, *, as_json: bool) -> None:
    if not found.versions:
        found.require("fail")
    rows = [_row(version) for version in found.versions]
    if as_json:
        print_json(rows)
    else:
        print_rows(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])
    tell_newer_withdrawals(found.folder, [row["interval"] for row in rows])
    tell_gaps(found)


def tell_gaps(found: Coverage) -> None:
    """Print the skipped intervals and accepted holes of a range.

    Missing intervals end the command with status 1, and who withdrew their versions.
    """
    for skip in found.skipped:
        print_message(f"{skip.interval} was decided to be left out on {skip.at}: {skip.why}")
    for hole in found.accepted:
        print_message(f"{hole.range} is in no version, {hole.told}")
    found.require("fail")


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


def _versions(folder: DatasetFolder, damaged: DamagedEntries) -> list[dict[str, Any]]:
    from trainfeed.versions import Version

    rows = []
    for name in _intervals(folder):
        row = {**dict.fromkeys(_COLUMNS), "interval": name}
        with damaged.named(f"{folder.name}/{name}", row):
            row |= _row(Version.resolve(folder, name))
        rows.append(row)
    return rows


def _retired(name: str) -> list[str]:
    from trainfeed.versions.retire import told_retirements

    return told_retirements(known_folder(name))


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
