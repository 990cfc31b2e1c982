"""A union of topics, a table and files of each form: every record once, whatever its member is."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from tests.support.manifests import read_by_member
from tests.unit.pipeline.inputs.avro_clicks import KEY, NEW, OLD
from tests.unit.pipeline.unions.every_kind import (
    DAYS,
    IN_FOLDERS,
    MEMBERS,
    NAMES,
    PER_DAY,
    TABLE,
    all_keys,
    keys,
    read_keys,
)
from trainfeed.errors import (
    CodeChangedError,
    GateError,
    OffsetOutOfRangeError,
    SchemaChangedError,
    SourceReplacedError,
    SourceUnreachableError,
)
from trainfeed.look.connections import check_connections
from trainfeed.look.lineage.tracer import SourcePosition, Tracer
from trainfeed.pipeline import ingest as stage_ingest
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.inputs.schemas import met_schemas
from trainfeed.pipeline.landed_ranges import landing_file
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.preview import describe, dry_run, preview
from trainfeed.pipeline.quarantine import raw_records
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.reports import Build
from trainfeed.pipeline.review import preview_quarantine
from trainfeed.pipeline.stage import Stage


def by_member(names):
    return Counter(name.partition("/")[0] for name in names)


def without(project, *names):
    """The same project, where topics, registry, catalogue and the places named do not answer."""
    for name in ("framed", "topic", "catalog.db", *names):
        (project.path / name).rename(project.path / f"{name}-away")
    return replace(project, env=replace(project.env, kafka={}, registries={}, catalogs={}))


def test_every_record_of_every_kind_of_member_is_read_once(project):
    for day in DAYS:
        assert project.build(day)["verdict"] == "built"
    assert read_keys(project) == all_keys()
    manifest = project.version().manifest
    assert list(manifest.sources) == [
        f"columns/logs:{DAYS[0]}/part-0.parquet",
        "framed/kafka:clicks/0",
        "framed/kafka:clicks/1",
        f"landed/logs:{DAYS[0]}/part-0",
        f"lines/logs:{DAYS[0]}/part-0",
        next(name for name in manifest.inputs if name.startswith(f"table/iceberg:{TABLE}/")),
        "topic/kafka:clicks/0",
        "topic/kafka:clicks/1",
    ]
    assert read_by_member(manifest) == dict.fromkeys(MEMBERS, PER_DAY)
    assert manifest.imbalances() == []
    assert manifest.quarantine["reasons"] == {"no_value": len(MEMBERS)}
    assert [each["part"] for each in manifest.schemas["readers"]] == ["framed/clicks.value"]
    later = project.version(DAYS[1]).manifest.schemas["writers"]
    assert [each["id"] for each in later] == [1, 2]
    assert list(project.version().problems()) == []
    for day in DAYS:
        assert project.build(day)["verdict"] == "identical"


def test_tasks_and_processes_do_not_change_the_version_and_batches_have_equal_samples(project):
    project.build(DAYS[1])
    path = project.env.datasets / "clicks/dataset.yaml"
    text = path.read_text()
    path.write_text(f"{text}resources: {{records_per_task: 5, processes: 2}}\n")
    small = project.elsewhere("small")
    report = dry_run(small.spec, small.interval(DAYS[1]), small.env)
    assert report.tasks["ingest"] == report.tasks["preprocess"] == 2 * len(MEMBERS)
    small.build(DAYS[1])
    assert small.version(DAYS[1]).manifest == project.version(DAYS[1]).manifest
    batches = project.elsewhere("batches")
    batches.as_batches()
    batches.build(DAYS[1])
    assert read_keys(batches, DAYS[1]) == all_keys([1])
    ledgers = [each.version(DAYS[1]).manifest.ledger for each in (batches, project)]
    assert ledgers[0] == ledgers[1]


def test_tasks_of_the_member_with_schemas_alone_ask_its_registry(project, registry):
    planned = plan(project.spec, project.interval(DAYS[1]), project.env)
    build = Build(project.spec, project.env, planned.ref)
    stage = Stage.open(build)
    for unit, group in enumerate(stage.plan.ingest):
        registry.asked.clear()
        ingest(build, unit)
        (member,) = by_member(stage.plan.ranges[index].source for index in group)
        assert sorted(registry.asked) == ([1, 2] if member == "framed" else [])
    assert list(met_schemas(stage, range(len(stage.plan.ingest)))) == ["registry_default"]


def test_a_registry_that_is_away_or_built_anew_stops_the_interval_and_published_ones_stay(
    project, registry
):
    registry.down = True
    with pytest.raises(SourceUnreachableError):
        project.build()
    registry.down = False
    assert project.build()["verdict"] == "built"
    registry.known = {1: NEW, 2: OLD, 9: KEY}
    with pytest.raises(SchemaChangedError, match="registry_default"):
        project.build(DAYS[1])
    assert project.build()["verdict"] == "identical"
    assert read_keys(project, DAYS[0]) == all_keys([0])


def test_the_readers_schema_of_a_member_is_that_of_the_plan(project):
    planned = plan(project.spec, project.interval(), project.env)
    schema = project.env.datasets / "clicks/click.avsc"
    found = json.loads(schema.read_text())
    found["fields"].append({"name": "more", "type": "string", "default": ""})
    schema.write_text(json.dumps(found))
    build = Build(project.spec, project.env, planned.ref)
    for unit in range(planned.tasks["ingest"]):
        ingest(build, unit)
    framed = next(
        unit
        for unit, group in enumerate(Stage.open(build).plan.preprocess)
        if Stage.open(build).plan.ranges[group[0]].source.startswith("framed/")
    )
    with pytest.raises(CodeChangedError, match=r"click\.avsc .* changed since the plan"):
        preprocess(build, framed)


def test_writers_that_change_are_found_by_the_gate_of_the_schema(project):
    gate = "quality: [{check: schema_evolution, writer_added: block}]\n"
    project.edit("output:", f"{gate}output:")
    project.build(DAYS[0])
    with pytest.raises(GateError, match=r"Click\.page"):
        project.build(DAYS[1])


def test_a_replay_needs_neither_topics_nor_registry_nor_catalogue(project):
    project.build()
    project.mend()
    assert without(project).build(replay=True)["verdict"] == "built"
    assert read_keys(project, DAYS[0]) == all_keys([0]) | {20_000: len(MEMBERS)}


def test_a_preview_takes_a_share_of_every_member_and_writes_nothing(project):
    report = preview(project.spec, project.interval(), project.env, limit=2 * len(MEMBERS))
    assert report["records"] == 2 * len(MEMBERS)
    assert not project.folder.interval(DAYS[0]).exists()
    assert not (project.path / "landing").exists()
    whole = preview(project.spec, project.interval(), project.env, limit=10_000)
    assert whole["records"] == PER_DAY * len(MEMBERS)
    assert whole["quarantined"] == {"no_value": len(MEMBERS)}
    assert sum(whole["samples"].values()) == len(all_keys([0]))


def test_a_dry_run_says_what_each_member_would_read(project):
    report = dry_run(project.spec, project.interval(), project.env)
    wanted = dict.fromkeys(MEMBERS, 1) | {"framed": 2, "topic": 2}
    assert by_member(each.source for each in report.reads) == wanted
    assert "framed/kafka:clicks/0 [0, 10): 10 offsets" in "\n".join(describe(report))
    assert not project.folder.interval(DAYS[0]).exists()
    project.build()
    assert dry_run(project.spec, project.interval(), project.env).verdict == "identical"
    project.mend()
    report = dry_run(project.spec, project.interval(), project.env, rebuild="mended")
    landed = {each.source: each.landed_pieces for each in report.reads}
    assert {name.partition("/")[0] for name, pieces in landed.items() if pieces} == {
        "framed", "landed", "topic",
    }  # fmt: skip


def test_quarantined_records_are_shown_and_previewed_whatever_member_they_are_of(project):
    project.build()
    kept = quarantine_of_version(project.version())
    records = list(raw_records(kept))
    assert sorted(by_member(each.source for each in records)) == list(MEMBERS)
    project.mend()
    report = preview_quarantine(project.spec, project.env, kept, reason=None, limit=100)
    assert (report.quarantined, report.valid, report.left_out) == (len(MEMBERS), len(MEMBERS), 0)
    # What has landed, and what the quarantine keeps, is enough.
    away = without(project, "store", "lake")
    report = preview_quarantine(away.spec, away.env, kept, reason=None, limit=100)
    assert (report.quarantined, report.valid, report.left_out) == (len(MEMBERS), len(MEMBERS), 0)


def test_a_record_of_each_member_is_traced_by_its_position(project):
    project.build()
    for source in project.version().manifest.sources:
        lineage = Tracer(project.env.root).of_position(SourcePosition.parse(f"{source}@0"))
        assert [each["fate"] for each in lineage.fates.values()] == ["valid"], source


def test_deleted_rows_of_a_table_are_told_with_the_member_and_published_days_stay(project):
    project.build()
    project.table().delete(f"value == {keys('table', 2)[7]}")
    number = project.stamp(2, 20)
    with pytest.raises(SourceReplacedError, match=rf"(?s)^member table of the union: .*{number}"):
        project.build(DAYS[2])
    assert project.build()["verdict"] == "identical"
    assert project.build(DAYS[2], allow_gap="taken back")["verdict"] == "built"
    manifest = project.version(DAYS[2]).manifest
    assert [each["source"] for each in manifest.gaps] == [f"table/iceberg:{TABLE}"]
    assert [name for name in manifest.passed_over if str(number) in name] == [
        f"table/snapshot {number}"
    ]


def test_an_expired_snapshot_is_a_gap_of_its_member_which_a_rebuild_keeps(project):
    project.expire(project.table().snapshots()[0].snapshot_id)
    with pytest.raises(OffsetOutOfRangeError, match=r"(?s)^member table of the union: .*expired"):
        project.build()
    project.build(allow_gap="a restore is too late")
    assert read_keys(project, DAYS[0]) == all_keys([0], [m for m in MEMBERS if m != "table"])
    project.build(rebuild="again")
    gaps = project.version().manifest.gaps
    assert [(each["source"], each["why"]) for each in gaps] == [
        (f"table/iceberg:{TABLE}", "a restore is too late")
    ]


@pytest.mark.parametrize("member", IN_FOLDERS)
def test_a_file_that_changes_after_the_plan_is_told_with_its_member(project, monkeypatch, member):
    real = stage_ingest._ingest

    def changed(*args):
        file = next(project.folder_of(member, 0).glob("part-0*"))
        file.write_bytes(file.read_bytes() + b"{}\n")
        return real(*args)

    monkeypatch.setattr(stage_ingest, "_ingest", changed)
    with pytest.raises(SourceReplacedError, match=rf"^member {member} of the union: "):
        project.build()
    assert not project.folder.interval(DAYS[0]).exists()


@pytest.mark.parametrize("member", IN_FOLDERS)
def test_a_file_that_is_added_after_the_plan_is_told_once_in_a_build(project, member):
    planned = plan(project.spec, project.interval(), project.env)
    build = Build(project.spec, project.env, planned.ref)
    stage = Stage.open(build)
    first, *others = range(len(stage.plan.ingest))
    folder = project.folder_of(member, 0)
    (folder / NAMES[member].replace("0", "1")).write_bytes((folder / NAMES[member]).read_bytes())
    # Listed by each task, folders would take a time that grows with the square of their files.
    assert [ingest(build, unit).unit for unit in others] == others
    if member == "landed":
        # What has landed is what was planned; a source that is read once more is asked.
        (piece,) = (each for each in stage.plan.ranges if each.source.startswith("landed/"))
        landing_file(stage.landing, stage.plan.inputs[piece.source], piece).delete()
    told = rf"^member {member} of the union: .*{DAYS[0]}/part-1\S* was added"
    with pytest.raises(SourceReplacedError, match=told):
        ingest(build, first)


def test_every_connection_of_every_member_is_looked_at(project):
    answers = check_connections(replace(project.env, registries={}))
    found = {each.connection.name: each for each in answers}
    for name in ("framed", "kafka_default", "hdfs_default", "catalog_default"):
        assert found[name].is_ok, found[name].message
        assert found[name].connection.used_by == ("clicks",)
    assert (
        "settings of the schema registry 'registry_default', got none"
        in found["registry_default"].message
    )
