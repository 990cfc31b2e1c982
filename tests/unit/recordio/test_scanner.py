"""Files found by name, list and pattern."""

from __future__ import annotations

import pytest

from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.recordio import RecordScanner, RecordWriter


@pytest.fixture
def folder(tmp_path):
    for name in ("g-2", "g-10", "g-1", "other", "odd[1],name"):
        with RecordWriter(tmp_path / name) as writer:
            writer.write(name.encode())
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ("{}/g-2", ["g-2"]),
        ("{}/g-*", ["g-1", "g-10", "g-2"]),
        ("{}/other,{}/g-*", ["other", "g-1", "g-10", "g-2"]),
        (["{}/g-2", "{}/g-1"], ["g-2", "g-1"]),
        (["{}/g-2,{}/g-10", "{}/o*r"], ["g-2", "g-10", "other"]),
    ],
)
def test_parts_keep_their_order_and_matches_are_sorted(folder, paths, expected):
    texts = [paths] if isinstance(paths, str) else paths
    filled = [text.replace("{}", str(folder)) for text in texts]
    scanner = RecordScanner(filled[0] if isinstance(paths, str) else filled)
    assert [record.decode() for record in scanner] == expected
    assert [record.decode() for record in scanner] == expected


def test_path_object_is_no_pattern(folder):
    assert list(RecordScanner(folder / "odd[1],name")) == [b"odd[1],name"]


@pytest.mark.parametrize("paths", ["{}/g-1,{}/h-*", ["{}/g-1", "{}/h-*"], "{}/g-1,{}/h-*,"])
def test_part_without_a_match_is_named(folder, paths):
    filled = (
        paths.replace("{}", str(folder))
        if isinstance(paths, str)
        else [part.replace("{}", str(folder)) for part in paths]
    )
    with pytest.raises(NotFoundError, match=r"no file matches '.*/h-\*'"):
        RecordScanner(filled)


def test_no_files_at_all_are_no_match(folder):
    with pytest.raises(NotFoundError, match="got an empty list"):
        RecordScanner([])


def test_damage_in_a_later_file_names_that_file(folder):
    path = folder / "g-10"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = []
    with pytest.raises(ChecksumError) as caught:
        found.extend(RecordScanner(f"{folder}/g-*"))
    assert caught.value.path == str(path)


def test_a_folder_is_refused_at_once(folder):
    with pytest.raises(FormatError, match="expected a plain file, got a folder"):
        list(RecordScanner(folder))
