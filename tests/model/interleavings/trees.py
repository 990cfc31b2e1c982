"""Trees of small files: kept in memory, put back before every run, and told apart by a digest.

Two trees are the same state if they differ only in times, names of unfinished files, and digests
over them: no code under test depends on these.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from functools import lru_cache
from pathlib import Path

__all__ = ["Tree", "plain_name", "seen_at"]

_HEX = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_ACTION = re.compile(r"\d{8}T\d{6}\.\d+Z-([a-z-]+)-[0-9a-f]{8}\.json")
_VOLATILE = {"at", "uid", "pid", "host", "account", "digest", "expires", "renewed", "seconds"}


@lru_cache(1 << 16)
def plain_name(name):
    """Return a path, or a text with paths, without what differs from run to run."""
    return _ACTION.sub(r"TIME-\1.json", _HEX.sub("HEX", name))


class Tree:
    """The content of a folder, as bytes.

    Args:
        folder: The folder; ``put`` makes it anew.
    """

    def __init__(self, folder):
        self._folder = Path(folder)
        self._entries = sorted(self._read())

    def put(self):
        """Make the folder have the content of the beginning."""
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        for name, mode, data, at in self._entries:
            path = self._folder / name
            if data is None:
                path.mkdir()
            else:
                path.write_bytes(data)
                os.utime(path, ns=(at, at))
            path.chmod(mode)

    def _read(self):
        for path in self._folder.rglob("*"):
            found = path.lstat()
            data = None if stat.S_ISDIR(found.st_mode) else path.read_bytes()
            yield (
                str(path.relative_to(self._folder)),
                found.st_mode & 0o7777,
                data,
                found.st_mtime_ns,
            )


def state_of(folder):
    """Return a digest of a folder, equal for equal states."""
    total = hashlib.sha256()
    for line in sorted(_lines(os.fspath(folder), "")):
        total.update(line.encode())
    return total.hexdigest()


def _lines(folder, below):
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{below}{plain_name(entry.name)}"
            if entry.is_dir(follow_symlinks=False):
                yield f"{name}/\n"
                yield from _lines(entry.path, f"{name}/")
            else:
                yield f"{name} {_content(entry.path)}\n"


_known: dict[tuple, str] = {}


def _content(path):
    found = os.lstat(path)
    key = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if key not in _known:
        data = _settled(Path(path).read_bytes())
        _known[key] = hashlib.sha256(data).hexdigest()[:16]
    return _known[key]


def _settled(data):
    if not data.startswith(b"{") or len(data) > 1 << 16:
        return data
    try:
        return json.dumps(_without(json.loads(data)), sort_keys=True).encode()
    except ValueError:
        return data


def _without(value):
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if key not in _VOLATILE}
    if isinstance(value, list):
        return [_without(each) for each in value]
    return plain_name(value) if isinstance(value, str) else value


def seen_at(tree, call, error):
    """Return what an actor saw by a call, in a form that is equal in equal states."""
    if error is not None:
        return _kind_of(error)
    if call.changes:
        return "done"
    path = f"{tree}/{call.paths[0]}"
    try:
        if call.name in {"listdir", "scandir"}:
            return sorted(plain_name(each.name) for each in Path(path).iterdir())
        found = os.lstat(path)
        if call.name == "open" and stat.S_ISREG(found.st_mode):
            return _content(path)
    except OSError as missing:
        return _kind_of(missing)
    return stat.S_IFMT(found.st_mode)


def _kind_of(error):
    return type(error).__name__
