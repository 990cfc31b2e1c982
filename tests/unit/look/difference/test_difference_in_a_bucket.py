"""Versions in a bucket differ as those of the folder that they come from do."""

import itertools
import re

import pytest

from tests.support.memory_root import memory_bucket, moved
from tests.unit.look.difference.test_difference import rebuilt
from tests.unit.pipeline.conftest import project
from trainfeed.errors import ChecksumError, NotFoundError
from trainfeed.look.difference import Side, difference
from trainfeed.versions import DatasetFolder
from trainfeed.versions.layout import POSITIONS

__all__ = ["memory_bucket", "project", "rebuilt"]

DAY = "2024-03-01"


@pytest.fixture
def root(rebuilt, memory_bucket):
    return moved(memory_bucket, rebuilt.env.root)


def found(first, second):
    sides = [
        Side.of(DatasetFolder(root, "clicks"), DAY, number)
        for number, root in ((1, first), (2, second))
    ]
    return difference(*sides)


def told(*roots):
    """What a difference says, but for the places of the versions."""
    value = found(*roots).to_json()
    return {name: value[name] for name in ("differs", "records", "sections")}


def test_both_or_one_of_two_versions_may_be_in_the_bucket(rebuilt, root):
    expected = told(rebuilt.env.root, rebuilt.env.root)
    assert expected["records"]["counts"]["removed"] > 0
    for roots in itertools.product((rebuilt.env.root, root.state), repeat=2):
        assert told(*roots) == expected


def test_a_damaged_shard_is_named_and_fetched_twice(root):
    (key, *_) = root.shards()
    root.flip(key)
    root.gets.clear()
    with pytest.raises(ChecksumError, match="fetched twice.*" + re.escape(f"s3://bucket/{key}")):
        found(root.state, root.state)
    assert root.gets.count(key) >= 2


def test_a_version_that_is_removed_meanwhile_is_an_error(root):
    for key in root.shards():
        del root.bucket.objects[key]
    with pytest.raises(NotFoundError, match="s3://bucket/root/clicks/versions"):
        found(root.state, root.state)


def test_a_private_copy_gets_the_positions_that_it_goes_without(rebuilt, root):
    places = [root.version(generation=number).path / POSITIONS for number in (1, 2)]
    for path in places:
        path.unlink()
    assert told(root.state, root.state) == told(rebuilt.env.root, rebuilt.env.root)
    assert all(path.exists() for path in places)


def test_damaged_positions_are_asked_for_twice_and_nothing_is_kept(root):
    path = root.version().path / POSITIONS
    path.unlink()
    (key,) = (key for key in root.bucket.objects if "/g0001/" in key and key.endswith(POSITIONS))
    root.flip(key)
    before = sorted(path.parent.iterdir())
    root.gets.clear()
    with pytest.raises(ChecksumError, match=re.escape(f"s3://bucket/{key}")):
        found(root.state, root.state)
    assert root.gets.count(key) == 2
    assert sorted(path.parent.iterdir()) == before
