"""A project with a fixed function, and its replay as a command that tests can kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import warm
from tests.unit.pipeline.test_kill import POINTS
from tests.unit.processes import LIMIT_S
from trainfeed.core import faults

ROOT = Path(__file__).parents[3]
# A replay adopts what has landed, so it reaches no point of landing.
REPLAY_POINTS = [
    point
    for point in POINTS
    if point not in {"ingest.after_batch", "ingest.before_rename", "ingest.after_rename"}
]


def fixed(project):
    """Build the project, fix its function, and take the topic away."""
    project.build()
    project.edit(
        "row = record.json()",
        'row = record.json() if record.value != b"not json" else {"value": 0.5}',
        "preprocess.py",
    )
    return project


def call(project, *command, fault=None):
    """The arguments of ``trainfeed …`` on the project, and variables without its topic."""
    environ = {
        "PYTHONPATH": str(ROOT / "include"),
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_DATASETS": str(project.env.datasets),
        **({faults.VARIABLE: f"{fault}:kill"} if fault else {}),
    }
    if command[0] == "build":
        environ["TRAINFEED_KAFKA"] = f"recorded:{project.path / 'recorded'}"
    return [*command, "--interval", "2024-03-01", "--json"], environ


def start(project, *command, fault=None):
    """Start ``trainfeed …`` on the project in a new interpreter."""
    arguments, environ = call(project, *command, fault=fault)
    return subprocess.Popen(
        [sys.executable, "-m", "trainfeed", *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    """Wait; return status, output and messages."""
    output, said = process.communicate(timeout=LIMIT_S)
    return process.returncode, output, said


def replay(project, fault=None):
    """Replay as a fork of the warm interpreter; return status, output and messages."""
    arguments, environ = call(project, "quarantine", "replay", "clicks", fault=fault)
    done = warm.command(*arguments, env=environ)
    return done.returncode, done.stdout, done.stderr
