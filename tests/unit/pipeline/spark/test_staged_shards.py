"""Shards of an earlier attempt: proven byte by byte, their rows stay out of the next shuffle."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.pipeline.spark.conftest import mapped, written
from trainfeed.pipeline.check import check
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.sorting.spill_files import ArrowWithTrailer
from trainfeed.pipeline.spark.shuffle import is_whole, written_before


@pytest.fixture
def begun(landed, tmp_path):
    """A plan whose shards are all written, without check; and its stage."""
    build, stage = landed("there")
    assert written_before(stage) == []
    written(stage, mapped(stage, tmp_path / "scratch"), tmp_path / "scratch")
    return build, stage


def staged(stage, number):
    return stage.staged / stage.plan.shard_name(stage.plan.all_shards()[number])


def part(stage, number):
    return Path(stage.part_file(stage.plan.all_shards()[number]).path)


def turn_a_bit(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def whole(stage):
    return [number for number in written_before(stage) if is_whole(stage, shard_of(stage, number))]


def shard_of(stage, number):
    return stage.plan.all_shards()[number]


def test_written_shards_are_whole(begun):
    _, stage = begun
    assert whole(stage) == list(range(len(stage.plan.all_shards())))


@pytest.mark.parametrize(
    "damage",
    [
        lambda stage: staged(stage, 1).unlink(),
        lambda stage: turn_a_bit(staged(stage, 1), 100),
        lambda stage: part(stage, 1).unlink(),
    ],
    ids=["no shard", "shard", "no part file"],
)
def test_a_damaged_shard_is_written_again(begun, damage):
    _, stage = begun
    before = whole(stage)
    damage(stage)
    assert whole(stage) == [number for number in before if number != 1]


def test_a_part_file_with_a_wrong_bit_is_refused_or_reads_as_before(begun):
    _, stage = begun
    shard, path = shard_of(stage, 1), part(stage, 1)
    before, content = positions(stage, shard), path.read_bytes()
    refused = 0
    for place in range(0, len(content), 41):
        turn_a_bit(path, place)
        if is_whole(stage, shard):
            assert positions(stage, shard) == before
        else:
            refused += 1
        path.write_bytes(content)
    assert refused > len(content) // 41 // 2


def positions(stage, shard):
    """All that the part file of a shard says."""
    with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
        return file.read_all(), file.trailer


def test_shards_of_another_cut_of_the_inputs_are_not_taken(begun):
    _, stage = begun
    plan = stage.plan.model_copy(update={"preprocess": stage.plan.preprocess[::-1]})
    assert whole(replace(stage, plan=plan)) == []


def test_an_attempt_that_keeps_shards_publishes_what_one_of_them_does(project, begun, tmp_path):
    project.build()
    build, stage = begun
    kept = {0, 2}
    before = {number: staged(stage, number).stat().st_ino for number in kept}
    lost = set(written_before(stage)) - kept
    for number in lost:
        staged(stage, number).unlink()
        part(stage, number).unlink()
    rows = mapped(stage, tmp_path / "again", kept)
    assert {number for batch in rows for number in batch["shard"].to_pylist()} == lost
    written(stage, rows, tmp_path / "again", lost)
    assert {number: staged(stage, number).stat().st_ino for number in kept} == before
    check(build)
    digest = (project.version().path / "MANIFEST.sha256").read_text().strip()
    assert publish(build).summary.manifest_sha256 == digest
