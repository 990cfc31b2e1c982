"""Runs a job as processes of this machine, one per rank."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final

import trainfeed
from trainfeed.config import training_environ
from trainfeed.dataset import canonical
from trainfeed.errors import FormatError, JobFailedError, NotFoundError
from trainfeed.paths import open_emptied, read_plain
from trainfeed.training._ended import Ended, ended_error
from trainfeed.training._job import JobSpec
from trainfeed.training.runtime import METRICS_FILE

__all__ = ["read_metrics", "run_local"]

_POLL_S: Final = 0.2
_GRACE_S: Final = 10.0
_MAX_METRICS_BYTES: Final = 16 << 20


def run_local(job: JobSpec, home: Path) -> dict[str, Any]:
    """Run every rank of ``job`` and wait for all.

    Args:
        job: The job.
        home: Its folder, which holds the job file and gets logs, metrics and output.

    Returns:
        The metrics that rank 0 returned.

    Raises:
        JobFailedError: A rank failed by its own code; the others were ended.
        JobKilledError: A rank was killed, or met what may pass; the others were ended.
        JobRejectedError: A rank found the job to be none that it may run, or none that it can.
    """
    (home / METRICS_FILE).unlink(missing_ok=True)
    with ExitStack() as stack:
        logs = [stack.enter_context(open_emptied(_log(home, rank))) for rank in range(job.ranks)]
        ranks: list[subprocess.Popen[bytes]] = []
        try:
            for rank, log in enumerate(logs):
                ranks.append(_start(home, rank, log))
            _wait(job, home, ranks)
        finally:
            _end(ranks)
    try:
        return read_metrics(home / METRICS_FILE)
    except NotFoundError as error:
        raise JobFailedError(
            f"job {job.name} ended without metrics; see {_log(home, 0)}; run the training again"
            " (in Airflow: clear the task)"
        ) from error


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the metrics of a job: name to number.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is no JSON object, or larger than one of metrics is.
    """
    found = canonical.loads(
        read_plain(path, follow=False, max_bytes=_MAX_METRICS_BYTES), path=str(path)
    )
    if not isinstance(found, dict):
        raise FormatError(
            "expected the metrics of a training, name to number, got something else; remove the"
            " file and train again (in Airflow: clear the task)",
            path=str(path),
        )
    return found


def _start(home: Path, rank: int, log: BinaryIO) -> subprocess.Popen[bytes]:
    module = "trainfeed.training.runtime"
    command = [sys.executable, "-m", module, str(home), str(rank), str(os.getpid())]
    package = str(Path(trainfeed.__file__).parent.parent)
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=home,
        env=training_environ(package),
    )


def _wait(job: JobSpec, home: Path, ranks: list[subprocess.Popen[bytes]]) -> None:
    running = dict(enumerate(ranks))
    while running:
        for rank, process in list(running.items()):
            try:
                status = process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            if status != 0:
                raise ended_error(job, _cause(home, running, Ended(rank, status, _log(home, rank))))
            del running[rank]


def _cause(home: Path, running: dict[int, subprocess.Popen[bytes]], first: Ended) -> Ended:
    """Return the rank that others failed for: the one that was killed, if there is one."""
    found = [
        Ended(rank, status, _log(home, rank))
        for rank, process in running.items()
        if (status := process.poll()) is not None
    ]
    return next((ended for ended in found if ended.is_killed), first)


def _log(home: Path, rank: int) -> Path:
    return home / f"rank-{rank}.log"


def _end(ranks: list[subprocess.Popen[bytes]]) -> None:
    for process in ranks:
        process.terminate()
    for process in ranks:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
