"""A rank on a cluster: its number from the environment, and its process with a bounded log."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.core.config import JOB_RETRIES, command_environ, rank_variables
from trainfeed.errors import JobRejectedError
from trainfeed.training.jobs import EXHAUSTED, JobRecord, JobSpec, RankProcess, wait_for_end

JOB: Final = "TRAINFEED_JOB"
# Kinds of jobs use different names; variables that are set must agree.
_RANK: Final = ("RANK", "JOB_COMPLETION_INDEX", "PADDLE_TRAINER_ID")
_RANKS: Final = ("WORLD_SIZE", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINERS")
_FIRST_SIGNAL_STATUS: Final = 128


@dataclass(frozen=True)
class ClusterRank:
    """A rank that a cluster has started.

    Attributes:
        record: The job's folder.
        rank: Number of the rank.
    """

    record: JobRecord
    rank: int


def cluster_rank() -> ClusterRank:
    """Return the rank that the environment of this process names.

    Raises:
        JobRejectedError: The environment names no job or no rank of it, or two of its variables
            contradict each other.
    """
    variables = rank_variables((JOB, *_RANK, *_RANKS))
    if not Path(variables.get(JOB, "")).is_absolute():
        raise JobRejectedError(
            f"expected {JOB} to name the folder of a job, got {variables.get(JOB)!r}; nothing was"
            " run; start the rank by a launcher of trainfeed, or with a folder, a rank and the"
            " process id of the launcher as arguments"
        )
    record = JobRecord(Path(variables[JOB]))
    job = record.job()
    _require_ranks(job, _agreed(variables, _RANKS))
    rank = _agreed(variables, _RANK)
    if rank is None or rank >= job.ranks:
        raise JobRejectedError(
            f"expected one of {', '.join(_RANK)} from 0 to {job.ranks - 1}, the ranks of job"
            f" {job.name}, got {rank}; nothing was run; start the rank by a launcher of trainfeed"
        )
    return ClusterRank(record, rank)


def run_kept(place: ClusterRank) -> int:
    """Run a rank as a child of this process, and return the exit status for this process.

    The output goes to the rank's log in the job's folder, and to stdout, for the pod's log. If a
    signal ended the rank, the status is 128 plus its number. A rank that was restarted more often
    than ``TRAINFEED_RETRIES`` says does not run; the status is ``EXHAUSTED``.
    """
    if problem := _too_many_starts(place):
        sys.stderr.write(f"{problem}\n")
        return EXHAUSTED
    command = [sys.executable, "-m", "trainfeed.training.runtime", str(place.record.home)]
    rank = RankProcess(
        [*command, str(place.rank), str(os.getpid())],
        home=place.record.home,
        rank=place.rank,
        environment={**command_environ(), "LOCAL_RANK": "0"},
        log=place.record.log(place.rank),
        echo=_echo,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: rank.terminate())
    wait_for_end([rank])
    status = rank.end(0.0)
    return status if status >= 0 else _FIRST_SIGNAL_STATUS - status


def _too_many_starts(place: ClusterRank) -> str | None:
    """Count this start, if the cluster does not count restarts; return what is wrong, or None."""
    retries = rank_variables((JOB_RETRIES,)).get(JOB_RETRIES)
    if retries is None:
        return None
    job = place.record.job()
    start = place.record.claim_start(job.attempt, place.rank)
    if start <= int(retries) + 1:
        return None
    return (
        f"this is start {start} of rank {place.rank} of job {job.name}, attempt {job.attempt}, and"
        f" train.retries is {retries}; nothing was run; see why its pods were ended, then launch"
        " the job again with a reason"
    )


def _require_ranks(job: JobSpec, ranks: int | None) -> None:
    if ranks not in (None, job.ranks):
        raise JobRejectedError(
            f"expected {job.ranks} ranks as job {job.name} has, got {ranks} from"
            f" {', '.join(_RANKS)}; nothing was run; launch the job again with train.ranks of"
            " dataset.yaml"
        )


def _agreed(variables: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """Return the common value of the variables of these names; None if none of them is set."""
    found = {name: variables[name] for name in names if name in variables}
    if not found:
        return None
    numbers = {int(text) if text.isascii() and text.isdigit() else -1 for text in found.values()}
    if len(numbers) > 1 or -1 in numbers:
        raise JobRejectedError(
            f"expected one number from 0 on in {', '.join(found)}, got {found}; nothing was run;"
            " start the rank by a launcher of trainfeed, and set none of these in"
            " train.environment"
        )
    return numbers.pop()


def _echo(data: bytes) -> None:
    # Errors are ignored: the log in the job's folder is complete also if stdout is closed.
    with suppress(OSError):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]
