"""How a set of shards appears: in a new folder by one rename, in an existing one by a journal.

Shards are written into a staging folder of the same file system and synced there. A folder that
does not exist yet is then made by renaming the staging folder: nobody ever sees a part of it.

In a folder that exists, the staging folder is renamed to ``.<prefix>.commit``. With that the new
set is decided: whoever converts into the folder next, or asks for it with ``finish_publication``,
carries it out if this process cannot. Carrying it out takes the old manifest away, moves the shards
to their names, deletes shards of the old set that the new one has not, and moves the new manifest
last. A reader that goes by the manifest sees the old set, or none, or the new one, whole.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.conversion.shardset._manifest import ShardManifest, is_shard_of
from trainfeed.errors import ConflictError
from trainfeed.paths import commit_name, durable_file, make_folders, manifest_name
from trainfeed.storage.posix import (
    file_lock,
    map_errors,
    remove_tree,
    rename_directory,
    sync_dir,
)

__all__ = ["Staging", "finish_publication", "open_staging"]

_STAGING: Final = ".tmp"
_OWNER: Final = ".owner"
# Publication moves files and copies none; who waits longer waits for a broken file system.
_LOCK_S: Final = 600.0


class Staging:
    """A folder in which the shards of one conversion are written.

    Attributes:
        folder: The folder.
    """

    def __init__(self, output: Path, prefix: str, folder: Path) -> None:
        self.folder = folder
        self._output = output
        self._prefix = prefix

    def publish(self, manifest: ShardManifest) -> None:
        """Make the shards visible; the folder is gone then.

        Raises:
            StorageError: The file system refused. The old set is as it was, or the new one is
                decided and carried out by the next conversion, or by ``finish_publication``.
        """
        path = self.folder / manifest_name(self._prefix)
        with durable_file(path) as file:
            file.write(manifest.dump())
        sync_dir(self.folder)
        _refuse_taken_names(self._output, manifest)
        faults.point("convert.before_commit")
        if not self._publish_folder():
            self._publish_files()

    def _publish_folder(self) -> bool:
        """Make the staging folder the output folder, unless there is one."""
        if self._output.exists():
            return False
        try:
            rename_directory(self.folder, self._output)
        except ConflictError:
            # Somebody made it meanwhile.
            return False
        faults.point("convert.after_commit")
        sync_dir(self._output.parent)
        return True

    def _publish_files(self) -> None:
        with _publication_lock(self._output, self._prefix):
            _carry_out(self._output, self._prefix)
            rename_directory(self.folder, _commit_folder(self._output, self._prefix))
            sync_dir(self._output)
            faults.point("convert.after_commit")
            _carry_out(self._output, self._prefix)


@contextmanager
def open_staging(output: Path, prefix: str) -> Iterator[Staging]:
    """Make a staging folder; after an error it is removed, and nothing else has changed.

    What conversions left that were killed is removed first. The file ``<staging folder>.owner`` is
    locked while its conversion lives, so one that is running is left alone.

    Raises:
        ConflictError: Something that is no file has the name of a shard.
        StorageError: The file system refused.
    """
    beside = not output.exists()
    parent = output.parent if beside else output
    with map_errors(parent):
        make_folders(parent)
    _remove_dead(output, prefix)
    start = f".{output.name}.{prefix}." if beside else f".{prefix}."
    folder = parent / f"{start}{uuid.uuid4()}{_STAGING}"
    with _owned(folder):
        with map_errors(folder):
            folder.mkdir(0o755)
        yield Staging(output, prefix, folder)


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    path = folder.with_name(folder.name + _OWNER)
    with map_errors(path):
        owner = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        # Who took it for a dead one's, before it was locked, lets go soon.
        fcntl.flock(owner, fcntl.LOCK_EX)
    try:
        yield
    finally:
        # After publication the folder is gone; after an error that one says more than this.
        with suppress(Exception):
            remove_tree(folder)
            path.unlink(missing_ok=True)
        os.close(owner)


def finish_publication(output: str | os.PathLike[str], prefix: str) -> bool:
    """Carry out what an interrupted conversion has decided, and remove what it has left.

    Safe to call at any time, also while other conversions run.

    Returns:
        Whether a publication was carried out.

    Raises:
        StorageError: The file system refused.
    """
    folder = Path(output).absolute()
    _remove_dead(folder, prefix)
    if not _commit_folder(folder, prefix).exists():
        return False
    with _publication_lock(folder, prefix):
        return _carry_out(folder, prefix)


def _carry_out(output: Path, prefix: str) -> bool:
    commit = _commit_folder(output, prefix)
    if not commit.exists():
        return False
    name = manifest_name(prefix)
    if (commit / name).exists():
        manifest = ShardManifest.load(commit, prefix)
        with map_errors(output):
            (output / name).unlink(missing_ok=True)
            sync_dir(output)
            _move_shards(commit, output, manifest)
            _delete_stale(output, manifest)
            faults.point("convert.before_manifest")
            sync_dir(output)
            (commit / name).replace(output / name)
        sync_dir(output)
    faults.point("convert.before_cleanup")
    remove_tree(commit)
    return True


def _move_shards(commit: Path, output: Path, manifest: ShardManifest) -> None:
    for shard in manifest.shards:
        # Those that an earlier try has moved are gone from here.
        with suppress(FileNotFoundError):
            (commit / shard.name).replace(output / shard.name)
            faults.point("convert.after_move")


def _delete_stale(output: Path, manifest: ShardManifest) -> None:
    wanted = {shard.name for shard in manifest.shards}
    for path in list(output.iterdir()):
        if is_shard_of(path.name, manifest.prefix) and path.name not in wanted:
            path.unlink()


def _refuse_taken_names(output: Path, manifest: ShardManifest) -> None:
    names = [manifest_name(manifest.prefix), *(shard.name for shard in manifest.shards)]
    for path in (output / name for name in names):
        if path.is_dir() and not path.is_symlink():
            raise ConflictError(
                f"{path} is a folder; nothing was published; move it away, or choose another prefix"
            )


def _commit_folder(output: Path, prefix: str) -> Path:
    return output / commit_name(prefix)


@contextmanager
def _publication_lock(output: Path, prefix: str) -> Iterator[None]:
    with file_lock(output / f".{prefix}.lock", timeout_s=_LOCK_S):
        yield


def _remove_dead(output: Path, prefix: str) -> None:
    """Remove the staging folders, beside the output and in it, whose owner is gone."""
    places = [(output.parent, f".{output.name}.{prefix}."), (output, f".{prefix}.")]
    for parent, start in places:
        if not parent.is_dir():
            continue
        with map_errors(parent):
            names = [path.name for path in parent.iterdir()]
        for name in names:
            if name.startswith(start) and name.endswith(_STAGING + _OWNER):
                with _dead_owner(parent / name) as is_dead:
                    if is_dead:
                        remove_tree(parent / name.removesuffix(_OWNER))
                        remove_tree(parent / name)


@contextmanager
def _dead_owner(path: Path) -> Iterator[bool]:
    """Hold the lock of an owner's file; False where the owner has it."""
    try:
        owner = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(owner)
