"""What the submitting process, the driver and the executors tell each other: small JSON files.

All see the work folder of the plan. Each application has a folder there, with a name of its own::

    spark-<id>/job.json       before the start: data set, plan, places, digests of what was shipped
    spark-<id>/failure.json   the first error of an executor that another attempt would meet again
    spark-<id>/result.json    at the end, by the driver: what the application took, or the error
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self, cast

import trainfeed.errors
from trainfeed import canonical_json
from trainfeed.errors import EngineError, FormatError, NotFoundError, TrainFeedError
from trainfeed.storage import Location

__all__ = ["ApplicationCounts", "ApplicationFolder", "ApplicationJob", "Failure"]

_MAX_BYTES: Final = 1 << 20
_MAX_CHARS: Final = 20_000


@dataclass(frozen=True)
class ApplicationJob:
    """What an application builds, and where; no credentials.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        plan_id: Name of the plan.
        root: Publication root.
        landing: Place of landing files.
        work: Place of work files.
        logs: Connection id → place at which paths of log files start.
        package: SHA-256 of the shipped package trainfeed, in hex.
        folder: SHA-256 of the shipped folder of the data set, in hex.
        imported: Packages that the function imports → version and digest.
        required: Packages that those require → version and digest.
        written: Numbers of the shards that an earlier attempt seems to have written.
    """

    dataset: str
    interval: str
    plan_id: str
    root: str
    landing: str
    work: str
    logs: Mapping[str, str]
    package: str
    folder: str
    imported: Mapping[str, str]
    required: Mapping[str, str]
    written: Sequence[int] = ()


@dataclass(frozen=True)
class Failure:
    """An error of trainfeed that another process raises as its own.

    Attributes:
        kind: Name of the class.
        message: The message.
    """

    kind: str
    message: str

    @classmethod
    def of(cls, error: TrainFeedError) -> Self:
        """Describe an error."""
        return cls(type(error).__name__, str(error)[:_MAX_CHARS])

    def error(self) -> TrainFeedError:
        """Return the error; an ``EngineError`` for a class that only its own process can make."""
        kind = getattr(trainfeed.errors, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, TrainFeedError):
            return kind(self.message)
        return EngineError(f"{self.kind}: {self.message}")


@dataclass(frozen=True)
class ApplicationCounts:
    """What an application took, by Spark's own account of all its stages and their attempts.

    Attributes:
        failed_tasks: Number of tasks that failed, or were lost with their executor.
        shuffle_bytes: Bytes that the shuffle wrote.
        spilled_bytes: Bytes that the sort of shards wrote for want of memory.
        build_s: Seconds from the first task to the last shard.
        preprocess_s: Seconds of all tasks that ran the function, together.
        write_s: Seconds of all tasks that sorted and wrote shards, together.
        kept_shards: Number of shards of an earlier attempt that were not written again.
    """

    failed_tasks: int = 0
    shuffle_bytes: int = 0
    spilled_bytes: int = 0
    build_s: float = 0.0
    preprocess_s: float = 0.0
    write_s: float = 0.0
    kept_shards: int = 0


class ApplicationFolder:
    """The files of one application.

    Args:
        location: The folder.
    """

    def __init__(self, location: Location) -> None:
        self._location = location

    @property
    def job_uri(self) -> str:
        """Where the driver finds its job."""
        return (self._location / "job.json").uri

    @classmethod
    def of_job(cls, uri: str) -> Self:
        """Return the folder of the job at a URI."""
        return cls(Location.parse(uri).parent)

    def create(self, job: ApplicationJob) -> None:
        """Make the folder with its job."""
        self._location.make_dir()
        self._write("job.json", asdict(job))

    def remove(self) -> None:
        """Remove the folder."""
        self._location.delete(recursive=True)

    def job(self) -> ApplicationJob:
        """Read the job."""
        return ApplicationJob(**cast("dict[str, Any]", self._read("job.json")))

    def has_job(self) -> bool:
        """Return whether the job is there: the submitting process still wants its result."""
        return (self._location / "job.json").exists()

    def fail(self, failure: Failure) -> None:
        """Keep an error that another attempt would meet again."""
        self._write("failure.json", asdict(failure))

    def failure(self) -> Failure | None:
        """Return the kept error of an executor, or None."""
        found = self._read("failure.json")
        return None if found is None else Failure(**cast("dict[str, Any]", found))

    def end(self, result: Failure | ApplicationCounts) -> None:
        """Write down, as the driver, how the application has ended."""
        kind = "failure" if isinstance(result, Failure) else "counts"
        self._write("result.json", {kind: asdict(result)})

    def result(self) -> Failure | ApplicationCounts | None:
        """Return how the application has ended; None if the driver has not said it."""
        found = cast("dict[str, dict[str, Any]] | None", self._read("result.json"))
        if found is None:
            return None
        failure = found.get("failure")
        return ApplicationCounts(**found["counts"]) if failure is None else Failure(**failure)

    def _write(self, name: str, value: object) -> None:
        data = canonical_json.dumps(value)

        def write(file: Any) -> None:
            file.write(data)

        (self._location / name).write_atomic(write)

    def _read(self, name: str) -> object:
        file = self._location / name
        try:
            data = file.read_bytes(max_bytes=_MAX_BYTES)
        except NotFoundError:
            return None
        value: object = canonical_json.loads(data, path=file.uri)
        if not isinstance(value, dict):
            raise FormatError("expected a JSON object", path=file.uri)
        return value
