"""A publication root that was copied to HDFS, read from there over both protocols."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import numpy as np
import pytest

from tests.support.clicks_afar import DAYS, batches, opened
from tests.unit.pipeline.conftest import make_project
from trainfeed.errors import NotFoundError
from trainfeed.files.stores import Location
from trainfeed.files.stores import hdfs as _hdfs


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A root of two days, and the path of its copy on HDFS."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HADOOP_USER_NAME", "hdfs")
        _hdfs._connect.cache_clear()
        project = make_project(tmp_path_factory.mktemp("afar"))
        for day in DAYS:
            project.build(day)
        place = f"trainfeed-test/{uuid.uuid4()}"
        top = Location.parse(os.environ["TEST_HDFS_URI"]) / place
        root = Path(project.env.root)
        for path in sorted(root.rglob("*")):
            if path.is_file() and "_staging" not in path.parts:
                target = top / path.relative_to(root).as_posix()
                target.create_exclusive(path.read_bytes())
        yield project, place
        top.delete(recursive=True)
        _hdfs._connect.cache_clear()


@pytest.fixture(params=["TEST_HDFS_URI", "TEST_WEBHDFS_URI"])
def root(request, copied, tmp_path, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
    monkeypatch.setenv("TRAINFEED_CACHE", str(tmp_path / "cache"))
    return f"{os.environ[request.param].rstrip('/')}/{copied[1]}"


def test_samples_are_those_of_the_mounted_root(copied, root):
    here, afar = opened(copied[0].env.root), opened(root)
    expected = [int(sample["label"]) for sample in here.reader()()]
    assert [int(sample["label"]) for sample in afar.reader()()] == expected
    assert afar.version == "2024-03-01/g0001,2024-03-02/g0001"


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"num_workers": 2}])
def test_a_training_goes_on_from_a_state_of_the_mounted_root(copied, root, options):
    here = batches(opened(copied[0].env.root))
    _, state = here[3]
    afar = batches(opened(root), state, **options)
    assert [each for _, each in afar] == [each for _, each in here[4:]]
    for (one, _), (other, _) in zip(afar, here[4:], strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in other)


def test_a_day_that_was_not_copied_is_not_found(root):
    with pytest.raises(NotFoundError):
        opened(root, interval="2024-03-03")
