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
