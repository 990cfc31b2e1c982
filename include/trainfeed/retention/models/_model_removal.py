"""The removal of a version of a model: record, second look, rename, deletion.

The second look, the record and the rename are one step for every change of an alias: they are made
under the lock that such a change takes. A promotion therefore comes first, and the version stays,
or it comes later, and is refused.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from trainfeed import faults
from trainfeed.accounts import account_name
from trainfeed.dataset.layout import MANIFEST
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.intervals import format_time
from trainfeed.models import Model, ModelFolder, RemovedModel, alias_lock, pointed_versions
from trainfeed.paths import is_there
from trainfeed.pipeline.upkeep import RETENTION
from trainfeed.retention._context import Context
from trainfeed.retention.models._found_model import trash_of
from trainfeed.storage import posix

__all__ = ["needed_models", "open_elsewhere", "remove_version"]

_IN_USE = "a process has it open: a service, a prediction or an upload"


def remove_version(context: Context, folder: ModelFolder, number: int, why: str) -> str | None:
    """Remove a version that nothing needs.

    Args:
        context: The data set that made it.
        folder: The model.
        number: Number of the version; nothing is done if it is gone.
        why: The rule, for the record.

    Returns:
        Why it stays after all, None if it is gone.

    Raises:
        StorageError: The publication root refused or failed; the next call goes on.
    """
    aside = trash_of(folder) / f"{RETENTION}{uuid.uuid4().hex}"
    with alias_lock(folder):
        needed = needed_models(folder).get(number)
        if needed is not None:
            return needed
        try:
            with posix.try_lock(folder.version(number) / MANIFEST) as is_free:
                if not is_free:
                    return _IN_USE
                _hide(context, folder, number, why)
                _move(folder.version(number), aside)
        except NotFoundError:
            return _why_unseen(folder.version(number))
        except FormatError as error:
            return f"it cannot be read: {error}"
    faults.point("models.after_rename")
    posix.remove_tree(aside)
    return None


def needed_models(folder: ModelFolder) -> dict[int, str]:
    """Return number → why it is needed, of the versions that no rule removes.

    Raises:
        ConfigError: A change of an alias names something that is no version.
        FormatError: A change of an alias is damaged.
        StorageError: The publication root refused or failed.
    """
    newest = dict.fromkeys(folder.versions()[-1:], "it is the newest version")
    return newest | pointed_versions(folder)


def open_elsewhere(folder: ModelFolder, number: int) -> str | None:
    """Return why a version stays that a process has open; None if no process is known to.

    Raises:
        StorageError: The publication root refused or failed.
    """
    try:
        with posix.try_lock(folder.version(number) / MANIFEST) as is_free:
            return None if is_free else _IN_USE
    except NotFoundError:
        return None  # removed, or moved: its removal looks again


def _hide(context: Context, folder: ModelFolder, number: int, why: str) -> None:
    """Write the record, unless an earlier call has."""
    if is_there(folder.removal(number)):
        return
    model, account = Model.open(folder, number), context.account or account_name()
    RemovedModel(
        manifest=model.manifest,
        manifest_sha256=model.manifest_sha256,
        at=format_time(context.now),
        who=context.who or account,
        account=account,
        why=why,
    ).write(folder)
    faults.point("models.after_record")


def _move(version: Path, aside: Path) -> None:
    posix.make_public_dir(aside.parent)
    posix.rename_directory(version, aside)


def _why_unseen(version: Path) -> str | None:
    """Return why a version without a manifest stays; None if there is no such folder."""
    return f"{version} has no manifest; look into it" if is_there(version) else None
