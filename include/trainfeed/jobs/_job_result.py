"""The result of a job: the proof of its success, whatever the launcher reports.

Rank 0 creates the file at its end, exclusively: if two processes run rank 0, the file of the first
counts. The file lists the model's files with their digests, so a model that is incomplete, or was
changed afterwards, is no success. Result files of earlier versions hold the metrics alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from trainfeed.errors import NotFoundError
from trainfeed.jobs._job_files import (
    ResultFile,
    digested_below,
    files_from_json,
    files_to_json,
    verify_files,
)
from trainfeed.records import ONCE_UNSEALED, RecordFile

__all__ = ["OUTPUT_FOLDER", "RESULT_FILE", "JobResult"]

RESULT_FILE: Final = "result.json"
OUTPUT_FOLDER: Final = "output"
_MAX_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class JobResult:
    """The result of a job.

    Attributes:
        metrics: Name to number, as the training function returned them.
        files: Files of the output folder, by relative POSIX path; empty in a file of an earlier
            version.
        job: Name of the job; None in a file of an earlier version.
        identity: Identity of the job; None in a file of an earlier version.
        recomputed: Numbers of ``steps`` and ``samples`` that were computed a second time, because
            an attempt was killed after its last checkpoint; empty when none were.
    """

    metrics: Mapping[str, Any]
    files: Mapping[str, ResultFile] = field(default_factory=dict)
    job: str | None = None
    identity: str | None = None
    recomputed: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> JobResult:
        """Read a result file, also one of an earlier version.

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


def _to_json(result: JobResult) -> dict[str, Any]:
    return {
        "metrics": dict(result.metrics),
        "files": files_to_json(result.files),
        "job": result.job,
        "identity": result.identity,
        **({"recomputed": dict(result.recomputed)} if result.recomputed else {}),
    }


def _from_json(found: Any) -> JobResult:
    if isinstance(found, dict) and not isinstance(found.get("metrics"), dict):
        return JobResult(found)  # earlier version: the metrics alone
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
    to_json=_to_json,
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
