"""Stops: the calls of the system with which actors look at, or change, a tree of files.

While ``watching`` is entered, the functions of ``os``, ``io`` and ``fcntl`` that take paths ask the
actor of their thread before they act, and tell it what they saw afterwards. Threads that are no
actors, and paths outside the tree, are left alone. Descriptors of folders are resolved, so that
``shutil.rmtree`` is seen as well.
"""

from __future__ import annotations

import builtins
import fcntl
import io
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Call", "act_as", "watching"]

LOOKS = ("stat", "lstat", "listdir", "scandir", "readlink", "access", "statvfs")
CHANGES = ("mkdir", "rmdir", "unlink", "remove", "chmod", "utime", "symlink", "truncate")
MOVES = ("rename", "replace", "link")

_actors = threading.local()


@dataclass(frozen=True)
class Call:
    """One call of the system.

    Attributes:
        name: Name of the function.
        paths: Paths below the tree that it is about, as text relative to the tree; of two, the
            second is the new name.
        changes: Whether it changes names or makes a file.
    """

    name: str
    paths: tuple[str, ...]
    changes: bool

    def __str__(self):
        return f"{self.name} {' -> '.join(self.paths)}"


@contextmanager
def act_as(actor):
    """Make this thread an actor: ``actor.before(call)``, ``actor.after(call, error)``."""
    _actors.current = actor
    try:
        yield
    finally:
        _actors.current = None


@contextmanager
def watching(tree):
    """Watch all calls of actors on paths below the folder ``tree``."""
    tree = f"{os.fspath(tree)}/"
    saved = []

    def put(module, name, function):
        saved.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    for name in (*LOOKS, *CHANGES):
        put(os, name, _watched(getattr(os, name), name, tree, changes=name in CHANGES))
    for name in MOVES:
        put(os, name, _watched(getattr(os, name), name, tree, changes=True, second=True))
    put(os, "open", _opener(os.open, tree))
    put(io, "open", _file_opener(io.open, tree))
    put(builtins, "open", io.open)
    put(fcntl, "flock", _lock(fcntl.flock, tree))
    try:
        yield
    finally:
        for module, name, function in reversed(saved):
            setattr(module, name, function)


def _watched(function, name, tree, *, changes, second=False):
    def call(*args, **kwargs):
        actor = getattr(_actors, "current", None)
        if actor is None:
            return function(*args, **kwargs)
        given = args[:2] if second else args[:1]
        folders = [kwargs.get("dir_fd"), kwargs.get("dir_fd")]
        if second:
            folders = [kwargs.get("src_dir_fd"), kwargs.get("dst_dir_fd")]
        paths = [_below(path, fd, tree) for path, fd in zip(given, folders, strict=False)]
        found = tuple(path for path in paths if path is not None)
        if not found:
            return function(*args, **kwargs)
        return _asked(actor, Call(name, found, changes), function, args, kwargs)

    return call


def _opener(function, tree):
    def call(path, flags, mode=0o777, *, dir_fd=None):
        actor = getattr(_actors, "current", None)
        below = None if actor is None else _below(path, dir_fd, tree)
        if below is None:
            return function(path, flags, mode, dir_fd=dir_fd)
        made = Call("open", (below,), bool(flags & os.O_CREAT))
        return _asked(actor, made, function, (path, flags, mode), {"dir_fd": dir_fd})

    return call


def _file_opener(function, tree):
    def call(file, mode="r", *args, **kwargs):
        actor = getattr(_actors, "current", None)
        opener = kwargs.get("opener", args[5] if len(args) > 5 else None)
        below = None if actor is None or opener else _below(file, None, tree)
        if below is None:
            return function(file, mode, *args, **kwargs)
        made = Call("open", (below,), any(letter in mode for letter in "wxa+"))
        return _asked(actor, made, function, (file, mode, *args), kwargs)

    return call


def _lock(function, tree):
    def call(fd, operation):
        actor = getattr(_actors, "current", None)
        below = None if actor is None else _below(fd, None, tree)
        if below is None or operation & fcntl.LOCK_UN:
            return function(fd, operation)
        made = Call("flock", (below,), True)
        while True:
            actor.before(made)
            try:
                function(fd, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                actor.wait()
            else:
                _tell(actor, made, None)
                return None

    return call


def _asked(actor, made, function, args, kwargs):
    actor.before(made)
    try:
        result = function(*args, **kwargs)
    except OSError as error:
        _tell(actor, made, error)
        raise
    _tell(actor, made, None)
    return result


def _tell(actor, made, error):
    # What the actor's account looks at is no call of the actor.
    _actors.current = None
    try:
        actor.after(made, error)
    finally:
        _actors.current = actor


def _below(path, folder, tree):
    """Return a path relative to the tree, None for one outside of it."""
    if isinstance(path, int):
        path = _path_of(path)
    path = os.fsdecode(path)
    if folder is not None and not path.startswith("/"):
        path = f"{_path_of(folder)}/{path}"
    return path.removeprefix(tree) if path.startswith(tree) else None


def _path_of(fd):
    return str(Path(f"/proc/self/fd/{fd}").readlink())
