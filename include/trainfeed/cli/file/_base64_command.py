"""``trainfeed process-base64``: shuffles base64 image files and divides them among ranks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainfeed.cli._places import target_path
from trainfeed.cli._printing import error_console, print_json, print_mapping

__all__ = ["process_base64"]


def process_base64(
    *,
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data_dir",
            "--data-dir",
            help="Folder of the image files.",
            parser=target_path,
            metavar="<path>",
        ),
    ],
    file_list: Annotated[
        str, typer.Option("--file_list", "--file-list", help="List of the files in the folder.")
    ],
    nranks: Annotated[int, typer.Option("--nranks", help="Number of files to make.")],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the shuffle.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shuffle base64 image files into one file per rank, with equal counts; inputs are kept."""
    from trainfeed import conversion

    with error_console().status(f"dealing out {file_list} to {nranks} files"):
        report = asdict(conversion.process_base64(data_dir, file_list, nranks, seed=seed))
    if as_json:
        print_json(report)
    else:
        print_mapping({**report, "files": f"{report['files'][0]} … {report['files'][-1]}"})
