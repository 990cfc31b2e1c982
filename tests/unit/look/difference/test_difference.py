"""The parts of a difference, on versions that builds made."""

import re

import pytest

from tests.unit.pipeline.conftest import project
from trainfeed.errors import ChecksumError, NotFoundError
from trainfeed.files.stores import Location
from trainfeed.look.difference import Side, difference, record_comparison
from trainfeed.look.difference.sections import value_changes
from trainfeed.pipeline.gates import counts as _late_ratio
from trainfeed.sources import record_topic
from trainfeed.upkeep.retention import Context, prune
from trainfeed.versions.version import STATISTICS

__all__ = ["project"]

FIRST, SECOND = 1, 2


def side(project, generation, interval="2024-03-01"):
    return Side.of(project.folder, interval, generation)


def compared(project, first=FIRST, second=SECOND):
    return difference(side(project, first), side(project, second))


def section(found, name):
    return next(each for each in found.sections if each.name == name)


def changes(found, name):
    return {each.place: (each.old, each.new) for each in section(found, name).changes}


@pytest.fixture
def rebuilt(project):
    """Two generations: other code, other splits, another limit of a gate."""
    project.edit("seed: 7\n", "seed: 7\nquality:\n  - {check: count, min: 10}\n")
    project.prebuilt()
    project.edit("min: 10}", "min: 20}")
    project.edit("train: 0.8, eval: 0.2", "train: 0.5, eval: 0.5")
    project.edit('row["value"] < 0', 'row["value"] < 10', "preprocess.py")
    project.edit('Filtered("negative")', 'Filtered("small")', "preprocess.py")
    project.prebuilt(rebuild="small ones are noise")
    return project


def test_a_version_is_equal_to_its_rebuild_without_a_change(project):
    project.prebuilt()
    project.prebuilt(rebuild="again")
    found = compared(project)
    assert (found.differs, found.is_complete, found.records.left_out) == (False, True, "")
    assert found.records.counts.equal == project.version().manifest.num_samples()
    assert found.to_json()["second"]["rebuild"] == "again"


@pytest.mark.parametrize("output", ["recordio", "tfrecord"])
def test_every_part_names_what_differs(project, output):
    project.edit("output: {codec: zstd,", f"output: {{format: {output}, codec: none,")
    project.edit("seed: 7\n", "seed: 7\nquality:\n  - {check: count, min: 10}\n")
    project.prebuilt()
    project.edit("min: 10}", "min: 20}")
    project.edit("train: 0.8, eval: 0.2", "train: 0.5, eval: 0.5")
    project.edit('row["value"] < 0', 'row["value"] < 10', "preprocess.py")
    project.edit('"label": n}', '"label": n + (row["value"] == 12)}', "preprocess.py")
    project.prebuilt(rebuild="small ones are noise")
    found = compared(project)
    assert found.differs
    assert not section(found, "plan").differs
    lines = section(found, "code").texts[0].lines
    assert '-    if row["value"] < 0:' in lines
    assert '+    if row["value"] < 10:' in lines
    assert changes(found, "specification")["split.millionths.eval"] == (200_000, 500_000)
    assert changes(found, "gates")["1.count.min"] == (10, 20)
    counts = found.records.counts
    assert changes(found, "counts")["filtered"] == (24, 24 + counts.kinds["removed"] - 3)
    assert {"eval.value.min"} <= changes(found, "statistics").keys()
    assert dict(counts.fields) == {"value": 0, "label": 3}
    assert counts.kinds["added"] == 0
    assert counts.removed_fates.keys() == {"not quarantined"}
    assert set(counts.moves) == {"train → eval"}


def test_a_statistic_that_only_one_version_has_is_no_difference():
    old = {"train": {"value": {"count": 1, "mean": None}}}
    new = {"train": {"value": {"count": 2, "mean": 1.5, "components": []}, "other": {}}, "late": {}}
    found = [each.place for each in value_changes(old, new, only_shared=True)]
    assert found == ["train.value.count", "train.value.mean"]
    assert len(list(value_changes(old, new))) == 5


def test_formats_do_not_matter_for_samples(project):
    project.prebuilt()
    project.edit("output: {codec: zstd,", "output: {format: tfrecord, codec: none,")
    project.prebuilt(rebuild="TFRecord")
    found = compared(project)
    assert not found.records.counts.has_changes
    assert changes(found, "specification")["output.format"] == ("recordio", "tfrecord")


def test_records_that_are_quarantined_now_are_told_with_their_reason(project):
    project.prebuilt()
    project.edit('return Filtered("negative")', 'raise Reject("negative", "")', "preprocess.py")
    project.edit('row["value"] < 0', 'row["value"] < 10', "preprocess.py")
    project.prebuilt(rebuild="stricter")
    counts = compared(project).records.counts
    assert dict(counts.removed_fates) == {"quarantined: negative": counts.kinds["removed"]}
    back = compared(project, SECOND, FIRST).records.counts
    assert dict(back.added_fates) == {"quarantined: negative": counts.kinds["removed"]}


def test_a_late_split_and_moves_into_it_are_told(project):
    project.prebuilt("2024-03-02")
    project.edit("settle: 0s}", "settle: 0s, late: separate}")
    project.prebuilt("2024-03-02", rebuild="late apart")
    found = difference(*(side(project, number, "2024-03-02") for number in (1, 2)))
    assert changes(found, "counts")["samples.late"][0] is None
    assert found.differs


def test_different_intervals_leave_the_samples_out_with_the_reason(project):
    project.prebuilt()
    project.prebuilt("2024-03-02")
    found = difference(side(project, None), side(project, None, "2024-03-02"))
    assert "different by nature" in found.records.left_out
    assert changes(found, "plan")["inputs.kafka:clicks/0.start"] == (0, 60)


def test_versions_without_positions_leave_the_samples_out_with_the_reason(project):
    project.prebuilt()
    project.edit("samples_per_shard: 50}", "samples_per_shard: 50, positions: false}")
    project.prebuilt(rebuild="smaller")
    found = compared(project)
    assert "2024-03-01/g0002 was published without positions" in found.records.left_out
    assert changes(found, "specification")["output.positions"] == (True, False)


def test_a_replaced_topic_leaves_the_samples_out_with_the_reason(project):
    project.prebuilt()
    location = Location.parse(str(project.path / "recorded")) / "clicks"
    location.delete(recursive=True)
    from tests.unit.pipeline.clicks import batch, day

    uuid = "22222222-2222-4222-8222-222222222222"
    record_topic(location, "clicks", uuid, {0: [batch(day(0, 60) + day(1, 1))]}, rows_per_file=64)
    project.prebuilt(rebuild="another topic")
    assert "the topic was replaced" in compared(project).records.left_out


def test_other_words_about_the_same_value_of_a_gate_are_no_difference(project, monkeypatch):
    project.edit("seed: 7\n", "seed: 7\nquality: [{check: late_ratio, of: late, max: 1}]\n")
    project.build()
    monkeypatch.setitem(_late_ratio._WORDS, "late", "too early")
    project.build(rebuild="a new release")
    texts = [project.version(generation=n).manifest.gates[0]["because"] for n in (1, 2)]
    assert texts[0] != texts[1]
    assert not compared(project).differs


def test_a_removed_version_tells_what_its_plan_knows(rebuilt):
    rebuilt.edit("seed: 7\n", "seed: 7\nretention: {keep_generations: 1}\n")
    removals = prune(Context.of(rebuilt.spec, rebuilt.env))
    assert [each.item.name for each in removals.expired] == ["2024-03-01/g0001"]
    found = compared(rebuilt)
    assert (found.first.state, found.is_complete) == ("removed", False)
    assert section(found, "code").texts[0].name == "preprocess.py"
    assert changes(found, "specification")["split.millionths.eval"] == (200_000, 500_000)
    for name in ("counts", "gates", "statistics"):
        assert section(found, name).left_out == "2024-03-01/g0001 was removed by retention"
    assert found.records.left_out == "2024-03-01/g0001 was removed by retention"


def test_a_withdrawn_version_is_compared_and_said_to_be_withdrawn(rebuilt):
    (rebuilt.version(generation=1).path.parent / "g0001.withdrawn").touch()
    found = compared(rebuilt)
    assert found.first.state == "withdrawn"
    assert found.records.counts.has_changes


def test_without_the_plan_the_specification_is_left_out_and_samples_are_compared(rebuilt):
    counts = compared(rebuilt).records.counts
    for path in rebuilt.folder.plans("2024-03-01").iterdir():
        path.unlink()
    found = compared(rebuilt)
    assert section(found, "specification").left_out == "the plan of 2024-03-01/g0001 is gone"
    assert found.records.counts == counts


def test_code_that_was_not_kept_is_said(rebuilt):
    for path in (rebuilt.folder.path / "code").iterdir():
        path.unlink()
    (text,) = section(compared(rebuilt), "code").texts
    assert (text.lines, "was not kept" in text.note) == ((), True)


@pytest.mark.parametrize("damage", [b"", b"[1]", b"{}", b'{"a":1}'])
def test_code_whose_kept_text_is_damaged_is_said_with_its_file(rebuilt, damage):
    kept = sorted((rebuilt.folder.path / "code").iterdir())
    for path in kept:
        path.write_bytes(damage)
    (text,) = section(compared(rebuilt), "code").texts
    assert text.lines == ()
    assert any(str(path) in text.note for path in kept)
    assert "was not kept" not in text.note


def test_a_damaged_file_is_an_error_that_names_it(rebuilt):
    path = rebuilt.version(generation=1).path / STATISTICS
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ChecksumError, match=re.escape(str(path))):
        compared(rebuilt)


def test_a_generation_that_never_was_is_an_error(project):
    project.prebuilt()
    with pytest.raises(NotFoundError, match="g0007"):
        side(project, 7)


def test_a_version_elsewhere_is_compared_without_its_plan(rebuilt, tmp_path):
    version = rebuilt.version(generation=1).path
    place = tmp_path / "copy" / "2024-03-01" / "g0001"
    place.parent.mkdir(parents=True)
    version.rename(place)
    found = difference(Side.at(f"{place}"), Side.at(rebuilt.version(generation=2).path))
    assert section(found, "specification").left_out == "the plan of 2024-03-01/g0001 is gone"
    assert found.records.counts.has_changes


def test_equal_digests_need_no_look_at_samples(project):
    project.prebuilt()
    project.prebuilt(rebuild="again")
    for path in project.version(generation=1).shard_paths("train"):
        path.unlink()
    assert record_comparison(side(project, 1), side(project, 2)).equal > 0
