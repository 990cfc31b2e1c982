"""A worker process imports what its jobs need, and no more: it starts for every task of a run."""

import subprocess
import sys
from pathlib import Path

from trainfeed.pipeline.workers import _worker_main

INCLUDE = Path(__file__).parents[4] / "include"
# Of other stages and commands.
NOT_NEEDED = {
    "confluent_kafka",
    "fsspec",
    "pyiceberg",
    "rich",
    "sqlalchemy",
    "typer",
    "trainfeed.pipeline.inputs.catalogs",
    "trainfeed.pipeline.quarantine_access",
    "trainfeed.pipeline.run_stage",
    "trainfeed.versions.waive",
}


def modules_after(imports):
    """The modules of a new interpreter that has imported some."""
    code = f"import sys, {imports}; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(INCLUDE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_command_starts_the_workers_of_a_build_before_it_imports_what_is_heavy():
    loaded = modules_after("trainfeed.cli.build")
    assert "trainfeed.pipeline.workers.pool" in loaded
    assert not loaded & {"numpy", "pyarrow", "rich", "trainfeed.pipeline.plan"}


def test_a_worker_does_without_the_modules_of_other_stages():
    loaded = modules_after(f"{_worker_main.__name__}, {_worker_main._OF_JOBS}")
    assert "trainfeed.pipeline.functions.jobs" in loaded
    assert not loaded & NOT_NEEDED
