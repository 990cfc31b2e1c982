"""The errors of Spark that a driver meets → one error of trainfeed with its remedy."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from trainfeed.errors import ConfigError, EngineError, QuotaExceededError, TrainFeedError

__all__ = ["error_of", "without_stacks"]

_MAX_CHARS: Final = 2000
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
    said = without_stacks(text)[:_MAX_CHARS]
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
