"""A root, a folder of code and a cluster in memory for each test."""

from __future__ import annotations

import pytest

from tests.unit.training.jobs.kubernetes.cluster import Ground


@pytest.fixture
def ground(tmp_path):
    return Ground(tmp_path)
