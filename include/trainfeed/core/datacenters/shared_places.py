"""The one step from ``pfs://…`` to a path of this machine, and whether it is mounted.

Every process that opens a file imports this; it loads the paths and the config when needed.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, cast

from trainfeed.errors import AccessDeniedError, ConfigError

# --- Whether the folder of an area has its file system, or is left of a mount that is away


def is_available(folder: Path, *, is_local: bool) -> bool:
    """Return whether the files of an area are in ``folder`` now.

    Args:
        folder: Folder of the area; a link to it is followed.
        is_local: Whether a plain folder of this machine is the storage.

    Raises:
        OSError: The folder cannot be looked at.
    """
    return folder.is_dir() and (is_local or _is_mounted(Path(os.path.realpath(folder))))


def _is_mounted(folder: Path) -> bool:
    """Return whether a folder is a mount point, or lies in a file system of other machines.

    Network file systems have no disk: the major number of their device is 0, and so is that of
    layered file systems below ``/``. A disk of this machine, mounted above the folder, may have an
    empty folder for a mount that is away; one that is mounted on the folder itself is meant.
    """
    if os.path.ismount(folder):
        return True
    device = folder.stat().st_dev
    return os.major(device) == 0 and device not in _own_devices()


def _own_devices() -> Iterator[int]:
    for place in (Path("/"), Path.home()):
        with suppress(FileNotFoundError):
            yield place.stat().st_dev


# --- The one step from ``pfs://…`` to a path of this machine, for every function that takes a path

_PREFIX: Final = "pfs:"
_PUBLIC: Final = "pfs://public"
_PathT = TypeVar("_PathT", bound="str | os.PathLike[str]")


class SharedPlace(NamedTuple):
    """A path of shared storage on a mount of this machine.

    Attributes:
        area: ``pfs://home`` or ``pfs://public``.
        folder: Folder on which the area is mounted.
        path: The path itself, without a slash at its end.
        is_local: Whether the folder itself is the storage, so that nothing is mounted on it.
    """

    area: str
    folder: str
    path: str
    is_local: bool


def is_shared(path: object) -> bool:
    """Return whether a path begins as those of shared storage do, rightly written or not."""
    if not isinstance(path, str):
        if not isinstance(path, os.PathLike):
            return False
        path = os.fspath(path)
    return isinstance(path, str) and path[:4].lower() == _PREFIX


def local_source(path: _PathT) -> _PathT:
    """Return where this machine reads a path: itself, or of ``pfs://…`` the path on its mount.

    Args:
        path: Any path; only text that begins with ``pfs:`` is changed.

    Raises:
        ConfigError: The text is no path of shared storage; ``~/.trainfeed/config`` is missing or
            wrong; or the area is not mounted on this machine.
        AccessDeniedError: A link on the way leads out of the area.
    """
    return cast("_PathT", _local(path, writes=False)) if is_shared(path) else path


def local_target(path: _PathT) -> _PathT:
    """Return where this machine writes a path; as ``local_source`` does, before any byte.

    Raises:
        AccessDeniedError: The path is in the public area, or a link on the way leads out of the
            user's home.
    """
    return cast("_PathT", _local(path, writes=True)) if is_shared(path) else path


def local_matches(pattern: str, matching: Callable[[str], Sequence[str]]) -> list[str]:
    """Return the files of this machine that a pattern stands for, which may be ``pfs://…``.

    Args:
        pattern: A pattern as of ``glob``.
        matching: Returns the paths that match a pattern of this machine.

    Raises:
        ConfigError, AccessDeniedError: As of ``local_source``, for every match.
    """
    if not is_shared(pattern):
        return list(matching(pattern))
    place = shared_place(pattern)
    _require_mount(place, pattern)
    # The folder of the mount is no pattern, whatever its name is.
    below = place.path.removeprefix(place.folder)
    found = list(matching(f"{glob.escape(place.folder)}{below}{_slash(pattern)}"))
    _require_inside(place.folder, found, pattern)
    return found


def shared_place(text: str) -> SharedPlace:
    """Return where ``pfs://…`` lies on this machine, without a look at the mount.

    Raises:
        ConfigError: As of ``local_source``.
    """
    from trainfeed.core.datacenters.config_file import read_datacenters
    from trainfeed.core.datacenters.pfs_path import SCHEME, PfsPath, area_folder

    if not text.startswith(SCHEME):
        raise ConfigError(
            f"expected {SCHEME}home/… or {SCHEME}public/…, got {text!r}; nothing was read or"
            f" written; for a file of this name write ./{text}"
        )
    datacenter = read_datacenters().current
    path = PfsPath.parse(text, datacenter=datacenter)
    folder = area_folder(path, datacenter)
    place = str(folder.joinpath(*path.parts))
    return SharedPlace(f"{SCHEME}{path.area}", str(folder), place, datacenter.is_local)


def _local(path: str | os.PathLike[str], *, writes: bool) -> str:
    if not isinstance(path, str):
        raise ConfigError(
            f"expected a path of shared storage as text, pfs://…, got the path object"
            f" {os.fspath(path)!r}, which has lost a slash; nothing was read or written; pass the"
            " text"
        )
    place = shared_place(path)
    if writes and place.area == _PUBLIC:
        raise AccessDeniedError(
            f"expected a place below pfs://home to write to, got {path}: the public area is for"
            " reading; nothing was written; a publisher names the folder that it is mounted on"
        )
    _require_mount(place, path)
    _require_inside(place.folder, [place.path], path)
    return place.path + _slash(path)


def _slash(text: str) -> str:
    return "/" if text.endswith("/") else ""


def _require_mount(place: SharedPlace, text: str) -> None:

    folder = Path(place.folder)
    try:
        is_there = is_available(folder, is_local=place.is_local)
    except OSError as error:
        raise AccessDeniedError(f"{place.folder}, for {text}: {error.strerror}") from error
    if not is_there:
        got = "a folder without a mount" if folder.is_dir() else "no folder"
        raise ConfigError(
            f"expected {place.area} to be mounted at {place.folder} for {text}, got {got};"
            " nothing was read or written; mount it, or correct the mount in ~/.trainfeed/config,"
            " or copy the files: trainfeed pfs cp; if plain folders of this machine are the"
            " storage, write local: true to the data centre in that file"
        )


def _require_inside(folder: str, places: Iterable[str], text: str) -> None:
    """Refuse a place that links lead out of the area: there are files of others, or of no one."""
    home = os.path.realpath(folder)
    for place in places:
        real = os.path.realpath(place)
        if real != home and not real.startswith(home.rstrip("/") + "/"):
            raise AccessDeniedError(
                f"expected {text} to stay below {folder}, but a link leads from {place} to {real};"
                " nothing was read or written; name the file itself, or remove the link"
            )
