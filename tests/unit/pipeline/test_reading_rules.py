"""Reading rules have a number: published intervals keep theirs, new plans have the newest."""

import pytest

from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import ConfigError
from trainfeed.look.outdated import find_outdated
from trainfeed.pipeline.planner import planner as _planner
from trainfeed.pipeline.plans import plan_of_version
from trainfeed.readers import open_dataset
from trainfeed.versions import Manifest

FIRST, SECOND = "2024-03-01", "2024-03-02"
MENDED = 'if record.value != b"not json" else {"value": 1}'
CODE = """
def clicks(record, lookups):
    row = record.json() if record.value != b"not json" else {"value": 1}
    seen = repr([lookups["names"].to_pylist()[0], type(record).__name__])
    return {"value": row["value"], "label": 0, "seen": seen}
"""
GUESSED = repr([{"id": 7, "name": "a"}, "_GuessedTime"])
EXACT = repr([{"id": "007", "name": "a"}, "Record"])


@pytest.fixture
def looked_up(project):
    """A data set with a CSV lookup whose samples say how it was read."""
    folder = project.env.datasets / "clicks"
    (folder / "names.csv").write_text("id,name\n007,a\n")
    (folder / "preprocess.py").write_text(CODE)
    project.edit("seed: 7\n", "seed: 7\nlookups: {names: names.csv}\n")
    project.edit("  label: {", "  seen: {dtype: str}\n  label: {")
    return project


@pytest.fixture
def published(looked_up, monkeypatch):
    """The same, with an interval that an earlier release has published."""
    with monkeypatch.context() as earlier:
        earlier.setattr(_planner, "NEWEST", ReadingRules.GUESSED)
        looked_up.build(FIRST)
    return looked_up


def declare(project, types):
    project.edit("lookups: {", f"lookup_types: {{names: {types}}}\nlookups: {{")


def seen(project, name=FIRST):
    """What the function has got, and the rules of the version."""
    reader = open_dataset("clicks", root=project.env.root, interval=name, split="train")
    return {sample["seen"] for sample in reader.reader()()}, project.version(name).manifest.rules


def test_a_new_data_set_is_read_by_the_newest_rules_and_says_so(looked_up):
    looked_up.build(FIRST)
    assert seen(looked_up) == ({EXACT}, NEWEST)
    manifest = looked_up.version(FIRST).manifest
    plan = plan_of_version(looked_up.folder, FIRST, manifest.plan)
    assert plan.fingerprint_of["reading_rules"] == manifest.reading_rules == int(NEWEST)
    assert looked_up.build(FIRST)["verdict"] == "identical"


def test_a_version_without_a_number_is_compared_by_the_first_rules(published):
    assert seen(published) == ({GUESSED}, ReadingRules.GUESSED)
    manifest = published.version(FIRST).manifest
    assert b"reading_rules" not in manifest.to_bytes()
    plan = plan_of_version(published.folder, FIRST, manifest.plan)
    assert "reading_rules" not in plan.fingerprint_of
    assert published.build(FIRST)["verdict"] == "identical"
    assert not find_outdated(published.spec, published.env).outdated
    declare(published, "{id: str}")
    assert published.build(FIRST)["verdict"] == "identical"
    assert not find_outdated(published.spec, published.env).outdated


def test_its_plan_is_written_again_by_its_own_rules(published):
    manifest = published.version(FIRST).manifest
    path = published.folder.plan(FIRST, manifest.plan)
    before = path.read_bytes()
    path.unlink()
    assert published.build(FIRST)["verdict"] == "identical"
    assert path.read_bytes() == before


def test_a_new_interval_asks_for_the_types_that_were_guessed_so_far(published):
    with pytest.raises(ConfigError, match=r"names\.id as int64.*lookup_types"):
        published.build(SECOND)
    declare(published, "{id: int64}")
    published.build(SECOND)
    assert seen(published, SECOND)[1] is NEWEST
    assert seen(published, SECOND)[0] == {EXACT.replace("'007'", "7")}
    assert seen(published) == ({GUESSED}, ReadingRules.GUESSED)


def test_a_rebuild_reads_by_the_newest_rules_and_is_then_compared_by_them(published):
    declare(published, "{id: str}")
    published.build(FIRST, rebuild="read as text")
    assert seen(published) == ({EXACT}, NEWEST)
    assert published.build(FIRST)["verdict"] == "identical"
    assert not find_outdated(published.spec, published.env).outdated


def test_a_replay_reads_as_the_build_that_it_repeats(published, monkeypatch):
    published.edit('if record.value != b"not json" else {"value": 1}', "", "preprocess.py")
    with monkeypatch.context() as earlier:
        earlier.setattr(_planner, "NEWEST", ReadingRules.GUESSED)
        published.build(FIRST, rebuild="the old parser")
    published.edit(
        "record.json() ",
        'record.json() if record.value != b"not json" else {"value": 1}',
        "preprocess.py",
    )
    assert published.build(FIRST, replay=True)["verdict"] == "built"
    assert seen(published) == ({GUESSED}, ReadingRules.GUESSED)


def test_rules_of_a_newer_release_are_told(looked_up):
    looked_up.build(FIRST)
    manifest = looked_up.version(FIRST).manifest
    with pytest.raises(Exception, match="newer trainfeed"):
        _ = manifest.model_copy(update={"reading_rules": 99}).rules
    assert isinstance(manifest, Manifest)
