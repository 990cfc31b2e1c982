"""A publication root that is not mounted: named by its connection, by the start-up and by tasks."""

import pytest

from deploy import init
from operators.connections import environment_from_connections
from trainfeed.errors import RootError
from trainfeed.pipeline.leftovers import sweep
from trainfeed.versions import init_root


@pytest.fixture
def root(tmp_path, set_connection):
    """The folder of a mount point: there, and empty while nothing is mounted on it."""
    root = tmp_path / "publication"
    root.mkdir()
    places = {name: str(tmp_path / name) for name in ("landing", "work")}
    set_connection("hdfs_default", conn_type="file", host=None, extra=places)
    set_connection("kafka_default", conn_type="kafka", extra={"bootstrap.servers": "kafka:9092"})
    set_connection("cephfs_default", extra={"path": str(root)})
    return root


@pytest.mark.parametrize(
    "start", [init._try_places, lambda: sweep(environment_from_connections(()))]
)
def test_a_root_that_is_not_mounted_is_named_by_its_connection(root, start):
    with pytest.raises(RootError, match="extra 'path' of connection 'cephfs_default'") as caught:
        start()
    assert str(caught.value).endswith(f"trainfeed init {root}")
    assert list(root.iterdir()) == []


def test_a_root_that_was_made_passes_the_start_up(root):
    init_root(root)
    assert init._try_places() == str(root)
