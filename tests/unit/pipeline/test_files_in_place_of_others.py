"""Intact files of a build in the place of others of their kind: noticed, never published."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.pipeline.test_concurrent import run_until
from trainfeed.errors import ChecksumError, FormatError, GateError
from trainfeed.files.stores import Location
from trainfeed.pipeline import Build, OutdatedRule
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.landed_ranges import REMEDY, landing_name_of
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.quarantine import quarantine_of_plan
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import LandingFile, LandingWriter


@pytest.fixture
def landed(project):
    """A build whose two or more ranges of every source are landed."""
    project.edit("split:", "resources: {records_per_task: 30}\nsplit:")
    ref = plan(project.spec, project.interval(), project.env).ref
    where = Build(project.spec, project.env, ref)
    for unit in range(len(Stage.open(where).plan.ingest)):
        ingest(where, unit)
    return where


def files_of_first_source(where):
    stage = Stage.open(where)
    source = stage.plan.sources[0]
    pieces = [piece for piece in stage.plan.ranges if piece.source == source]
    planned, area = stage.plan.inputs[source], Path(stage.env.landing)
    return [area / landing_name_of(planned, piece) for piece in pieces]


def test_the_landing_file_of_another_range_is_landed_again(landed, caplog):
    first, second = files_of_first_source(landed)[:2]
    own = first.read_bytes()
    shutil.copyfile(second, first)
    report = ingest(landed, 0)
    assert report.verdict == "built"
    assert first.read_bytes() == own
    assert "another range" in caplog.text


def test_the_landing_file_of_another_range_is_not_preprocessed(landed):
    first, second = files_of_first_source(landed)[:2]
    shutil.copyfile(second, first)
    with pytest.raises(ChecksumError, match="another range") as raised:
        preprocess(landed, 0)
    assert str(raised.value).count(REMEDY) == 1


def test_a_landing_file_with_a_damaged_account_is_named(landed):
    first, *_ = files_of_first_source(landed)
    with closing(LandingFile.open(Location.parse(str(first)))) as landing:
        batches = list(landing.iter_batches())
    with first.open("wb") as file:
        writer = LandingWriter(file)
        for batch in batches:
            writer.write(batch)
        writer.close({"ledger": "[]"})
    with pytest.raises(ChecksumError, match=first.name):
        preprocess(landed, 0)


def test_the_samples_of_another_fingerprint_are_not_published(project):
    project.build()
    project.edit("return [", "return []\n    return [", "preprocess.py")
    ref = plan(project.spec, project.interval(), project.env, outdated=OutdatedRule.REBUILD).ref
    where = Build(project.spec, project.env, ref)
    ingest(where, 0)
    preprocess(where, 0)
    other = Stage.open(where).spill_file(0).read_bytes()
    project.edit("return []\n    return [", "return [", "preprocess.py")
    elsewhere = project.elsewhere("other")
    begun = Build(project.spec, elsewhere.env, run_until(elsewhere, convert))
    spill = Stage.open(begun).spill_file(0)
    spill.write_atomic(lambda file: file.write(other))
    with pytest.raises(GateError, match="fingerprint"):
        check(begun)


def test_two_shards_that_were_exchanged_are_not_published(project):
    where = Build(project.spec, project.env, run_until(project, convert))
    stage = Stage.open(where)
    first, second = (stage.part_file(shard) for shard in stage.plan.all_shards()[:2])
    one, other = first.read_bytes(), second.read_bytes()
    first.write_atomic(lambda file: file.write(other))
    second.write_atomic(lambda file: file.write(one))
    with pytest.raises(GateError, match="in the place of another"):
        check(where)
    preprocess(where, 0)
    convert(where, 0)
    check(where)
    assert publish(where).verdict == "built"


def test_a_whole_work_file_with_other_columns_is_no_quarantine(project):
    where = Build(project.spec, project.env, run_until(project, convert))
    stage = Stage.open(where)
    quarantine, samples = stage.quarantine_file(0), stage.part_file(stage.plan.all_shards()[0])
    kept = quarantine.read_bytes()
    quarantine.write_atomic(lambda file: file.write(samples.read_bytes()))
    with pytest.raises(FormatError, match=r"quarantine\.arrow"):
        check(where)
    with pytest.raises(FormatError):
        list(quarantine_of_plan(project.env, where.ref).places())
    quarantine.write_atomic(lambda file: file.write(kept))
    check(where)
    assert publish(where).verdict == "built"
