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

from trainfeed import canonical_json
from trainfeed.errors import FormatError
from trainfeed.jobs._job_files import (
    ResultFile,
    digested_below,
    files_from_json,
    files_to_json,
    verify_files,
)
from trainfeed.paths import read_plain
from trainfeed.storage import posix

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
        data = read_plain(path, follow=False, max_bytes=_MAX_BYTES)
        found = canonical_json.loads(data, path=str(path))
        if isinstance(found, dict) and not isinstance(found.get("metrics"), dict):
            return cls(found)  # earlier version: the metrics alone
        try:
            return cls(
                metrics=found["metrics"],
                files=files_from_json(found["files"]),
                job=_text(found["job"]),
                identity=_text(found["identity"]),
                recomputed=_counts(found.get("recomputed", {})),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(
                "expected the result of a training, with metrics and files, got something else;"
                " remove the file and train again (in Airflow: clear the task)",
                path=str(path),
            ) from error

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
        value = {
            "metrics": dict(self.metrics),
            "files": files_to_json(self.files),
            "job": self.job,
            "identity": self.identity,
            **({"recomputed": dict(self.recomputed)} if self.recomputed else {}),
        }
        return posix.create_exclusive(home / RESULT_FILE, canonical_json.dumps(value))

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


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _counts(value: Any) -> dict[str, int]:
    if any(type(number) is not int for number in value.values()):
        raise TypeError
    return dict(value)
