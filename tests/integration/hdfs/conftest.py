"""Fixtures that the tests of HDFS share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.hdfs import Hdfs


@pytest.fixture(scope="session")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """An HDFS that may be killed, beside the one that all tests share.

    Starting it takes seconds, so there is one. Who kills a part of it starts it again.
    """
    cluster = Hdfs(tmp_path_factory.mktemp("own"))
    try:
        cluster.start()
        cluster.wait()
        yield cluster
    finally:
        cluster.stop()
