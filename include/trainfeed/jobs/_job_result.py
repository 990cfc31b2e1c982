"""The result of a job: what proves that it succeeded, whatever its launcher says.

Rank 0 writes the file at its end, exclusively: of two processes that run one rank, the first has
written it. The file lists the model's files with their digests, so a model that was not written
whole, or was changed afterwards, is no success. The results of before are the metrics alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from trainfeed.dataset import canonical
from trainfeed.errors import ChecksumError, FormatError
from trainfeed.paths import open_plain, os_errors, read_plain, walk
from trainfeed.storage import posix

__all__ = ["RESULT_FILE", "JobResult", "ResultFile"]

RESULT_FILE: Final = "result.json"
OUTPUT_FOLDER: Final = "output"
_MAX_BYTES: Final = 16 << 20
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class ResultFile:
    """A file of the model.

    Attributes:
        size: In bytes.
        sha256: In hex.
    """

    size: int
    sha256: str


@dataclass(frozen=True)
class JobResult:
    """What a job has made.

    Attributes:
        metrics: Name to number, as the entry returned them.
        files: Those of the output folder, by relative POSIX path; empty in results of before.
        job: Name of the job; None in results of before.
        identity: Of the job; None in results of before.
    """

    metrics: Mapping[str, Any]
    files: Mapping[str, ResultFile] = field(default_factory=dict)
    job: str | None = None
    identity: str | None = None

    @classmethod
    def read(cls, path: Path) -> JobResult:
        """Read a result file, of today or of before.

        Raises:
            NotFoundError: There is no such file.
            FormatError: It is no result, or larger than one is.
        """
        data = read_plain(path, follow=False, max_bytes=_MAX_BYTES)
        found = canonical.loads(data, path=str(path))
        if isinstance(found, dict) and not isinstance(found.get("metrics"), dict):
            return cls(found)  # of before: name to number
        try:
            return cls(
                metrics=found["metrics"],
                files={_inside(name): _file(each) for name, each in found["files"].items()},
                job=_text(found["job"]),
                identity=_text(found["identity"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(
                "expected the result of a training, with metrics and files, got something else;"
                " remove the file and train again (in Airflow: clear the task)",
                path=str(path),
            ) from error

    @classmethod
    def of_output(
        cls, job: str, identity: str, metrics: Mapping[str, Any], output: Path
    ) -> JobResult:
        """Return the result of a job whose files are all written.

        Args:
            job: Its name.
            identity: Its identity.
            metrics: Name to number.
            output: Its output folder.

        Raises:
            StorageError: A file cannot be read.
        """
        with os_errors(output):
            paths = [path for path in walk(output) if path.is_file() and not path.is_symlink()]
        files = {path.relative_to(output).as_posix(): _digested(path) for path in sorted(paths)}
        return cls(metrics, files, job, identity)

    def write(self, home: Path) -> bool:
        """Write the file of a job's folder, durably, unless it is there.

        Returns:
            True if this call made the file.
        """
        value = {**asdict(self), "files": {name: asdict(f) for name, f in self.files.items()}}
        return posix.create_exclusive(home / RESULT_FILE, canonical.dumps(value))

    def verify(self, home: Path) -> None:
        """Compare the files of a job's folder with those that are listed.

        Raises:
            ChecksumError: A file is not the one that was written.
            NotFoundError: A file is gone.
        """
        for name, expected in self.files.items():
            path = home / OUTPUT_FOLDER / name
            if (got := _digested(path)) != expected:
                raise ChecksumError(
                    f"expected {expected.size} bytes with SHA-256 {expected.sha256}, got"
                    f" {got.size} with {got.sha256}: the file was changed after rank 0 had ended;"
                    " nothing was removed; let rank 0 write the files of output, and train again",
                    path=str(path),
                )


def _digested(path: Path) -> ResultFile:
    digest, size = hashlib.sha256(), 0
    with os_errors(path), open_plain(path, follow=False) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return ResultFile(size, digest.hexdigest())


def _file(value: Any) -> ResultFile:
    size, sha256 = value["size"], value["sha256"]
    if type(size) is not int or size < 0:
        raise ValueError
    return ResultFile(size, _text(sha256))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError
    return name
