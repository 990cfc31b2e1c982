"""As many shards as a manifest can list: more are refused by the plan, before anything is read."""

import pytest

from trainfeed.core import canonical_json
from trainfeed.errors import ConfigError
from trainfeed.versions.manifest import ShardEntry
from trainfeed.versions.order import check_shards, shard_name

MANY = "output: {codec: zstd, shards: 100000}"


def splits(project):
    project.edit("split: {train: 0.8, eval: 0.2, by: record}",
                 "split: {train: 0.8, eval: 0.1, test: 0.1, by: record}")  # fmt: skip


def test_a_hundred_thousand_shards_of_three_splits_are_refused_by_the_plan(project):
    splits(project)
    project.edit("output: {codec: zstd, samples_per_shard: 50}", MANY)
    with pytest.raises(ConfigError, match=r"300000 shards .*manifest.*nothing was read; lower"):
        project.build()
    assert not project.folder.plans("2024-03-01").exists()
    assert not list((project.path / "landing").rglob("*.arrow"))


def test_shards_by_their_samples_are_counted_over_all_splits():
    with pytest.raises(ConfigError, match=r"270000 shards \(a 90000, b 90000, c 90000\)"):
        check_shards("clicks", dict.fromkeys("abc", 90_000))


def test_what_is_let_through_fits_a_manifest():
    shards = {"train": 100_000, "eval": 100_000}
    check_shards("clicks", shards)
    digest = "f" * 64
    entries = [
        ShardEntry(name=shard_name("clicks", split, index, count), bytes=1 << 40,
                   samples=10**9, sha256=digest, records_sha256=digest)
        for split, count in shards.items()
        for index in range(count)
    ]  # fmt: skip
    listed = canonical_json.dumps([entry.model_dump() for entry in entries])
    assert len(listed) < canonical_json.MAX_BYTES * 7 // 8
