"""Executors with another Python than the driver: told before a record is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainfeed.errors import ConfigError

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
# One Python is installed here: this one tells another version of itself.
CLAIMS = """
import sys
from collections import namedtuple

_Version = namedtuple("version_info", "major minor micro releaselevel serial")
sys.version_info = _Version(3, 12, 0, "final", 0)
"""


@pytest.fixture
def other_python(tmp_path):
    """An interpreter that tells the version 3.12."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(CLAIMS)
    path = tmp_path / "python3.12"
    own = os.environ["TEST_SPARK_HOME"] + "/bin/python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{modules}:$PYTHONPATH" exec {own} "$@"\n')
    path.chmod(0o755)
    return path


def test_another_python_on_executors_is_told_before_a_record_is_read(
    project, clicks, tmp_path, other_python
):
    called = tmp_path / "called"
    begin = "    row = record.json()\n"
    project.edit(begin, f"    open({str(called)!r}, 'w').close()\n{begin}", "preprocess.py")
    conf = {"spark.pyspark.python": str(other_python)}
    there = clicks.read_again().at(tmp_path / "there", "spark", **conf)
    with pytest.raises(ConfigError, match=r"expected the Python of the driver on all executors"):
        there.build()
    assert not called.exists()
    assert list(Path(there.env.root).glob("clicks/versions/*/g*")) == []
