"""The loader on a real CephFS mount: read with pread in large windows, resumed exactly."""

import os
import uuid
from pathlib import Path

import pytest

from tests.unit.loader.conftest import image_columns, labels, write_images
from trainfeed.loader import DataLoader
from trainfeed.loader.mounts import file_system_type, is_network


@pytest.fixture
def folder():
    path = Path(os.environ["TEST_CEPHFS_PATH"]) / f"loader-{uuid.uuid4().hex}"
    path.mkdir()
    yield path
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


def test_the_mount_is_known_to_be_elsewhere(folder):
    assert file_system_type(folder) in {"fuse.ceph-fuse", "ceph"}
    assert is_network(str(folder))


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"num_workers": 2}])
@pytest.mark.parametrize("shuffle", [False, True])
def test_samples_are_those_that_were_written(folder, shuffle, options):
    images = write_images(folder, [40, 37, 23])
    with DataLoader(images, 8, shuffle=shuffle, **options) as loader:
        found = []
        for batch in loader:
            assert (batch["image"] == image_columns(0, 100)["image"][batch["label"]]).all()
            found += labels([batch])
    assert sorted(found) == list(range(100))


def test_every_state_restores_the_rest_on_other_ranks(folder):
    images = write_images(folder, [40, 37, 23])
    with DataLoader(images, 8, shuffle=True, seed=2) as loader:
        states, whole = [loader.state_dict()], []
        for batch in loader:
            whole += labels([batch])
            states.append(loader.state_dict())
    for state in states[:-1]:
        ranks = []
        for rank in range(2):
            options = {"rank": rank, "world_size": 2, "num_threads": 1, "shuffle": True, "seed": 2}
            with DataLoader(images, 3, **options) as loader:
                loader.load_state_dict(state)
                ranks.append(iter(labels(loader)))
        positions = range(state["position"], 100)
        assert [next(ranks[p % 2]) for p in positions] == whole[state["position"] :]
