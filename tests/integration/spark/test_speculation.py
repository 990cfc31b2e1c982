"""Tasks that run twice at once, because Spark takes one for too slow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainfeed.versions.layout import BUILT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.efficiency.enabled": "false",
}


def files(root):
    """Path and size of all files; without the size of what tells the moment of a build."""
    return {
        str(path.relative_to(root)): None if path.name == BUILT else path.stat().st_size
        for path in Path(root).glob("clicks/versions/**/*")
        if path.is_file()
    }


@pytest.mark.parametrize("point", ["spark.after_group", "convert.before_sync"])
def test_a_copy_of_a_slow_task_leaves_no_file(clicks, tmp_path, monkeypatch, point):
    """The first task stops for ever: only a copy of it can end the build."""
    here = clicks.at(tmp_path / "here", "local")
    here.build()
    master = os.environ["TEST_SPARK_MASTER"]
    there = clicks.in_groups(7).at(tmp_path / "there", "spark", master, **SPECULATION)
    monkeypatch.setenv("TRAINFEED_FAULTS", f"{point}:stop:{tmp_path}")
    there.build()
    assert (tmp_path / f"{point}.fired").exists()
    assert there.digest == here.digest
    assert files(there.env.root) == files(here.env.root)
    staging = Path(there.env.root) / "clicks" / "staging"
    assert [path for path in staging.rglob("*") if path.is_file()] == []
