"""A folder that a snapshot of its own keeps is named with the snapshot; work goes on around it.

CephFS refuses to remove such a folder, and no listing shows its ``.snap``.
"""

import errno
import shutil
from pathlib import Path

import pytest

from trainfeed.errors import ConflictError, SnapshotError
from trainfeed.files.stores import posix


@pytest.fixture
def refuse(monkeypatch):
    """Refuse to remove trees with a folder ``.snap``, as CephFS does."""
    remove = shutil.rmtree

    def rmtree(path, *rest, **options):
        if any(Path(path).rglob(".snap")):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))
        remove(path, *rest, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)


@pytest.mark.parametrize("inner", ["", "a/b"])
def test_the_snapshot_that_keeps_a_folder_is_named(tmp_path, refuse, inner):
    snapshot = tmp_path / "tree" / inner / ".snap" / "keep"
    snapshot.mkdir(parents=True)
    with pytest.raises(SnapshotError) as caught:
        posix.remove_tree(tmp_path / "tree")
    assert f"rmdir {snapshot}" in str(caught.value)
    snapshot.rmdir()
    snapshot.parent.rmdir()
    posix.remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_a_snapshot_of_a_folder_above_keeps_nothing(tmp_path, refuse):
    (tmp_path / "tree" / ".snap" / "_keep_1099511627776").mkdir(parents=True)
    with pytest.raises(ConflictError) as caught:
        posix.remove_tree(tmp_path / "tree")
    assert not isinstance(caught.value, SnapshotError)
