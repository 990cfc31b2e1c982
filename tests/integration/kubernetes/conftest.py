"""What the tests of the cluster share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.kubernetes import Kubernetes
from tests.integration.kubernetes.cluster import Lab


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab(Kubernetes(Path(os.environ["TEST_KUBERNETES_HOME"])))
