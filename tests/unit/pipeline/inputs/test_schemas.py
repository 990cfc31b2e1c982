"""Topics behind a schema registry: decoded, kept, quarantined, and built again without it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import batch
from tests.unit.pipeline.inputs.avro_clicks import (
    BATCH_CODE,
    KEY,
    NEW,
    OLD,
    READER,
    RECORD_CODE,
    framed,
    of_avro,
    record_days,
    record_json,
    stamp,
    written,
)
from trainfeed.cli.lineage import lineage_lines
from trainfeed.core import faults
from trainfeed.errors import (
    CodeChangedError,
    ConfigError,
    GateError,
    SchemaChangedError,
    SourceUnreachableError,
    SpecError,
)
from trainfeed.look.difference.sections import Side, iter_sections
from trainfeed.look.lineage.tracer import Tracer
from trainfeed.pipeline import local
from trainfeed.pipeline import preprocess as stage_preprocess
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.quarantine import raw_records
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.pipeline.reports import Build
from trainfeed.pipeline.review import preview_quarantine
from trainfeed.readers import open_dataset
from trainfeed.upkeep.repair import repair


@pytest.fixture
def avro(project, registry):
    """The data set, with values of Avro; its topic has two days of two writers."""
    return of_avro(project)


def killed_at(point, work):
    """Run ``work`` in a child that is killed at a point; return the child's status."""
    child = os.fork()
    if not child:
        os.environ[faults.VARIABLE] = f"{point}:kill"
        faults._plan.cache_clear()
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def manifest(project, name="2024-03-01", generation=None):
    return project.version(name, generation).manifest


def quarantined(project, name="2024-03-01"):
    records = raw_records(quarantine_of_version(project.version(name)))
    return [(each.offset, each.reason, each.raw) for each in records]


def test_json_and_avro_of_two_writers_give_an_equal_content_digest(project, registry):
    folder = project.env.datasets / "clicks"
    (folder / "preprocess.py").write_text(BATCH_CODE)
    project.edit("input: record", "input: batch")
    record_json(project)
    project.build()
    of_json = manifest(project)
    project.edit("input: batch", "input: record")
    # Elsewhere: the landing files of the other values have the same names.
    avro = of_avro(project).elsewhere("avro")
    avro.build()
    of_avro_values = manifest(avro)
    assert of_avro_values.content_digest == of_json.content_digest
    assert of_avro_values.quarantine == of_json.quarantine
    project.edit("input: batch", "input: record")
    (folder / "preprocess.py").write_text(RECORD_CODE)
    avro.build(rebuild="record mode")
    assert manifest(avro).content_digest == of_json.content_digest
    assert manifest(avro).quarantine == of_json.quarantine


def test_the_manifest_lists_readers_and_writers(avro, registry):
    avro.build()
    found = manifest(avro).schemas
    assert [each["part"] for each in found["readers"]] == ["clicks.value"]
    assert [each["file"] for each in found["readers"]] == ["click.avsc"]
    assert [(each["registry"], each["id"]) for each in found["writers"]] == [
        ("registry_default", 1),
        ("registry_default", 2),
    ]
    kept = Path(avro.env.landing) / "+schemas" / "registry_default"
    assert sorted(path.name for path in kept.iterdir()) == ["1.json", "2.json"]
    # Each is asked for once.
    assert sorted(registry.asked) == [1, 2]


def test_broken_values_are_quarantined_in_order_of_position_beside_those_of_the_function(
    avro, registry
):
    broken = {
        2: (b"{}", "no_schema_id"),
        3: (None, None),
        13: (written(1, {"value": 1.0, "copies": 1}) + b"\0", "bad_datum"),
        20: (framed(OLD, 7, {"value": 1.0, "copies": 1}), "unknown_schema"),
        21: (framed({"type": "record", "name": "X", "fields": []}, 8, {}), "incompatible_schema"),
        50: (b"", "no_schema_id"),
    }
    registry.known[8] = {"type": "record", "name": "Other", "fields": []}

    def change(day, number, value):
        return value if day or number not in broken else broken[number][0]

    record_days(avro, change)
    avro.build()
    found = quarantined(avro)
    expected = {n: "no_value" for n in range(80) if n % 10 == 3}
    expected |= {n: reason or "no_value" for n, (_, reason) in broken.items()}
    assert [(offset, reason) for offset, reason, _ in found] == sorted(expected.items())
    assert {n: raw for n, _, raw in found if n in broken} == {
        n: value or b"" for n, (value, _) in broken.items()
    }
    whole = manifest(avro)
    # However the records are divided, the same version is made.
    small = "\nresources: {records_per_task: 7, processes: 2}"
    avro.edit("samples_per_shard: 50}", f"samples_per_shard: 50}}{small}")
    elsewhere = avro.elsewhere("small")
    elsewhere.build()
    assert manifest(elsewhere).content_digest == whole.content_digest
    assert quarantined(elsewhere) == found
    assert manifest(elsewhere).schemas == whole.schemas
    assert [each["sha256"] for each in whole.schemas["writers"] if each["id"] == 7] == [None]


def test_a_build_again_needs_no_registry(avro, registry):
    avro.build()
    digest = manifest(avro).content_digest
    registry.down = True
    avro.env.registries.clear()
    assert avro.build(rebuild="again")["verdict"] == "built"
    assert manifest(avro).generation == 2
    assert manifest(avro).content_digest == digest
    assert manifest(avro).schemas == manifest(avro, generation=1).schemas


def test_a_registry_that_is_down_fails_the_task_and_the_next_attempt_goes_on_with_what_landed(
    avro, registry
):
    registry.down = True
    with pytest.raises(SourceUnreachableError):
        avro.build()
    assert not avro.folder.intervals()
    registry.down = False
    report = avro.build()
    assert report["source_reads"] == 0
    assert manifest(avro).quarantine["reasons"] == {"no_value": 8}


def test_records_that_landed_while_it_was_down_are_compared_by_the_next_attempt(avro, registry):
    avro.build()
    registry.down = True
    with pytest.raises(SourceUnreachableError):
        avro.build("2024-03-02")
    registry.down = False
    registry.known[2] = OLD
    with pytest.raises(SchemaChangedError, match="schema 2 of registry 'registry_default'"):
        avro.build("2024-03-02")


def test_a_registry_that_was_built_anew_stops_new_records_and_not_those_that_landed(avro, registry):
    avro.build()
    registry.known = {1: NEW, 2: OLD}
    with pytest.raises(SchemaChangedError, match="name the new one by a connection of its own"):
        avro.build("2024-03-02")
    assert avro.folder.intervals() == ["2024-03-01"]
    assert avro.build(rebuild="again")["verdict"] == "built"
    # The new one under a name of its own gets records of its time; those of the day are of the old.
    avro.edit("format: avro,", "format: avro, registry: registry_new,")
    avro.env.registries["registry_new"] = {"url": "http://registry"}
    avro.build("2024-03-02")
    assert manifest(avro, "2024-03-02").quarantine["reasons"] == {"bad_datum": 80}


def test_an_unknown_id_is_quarantined_and_read_by_a_later_build(avro, registry):
    del registry.known[2]
    avro.build()
    assert manifest(avro).quarantine["reasons"] == {"no_value": 4, "unknown_schema": 40}
    registry.down = True
    assert avro.build(rebuild="again, without a registry")["verdict"] == "built"
    assert manifest(avro).quarantine["reasons"] == {"no_value": 4, "unknown_schema": 40}
    registry.down = False
    registry.known[2] = NEW
    assert avro.build(rebuild="the registry has it now")["verdict"] == "built"
    assert manifest(avro).quarantine["reasons"] == {"no_value": 8}


def test_a_damaged_note_of_a_task_is_written_again(avro, registry):
    built = plan(avro.spec, avro.interval(), avro.env)
    task = Build(avro.spec, avro.env, built.ref)
    ingest(task, 0)
    (note,) = Path(avro.env.work).rglob("*.schemas.json")
    whole = note.read_bytes()
    note.write_bytes(whole[:-5])
    ingest(task, 0)
    assert note.read_bytes() == whole


def test_work_files_of_other_schemas_are_not_used_again(avro, registry):
    avro.edit("output:", "quality: [{check: quarantine_ratio, max: 0.2, severity: block}]\noutput:")
    del registry.known[2]
    with pytest.raises(Exception, match="quarantine_ratio"):
        avro.build()
    registry.known[2] = NEW
    assert avro.build()["verdict"] == "built"
    assert manifest(avro).quarantine["reasons"] == {"no_value": 8}


def test_keys_have_fields_as_well(avro, registry):
    avro.edit("value: {format: avro", "key: {format: avro, schema: key.avsc}, value: {format: avro")
    folder = avro.env.datasets / "clicks"
    (folder / "key.avsc").write_text('"double"')
    code = RECORD_CODE.replace('"label": n}', '"label": int(row["_key"])}')
    (folder / "preprocess.py").write_text(code)
    avro.edit("input: batch", "input: record")
    records = [
        {"value": written(1, {"value": 1.0, "copies": 1}), "key": framed(KEY, 9, n) if n else b"x",
         "timestamp": stamp(0, n)}
        for n in range(5)
    ]  # fmt: skip
    avro.record({0: [batch(records)]})
    avro.build()
    assert quarantined(avro)[0][:2] == (0, "key.no_schema_id")
    samples = [
        sample for split in ("train", "eval")
        for sample in open_dataset(avro.version().path, split=split).reader()()
    ]  # fmt: skip
    assert sorted(int(sample["label"]) for sample in samples) == [1, 2, 3, 4]
    assert [each["id"] for each in manifest(avro).schemas["writers"]] == [1, 9]


def test_the_readers_schema_is_part_of_the_fingerprint_and_of_the_plan(avro, registry):
    avro.build()
    before = manifest(avro).fingerprint
    built = plan(avro.spec, avro.interval("2024-03-02"), avro.env)
    (avro.env.datasets / "clicks" / "click.avsc").write_text(json.dumps({**READER, "doc": "other"}))
    ingest(Build(avro.spec, avro.env, built.ref), 0)
    with pytest.raises(CodeChangedError, match=r"schema click.avsc of data set 'clicks' changed"):
        preprocess(Build(avro.spec, avro.env, built.ref), 0)
    with pytest.raises(Exception, match=r"schemas\.clicks\.value"):
        avro.build()
    avro.build(rebuild="other schema")
    assert manifest(avro).fingerprint != before


def test_mistakes_of_the_readers_schema_are_told_before_anything_is_read(avro):
    file = avro.env.datasets / "clicks" / "click.avsc"
    file.write_text('{"type": "record"}')
    with pytest.raises(ConfigError, match=r"schema click.avsc of data set 'clicks' cannot be used"):
        avro.build()
    file.unlink()
    with pytest.raises(ConfigError, match="is missing"):
        avro.build()
    avro.edit(", schema: click.avsc", "")
    with pytest.raises(SpecError, match="expected a schema beside format avro"):
        avro.spec  # noqa: B018


def test_a_registry_without_settings_is_told_by_its_name(avro):
    avro.env.registries.clear()
    with pytest.raises(ConfigError, match="expected settings of the schema registry 'registry_def"):
        avro.build()


def test_quarantined_records_are_reviewed_with_the_kept_schemas(avro, registry):
    avro.build()
    registry.down = True
    quarantine = quarantine_of_version(avro.version())
    before = preview_quarantine(avro.spec, avro.env, quarantine, limit=100)
    assert [(each.reason, each.records, each.quarantined) for each in before.outcomes] == [
        ("no_value", 8, {"no_value": 8})
    ]


def test_a_kept_schema_that_is_damaged_or_gone_is_told(avro, registry):
    avro.build()
    kept = Path(avro.env.landing) / "+schemas" / "registry_default" / "1.json"
    text = kept.read_bytes()
    kept.chmod(0o600)
    kept.write_bytes(text.replace(b"copies", b"copied"))
    with pytest.raises(Exception, match="expected a kept schema of a registry"):
        avro.build(rebuild="damaged")
    shutil.rmtree(kept.parent)
    assert avro.build(rebuild="gone")["verdict"] == "built"
    assert kept.read_bytes() == text


def test_a_build_that_is_killed_between_two_schemas_goes_on(avro, registry):
    built = plan(avro.spec, avro.interval(), avro.env)
    task = Build(avro.spec, avro.env, built.ref)
    assert killed_at("ingest.after_schema", lambda: ingest(task, 0)) == -9
    kept = Path(avro.env.landing) / "+schemas" / "registry_default"
    assert [path.name for path in kept.iterdir()] == ["1.json"]
    assert avro.build()["verdict"] == "built"
    undisturbed = avro.elsewhere("undisturbed")
    undisturbed.build()
    assert manifest(avro) == manifest(undisturbed)


def test_no_settings_of_a_registry_travel_to_the_processes_of_functions(avro, monkeypatch):
    run_jobs, seen = stage_preprocess.run_jobs, []

    def noted(jobs, *rest, **how):
        seen.extend(jobs)
        return run_jobs(jobs, *rest, **how)

    for module in (stage_preprocess, local):
        monkeypatch.setattr(module, "run_jobs", noted)
    avro.build()
    assert seen
    assert [dict(job.build.env.registries) for job in seen] == [{}] * len(seen)


def test_a_damaged_version_is_repaired_with_the_kept_schemas(avro, registry):
    avro.build()
    folder = avro.version().path
    (shard,) = avro.version().manifest.splits["train"].shards[:1]
    registry.down = True
    avro.env.registries.clear()
    for name in (shard.name, "MANIFEST.json"):
        file = folder / name
        whole = file.read_bytes()
        file.chmod(0o600)
        file.write_bytes(whole[:-9])
        file.chmod(0o444)
        repair(avro.spec, avro.env, "2024-03-01")
        assert file.read_bytes() == whole


NEWER = {"type": "record", "name": "Click", "fields": [
    {"name": "value", "type": ["null", "double"]}, {"name": "copies", "type": "long", "doc": "new"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
]}  # fmt: skip


def with_a_newer_writer(project, registry):
    """The second day's afternoon has a writer whose schema is new that day."""
    registry.known[5] = NEWER

    def change(day, number, value):
        if not day or number < 40:
            return value
        return framed(NEWER, 5, {"value": number / 2, "copies": 1, "tags": []})

    record_days(project, change)
    return project


CHANGES = [
    {"field": "Click.copies", "change": "writer_changed", "before": "int in schema 2",
     "now": "long in schema 5"},
    {"field": "Click.tags", "change": "writer_added", "before": "",
     "now": '{"items": "string", "type": "array"} in schema 5'},
    {"field": "Click.page", "change": "writer_removed", "before": "string in schema 2", "now": ""},
]  # fmt: skip


def test_a_new_schema_of_writers_is_seen_by_the_gate(avro, registry):
    project = with_a_newer_writer(avro, registry)
    project.build()
    assert manifest(project).schema_changes == []
    project.build("2024-03-02")
    found = manifest(project, "2024-03-02")
    assert found.schema_changes == CHANGES
    # Without a gate in dataset.yaml there is one by default, which only warns.
    (gate,) = [each for each in found.gates if each["check"] == "schema_evolution"]
    assert (gate["value"], gate["passed"], gate["severity"]) == (2, False, "warn")
    assert "writer_added" not in gate
    assert gate["changes"] == [CHANGES[0], CHANGES[2]]


def test_a_gate_may_block_new_schemas_of_writers_or_allow_them(avro, registry):
    project = with_a_newer_writer(avro, registry)
    project.build()
    project.edit("output:", "quality: [{check: schema_evolution, writer_changed: block}]\noutput:")
    with pytest.raises(GateError, match=r"Click.copies writer_changed \(int in schema 2 → long"):
        project.build("2024-03-02")
    allowed = "writer_changed: allow, writer_removed: allow"
    project.edit("writer_changed: block", allowed)
    project.build("2024-03-02")
    (gate,) = manifest(project, "2024-03-02").gates
    assert (gate["value"], gate["passed"]) == (0, True)
    assert (gate["writer_changed"], gate["writer_removed"]) == ("allow", "allow")


def test_equal_schemas_of_writers_and_those_that_are_gone_are_no_changes(avro):
    avro.build()
    avro.build("2024-03-02")
    assert manifest(avro, "2024-03-02").schema_changes == []
    assert manifest(avro, "2024-03-02").gates == manifest(avro).gates


def test_lineage_and_difference_list_the_schemas_of_writers(avro, registry):
    project = with_a_newer_writer(avro, registry)
    project.build()
    project.build("2024-03-02")
    found = Tracer(project.env.root).of_version("clicks", "2024-03-02", 1)
    schemas = {
        node.name: node.facts for node in found.graph.nodes.values() if node.kind == "schema"
    }
    assert schemas.keys() == {f"registry_default/{number}" for number in (1, 5)}
    lines = list(lineage_lines(found))
    digest = schemas["registry_default/5"]["sha256"]
    assert f"    schema registry_default/5: of writers, sha256 {digest[:16]}" in lines
    sides = [Side.of(project.folder, day) for day in ("2024-03-01", "2024-03-02")]
    (section,) = [each for each in iter_sections(*sides) if each.name == "schemas"]
    assert [(each.place, each.old is None, each.new is None) for each in section.changes] == [
        ("writers.registry_default/2", False, True),
        ("writers.registry_default/5", True, False),
    ]
