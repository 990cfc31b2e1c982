"""What the tests of the cluster share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.kubernetes import Kubernetes
from tests.integration.kubernetes.cluster import Lab
from tests.integration.kubernetes.fault_proxy import FaultProxy


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab(Kubernetes(Path(os.environ["TEST_KUBERNETES_HOME"])))


@pytest.fixture
def proxy(lab, tmp_path) -> Iterator[FaultProxy]:
    """A proxy of the test's own."""
    proxy = FaultProxy(lab.service, tmp_path)
    yield proxy
    proxy.close()
