"""One rank of a training job: ``… -m trainfeed.training.runtime JOB_FOLDER RANK LAUNCHER_PID``.

Ends with its launcher: a launcher that is killed leaves no trainer behind. Imports take long
enough for a launcher to die meanwhile, so all but the lightest wait until the rank is tied to it.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trainfeed.errors import JobRejectedError, Outcome, TrainFeedError
from trainfeed.jobs import REJECTED, RETRYABLE
from trainfeed.paths import make_folders
from trainfeed.process_ties import tie_to_parent

if TYPE_CHECKING:
    from trainfeed.jobs import JobSpec
    from trainfeed.training._training_job import TrainingJob

__all__ = ["run"]


def run(home: str | os.PathLike[str], rank: int) -> None:
    """Run one rank; rank 0 leaves the result in the job's folder.

    Args:
        home: The job's folder.
        rank: Number of this process.

    Raises:
        JobRejectedError: The code is not the launched one, the entry is missing, or it returned
            no metrics.
    """
    from trainfeed.jobs import JobRecord, JobResult, JobRoots
    from trainfeed.training._training_job import TrainingJob

    record = JobRecord(Path(home))
    spec, roots = record.job(), JobRoots.from_environ()
    folder = roots.folder(spec)
    _require_code(spec, folder)
    make_folders(record.output)
    job = TrainingJob(spec, rank, spec.ranks, record.output, roots)
    metrics = _load(spec, folder)(job)
    job.close()
    if rank == 0:
        checked, again = _checked(spec, metrics), job.recomputed
        recomputed = asdict(again) if again.steps else {}
        result = JobResult.of_output(spec.name, spec.identity, checked, record.output, recomputed)
        result.write(record.home)


def _require_code(spec: JobSpec, folder: Path) -> None:
    from trainfeed.usercode import training_digest

    actual = training_digest(folder)
    if actual != spec.code:
        raise JobRejectedError(
            f"expected code with SHA-256 {spec.code} in {folder}, got {actual}: it changed"
            " after the launch; nothing was run; train again (in Airflow: clear the task)"
        )


def _load(spec: JobSpec, folder: Path) -> Callable[[TrainingJob], Any]:
    from trainfeed.specification import did_you_mean

    module_name, _, name = (spec.entry or "").partition(":")
    # A package of its own, so that the entry may say 'from . import features'.
    package = ModuleType(f"trainfeed_training_{spec.dataset}")
    package.__path__ = [str(folder)]
    sys.modules[package.__name__] = package
    module = importlib.import_module(f"{package.__name__}.{module_name}")
    function = getattr(module, name, None)
    if not callable(function):
        raise JobRejectedError(
            f"expected a function {name!r} in {module.__file__}, found none;"
            f" {did_you_mean(name, _functions(module))}; nothing was run; change train.entry in"
            " dataset.yaml"
        )
    return function  # type: ignore[no-any-return]


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and not isinstance(value, type)
    ]


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


if __name__ == "__main__":
    _end_with(int(sys.argv[3]))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        run(Path(sys.argv[1]), int(sys.argv[2]))
    except JobRejectedError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(REJECTED)
    except TrainFeedError as error:
        if error.outcome is not Outcome.RETRY:
            raise
        traceback.print_exc()
        sys.exit(RETRYABLE)
