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
from trainfeed.errors import JobFailedError, JobRejectedError
from trainfeed.training._job import JobSpec
from trainfeed.training.runtime import METRICS_FILE, REJECTED

__all__ = ["run_local"]

_TAIL_BYTES: Final = 2000
_POLL_S: Final = 0.2
_GRACE_S: Final = 10.0


def run_local(job: JobSpec, home: Path) -> dict[str, Any]:
    """Run every rank of ``job`` and wait for all.

    Args:
        job: The job.
        home: Its folder, which holds the job file and gets logs, metrics and output.

    Returns:
        The metrics that rank 0 returned.

    Raises:
        JobFailedError: A rank failed; the others were ended.
        JobRejectedError: A rank found the job to be none that it may run, or none that it can.
    """
    (home / METRICS_FILE).unlink(missing_ok=True)
    with ExitStack() as stack:
        logs = [
            stack.enter_context((home / f"rank-{rank}.log").open("wb")) for rank in range(job.ranks)
        ]
        ranks: list[subprocess.Popen[bytes]] = []
        try:
            for rank, log in enumerate(logs):
                ranks.append(_start(home, rank, log))
            _wait(job, home, ranks)
        finally:
            _end(ranks)
    try:
        metrics: dict[str, Any] = canonical.loads((home / METRICS_FILE).read_bytes())
    except FileNotFoundError as error:
        raise JobFailedError(
            f"job {job.name} ended without metrics; see {home}/rank-0.log; clear the task to run"
            " it again"
        ) from error
    return metrics


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
            log = home / f"rank-{rank}.log"
            if status == REJECTED:
                reason = _tail(log).rpartition("\n")[2]
                raise JobRejectedError(f"job {job.name}, rank {rank}: {reason}")
            if status != 0:
                raise JobFailedError(_failure(job, log, rank, status))
            del running[rank]


def _end(ranks: list[subprocess.Popen[bytes]]) -> None:
    for process in ranks:
        process.terminate()
    for process in ranks:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _failure(job: JobSpec, log: Path, rank: int, status: int) -> str:
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return (
        f"job {job.name} failed: rank {rank} ended with {how}; log {log}; the versions it read"
        f" are untouched; mend {job.entry} and clear the task:\n{_tail(log)}"
    )


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").strip()
