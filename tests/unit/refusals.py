"""A folder that this account may not list or look into, whatever account it is."""

import os
from pathlib import Path

import pytest

__all__ = ["refuse"]


def refuse(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the system refuse to list a folder, and to look at what lies below it."""
    within = f"{folder}/"

    def refused(call):
        def wrapped(path=".", *args, **kwargs):
            text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
            is_listed = call in (listdir, scandir) and text == str(folder)
            if is_listed or text.startswith(within):
                raise PermissionError(13, "Permission denied", text)
            return call(path, *args, **kwargs)

        return wrapped

    listdir, scandir = os.listdir, os.scandir
    for name in ("listdir", "scandir", "lstat", "stat", "open"):
        monkeypatch.setattr(os, name, refused(getattr(os, name)))
