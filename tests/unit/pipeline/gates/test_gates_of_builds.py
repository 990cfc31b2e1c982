"""Gates in builds: every kind has its message, blocks, asks or warns, and stands on pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.pipeline.conftest import project
from tests.unit.pipeline.functions.test_batch_mode import CODE as BATCH_CODE
from trainfeed.errors import ConfigError, GateError
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.reports import Build
from trainfeed.pipeline.version import version_report

__all__ = ["project"]

DAY = "2024-03-02"
GATES = """quality:
  - {check: unique, by: [label]}
  - {check: accepted_values, field: label, values: [1, 2]}
  - {check: accepted_values, field: label, lookup: known, column: id}
  - {check: share, field: label, equals: 0, max: 0.5}
  - {check: relative_count, max: 0.5}
  - {check: relative_count, of: records, versions: 3, max: 0.5}
  - {check: shard_skew, max: 1}
  - {check: shard_skew, of: bytes, max: 1}
  - {check: schema_evolution, added_required: block}
  - {check: count, min: 1}
"""
# Seen in 102 samples of 126 records, of which 96 have label 0.
BROKEN = """\
unique of label is 100, allowed: max 0 (100 of 102 samples have the key of another one)
accepted_values of label is 0.941176, allowed: max 0 of other values than 1, 2 (96 of 102 samples
accepted_values of label is 0.941176, allowed: max 0 of values that lookup known lacks (96 of 102
share of label = 0 is 0.941176, allowed: max 0.5 (96 of 102 samples are 0)
relative_count of samples is 0.693878, allowed: max 0.5 (102 samples, 147 in 2024-03-01/g0001)
relative_count of records is 0.672131, allowed: max 0.5 (123 records, 183 in 2024-03-01/g0001)
shard_skew of samples is 1.11628, allowed: max 1 (clicks-train-00000-of-00001 has 48 samples, the
shard_skew of bytes is 1.
schema_evolution is 1, allowed: added_optional, widened, made_required; with a warning removed,
""".splitlines()
COUNTS_OF_CHANGES = "(since 2024-03-01/g0001: twice added_required (float64))"
WITHOUT_LOOKUP = GATES.replace("lookup: known, column: id", "values: [1]")


def with_gates(project, severity="block"):
    """The first day without gates; then all gates, and a further field."""
    project.build()
    (project.env.datasets / "clicks" / "known.csv").write_text("name,id\na,1\nb,2\n")
    gates = GATES.replace("}\n", f", severity: {severity}}}\n")
    project.edit("seed: 7\n", f"seed: 7\nlookups: {{known: known.csv}}\n{gates}")
    project.edit("  label: {", "  twice: {dtype: float64}\n  label: {")
    project.edit('"label": n', '"twice": 2 * row["value"], "label": n', "preprocess.py")
    return project


def refused(project):
    with pytest.raises(GateError) as caught:
        project.build(DAY)
    return caught.value


def test_every_kind_that_blocks_says_field_value_limit_counts_and_examples(project):
    error = refused(with_gates(project))
    lines = str(error).splitlines()
    said = [line.removeprefix(f"clicks/{DAY} is not published: ") for line in lines]
    said = [line.removeprefix("and ") for line in said]
    for expected in BROKEN:
        assert any(line.startswith(expected) for line in said), expected
    assert sum(line.startswith("  unique at kafka:clicks/") for line in lines) == 2
    assert sum(line.startswith("  accepted_values at kafka:clicks/") for line in lines) == 4
    assert COUNTS_OF_CHANGES in str(error)
    assert f"or let it pass: trainfeed waive clicks/{DAY} --plan " in str(error)
    assert error.question is None
    assert project.folder.current_generation(DAY) is None
    names = {gate["name"] for gate in error.report["gates"]}
    assert {"share of label = 0", "count", "schema_evolution"} <= names
    offending = {each["name"]: each["examples"] for each in error.report["offending"]}
    assert set(offending) == {"unique of label", "accepted_values of label"}
    json.dumps(error.report)


def test_a_damaged_spill_file_does_not_hide_the_gate_that_failed(project):
    project.edit("seed: 7\n", "seed: 7\nquality: [{check: range, field: value, min: 5}]\n")
    planned = plan(project.spec, project.interval(), project.env)
    started = Build(project.spec, project.env, planned.ref)
    for stage in (ingest, preprocess, convert):
        stage(started, 0)
    (spill,) = Path(project.env.work).rglob("00000.arrow")
    data = bytearray(spill.read_bytes())
    data[len(data) // 3] ^= 1
    spill.write_bytes(data)
    with pytest.raises(GateError, match="range of value is"):
        check(started)


def test_of_many_failed_gates_the_first_are_shown_and_the_remedy_ends_the_message(project):
    gates = "".join(f"  - {{check: range, field: value, min: {n}}}\n" for n in range(500, 512))
    project.edit("seed: 7\n", f"seed: 7\nquality:\n{gates}")
    *_, last = lines = str(refused(project)).splitlines()
    assert sum("range of value is" in line for line in lines) == 10
    assert "and 2 more gates failed" in lines
    assert f"trainfeed waive clicks/{DAY} --plan " in last


def test_gates_that_ask_block_and_say_how_to_approve(project):
    error = refused(with_gates(project, "ask"))
    assert {gate["severity"] for gate in error.question["gates"]} == {"ask"}
    assert f"trainfeed waive clicks/{DAY} --plan " in str(error)
    assert project.folder.current_generation(DAY) is None


def test_a_gate_that_blocks_beside_one_that_asks_does_not_ask(project):
    with_gates(project, "ask")
    project.edit("by: [label], severity: ask", "by: [label], severity: block")
    assert refused(project).question is None


@pytest.mark.parametrize("output", ["codec: zstd", "format: tfrecord"])
def test_gates_that_warn_are_published_with_every_value(project, output):
    with_gates(project, "warn").edit("codec: zstd", output)
    assert project.build(DAY)["verdict"] == "built"
    version = project.version(DAY)
    gates = version.manifest.gates
    assert [gate["passed"] for gate in gates] == [False] * 9 + [True]
    assert [gate["severity"] for gate in gates] == ["warn"] * 10
    assert gates[0]["value"] == 100
    assert gates[3]["value"] == 96 / 102
    (change,) = version.manifest.schema_changes
    assert change == {"field": "twice", "change": "added_required", "before": "", "now": "float64"}
    assert version.manifest.shard_skew["samples"] == gates[6]["value"]
    report = version_report(version, project.folder)
    assert [gate["name"] for gate in report["gates"]][3] == "share of label = 0"
    assert all(gate["because"] and gate["allowed"] for gate in report["gates"])


def test_a_report_has_the_generations_of_the_interval_the_newest_first(project):
    project.build(DAY)
    project.build(DAY, rebuild="once more")
    report = version_report(project.version(DAY), project.folder)
    assert [each["generation"] for each in report["generations"]] == ["g0002", "g0001"]
    assert [each["this"] for each in report["generations"]] == [True, False]


def test_values_are_the_same_in_batch_mode(project):
    project.edit("seed: 7\n", f"seed: 7\n{WITHOUT_LOOKUP}".replace("}\n", ", severity: warn}\n"))
    project.build()
    batches = project.elsewhere("batches")
    batches.edit("input: record", "input: batch")
    (project.env.datasets / "clicks" / "preprocess.py").write_text(BATCH_CODE)
    batches.build()
    assert batches.version().manifest.gates == project.version().manifest.gates


def test_gates_do_not_enter_the_fingerprint(project):
    project.build()
    project.edit("seed: 7\n", f"seed: 7\n{WITHOUT_LOOKUP}")
    assert project.build()["verdict"] == "identical"


def test_a_change_that_breaks_readers_blocks_without_a_gate(project):
    project.build()
    project.edit("label: {dtype: int64}", "label: {dtype: str}")
    project.edit('"label": n', '"label": str(n)', "preprocess.py")
    text = str(refused(project))
    assert "schema_evolution is 1, allowed: " in text
    assert "(since 2024-03-01/g0001: label incompatible (int64 → str))" in text


def test_a_change_that_is_allowed_stands_in_the_manifest(project):
    project.build()
    project.edit("value: {dtype: float32}", "value: {dtype: float64}")
    project.build(DAY)
    manifest = project.version(DAY).manifest
    (gate,) = manifest.gates
    assert (gate["check"], gate["value"], gate["passed"]) == ("schema_evolution", 0, True)
    assert [change["change"] for change in manifest.schema_changes] == ["widened"]


def test_the_first_version_has_nothing_to_compare_with(project):
    project.edit("seed: 7\n", f"seed: 7\n{WITHOUT_LOOKUP}")
    project.edit("{check: unique, by: [label]}", "{check: relative_count, min: 5}")
    text = str(refused(project))
    assert "relative_count" not in text
    assert "schema_evolution" not in text


def test_a_lookup_without_the_column_is_one_error(project):
    with_gates(project)
    project.edit("column: id", "column: ident")
    with pytest.raises(ConfigError, match=r"expected a column of lookup 'known' \(name, id\)"):
        project.build(DAY)
