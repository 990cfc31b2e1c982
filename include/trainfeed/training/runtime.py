"""One rank of a training job: ``python -m trainfeed.training.runtime JOB_FOLDER RANK``.

Ends with its launcher: whoever kills the launcher leaves no trainer behind.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from trainfeed.dataset import canonical
from trainfeed.errors import JobRejectedError
from trainfeed.storage import posix
from trainfeed.training._job import JOB_FILE, JobSpec, TrainingJob
from trainfeed.training._local import METRICS_FILE

__all__ = ["run"]

_PR_SET_PDEATHSIG: Final = 1


def run(home: Path, rank: int) -> None:
    """Run one rank; rank 0 leaves the metrics in the job's folder.

    Args:
        home: The job's folder.
        rank: Number of this process.

    Raises:
        JobRejectedError: The entry is missing, or returned no metrics.
    """
    spec = JobSpec.read(home / JOB_FILE)
    output = home / "output"
    output.mkdir(exist_ok=True)
    metrics = _load(spec)(TrainingJob(spec, rank, spec.ranks, output))
    if rank == 0:
        posix.replace_file(home / METRICS_FILE, canonical.dumps(_checked(spec, metrics)))


def _load(spec: JobSpec) -> Callable[[TrainingJob], Any]:
    module_name, _, name = spec.entry.partition(":")
    # A package of its own, so that the entry may say 'from . import features'.
    package = ModuleType(f"trainfeed_training_{spec.dataset}")
    package.__path__ = [spec.folder]
    sys.modules[package.__name__] = package
    module = importlib.import_module(f"{package.__name__}.{module_name}")
    function = getattr(module, name, None)
    if not callable(function):
        raise JobRejectedError(f"expected a function {name!r} in {module.__file__}, found none")
    return function  # type: ignore[no-any-return]


def _checked(spec: JobSpec, metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, Mapping) or not metrics:
        raise JobRejectedError(f"expected {spec.entry} to return name → number, got {metrics!r}")
    values = {str(name): float(value) for name, value in metrics.items()}
    if bad := [name for name, value in values.items() if not math.isfinite(value)]:
        raise JobRejectedError(f"metrics {bad} of {spec.entry} are not finite")
    return values


def _end_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the call above.
    if os.getppid() != parent:
        sys.exit("the launcher is gone")


if __name__ == "__main__":
    _end_with_parent()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run(Path(sys.argv[1]), int(sys.argv[2]))
