"""A set at a store."""

import pytest

from tests.unit.loader.conftest import write_images
from tests.unit.remote.stores import Afar
from trainfeed.remote.shards import CachePlace


@pytest.fixture
def afar(tmp_path):
    """100 samples in 35 chunks of 12 or 13 KiB; all of them fit into the cache."""
    (tmp_path / "set").mkdir()
    (tmp_path / "log").mkdir()
    files = write_images(tmp_path / "set", [40, 37, 23])
    return Afar(files, tmp_path / "log", CachePlace(tmp_path / "cache", 1 << 20))
