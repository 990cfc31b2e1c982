"""Where the bytes come from: landing, source, backup, other generations; and the honest noes."""

import shutil

import pytest

from tests.unit.upkeep.repair.conftest import contents, flip, outcomes, repaired, shards
from trainfeed.errors import ConfigError, SourceUnreachableError
from trainfeed.pipeline.plans import PLANS
from trainfeed.upkeep.repair import repair as repair_version
from trainfeed.versions import Version
from trainfeed.versions.history import actions

DAY = "2024-03-01"


def damage(project):
    name = shards(project)[1]
    flip(project.folder.version(DAY, 1) / name)
    return name


def landing_files(project):
    return [path for path in (project.path / "landing").rglob("*") if path.is_file()]


def lose_topic(project):
    shutil.rmtree(project.path / "recorded")


def how_of(report, name):
    return next(each.how for each in report.files if each.finding.name == name)


def assert_honest_no(project, report, name, damaged, *parts):
    assert outcomes(report)[name][1] == "not repaired"
    assert not report.is_whole
    assert all(part in how_of(report, name) for part in parts), how_of(report, name)
    assert contents(project) == damaged
    text = " ".join(report.offers)
    assert f"trainfeed repair clicks/{DAY}/g0001 --from FOLDER" in text
    assert f"trainfeed build clicks --interval {DAY} --rebuild WHY" in text


def test_landing_is_enough_when_the_topic_is_gone(published):
    before = contents(published)
    damage(published)
    lose_topic(published)
    report = repaired(published)
    assert report.is_whole
    assert report.effort.source_reads == 0
    assert contents(published) == before


@pytest.mark.parametrize("loss", [shutil.rmtree, flip])
def test_lost_or_damaged_landing_is_landed_again_from_the_source(published, loss):
    before = contents(published)
    damage(published)
    if loss is flip:
        flip(landing_files(published)[0])
    else:
        shutil.rmtree(published.path / "landing")
    report = repaired(published)
    assert report.is_whole
    reads = report.effort.source_reads
    assert 0 < reads < 183 if loss is flip else reads == 183
    assert contents(published) == before


def test_without_landing_and_source_the_reason_is_told_and_nothing_is_changed(published):
    name = damage(published)
    damaged = contents(published)
    shutil.rmtree(published.path / "landing")
    lose_topic(published)
    report = repaired(published)
    assert_honest_no(published, report, name, damaged, "clicks")
    assert [each.action for each in actions(published.folder)] == ["repair", "repair-failed"]


def test_a_source_that_does_not_answer_is_an_error_that_passes(published, monkeypatch):
    damage(published)
    damaged = contents(published)

    def away(*_, **__):
        raise SourceUnreachableError("no answer")

    monkeypatch.setattr("trainfeed.upkeep.repair.rebuilding.ingest", away)
    with pytest.raises(SourceUnreachableError):
        repaired(published)
    assert contents(published) == damaged
    monkeypatch.undo()
    assert repaired(published).is_whole


def test_other_code_is_named_and_not_run(published):
    name = damage(published)
    damaged = contents(published)
    published.edit('"negative"', '"below zero"', "preprocess.py")
    (published.env.datasets / "clicks" / "preprocess.py").write_text(
        "import pathlib\n"
        f"pathlib.Path({str(published.path / 'ran')!r}).touch()\n"
        + (published.env.datasets / "clicks" / "preprocess.py").read_text()
    )
    report = repaired(published)
    assert_honest_no(published, report, name, damaged, "the code", "preprocess.py changed")
    assert not (published.path / "ran").exists()


def test_another_specification_is_named(published):
    name = damage(published)
    damaged = contents(published)
    published.edit("seed: 7", "seed: 8")
    assert_honest_no(published, repaired(published), name, damaged, "spec.seed: 7 → 8")


def test_a_plan_that_is_gone_is_told(published):
    name = damage(published)
    damaged = contents(published)
    shutil.rmtree(published.folder.plans(DAY))
    assert_honest_no(published, repaired(published), name, damaged, "is missing")


def make_libraries_older(project):
    """Let the plan be one of another compression library."""
    path = project.folder.plan(DAY, project.version().manifest.plan)
    plan = PLANS.read(path)
    older = plan.libraries | {"cramjam": "0.0.1"}
    PLANS.replace(path, plan.model_copy(update={"libraries": older}))


def test_other_bytes_by_another_library_are_not_used_and_the_library_is_named(
    published, monkeypatch
):
    name = damage(published)
    damaged = contents(published)
    make_libraries_older(published)
    compressed_otherwise(monkeypatch)
    report = repaired(published)
    parts = ("cramjam 0.0.1 → ", "its records are the same, only stored otherwise")
    assert_honest_no(published, report, name, damaged, *parts)


def test_another_library_that_makes_the_same_bytes_is_good_enough(published):
    before = contents(published)
    damage(published)
    make_libraries_older(published)
    assert repaired(published).is_whole
    assert contents(published) == before


def compressed_otherwise(monkeypatch):
    """Let shards be written with another level, as another library might."""
    from trainfeed.pipeline import version as _shard_writer

    real = _shard_writer.RecordWriter
    monkeypatch.setattr(
        _shard_writer,
        "RecordWriter",
        lambda file, **options: real(file, **{**options, "level": 19, "max_chunk_bytes": 256}),
    )


def test_a_function_that_is_not_pure_is_told(published, monkeypatch):
    name = damage(published)
    damaged = contents(published)
    compressed_otherwise(monkeypatch)
    report = repaired(published)
    assert_honest_no(published, report, name, damaged, "not a function of its record alone")


def test_a_backup_gives_files_with_the_published_digests_only(published, tmp_path):
    before = contents(published)
    shutil.copytree(published.folder.version(DAY, 1), tmp_path / "backup")
    first, second, *_ = shards(published)
    flip(tmp_path / "backup" / second)
    for name in (first, second):
        flip(published.folder.version(DAY, 1) / name)
    published.edit("seed: 7", "seed: 8")
    report = repaired(published, backup=tmp_path / "backup")
    assert outcomes(report) == {
        first: ("changed", "repaired"),
        second: ("changed", "not repaired"),
    }
    assert contents(published)[first] == before[first]
    assert str(tmp_path / "backup" / first) in how_of(report, first)


def test_another_generation_with_the_same_file_gives_it(published):
    before = contents(published)
    published.prebuilt(rebuild="the same again")
    name = damage(published)
    published.edit("seed: 7", "seed: 8")
    report = repaired(published, 1)
    assert report.is_whole
    assert how_of(report, name) == f"copied from g0002/{name}"
    assert contents(published) == before
    published.version(generation=2).verify()


def test_a_changed_lookup_is_taken_from_the_kept_ones(project):
    rates = project.env.datasets / "clicks" / "rates.csv"
    rates.write_text("a,b\n1,2\n")
    project.edit("schema:", "lookups: {rates: rates.csv}\nschema:")
    project.edit(
        '{"value": row["value"], "label": n}',
        '{"value": row["value"] * int(lookups["rates"]["b"][0].as_py()), "label": n}',
        "preprocess.py",
    )
    project.prebuilt()
    before = contents(project)
    name = damage(project)
    rates.write_text("a,b\n1,3\n")
    assert repaired(project).is_whole
    assert contents(project) == before
    flip(project.folder.version(DAY, 1) / name)
    shutil.rmtree(project.folder.path / "lookups")
    damaged = contents(project)
    report = repaired(project)
    assert_honest_no(project, report, name, damaged, "lookup 'rates' changed", "put the file")


@pytest.mark.parametrize(
    "change",
    [
        ("codec: zstd", "format: tfrecord"),
        ("by: record", "by: [label]"),
        ("samples_per_shard: 50", "samples_per_shard: 50, positions: false"),
    ],
)
def test_other_outputs_are_repaired_alike(project, change):
    project.edit(*change)
    project.prebuilt()
    before = contents(project)
    for name in [*shards(project), "CHUNKS.arrow", "statistics.json"]:
        (project.folder.version(DAY, 1) / name).unlink()
    assert repaired(project).is_whole
    assert contents(project) == before


def test_documents_come_from_the_folder_of_the_data_set(project):
    (project.env.datasets / "clicks" / "LICENCE.txt").write_text("free\n")
    project.edit("seed: 7", "seed: 7\ndocuments: [LICENCE.txt]")
    project.prebuilt()
    before = contents(project)
    place = project.folder.version(DAY, 1) / "documents"
    shutil.rmtree(place)
    assert repaired(project).is_whole
    assert contents(project) == before
    flip(place / "LICENCE.txt")
    (project.env.datasets / "clicks" / "LICENCE.txt").write_text("for sale\n")
    report = repaired(project)
    assert how_of(report, "documents/LICENCE.txt") == (
        "no stage makes it, and no copy has its digest"
    )


def test_a_replayed_generation_is_repaired_by_its_own_plan(published):
    # ``clicks`` quarantines records that are no JSON; the fixed function takes them.
    published.edit(
        "row = record.json()",
        'row = record.json() if record.value != b"not json" else {"value": 0.5}',
        "preprocess.py",
    )
    published.prebuilt(replay=True)
    before = contents(published, 2)
    lose_topic(published)
    flip(published.folder.version(DAY, 2) / shards(published)[0])
    assert repaired(published, 2).is_whole
    assert contents(published, 2) == before


def test_an_empty_version_is_repaired(project):
    project.record({0: [], 1: [], 2: []})
    project.record({partition: [batch_of_later_days()] for partition in range(3)})
    project.prebuilt()
    assert project.version().manifest.empty
    before = contents(project)
    for name in shards(project):
        (project.folder.version(DAY, 1) / name).unlink()
    assert repaired(project).is_whole
    assert contents(project) == before


def batch_of_later_days():
    from tests.unit.pipeline.clicks import batch, day

    return batch(day(2, 30))


def test_labels_of_uploads_are_joined_again_from_kept_bytes(tmp_path):
    from tests.unit.uploads.labelled import csv_of, make_labelled

    labelled = make_labelled(tmp_path)
    labelled.put("a.csv", csv_of([(n, 0, None) for n in range(0, 80, 2)]))
    labelled.prebuilt()
    path = labelled.version().path
    before = {each.name: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    for shard in path.glob("*-train-*"):
        shard.unlink()
    shutil.rmtree(labelled.folder.uploads)
    report = repair_version(labelled.spec, labelled.env, path.parent.name)
    assert report.is_whole
    assert {each.name: each.read_bytes() for each in path.rglob("*") if each.is_file()} == before
    Version.open(path).verify()


def test_a_backup_that_is_no_copy_of_a_version_is_refused_before_anything_is_made(
    published, tmp_path
):
    name = next(iter(published.version(DAY).shard_paths("train")))
    flip(name)
    before = name.read_bytes()
    with pytest.raises(ConfigError, match=r"expected the copy of a version, .* in .*/typo"):
        repaired(published, backup=tmp_path / "typo")
    assert name.read_bytes() == before
