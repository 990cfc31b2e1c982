"""``trainfeed ls``, ``show`` and ``verify``: what is published, and whether it is intact."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trainfeed.cli._output import (
    print_json,
    print_mapping,
    print_message,
    print_rows,
    printable,
    program,
)
from trainfeed.config import Environment, environment_from_environ
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import generation_name, is_name, parse_generation
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    FormatError,
    NotFoundError,
    StorageError,
)
from trainfeed.spec import SPEC_FILE, did_you_mean
from trainfeed.storage.posix import map_errors

__all__ = ["ls", "show", "verify"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Target = Annotated[str, typer.Argument(help="NAME/INTERVAL, or NAME/INTERVAL/gNNNN.")]

_DATASET_COLUMNS: Final[tuple[str, ...]] = ("data set", "intervals", "newest", "state")
_CLOSED: Final = "closed to this account"
_COLUMNS = ("interval", "generation", "samples", "quarantined", "filtered", "bytes", "content")


def ls(
    name: Annotated[str | None, typer.Argument(help="A data set; all of them otherwise.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """List data sets, or the published intervals of one."""
    env = environment_from_environ()
    columns = _DATASET_COLUMNS if name is None else _COLUMNS
    if name is None:
        rows = _datasets(env)
    else:
        _require_known(env, name)
        rows = [_row(version) for version in _versions(DatasetFolder(Path(env.root), name))]
    if as_json:
        print_json(rows)
    else:
        print_rows(columns, [[row[column] for column in columns] for row in rows])
    if name is not None and not rows:
        hint = f"build one: {program()} build {name} --interval I"
        print_message(f"{name} has no published version yet; {hint}")


def show(target: Target, *, as_json: Json = False) -> None:
    """Show what the manifest of one version says."""
    version = _resolve(target)
    manifest = version.manifest.to_json()
    if as_json:
        print_json(manifest)
        return
    names = ("fingerprint", "content_digest", "interval", "filtered", "quarantine", "late", "gates")
    print_mapping({"version": version.name, "path": version.path, **_row(version)})
    print_mapping({name: manifest[name] for name in (*names, *_optional(manifest))})


def _optional(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in ("empty_because",) if name in manifest)


def verify(
    target: Annotated[
        str, typer.Argument(help="NAME for all its versions, NAME/INTERVAL, NAME/INTERVAL/gNNNN.")
    ],
    *,
    as_json: Json = False,
) -> None:
    """Compare every file of a version, or of all, with its manifest.

    Status 3 when one differs, 1 when one cannot be read.
    """
    checked = [_checked(folder, place) for folder, place in _places(target)]
    if as_json:
        print_json(checked if "/" not in target else checked[0])
    else:
        for report in checked:
            unreadable = [f"could not be read: {reason}" for reason in report["unreadable"]]
            found = "\n".join([*report["problems"], *unreadable])
            typer.echo(printable(found or f"{report['target']} is intact"))
    if damaged := [report["target"] for report in checked if report["problems"]]:
        name, interval, *_ = damaged[0].split("/")
        remedy = f"{program()} build {name} --interval {interval} --rebuild WHY"
        print_message(f"build it anew: {remedy}")
        raise typer.Exit(3)
    if any(report["unreadable"] for report in checked):
        print_message("what could be read is intact; ask as the account that builds, or again")
        raise typer.Exit(1)


def _places(target: str) -> list[tuple[str, Path]]:
    """Return what a target means: per version how to call it, and its folder."""
    if "/" in target:
        return [(target, _folder_of(target))]
    env = environment_from_environ()
    _require_known(env, target)
    folder = DatasetFolder(Path(env.root), target)
    places = [
        (f"{target}/{interval}/{generation_name(number)}", folder.version(interval, number))
        for interval in folder.intervals()
        for number in folder.generations(interval)
    ]
    if not places:
        raise NotFoundError(
            f"data set {target!r} has no published version in {folder.path}; build one:"
            f" {program()} build {target} --interval I"
        )
    return places


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
    specified, published = _specified(env), _published(Path(env.root))
    rows = []
    for name in sorted({*specified, *published}):
        row: dict[str, Any] = {"data set": name, "intervals": "", "newest": "", "state": _CLOSED}
        with suppress(AccessDeniedError):
            intervals = _intervals(DatasetFolder(Path(env.root), name))
            row["intervals"] = len(intervals)
            row["newest"] = intervals[-1] if intervals else ""
            row["state"] = _state(name in specified, bool(intervals))
        rows.append(row)
    return rows


def _intervals(folder: DatasetFolder) -> list[str]:
    return [name for name in folder.intervals() if folder.readable_generation(name)]


def _state(is_specified: bool, is_built: bool) -> str:
    state = "published" if is_built else "not built yet"
    return state if is_specified else f"{state}, without a specification here"


def _specified(env: Environment) -> list[str]:
    """Return the data sets that have a folder, also those whose specification is wrong."""
    with map_errors(env.datasets):
        if not env.datasets.is_dir():
            return []
        return [path.name for path in _folders(env.datasets) if _is_seen(path / SPEC_FILE)]


def _published(root: Path) -> list[str]:
    with map_errors(root):
        # Nothing was ever published: the first build makes the root.
        if not root.exists():
            return []
        return [path.name for path in _folders(root) if _is_seen(path / "versions")]


def _folders(place: Path) -> list[Path]:
    """Return what may be a data set: neither hidden nor of the file system's own."""
    return [path for path in place.iterdir() if is_name(path.name)]


def _is_seen(path: Path) -> bool:
    """Return whether it is there; what this account may not look into is taken to be."""
    try:
        return path.exists()
    except PermissionError:
        return True


def _require_known(env: Environment, name: str) -> None:
    known = sorted({*_specified(env), *_published(Path(env.root))})
    if name not in known:
        hint = did_you_mean(name, known) if known else f"make one: {program()} new {name}"
        raise NotFoundError(
            f"expected a data set of {env.datasets} or {env.root}, got {name!r}; {hint}"
        )


def _versions(folder: DatasetFolder) -> list[Version]:
    return [Version.resolve(folder, name) for name in _intervals(folder)]


def _resolve(target: str) -> Version:
    return Version.open(_folder_of(target))


def _folder_of(target: str) -> Path:
    name, *rest = target.split("/")
    if len(rest) not in {1, 2}:
        raise ConfigError(f"expected NAME/INTERVAL or NAME/INTERVAL/gNNNN, got {target!r}")
    env = environment_from_environ()
    folder = DatasetFolder(Path(env.root), name)
    if not folder.path.is_dir():
        _require_known(env, name)
    if len(rest) == 2:
        return folder.version(rest[0], parse_generation(rest[1]))
    return folder.version(rest[0], folder.require_generation(rest[0]))


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
