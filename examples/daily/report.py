"""The table that ``make run`` ends with, and ``run.json`` beside it for scripts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from services.airflow_client import DagRun

__all__ = ["Progress", "show", "write"]

_COLUMNS = (
    "interval", "generation", "verdict", "samples", "quarantined", "filtered", "shards", "bytes",
    "read", "seconds per stage", "training",
)  # fmt: skip
_COUNTS = ("samples", "quarantined", "filtered", "shards", "bytes", "source_reads")


class Progress:
    """Prints a line whenever a run changes its state.

    Args:
        console: Where it prints.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_s = time.monotonic()
        self._states: dict[str, str] = {}

    def __call__(self, runs: Sequence[DagRun]) -> None:
        """Look at the runs as they are now."""
        for run in runs:
            if self._states.get(run.run_id) != run.state:
                self._states[run.run_id] = run.state
                name = run.partition_key or f"{run.logical_date:%Y-%m-%d}"
                seconds = time.monotonic() - self._started_s
                self._console.print(f"  {seconds:5.1f} s  {run.dag_id} {name}: {run.state}")


def show(console: Console, builds: Sequence[dict[str, Any]]) -> None:
    """Print one row per interval."""
    table = Table(*_COLUMNS, show_lines=True)
    for build in builds:
        training = build["training"]
        metrics = training["metrics"]
        stages = " ".join(f"{stage} {seconds:.2f}" for stage, seconds in build["seconds"].items())
        table.add_row(
            build["interval"],
            build["generation"],
            build["verdict"],
            *(str(build[name]) for name in _COUNTS),
            stages,
            f"{training['verdict']} on {len(training['intervals'])} intervals: AUC"
            f" {metrics['auc']:.3f} (base {metrics['auc_base']:.3f}), log-loss"
            f" {metrics['log_loss']:.3f} (base {metrics['log_loss_base']:.3f})",
        )
    console.print(table)


def write(path: Path, builds: Sequence[dict[str, Any]]) -> None:
    """Write ``run.json``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"builds": list(builds)}, indent=2) + "\n")
