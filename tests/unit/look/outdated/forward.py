"""``trainfeed bring-forward`` as a process, and what it should end with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import warm
from tests.unit.pipeline.test_kill import POINTS
from trainfeed.core import faults
from trainfeed.pipeline import OutdatedRule

__all__ = [
    "DAYS",
    "POINTS",
    "brought_forward",
    "command",
    "make_outdated",
    "require_brought_forward",
]

ROOT = Path(__file__).parents[4]
DAYS = ("2024-03-01", "2024-03-02")


def make_outdated(project, days=DAYS):
    """Build days, and change the seed."""
    for name in days:
        project.prebuilt(name)
    project.edit("seed: 7", "seed: 8")


def variables(project, fault=None):
    """Variables of a command; with a fault, the first process that comes to it is killed."""
    once = project.path / "faults"
    once.mkdir(exist_ok=True)
    return {
        "PYTHONPATH": str(ROOT / "include"),
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
        "TRAINFEED_DATASETS": str(project.env.datasets),
        **({faults.VARIABLE: f"{fault}:kill:{once}"} if fault else {}),
    }


def command(project, *arguments, fault=None):
    """Start a command on a project in a new interpreter."""
    return subprocess.Popen(
        [sys.executable, "-m", "trainfeed", *arguments],
        env=variables(project, fault),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def brought_forward(project, *options, fault=None):
    """Bring all days forward, as a fork of the warm interpreter; return status and messages."""
    arguments = ("bring-forward", "clicks/2024-03", *options)
    done = warm.command(*arguments, env=variables(project, fault))
    return done.returncode, done.stderr


def compared(version):
    """Return the manifest without its references: which generation was there depends on time."""
    return version.manifest.model_copy(update={"references": []})


def require_brought_forward(project, days=DAYS):
    """Compare days with those of a project in which nothing was disturbed."""
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.edit("seed: 8", "seed: 7")
    make_outdated(undisturbed, days)
    for name in days:
        undisturbed.prebuilt(name, outdated=OutdatedRule.REBUILD)
        assert project.folder.last_generation(name) == 2
        found = project.version(name)
        assert list(found.problems()) == []
        assert compared(found) == compared(undisturbed.version(name))
    assert not list(project.folder.staging.glob("*-g*"))
