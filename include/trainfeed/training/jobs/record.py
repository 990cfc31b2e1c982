"""The folder of a job, with its attempts, result and removal, and the interface of launchers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from trainfeed.core import canonical_json, faults
from trainfeed.errors import FormatError, JobRejectedError, NotFoundError
from trainfeed.files import is_there, is_unfinished, listed, make_folders, open_plain
from trainfeed.files.records import ONCE_UNSEALED, RecordFile, Time
from trainfeed.files.stores import posix
from trainfeed.training.jobs.job_file import JOB_FILE, JobSpec
from trainfeed.training.jobs.results import OUTPUT_FOLDER, RESULT_FILE, JobResult
from trainfeed.training.jobs.states import JobLook, JobState

# --- The folder of a job: its job file, its attempts, its result

_ATTEMPT: Final = re.compile(r"([0-9]{4,})\.json")

# A note about an attempt. Its member ``file`` is ``<job>/<file>``, so that no note passes for
# another; unsealed notes of before lack it.
_NOTES: Final[RecordFile[dict[str, Any]]] = RecordFile(
    dict,
    "a note about an attempt to run a job",
    "nothing was started; remove the job's folder, and train again",
    mode=0o644,
    # The first one has the whole job, with all versions of its window.
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["note of an attempt"],
)


@dataclass(frozen=True)
class JobAttempt:
    """One attempt to run a job on a cluster.

    Attributes:
        number: Number of the attempt, from 1.
        job: The job that the attempt runs.
        why: Reason for an attempt after one that failed; a repeated request with the same reason
            finds this attempt.
        is_created: Whether the attempt's objects were made on the cluster.
        is_cancelled: Whether the attempt was ended on purpose.
        ended: Final state of the attempt; None until it is written down.
    """

    number: int
    job: JobSpec
    why: str | None = None
    is_created: bool = False
    is_cancelled: bool = False
    ended: JobLook | None = None


@dataclass(frozen=True)
class JobRecord:
    """The folder of a job: reads and writes its files.

    Attributes:
        home: The job's folder.
    """

    home: Path

    @property
    def output(self) -> Path:
        """The folder of the files that the training keeps, such as its models."""
        return self.home / OUTPUT_FOLDER

    def is_begun(self) -> bool:
        """Return whether the folder has a file of a job, also if the job file itself is gone.

        A launch that was killed before it wrote the job file leaves a lock, or nothing.

        Raises:
            StorageError: The folder cannot be listed.
        """
        names = [path.name for path in listed(self.home)]
        return any(not (name.startswith(".") or is_unfinished(name)) for name in names)

    def job(self) -> JobSpec:
        """Return the job of the job file.

        Raises:
            JobRejectedError: There is no job file, or the file is damaged.
        """
        return JobSpec.read(self.home / JOB_FILE)

    def write(self, job: JobSpec) -> None:
        """Write the job file that ranks read, in the place of an earlier one."""
        job.write(self.home / JOB_FILE)

    def result(self) -> JobResult | None:
        """Return the result, or None while there is none.

        Raises:
            FormatError: The file is damaged, or has the result of another job.
            JobRejectedError: The job file is damaged.
        """
        try:
            found = JobResult.read(self.home / RESULT_FILE)
        except NotFoundError:
            return None
        job = self.job() if is_there(self.home / JOB_FILE) else None
        if job is not None and found.identity != job.identity:
            raise FormatError(
                f"expected the result of job {job.name}, got that of {found.job}; nothing was"
                " changed; bring the file back, or remove it and train again (in Airflow: clear the"
                " task)",
                path=str(self.home / RESULT_FILE),
            )
        return found

    def log(self, rank: int) -> Path:
        """Return the path of the log that the launcher or the rank itself writes."""
        return self.home / f"rank-{rank}.log"

    def end_of_log(self, rank: int, *, max_bytes: int) -> str | None:
        """Return the last ``max_bytes`` of the rank's log file, or None when there is none."""
        path = self.log(rank)
        try:
            with posix.map_errors(path), open_plain(path, follow=False) as file:
                file.seek(max(0, path.stat().st_size - max_bytes))
                return file.read(max_bytes).decode(errors="replace")
        except NotFoundError:
            return None

    def discard_result(self) -> None:
        """Remove the result of an attempt that failed; fine when there is none."""
        (self.home / RESULT_FILE).unlink(missing_ok=True)

    def newest_attempt(self) -> JobAttempt | None:
        """Return the newest attempt, or None; local jobs have no attempts.

        Raises:
            JobRejectedError: A file of the attempt is damaged.
        """
        numbers = self._numbers()
        return self.attempt(numbers[-1]) if numbers else None

    def attempt(self, number: int) -> JobAttempt:
        """Return an attempt.

        Raises:
            JobRejectedError: There is no such attempt, or a file of it is damaged.
        """
        told, ended = self._note(number, ""), self._note(number, ".ended")
        if told is None:
            raise JobRejectedError(
                f"expected attempt {number} in {self.home / 'attempts'}, there is none; nothing was"
                " started; its attempts are numbered from 1"
            )
        try:
            return JobAttempt(
                number,
                JobSpec.model_validate(told["job"]),
                told.get("why"),
                is_created=self._note(number, ".created") is not None,
                is_cancelled=self._note(number, ".cancelled") is not None,
                ended=None if ended is None else JobLook.from_json(ended),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JobRejectedError(
                f"attempt {number} in {self.home / 'attempts'} is damaged: {error}; nothing was"
                " started; remove the job's folder, and train again"
            ) from error

    def touch(self, number: int) -> None:
        """Let a launch continue an attempt: its age counts from now.

        Raises:
            NotFoundError: There is no such attempt.
            StorageError: The time cannot be written.
        """
        path = self._path(number, "")
        with posix.map_errors(path):
            os.utime(path)

    def claimed_at(self, number: int) -> datetime:
        """Return the time, in UTC, at which a launch last wrote down or continued an attempt.

        Raises:
            NotFoundError: There is no such attempt.
        """
        path = self._path(number, "")
        with posix.map_errors(path):
            return datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def has_reason(self, why: str) -> bool:
        """Whether an attempt has the reason ``why`` already."""
        return any(self.attempt(number).why == why for number in self._numbers())

    def claim(self, job: JobSpec, why: str | None) -> bool:
        """Write down the attempt ``job.attempt``; False when another launch did so first."""
        value: dict[str, Any] = {"job": job.to_json()}
        return self._write(job.attempt, "", {**value, **({"why": why} if why else {})})

    def mark_created(self, number: int, uid: str) -> None:
        """Write down that the cluster has the attempt's objects; ``uid`` is the job object's."""
        self._write(number, ".created", {"uid": uid})

    def mark_cancelled(self, number: int) -> None:
        """Write down that the attempt is cancelled; call it before anything is deleted."""
        self._write(number, ".cancelled", {})

    def claim_start(self, number: int, rank: int) -> int:
        """Write down one more start of a rank in an attempt; return its number, from 1."""
        start = 1
        while not self._write(number, f".rank-{rank}.{start}", {}):
            start += 1
        return start

    def end(self, number: int, look: JobLook) -> None:
        """Write down the final state of an attempt, once.

        The result of an attempt that did not succeed is moved to ``attempts``, so that the next
        attempt can write its own.
        """
        if self._write(number, ".ended", look.to_json()) and look.state is not JobState.SUCCEEDED:
            faults.point("job.after_ended")
            self.set_aside_result(number)

    def set_aside_result(self, number: int) -> None:
        """Move the result of an attempt that did not succeed to ``attempts``, if it is there.

        ``end`` calls it, and a launch calls it again before the next attempt, because the process
        that called ``end`` may have been killed before the move.
        """
        result = self.home / RESULT_FILE
        with posix.map_errors(result):
            if is_there(result):
                result.rename(self._path(number, ".result"))

    def _numbers(self) -> list[int]:
        names = [path.name for path in listed(self.home / "attempts")]
        return sorted(int(match[1]) for match in map(_ATTEMPT.fullmatch, names) if match)

    def _path(self, number: int, kind: str) -> Path:
        return self.home / "attempts" / f"{number:04d}{kind}.json"

    def _note(self, number: int, kind: str) -> Any:
        """Return the JSON of an attempt's file, or None when there is no such file."""
        path = self._path(number, kind)
        try:
            return _NOTES.read(path, file=self._place(path))
        except FormatError as error:
            raise JobRejectedError(str(error)) from error

    def _write(self, number: int, kind: str, value: dict[str, Any]) -> bool:
        path = self._path(number, kind)
        with posix.map_errors(path):
            make_folders(path.parent)
        return _NOTES.write_once(path, {**value, "file": self._place(path)})

    def _place(self, path: Path) -> str:
        return f"{self.home.name}/{path.name}"


# --- The note that retention removed the files of a finished job; its job file and result stay

_NAME: Final = "removed.json"


@dataclass(frozen=True)
class JobRemoval:
    """The removal of the files of a job by retention.

    Attributes:
        at: Time of the removal, as ``2026-03-08T00:00:00Z``.
        why: The rule, as ``keep_days: 30``.
        job: Name of the job; None in a note of before.
    """

    at: Time
    why: str
    job: str | None = field(default=None, compare=False, repr=False)

    @property
    def told(self) -> str:
        """When and why, for a message."""
        return f"retention removed its files on {self.at} ({self.why})"

    @classmethod
    def read(cls, home: Path) -> JobRemoval | None:
        """Return the removal of the job with the folder ``home``, None if its files are there.

        Raises:
            FormatError: The note is damaged.
            StorageError: The publication root refused or failed.
        """
        return _FILE.read(home / _NAME, job=home.name)

    def write(self, home: Path) -> None:
        """Write the note, unless there is one."""
        _FILE.write_once(home / _NAME, replace(self, job=home.name))


_FILE: Final = RecordFile(
    JobRemoval,
    "the note of a removal of a job's files",
    "nothing was changed; remove the job's folder, and train again",
)


# --- The interface of all launchers


class Launcher(Protocol):
    """Starts jobs of one kind, on this machine or on one cluster.

    Attributes:
        kind: Kind of the launcher, a value of ``train.launcher``.
    """

    kind: str

    def start(self, job: JobSpec, home: Path) -> JobLook:
        """Start a job, or adopt the running one of the same name and identity.

        Args:
            job: The job; ``job.attempt`` is the number of the attempt.
            home: The job's folder, which exists.

        Raises:
            LaunchError: The launcher refused or failed.
        """

    def look(self, record: JobRecord) -> JobLook:
        """Return the state of a job; nothing is changed."""

    def render(self, job: JobSpec, home: Path) -> Sequence[dict[str, Any]]:
        """Return the objects that ``start`` would make, and make none of them."""
