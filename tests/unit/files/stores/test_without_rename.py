"""A file system that has no rename: what does without one, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.unit.files.stores.file_system_behaviour import names, put
from trainfeed.errors import StorageError, UnsuitableStoreError
from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_transfer import require_writable, upload
from trainfeed.files.stores.local import LocalFileSystem
from trainfeed.pipeline.leftovers import discard


@dataclass(frozen=True)
class FilesWithoutRename:
    """Files of this machine, as a store that cannot rename them."""

    scheme: ClassVar[str] = "once"

    def __getattr__(self, name: str) -> Any:
        if name in {"rename", "replace"}:
            raise AttributeError(name)
        return getattr(LocalFileSystem(), name)


@pytest.fixture
def folder(tmp_path: Path) -> Location:
    return Location(FilesWithoutRename(), str(tmp_path / "store"))


def test_a_store_says_whether_it_has_a_rename(folder: Location, tmp_path: Path) -> None:
    assert not folder.has_rename
    assert Location.parse(str(tmp_path)).has_rename
    assert Location.parse("hdfs://host:8020/x").has_rename


def test_a_location_that_renames_equals_the_one_that_does_not_say_so(tmp_path: Path) -> None:
    place = Location.parse(str(tmp_path))
    assert place.renaming("a test") == place
    assert place == place.renaming("a test")
    assert hash(place.renaming("a test")) == hash(place)
    assert place != str(tmp_path)


def test_a_file_is_moved_by_a_copy_that_appears_whole(folder: Location) -> None:
    put(folder / "new", b"new")
    put(folder / "old", b"old")
    (folder / "new").move(folder / "old")
    assert names(folder) == ["old"]
    assert (folder / "old").read_bytes() == b"new"


def test_a_move_that_ends_before_its_last_step_leaves_both(
    folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise StorageError("killed")

    put(folder / "new", b"new")
    monkeypatch.setattr(LocalFileSystem, "delete", killed)
    with pytest.raises(StorageError, match="killed"):
        (folder / "new").move(folder / "old")
    assert names(folder) == ["new", "old"]
    assert (folder / "old").read_bytes() == b"new"


def test_what_is_thrown_away_is_deleted_where_it_is(folder: Location) -> None:
    put(folder / "spill/0123456789abcdef-g0001/part")
    discard(folder / "spill/0123456789abcdef-g0001", folder / "_trash")
    assert names(folder) == ["spill"]
    assert names(folder / "spill") == []
    discard(folder / "spill/0123456789abcdef-g0001", folder / "_trash")


def test_a_transfer_of_a_folder_is_refused_before_anything_is_made(
    folder: Location, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_bytes(b"weights")
    folder.make_dir()
    for call in (lambda: upload(model, folder / "v1"), lambda: require_writable(folder / "v1")):
        with pytest.raises(UnsuitableStoreError, match="a transfer of a folder renames files, and"):
            call()
    assert names(folder) == []
