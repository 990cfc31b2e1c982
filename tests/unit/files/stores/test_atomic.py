from __future__ import annotations

from pathlib import Path

import pytest

from trainfeed.errors import CommitUnknownError, NotFoundError, StorageError
from trainfeed.files.stores import Location
from trainfeed.files.stores.file_system import claim_by_rename, temporary_path
from trainfeed.files.stores.hadoop import HadoopFiles
from trainfeed.files.stores.local import LocalFileSystem


def test_temporary_names_are_hidden_and_never_equal() -> None:
    first, second = temporary_path("/a/name"), temporary_path("/a/name")
    assert first != second
    assert first.startswith("/a/.name.")
    assert first.endswith(".tmp")


def test_the_temporary_name_of_a_relative_path_is_beside_it() -> None:
    """A path without a folder is in the working folder, and not in the root of all files."""
    assert Path(temporary_path("name")).parent == Path()
    assert temporary_path("/name").startswith("/.name.")


class LostRename(LocalFileSystem):
    """Renames, loses the answer, and asks again, as a client after a failover."""

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        super().rename(source, target)


class LostReplacement(LocalFileSystem):
    """The same for a rename that replaces, as on a NameNode."""

    replace = HadoopFiles.replace
    _is_there = HadoopFiles._is_there

    def _move(self, source: str, target: str, *, overwrite: bool) -> None:
        assert overwrite
        super().replace(source, target)
        super().replace(source, target)


class FailingRename(LocalFileSystem):
    def rename(self, source: str, target: str) -> None:  # noqa: ARG002
        raise StorageError("no answer")


class ShortWrite(LocalFileSystem):
    """Has lost the bytes of whatever it renamed."""

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        Path(target).write_bytes(b"")


@pytest.mark.parametrize(
    ("fs", "expected"),
    [
        (LostRename(), CommitUnknownError),
        (FailingRename(), StorageError),
        (ShortWrite(), CommitUnknownError),
    ],
)
def test_a_claim_that_nobody_confirmed_is_an_error(
    tmp_path: Path, fs: LocalFileSystem, expected: type[StorageError]
) -> None:
    """HD-12."""
    with pytest.raises(StorageError) as caught:
        claim_by_rename(fs, str(tmp_path / "file"), b"data")
    assert type(caught.value) is expected
    assert [path.name for path in tmp_path.iterdir()] in ([], ["file"])


def test_a_replacement_that_the_client_has_sent_twice_is_done(tmp_path: Path) -> None:
    fs, old, new = LostReplacement(), tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    fs.replace(str(new), str(old))
    assert old.read_bytes() == b"new"
    with pytest.raises(NotFoundError):
        fs.replace(str(new), str(old))


def test_a_replacement_whose_file_is_not_there_is_an_error(tmp_path: Path) -> None:
    class Gone(LostReplacement):
        def _move(self, source: str, target: str, *, overwrite: bool) -> None:
            Path(source).unlink()
            super()._move(source, target, overwrite=overwrite)

    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "new").write_bytes(b"new")
    with pytest.raises(NotFoundError):
        Gone().replace(str(tmp_path / "new"), str(tmp_path / "old"))
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_claim_by_rename_works_like_any_other(tmp_path: Path) -> None:
    fs, path = LocalFileSystem(), str(tmp_path / "file")
    assert claim_by_rename(fs, path, b"first") is True
    assert claim_by_rename(fs, path, b"second") is False
    assert Location(fs, path).read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
