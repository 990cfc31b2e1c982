"""The note of a checkpoint: its bytes, and every change of the note or of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from trainfeed.core import canonical_json
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.training.jobs import (
    ResultFile,
    digested_below,
    read_checkpoint_note,
    seal_checkpoint_note,
)

SEALED = (
    b'{"files":{"\xc3\xa9/x":{"sha256":"00","size":0}},"scheduler":{"rate":0.5},"step":7,\n'
    b' "digest": "8019498a308237a8ae94c914478ef748c00b01ca32817eb2cdf483c3f5f57d58"\n}\n'
)


@dataclass(frozen=True)
class Note:
    step: int
    scheduler: Mapping[str, float]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "model.npz").write_bytes(b"weights")
    (tmp_path / "parts" / "0").write_bytes(b"")
    note = seal_checkpoint_note(vars(Note(7, {"rate": 0.5})), digested_below(tmp_path))
    (tmp_path / "checkpoint.json").write_bytes(note)
    return tmp_path / "checkpoint.json"


def test_the_bytes_of_a_note_are_fixed():
    files = {"é/x": ResultFile(0, "00")}
    assert seal_checkpoint_note({"step": 7, "scheduler": {"rate": 0.5}}, files) == SEALED


def test_a_note_is_read_with_its_files(path):
    note, files = read_checkpoint_note(path, Note)
    assert note == Note(7, {"rate": 0.5})
    assert sorted(files) == ["model.npz", "parts/0"]


def test_a_changed_or_missing_file_is_named(path):
    (path.parent / "parts" / "0").write_bytes(b"x")
    with pytest.raises(ChecksumError, match="expected 0 bytes") as changed:
        read_checkpoint_note(path, Note)
    assert str(path.parent / "parts" / "0") in str(changed.value)
    (path.parent / "parts" / "0").unlink()
    with pytest.raises(NotFoundError, match="parts/0"):
        read_checkpoint_note(path, Note)


@pytest.mark.parametrize("at", [0, 5, 40, -3])
def test_a_changed_note_is_found(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(ChecksumError, match=r"checkpoint\.json"):
        read_checkpoint_note(path, Note)


@pytest.mark.parametrize(
    "value",
    [
        {"step": 7, "scheduler": {}},
        {"step": 7, "files": {}},
        {"step": 7, "scheduler": {}, "files": {}, "other": 1},
        {"step": 7, "scheduler": {}, "files": {"../out": {"size": 0, "sha256": ""}}},
        {"step": 7, "scheduler": {}, "files": {"/out": {"size": 0, "sha256": ""}}},
        {"step": 7, "scheduler": {}, "files": {"in": {"size": -1, "sha256": ""}}},
    ],
)
def test_another_sealed_file_is_no_note(path, value):
    path.write_bytes(canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}")))
    with pytest.raises(FormatError, match="expected a checkpoint, got another file"):
        read_checkpoint_note(path, Note)
