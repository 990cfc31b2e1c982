"""What a reader of a publication root finds: where names lead, what is whole, what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from tests.kills.prepared import DAY, IDLE, NEXT, Command, Places
from tests.oracle.accounting import check_manifest_ledger
from tests.oracle.independent_reader import Version as IndependentVersion
from trainfeed.errors import TrainFeedError
from trainfeed.training.models import PROD, ModelsFolder, current
from trainfeed.uploads import ReceiptBook
from trainfeed.versions import DatasetFolder, Version, read_skip
from trainfeed.versions.skip import accepted_holes
from trainfeed.versions.tag_files import current_tag, tag_names

__all__ = ["look"]

DATASET = "clicks"


def look(places: Places, command: Command) -> Iterator[tuple[str, str]]:
    """Yield what a reader finds: where names lead, what is whole, and what is wrong."""
    folder = DatasetFolder(places.root, DATASET)
    for interval in folder.intervals():
        # A folder in which no number was ever used is that of an interval without a version.
        if folder.last_generation(interval):
            yield f"readable {interval}", str(folder.readable_generation(interval))
        for number in folder.generations(interval):
            yield from _version(folder, interval, number, command)
    yield from _decisions(folder)
    yield from _torn(folder)
    for name in ModelsFolder(places.root).names():
        prod = current(ModelsFolder(places.root).model(name), PROD)
        if prod is not None:
            prod.verify()
        yield f"model {name}", str(prod and prod.manifest.version)


def _decisions(folder: DatasetFolder) -> Iterator[tuple[str, str]]:
    """Yield what people decided, and what they uploaded."""
    for interval in (DAY, NEXT, IDLE):
        if (skip := read_skip(folder, interval)) is not None:
            yield f"skipped {interval}", skip.why
    for receipt in ReceiptBook(folder).receipts():
        yield f"receipt {receipt.number}", receipt.name
    for hole in accepted_holes(folder):
        yield f"hole {hole.range}", hole.why
    for name in tag_names(folder):
        yield from _tag(folder, name)


def _version(
    folder: DatasetFolder, interval: str, number: int, command: Command
) -> Iterator[tuple[str, str]]:
    name = f"{interval}/g{number:04d}"
    try:
        version = Version.open(folder.version(interval, number))
        if name in command.damaged:
            is_whole = not list(version.problems())
            yield f"whole {name}", str(is_whole)
            if not is_whole:
                return
        version.verify()
        check_manifest_ledger(IndependentVersion(version.path))
        yield f"version {name}", version.manifest.content_digest
    except (TrainFeedError, AssertionError, OSError) as error:
        # One that was removed meanwhile is gone, as its mark says.
        if number in folder.generations(interval):
            yield f"fault {name}", f"{type(error).__name__}: {error}"


def _torn(folder: DatasetFolder) -> Iterator[tuple[str, str]]:
    """Yield the published small files that are not whole."""
    for where, folders, names in os.walk(folder.path):
        # What begins so is not published yet, or not any more.
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for path in [Path(where, name) for name in sorted(names) if name.endswith(".json")]:
            if path.name.startswith("."):
                continue
            try:
                json.loads(path.read_bytes())
            except FileNotFoundError:
                continue
            except ValueError as error:
                yield f"fault {path.relative_to(folder.path)}", str(error)


def _tag(folder: DatasetFolder, name: str) -> Iterator[tuple[str, str]]:
    tag = current_tag(folder, name)
    if tag is None:
        return
    yield f"tag {name}", f"{tag.kind} {dict(tag.generations)}"
    for interval, number in tag.generations.items():
        if not folder.has_folder(interval, number):
            yield f"fault {name}", f"leads to {interval}/g{number:04d}, which is not there"
