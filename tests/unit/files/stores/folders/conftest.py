"""A folder with a model, and a store beside other things that nothing may touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainfeed.core.patience import Patience
from trainfeed.files.stores import Location

FILES = {"weights.bin": b"w" * 100_000, "sub/deep/vocabulary.txt": b"a\nb\n", "empty.bin": b""}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every name below a folder; the bytes of the files, None for folders."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = put(tmp_path / "model", FILES)
    (folder / "assets").mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder of a store with a neighbour whose name begins alike."""
    put(tmp_path / "store", {"v1-neighbour/file": b"1", "other": b"2", ".v1.hidden/file": b"3"})
    return tmp_path / "store"


@pytest.fixture
def place(store: Path) -> Location:
    return Location.parse(str(store / "v1"))


@pytest.fixture
def hasty() -> Patience:
    return Patience(calls=3, pause=lambda _: None)
