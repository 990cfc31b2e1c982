"""Five thousand random logs: every committed record in one version, or a failure that names it."""

from __future__ import annotations

import pytest

from tests.model.promises import allowed, broken
from tests.model.runs import run

SIZE = 1000


# A thousand logs compute for a minute alone, and five times as long behind other work.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "block", [0, *(pytest.param(n, marks=pytest.mark.ci) for n in range(1, 5))]
)
def test_every_committed_record_is_in_one_version_or_named(block):
    report = run(range(block * SIZE, (block + 1) * SIZE))
    # In so few logs chance gathers more than in a hundred thousand, where the promises hold.
    found = broken(
        report.counts,
        needless=report.needless,
        most_needless=allowed(SIZE) * 3 // 2,
        empty_per_1000=2,
    )
    assert found == [], report.lines
