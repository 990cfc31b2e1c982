"""Five thousand random logs: every committed record in one version, or a failure that names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model.promises import broken
from tests.model.runs import run

SIZE = 500
BASELINE = json.loads((Path(__file__).parent / "baseline.json").read_text())


@pytest.mark.parametrize("block", range(10))
def test_every_committed_record_is_in_one_version_or_named(block):
    report = run(range(block * SIZE, (block + 1) * SIZE))
    allowed = BASELINE["by_500"][block]
    found = broken(report.counts, needless=report.needless, allowed=allowed, empty_per_1000=2)
    assert found == [], report.lines
