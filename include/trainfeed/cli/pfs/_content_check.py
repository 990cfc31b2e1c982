"""``trainfeed pfs verify``: compares contents on shared storage."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trainfeed.cli._printing import error_console, print_json, print_message
from trainfeed.cli.pfs._pfs_options import AsJson
from trainfeed.dataset.manifest import Manifest
from trainfeed.errors import ConfigError
from trainfeed.pfs.compare import compare_places, compare_with_list
from trainfeed.pfs.places import Places

__all__ = ["verify"]

_DIFFERENT: Final = 3


def verify(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH [OTHER]",
            help="Two files or folders; or one folder with TRANSFER.json or MANIFEST.sha256.",
            show_default=False,
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Compare two contents, or a folder with the list of digests in it; 3 if they differ."""
    if len(paths) > 2:
        raise ConfigError(f"expected one or two paths, got {len(paths)}; nothing was compared")
    with Places() as places, error_console().status("reading"):
        found = [places.place(path) for path in paths]
        if len(found) == 2:
            result = compare_places(*found)
        else:
            result = compare_with_list(*found, version_files=_files)
    if as_json:
        print_json(result.to_json())
    else:
        for each in result.differences:
            print_message(f"{each.name or paths[0]}: {each.what}")
        what = f"{len(result.differences)} differences" if result.differences else "equal"
        typer.echo(f"compared {result.files} files, {result.num_bytes} bytes: {what}")
    if result.differences:
        raise typer.Exit(_DIFFERENT)


def _files(data: bytes) -> dict[str, tuple[int, str]]:
    return Manifest.from_bytes(data).file_digests()
