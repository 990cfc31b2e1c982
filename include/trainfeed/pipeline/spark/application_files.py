"""What the submitting process, the driver and the executors tell each other: small JSON files.

Also the progress of an application, the errors of Spark that a driver meets, and the end of a
driver whose job was taken away.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self, cast

import trainfeed.errors
from trainfeed.core import canonical_json
from trainfeed.errors import (
    ConfigError,
    EngineError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
    TrainFeedError,
)
from trainfeed.files.stores import Location

if TYPE_CHECKING:
    from pyspark import SparkContext


# --- What the submitting process, the driver and the executors tell each other: small JSON files

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


# --- How far an application is, and what it took, by Spark's own account of its stages

# The two stages of Spark in which an application builds, in their order.
_STEPS: Final = ("preprocess", "write")
_BUILD: Final = "trainfeed"
_PREFIX: Final = "trainfeed progress: "
# What Spark says again and again, for as long as that holds.
_NO_EXECUTOR: Final = "Initial job has not accepted any resources"
_TELL_S: Final = 1.0


def begin_build(context: SparkContext) -> None:
    """Say that the jobs which this thread starts from now on are those of the build."""
    context.setJobGroup(_BUILD, "preprocess groups, write shards")


@contextmanager
def telling_progress(context: SparkContext) -> Iterator[None]:
    """Print how far the steps of the build are, whenever that has changed."""
    done = threading.Event()
    thread = threading.Thread(target=_tell, args=(context, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def progress_in(line: str) -> str | None:
    """Return the progress that a line of an application's output tells; None if it tells none."""
    if _NO_EXECUTOR in line:
        return "waiting: the cluster has no free executor of the asked cores and memory"
    return line.removeprefix(_PREFIX) if line.startswith(_PREFIX) else None


def counts_of(context: SparkContext, build_s: float, *, spilled_bytes: int) -> ApplicationCounts:
    """Return what the application has taken so far.

    Args:
        context: The context.
        build_s: Seconds from the first task to the last shard.
        spilled_bytes: Bytes that tasks wrote into files of their own, to sort them.
    """
    stages = _attempts(context)
    seconds = {
        step: sum(each.executorRunTime() for each in stages if each.stageId() == stage) / 1000
        for step, stage in zip(_STEPS, _stages(context), strict=False)
    }
    return ApplicationCounts(
        failed_tasks=sum(stage.numFailedTasks() for stage in stages),
        shuffle_bytes=sum(stage.shuffleWriteBytes() for stage in stages),
        spilled_bytes=spilled_bytes + sum(stage.diskBytesSpilled() for stage in stages),
        build_s=round(build_s, 3),
        preprocess_s=round(seconds.get("preprocess", 0.0), 3),
        write_s=round(seconds.get("write", 0.0), 3),
    )


def _tell(context: SparkContext, done: threading.Event) -> None:
    before = ""
    while not done.wait(_TELL_S):
        if (line := _line(context)) not in {"", before}:
            before = line
            print(f"{_PREFIX}{line}", file=sys.stderr, flush=True)  # noqa: T201 - the log


def _line(context: SparkContext) -> str:
    tracker = context.statusTracker()
    stages = zip(_STEPS, map(tracker.getStageInfo, _stages(context)), strict=False)
    return ", ".join(
        f"{step} {stage.numCompletedTasks} of {stage.numTasks} tasks"
        for step, stage in stages
        if stage is not None
    )


def _stages(context: SparkContext) -> list[int]:
    """Return the numbers of the stages of all steps; none before the build has begun."""
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(_BUILD)
    # Further jobs write shards without rows.
    job = tracker.getJobInfo(min(jobs)) if jobs else None
    return [] if job is None else sorted(job.stageIds)


def _attempts(context: SparkContext) -> list[Any]:
    """Return Spark's data about every attempt at every stage; PySpark has no call of its own."""
    inside: Any = context
    no_quantiles = inside._gateway.new_array(inside._jvm.double, 0)  # noqa: SLF001
    store = inside._jsc.sc().statusStore()  # noqa: SLF001
    found = store.stageList(None, False, False, no_quantiles, None)
    return [found.apply(index) for index in range(found.size())]


# --- The errors of Spark that a driver meets → one error of trainfeed with its remedy

_MAX_ERROR_CHARS: Final = 2000
# What Spark says → the error of trainfeed.
_WRONG_PYTHON: Final = "PYTHON_VERSION_MISMATCH"
_DISK_FULL: Final = "No space left on device"
_LOST: Final = re.compile(r"ExecutorLostFailure|Python worker exited unexpectedly")
_STACK: Final = re.compile(r"^\s+at [\w.$<>/]+\(.*\)$|^\s+\.\.\. \d+ more$")


def error_of(error: Exception, disks: Sequence[str]) -> TrainFeedError:
    """Return the error for one of Spark: with what it says first; the log has all of it.

    Args:
        error: What PySpark raised.
        disks: Local folders of executors, each with the name of its machine.
    """
    text = str(error)
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the log of the application
    said = without_stacks(text)[:_MAX_ERROR_CHARS]
    if _WRONG_PYTHON in text:
        return ConfigError(
            "expected the Python of the driver on all executors, got another version; landing files"
            " are kept, nothing was published; name the same interpreter for all as 'python' of the"
            f" connection of Spark: {said}"
        )
    if _DISK_FULL in text:
        return QuotaExceededError(
            "a local disk of an executor is full; nothing was published; make room in"
            f" {', '.join(disks)}, or name larger folders in spark.local.dir (of a standalone"
            f" cluster: SPARK_LOCAL_DIRS of its workers): {said}"
        )
    if _LOST.search(text):
        return EngineError(
            "a task lost its process as often as Spark tries it again; landing files are kept,"
            " nothing was published; run the build again. If it repeats, the machine or the cluster"
            " ends the process for want of memory: raise spark.executor.memoryOverhead, or give an"
            f" executor fewer cores: {said}"
        )
    return EngineError(
        "the Spark application failed; landing files are kept, nothing was published; run the build"
        f" again, or look into the log of the application: {said}"
    )


def without_stacks(text: str) -> str:
    """Return what a program printed without the calls that led there."""
    return "\n".join(line for line in text.splitlines() if line and not _STACK.match(line))


# --- Ends a driver that nobody waits for: the submitting process has taken its job away

_LOOK_S: Final = 5.0
_STATUS: Final = 1


@contextmanager
def ending_when_unwanted(folder: ApplicationFolder) -> Iterator[None]:
    """Look for the job while the block runs; end this process, and so the application, without it.

    Args:
        folder: The files of the application.
    """
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(folder, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(folder: ApplicationFolder, done: threading.Event) -> None:
    while not done.wait(_LOOK_S):
        if _is_unwanted(folder):
            print("the build has been ended: its job is gone", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(_STATUS)


def _is_unwanted(folder: ApplicationFolder) -> bool:
    try:
        return not folder.has_job()
    except TrainFeedError:
        # A store that is away for a while says nothing about the build.
        return False
