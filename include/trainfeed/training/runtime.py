"""One rank of a training job: ``… -m trainfeed.training.runtime JOB_FOLDER RANK LAUNCHER_PID``.

The rank ends with its launcher, so a killed launcher leaves no trainer behind. The launcher may die
during slow imports; therefore all but the fastest imports come after the rank watches its launcher.

Without arguments, in the pods of a cluster, the environment names job and rank, and this process is
the launcher of the rank.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainfeed.core.process_ties import start_ticks, tie_to_parent
from trainfeed.errors import JobRejectedError, Outcome, TrainFeedError
from trainfeed.files import make_folders
from trainfeed.training.jobs import REJECTED, RETRYABLE

if TYPE_CHECKING:
    from trainfeed.training.jobs import JobSpec


def run(home: str | os.PathLike[str], rank: int) -> None:
    """Run one rank; rank 0 leaves the result in the job's folder.

    Args:
        home: The job's folder.
        rank: Number of this process.

    Raises:
        JobRejectedError: The code has changed since the launch, a version was removed, the training
            function is missing, or it returned no metrics.
    """
    from trainfeed.functions import load_training_function
    from trainfeed.training.jobs import JobRecord, JobResult, JobRoots
    from trainfeed.training.training_job import TrainingJob, job_lease

    record = JobRecord(Path(home))
    spec, roots = record.job(), JobRoots.from_environ()
    folder = roots.folder(spec)
    code = _code(spec, folder)
    make_folders(record.output)
    _name(spec, rank)
    with job_lease(spec, rank, roots):
        job = TrainingJob(spec, rank, spec.ranks, record.output, roots)
        metrics = load_training_function(folder, spec.dataset, spec.entry or "", code)(job)
        job.close()
    if rank == 0:
        checked, again = _checked(spec, metrics), job.recomputed
        recomputed = asdict(again) if again.steps else {}
        result = JobResult.of_output(spec.name, spec.identity, checked, record.output, recomputed)
        result.write(record.home)


def _name(spec: JobSpec, rank: int) -> None:
    """Set the variables by which frameworks, and PaddleCloud's programs, find their rank."""
    from trainfeed.core.config import name_rank, rank_variables

    own, ranks = str(rank), str(spec.ranks)
    name_rank(
        {
            # Defaults for ranks on one machine; values that a cluster has set replace them.
            "LOCAL_RANK": own,
            "PADDLE_JOB_NAME": spec.name,
            **rank_variables(("LOCAL_RANK", "PADDLE_JOB_NAME")),
            "RANK": own,
            "WORLD_SIZE": ranks,
            "PADDLE_TRAINER_ID": own,
            "PADDLE_TRAINERS_NUM": ranks,
            "PADDLE_TRAINERS": ranks,
        }
    )


def _code(spec: JobSpec, folder: Path) -> Mapping[str, bytes]:
    from trainfeed.functions import digest_of_texts, training_texts

    texts = training_texts(folder)
    if (actual := digest_of_texts(texts)) != spec.code:
        raise JobRejectedError(
            f"expected code with SHA-256 {spec.code} in {folder}, got {actual}: it changed"
            " after the launch; nothing was run; train again (in Airflow: clear the task)"
        )
    return texts


def _checked(spec: JobSpec, metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, Mapping) or not metrics:
        raise JobRejectedError(f"expected {spec.entry} to return name → number, got {metrics!r}")
    values = {str(name): float(value) for name, value in metrics.items()}
    if bad := [name for name, value in values.items() if not math.isfinite(value)]:
        raise JobRejectedError(f"metrics {bad} of {spec.entry} are not finite")
    return values


def _end_with(launcher: int) -> None:
    if not tie_to_parent(launcher):
        sys.exit(f"the launcher {launcher} is gone")


def _meet(home: str, launcher: int) -> None:
    """Name a file by which the ranks of one launch find each other.

    Process id and start time of the launcher are part of the name, so each launch has its own file.
    """
    from trainfeed.core.config import RENDEZVOUS, name_rank

    name_rank({RENDEZVOUS: f"file://{home}/.ranks-{launcher}-{start_ticks(launcher)}"})


def _main(arguments: list[str]) -> int:
    """Return the exit status of a rank."""
    try:
        if not arguments:
            from trainfeed.training.cluster_rank import cluster_rank, run_kept

            return run_kept(cluster_rank())
        home, rank, launcher = arguments
        _end_with(int(launcher))
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        _meet(home, int(launcher))
        run(Path(home), int(rank))
    except JobRejectedError as error:
        sys.stderr.write(f"{error}\n")
        return REJECTED
    except TrainFeedError as error:
        if error.outcome is not Outcome.RETRY:
            raise
        traceback.print_exc()
        return RETRYABLE
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
