"""The result of a job: the files that it has written, its checkpoints, and their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final, TypeVar

from trainfeed.core import canonical_json
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.files import open_plain, os_errors, read_plain, walk
from trainfeed.files.records import ONCE_UNSEALED, RecordFile

# --- Files that a job has written, each with its size and the SHA-256 of its bytes

_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class ResultFile:
    """Size and digest of a file of a job.

    Attributes:
        size: Number of bytes.
        sha256: SHA-256 in hex.
    """

    size: int
    sha256: str


def digested(path: Path) -> ResultFile:
    """Read a file and return its size and digest.

    Raises:
        NotFoundError: There is no such file.
        StorageError: The file cannot be read, or is no plain file.
    """
    digest, size = hashlib.sha256(), 0
    with os_errors(path), open_plain(path, follow=False) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return ResultFile(size, digest.hexdigest())


def digested_below(folder: Path) -> dict[str, ResultFile]:
    """Return the plain files below a folder, at any depth, by relative POSIX path.

    Raises:
        StorageError: A file cannot be read.
    """
    with os_errors(folder):
        paths = [path for path in walk(folder) if path.is_file() and not path.is_symlink()]
    return {path.relative_to(folder).as_posix(): digested(path) for path in sorted(paths)}


def verify_files(folder: Path, files: Mapping[str, ResultFile], remedy: str = "") -> None:
    """Compare files below a folder with their sizes and digests.

    Args:
        folder: The folder.
        files: Relative POSIX path → expected size and digest.
        remedy: End of the message about a file that differs: why it does, what was kept, what to
            do.

    Raises:
        ChecksumError: A file differs in size or digest.
        NotFoundError: A file is gone.
    """
    for name, expected in files.items():
        if (got := digested(folder / name)) != expected:
            raise ChecksumError(
                f"expected {expected.size} bytes with SHA-256 {expected.sha256}, got {got.size}"
                f" with {got.sha256}{remedy and ': '}{remedy}",
                path=str(folder / name),
            )


def files_from_json(value: Any) -> dict[str, ResultFile]:
    """Return files from their JSON.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: The value has another shape, or names a
            path that leads out of the folder.
    """
    return {_inside(name): _file(each) for name, each in value.items()}


def _file(value: Any) -> ResultFile:
    size, sha256 = value["size"], value["sha256"]
    if type(size) is not int or size < 0 or not isinstance(sha256, str):
        raise ValueError
    return ResultFile(size, sha256)


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError
    return name


# --- The note of a checkpoint: its values, and size and digest of each file that a training saved

_MAX_BYTES: Final = 16 << 20
_Note = TypeVar("_Note")


def seal_checkpoint_note(values: Mapping[str, Any], files: Mapping[str, ResultFile]) -> bytes:
    """Return the bytes of a note, sealed by their digest.

    Args:
        values: Values of JSON, none of them called ``files`` or ``digest``.
        files: The files, by path relative to the folder of the note.
    """
    value = {**values, "files": canonical_json.json_value(files)}
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


# --- The result of a job: the proof of its success, whatever the launcher reports

RESULT_FILE: Final = "result.json"
OUTPUT_FOLDER: Final = "output"


@dataclass(frozen=True)
class JobResult(canonical_json.JsonFields, optional=("recomputed",)):
    """The result of a job.

    Attributes:
        metrics: Name to number, as the training function returned them.
        files: Files of the output folder, by relative POSIX path.
        job: Name of the job.
        identity: Identity of the job.
        recomputed: Numbers of ``steps`` and ``samples`` that were computed a second time, because
            an attempt was killed after its last checkpoint; empty when none were.
    """

    metrics: Mapping[str, Any]
    files: Mapping[str, ResultFile]
    job: str
    identity: str
    recomputed: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> JobResult:
        """Read a result file.

        Raises:
            NotFoundError: There is no such file.
            FormatError: The file is damaged, or larger than 16 MiB.
        """
        if (found := _FILE.read(path)) is None:
            raise NotFoundError(f"{path}: there is no result of a training")
        return found

    @classmethod
    def of_output(
        cls,
        job: str,
        identity: str,
        metrics: Mapping[str, Any],
        output: Path,
        recomputed: Mapping[str, int] = MappingProxyType({}),
    ) -> JobResult:
        """Return the result of a job, with the files of its output folder; all must be written.

        Args:
            job: Name of the job.
            identity: Identity of the job.
            metrics: Name to number.
            output: The output folder; every file in it is read for its digest.
            recomputed: See the attribute.

        Raises:
            StorageError: A file cannot be read.
        """
        return cls(metrics, digested_below(output), job, identity, recomputed)

    def write(self, home: Path) -> bool:
        """Write the result file into a job's folder, durably, unless there is one.

        Returns:
            True if this call made the file.
        """
        return _FILE.write_once(home / RESULT_FILE, self)

    def verify(self, home: Path) -> None:
        """Compare the files of a job's output folder with the list in the result.

        Raises:
            ChecksumError: A file differs from the list in size or digest.
            NotFoundError: A file is gone.
        """
        verify_files(
            home / OUTPUT_FOLDER,
            self.files,
            "the file was changed after rank 0 had ended; nothing was removed; let rank 0 write the"
            " files of output, and train again",
        )


def _from_json(found: Any) -> JobResult:
    if not isinstance(found["metrics"], dict):
        raise TypeError(f"expected metrics by name, got {found['metrics']!r}")
    return JobResult(
        metrics=found["metrics"],
        files=files_from_json(found["files"]),
        job=_text(found["job"]),
        identity=_text(found["identity"]),
        recomputed=_counts(found.get("recomputed", {})),
    )


_FILE: Final = RecordFile(
    JobResult,
    "the result of a training, with metrics and files",
    "nothing was changed; remove the file and train again (in Airflow: clear the task)",
    mode=0o644,
    max_bytes=_MAX_BYTES,
    place=ONCE_UNSEALED["result"],
    to_json=JobResult.to_json,
    from_json=_from_json,
)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _counts(value: Any) -> dict[str, int]:
    if any(type(number) is not int for number in value.values()):
        raise TypeError
    return dict(value)
