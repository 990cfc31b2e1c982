"""What the tests of the cluster share."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.kubernetes import Kubernetes
from tests.integration.kubernetes.cluster import Lab
from tests.integration.kubernetes.fault_proxy import FaultProxy
from tests.integration.kubernetes.launches import INTERVAL, Training, make_training
from tests.unit.pipeline import clicks
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.versions import init_root


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab(Kubernetes(Path(os.environ["TEST_KUBERNETES_HOME"])))


@pytest.fixture
def proxy(lab, tmp_path) -> Iterator[FaultProxy]:
    """A proxy of the test's own."""
    proxy = FaultProxy(lab.service, tmp_path)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Environment:
    """A root with one published version, which all trainings read."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "datasets" / "clicks").mkdir(parents=True)
    (folder / "datasets" / "clicks" / "dataset.yaml").write_text(clicks.SPEC)
    (folder / "datasets" / "clicks" / "preprocess.py").write_text(clicks.CODE)
    init_root(folder / "root")
    env = Environment(
        root=str(folder / "root"),
        landing=str(folder / "landing"),
        work=str(folder / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(folder / "recorded"))},
        datasets=folder / "datasets",
    )
    project = clicks.Project(folder, env)
    project.record({0: [clicks.batch(clicks.day(0, 60) + clicks.day(1, 10))]})
    project.build(INTERVAL)
    return env


@pytest.fixture
def training(lab, published, tmp_path) -> Callable[..., Training]:
    """Make trainings of the test's own, by the options of ``train``."""
    numbers = itertools.count()
    return lambda **options: make_training(
        lab, published, tmp_path / f"training-{next(numbers)}", **options
    )
