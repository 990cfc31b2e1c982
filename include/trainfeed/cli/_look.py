"""``trainfeed ls``, ``show`` and ``verify``: what is published, and whether it is intact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trainfeed.cli._output import error_console, print_json, print_mapping, print_rows
from trainfeed.config import environment_from_environ
from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import parse_generation
from trainfeed.errors import ConfigError
from trainfeed.storage.posix import map_errors

__all__ = ["ls", "show", "verify"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Target = Annotated[str, typer.Argument(help="NAME/INTERVAL, or NAME/INTERVAL/gNNNN.")]

_COLUMNS = ("interval", "generation", "samples", "quarantined", "filtered", "bytes", "content")


def ls(
    name: Annotated[str | None, typer.Argument(help="A data set; all of them otherwise.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """List data sets, or the published intervals of one."""
    root = Path(environment_from_environ().root)
    if name is None:
        names = _names(root)
        print_json(names) if as_json else print_rows(["data set"], [[n] for n in names])
        return
    rows = [_row(version) for version in _versions(DatasetFolder(root, name))]
    if as_json:
        print_json(rows)
    else:
        print_rows(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])


def show(target: Target, *, as_json: Json = False) -> None:
    """Show what the manifest of one version says."""
    version = _resolve(target)
    manifest = version.manifest.model_dump(by_alias=True)
    if as_json:
        print_json(manifest)
        return
    names = ("fingerprint", "content_digest", "interval", "filtered", "quarantine", "late", "gates")
    print_mapping({"version": version.name, "path": version.path, **_row(version)})
    print_mapping({name: manifest[name] for name in names})


def verify(target: Target, *, as_json: Json = False) -> None:
    """Compare every file of one version with its manifest; status 3 when one differs."""
    problems = [str(problem) for problem in _resolve(target).problems()]
    if as_json:
        print_json({"target": target, "problems": problems})
    else:
        typer.echo("\n".join(problems) or f"{target} is intact")
    if problems:
        error_console().print("build it anew: trainfeed build NAME --interval I --rebuild WHY")
        raise typer.Exit(3)


def _names(root: Path) -> list[str]:
    with map_errors(root):
        # Nothing was ever published: the first build makes the root.
        if not root.exists():
            return []
        return sorted(path.name for path in root.iterdir() if (path / "versions").is_dir())


def _versions(folder: DatasetFolder) -> list[Version]:
    published = [name for name in folder.intervals() if folder.readable_generation(name)]
    return [Version.resolve(folder, name) for name in published]


def _resolve(target: str) -> Version:
    parts = target.split("/")
    if len(parts) not in {2, 3}:
        raise ConfigError(f"expected NAME/INTERVAL or NAME/INTERVAL/gNNNN, got {target!r}")
    folder = DatasetFolder(Path(environment_from_environ().root), parts[0])
    if len(parts) == 2:
        return Version.resolve(folder, parts[1])
    return Version.resolve(folder, parts[1], parse_generation(parts[2]))


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
