"""The note of a checkpoint: its values, and size and digest of each file that a training saved.

The note is written after the files and ends with its own digest, so a change of any of these bytes
is found when the note is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from trainfeed import canonical_json
from trainfeed.errors import FormatError
from trainfeed.jobs._job_files import ResultFile, files_from_json, files_to_json, verify_files
from trainfeed.paths import read_plain

__all__ = ["read_checkpoint_note", "seal_checkpoint_note"]

_MAX_BYTES: Final = 16 << 20
_Note = TypeVar("_Note")


def seal_checkpoint_note(values: Mapping[str, Any], files: Mapping[str, ResultFile]) -> bytes:
    """Return the bytes of a note, sealed by their digest.

    Args:
        values: Values of JSON, none of them called ``files`` or ``digest``.
        files: The files, by path relative to the folder of the note.
    """
    value = {**values, "files": files_to_json(files)}
    return canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}"))


def read_checkpoint_note(
    path: Path, make: Callable[..., _Note]
) -> tuple[_Note, Mapping[str, ResultFile]]:
    """Return a note and its files, after all of the files are read and verified.

    Args:
        path: The note; its files are in the same folder, or below.
        make: Makes the note from its values, which are keyword arguments.

    Raises:
        ChecksumError: The note was changed, or a file differs from it in size or digest.
        FormatError: The file is no such note.
        NotFoundError: The note, or one of its files, is gone.
    """
    data = read_plain(path, follow=False, max_bytes=_MAX_BYTES)
    canonical_json.require_intact(data, path=str(path))
    found = canonical_json.loads(data, path=str(path))
    try:
        files = files_from_json(found.pop("files"))
        del found["digest"]
        note = make(**found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError("expected a checkpoint, got another file", path=str(path)) from error
    verify_files(path.parent, files)
    return note, files
