"""Versions of a union later: retention, repair, rebuilds, labels, and members that change."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.pipeline.unions.every_kind import (
    DAYS,
    MEMBERS,
    all_keys,
    keys,
    make_union_project,
    read_keys,
    union_of,
)
from tests.unit.upkeep.repair.conftest import contents, flip, repaired, shards
from tests.unit.uploads.labelled import csv_of
from trainfeed import open_dataset
from trainfeed.pipeline.landed_ranges import landing_name_of
from trainfeed.pipeline.local import build
from trainfeed.pipeline.plans import plan_of_version
from trainfeed.specification import load_spec
from trainfeed.upkeep.retention import Context, prune
from trainfeed.uploads import check_uploads
from trainfeed.versions.retire import retirement_of

LATER = datetime.now(UTC) + timedelta(days=40)
LANDING = ("framed", "landed", "topic")


def landed(project):
    """Landing files, with the schemas that are kept beside them."""
    landing = Path(project.env.landing)
    return {str(path.relative_to(landing)) for path in landing.rglob("*") if path.is_file()}


def landed_of(project, day):
    """The landing files that the plan of a day names."""
    found = plan_of_version(project.folder, day, project.version(day).manifest.plan)
    return {
        landing_name_of(found.inputs[piece.source], piece)
        for piece in found.ranges
        if piece.source.partition("/")[0] in LANDING
    }


def run(project, now=None, **options):
    return prune(Context.of(project.spec, project.env, now=now, who="ann"), **options)


def kept_texts(project, kind):
    return {path.name for path in (project.folder.path / kind).iterdir()}


@pytest.fixture
def built(project):
    for day in DAYS:
        project.build(day)
    return project


def test_landing_files_of_members_go_by_the_rule_and_versions_stay(built):
    built.edit("seed: 7", "seed: 7\nretention: {landing: {keep_days: 30}}")
    before, named = landed(built), set().union(*(landed_of(built, day) for day in DAYS))
    schemas = {name for name in before if name.startswith("+schemas")}
    assert len(named) == 5 * len(DAYS)
    assert before == named | schemas
    assert run(built).expired == ()
    assert landed(built) == before
    removed = run(built, LATER)
    assert {each.item.kind for each in removed.expired} == {"landing"}
    assert landed(built) == schemas
    assert read_keys(built) == all_keys()
    for day in DAYS:
        assert built.build(day)["verdict"] == "identical"
    # What went is read again from where it came.
    assert built.build(rebuild="again")["verdict"] == "built"
    assert landed_of(built, DAYS[0]) <= landed(built)


def test_a_topic_that_another_set_reads_alone_keeps_its_landing_files(built):
    rule = "retention: {landing: {keep_days: 30}}"
    built.edit("seed: 7", f"seed: 7\n{rule}")
    other = built.env.datasets / "alone"
    shutil.copytree(built.env.datasets / "clicks", other)
    text = (other / "dataset.yaml").read_text()
    alone = "source:\n  kafka: {topic: clicks, settle: 0s, late: separate}\n"
    code = (other / "preprocess.py").read_text()
    code = code.replace("source_member(record.source)", "'topic'")
    (other / "preprocess.py").write_text(code)
    text = text.replace(union_of(), alone).replace("name: clicks", "name: alone").replace(rule, "")
    (other / "dataset.yaml").write_text(text)
    spec = load_spec(other)
    report = build(spec, spec.schedule_model().interval_named(DAYS[0]), built.env).to_json()
    assert report["source_reads"] == 0
    run(built, LATER)
    left = {name for name in landed(built) if not name.startswith("+schemas")}
    # Those of an interval go together.
    assert left == landed_of(built, DAYS[0])


def test_what_only_retired_days_needed_goes_and_what_the_others_need_stays(built):
    built.edit("seed: 7", "seed: 7\nretention: {keep_intervals: 2, landing: {keep: 100}}")
    needed = set().union(*(landed_of(built, day) for day in DAYS[1:]))
    first = landed_of(built, DAYS[0])
    layouts = kept_texts(built, "layouts")
    assert len(layouts) == 2 * len(DAYS)
    for _ in range(4):
        run(built, LATER)
    assert retirement_of(built.folder, DAYS[0]) is not None
    left = {name for name in landed(built) if not name.startswith("+schemas")}
    assert left == needed
    assert first.isdisjoint(left)
    # A layout of the day that went, for the columns and for the table, is wanted by nobody.
    assert len(kept_texts(built, "layouts")) == 2 * len(DAYS[1:])
    for day in DAYS[1:]:
        assert built.build(day)["verdict"] == "identical"
        assert built.build(day, rebuild="again")["verdict"] == "built"
    assert read_keys(built, f"{DAYS[1]}/{DAYS[2]}") == all_keys([1, 2])


def test_boundaries_of_topics_and_tables_stay_as_long_as_a_day_needs_them(built):
    built.edit("seed: 7", "seed: 7\nretention: {keep_intervals: 1, landing: {keep: 100}}")
    before = {path.stem for path in (built.folder.path / "snapshots").rglob("*.json")}
    for _ in range(4):
        run(built, LATER)
    found = {
        (path.parent.name[0], path.stem[:8])
        for path in (built.folder.path / "boundaries").rglob("*Z.json")
    }
    for topic in "12":
        assert {(topic, "20240303"), (topic, "20240304")} <= found
    assert {path.stem for path in (built.folder.path / "snapshots").rglob("*.json")} == before
    assert built.build(DAYS[2], rebuild="again")["verdict"] == "built"


def test_a_list_of_many_files_of_members_is_kept_while_a_plan_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr("trainfeed.pipeline.plans.LISTED_ABOVE", 1)
    project = make_union_project(tmp_path, ("columns", "landed", "lines"))
    members = ("columns", "landed", "lines")
    for day in DAYS:
        assert project.build(day)["verdict"] == "built"
    assert read_keys(project) == all_keys(members=members)
    assert len(kept_texts(project, "lists")) == len(DAYS)
    manifest = project.version().manifest
    assert manifest.source_list is not None
    assert [name.partition("/")[0] for name in manifest.sources] == list(members)
    assert list(project.version().problems()) == []
    assert project.build()["verdict"] == "identical"
    run(project, LATER)
    assert len(kept_texts(project, "lists")) == len(DAYS)
    assert project.build(rebuild="again")["verdict"] == "built"
    # It makes no difference where the files are told.
    short = project.elsewhere("short")
    monkeypatch.setattr("trainfeed.pipeline.plans.LISTED_ABOVE", 4096)
    short.build()
    assert short.version().manifest.fingerprint == manifest.fingerprint
    assert short.version().manifest.content_digest == manifest.content_digest


def test_a_damaged_version_is_made_again_without_topics_registry_and_catalogue(built):
    before = contents(built)
    for path in (built.version().path / name for name in shards(built)):
        if path.stat().st_size:
            flip(path)
    for place in ("framed", "topic", "catalog.db"):
        (built.path / place).rename(built.path / f"{place}-away")
    away = replace(built, env=replace(built.env, kafka={}, registries={}, catalogs={}))
    report = repaired(away)
    assert report.is_whole, report
    assert contents(built) == before


def test_labels_are_joined_to_samples_of_every_member(tmp_path, registry):
    project = make_union_project(tmp_path)
    project.edit("  label: {dtype: int64}\n", "  label: {dtype: int64}\n  bought: {dtype: int8}\n")
    project.edit("  value: {dtype: float32}", "  value: {dtype: int64}")
    project.edit(
        "output:", "uploads: {key: [value], labels: [bought], join: left, defaults: {bought: -1}}\n"
        "output:",
    )  # fmt: skip
    project.edit('{"value": value,', '{"value": int(value),', "preprocess.py")
    folder = project.folder.uploads / DAYS[0]
    folder.mkdir(parents=True)
    first = {member: keys(member, 0)[0] for member in MEMBERS}
    data = csv_of([(key, 1) for key in first.values()], header=("value", "bought"))
    (folder / ".a.part").write_bytes(data)
    (folder / ".a.part").rename(folder / "a.csv")
    check_uploads(project.spec, project.folder, None)
    assert project.build()["verdict"] == "built"
    found = {}
    for split in ("train", "eval"):
        where = {"interval": DAYS[0], "split": split, "root": project.env.root}
        for sample in open_dataset("clicks", **where).reader()():
            found[int(sample["value"])] = int(sample["bought"])
    assert sorted(found) == sorted(all_keys([0]))
    assert sorted(key for key, bought in found.items() if bought == 1) == sorted(first.values())


def joined(members, *, until=None):
    """The entry of ``sources`` with a union, and from when on the next one holds."""
    text = (
        union_of(members).replace("source:\n  union:", "  - union:").replace("\n    ", "\n      ")
    )
    return text if until is None else text + f"    until: {until}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("columns", "lines", "topic"), ("columns", "lines", "table", "topic")),
        (("columns", "lines", "table", "topic"), ("columns", "topic")),
    ],
)
def test_members_are_added_or_taken_out_from_a_day_on_and_earlier_days_stay(
    tmp_path, registry, before, after
):
    project = make_union_project(tmp_path, before)
    for day in DAYS[:2]:
        project.build(day)
    old = [project.version(day).manifest for day in DAYS[:2]]
    project.edit(union_of(before), "sources:\n" + joined(before, until=DAYS[2]) + joined(after))
    for day in DAYS[:2]:
        assert project.build(day)["verdict"] == "identical"
    assert project.build(DAYS[2])["verdict"] == "built"
    new = [project.version(day).manifest for day in DAYS[:2]]
    assert [each.fingerprint for each in new] == [each.fingerprint for each in old]
    assert [each.content_digest for each in new] == [each.content_digest for each in old]
    assert read_keys(project) == all_keys([0, 1], before) | all_keys([2], after)


def test_a_member_that_is_renamed_from_a_day_on_goes_on_where_it_ended(tmp_path, registry):
    """The topic is landed once, and its boundaries hold under every name of the member."""
    before = ("columns", "topic")
    project = make_union_project(tmp_path, before)
    for day in DAYS[:2]:
        project.build(day)
    old = [project.version(day).manifest.fingerprint for day in DAYS[:2]]
    renamed = joined(before).replace("      topic:", "      clicks:")
    project.edit(union_of(before), "sources:\n" + joined(before, until=DAYS[2]) + renamed)
    project.edit("MEMBERS.index(source_member(record.source))",
                 "MEMBERS.index(source_member(record.source).replace('clicks', 'topic'))",
                 "preprocess.py")  # fmt: skip
    assert project.build(DAYS[2])["verdict"] == "built"
    assert [project.version(day).manifest.fingerprint for day in DAYS[:2]] == old
    end = project.version(DAYS[1]).manifest.inputs["topic/kafka:clicks/0"]["end"]
    assert project.version(DAYS[2]).manifest.inputs["clicks/kafka:clicks/0"]["start"] == end
    assert read_keys(project) == all_keys(members=before)
