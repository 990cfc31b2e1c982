"""Plays simulated nights, and prints a line of JSON for each: ``python -m tests.retention 366``.

The landing area is on the HDFS of ``TEST_HDFS_URI`` and the publication root on the CephFS of
``TEST_CEPHFS_PATH`` where these are set, and in a temporary folder where they are not.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from tests.retention.measured import require_bounded
from tests.retention.nights import Nights
from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from trainfeed.dataset import init_root

# Nights after which bytes are measured.
_EVERY: Final = 6


def placed(path: Path) -> Project:
    """Return the small data set, with landing and root on the services that there are."""
    project = make_project(path)
    name = f"nights-{uuid.uuid4().hex[:8]}"
    env = project.env
    if hdfs := os.environ.get("TEST_HDFS_URI"):
        env = replace(env, landing=f"{hdfs}/{name}/landing")
    if ceph := os.environ.get("TEST_CEPHFS_PATH"):
        init_root(Path(ceph) / name)
        env = replace(env, root=str(Path(ceph) / name))
    return Project(path, env)


def main(number: int, seed: int) -> None:
    """Play a number of nights."""
    with tempfile.TemporaryDirectory() as folder:
        nights, seen = Nights(placed(Path(folder)), seed), []
        nights.prepare(number)
        started = time.monotonic()
        for night in nights.play(number, every=_EVERY):
            seen.append(night)
            _tell({**asdict(night), "seconds": round(time.monotonic() - started)})
            require_bounded(seen, nights.rules)
        _tell(nights.people.counts)


def _tell(row: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int((sys.argv[2:] or ["1"])[0]))
