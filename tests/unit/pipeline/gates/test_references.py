"""Versions that gates compare with stand in the plan: all tries at a plan use the same ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.pipeline.conftest import project
from tests.unit.processes import LIMIT_S
from trainfeed.core import faults
from trainfeed.errors import GateError, NotFoundError
from trainfeed.pipeline.check import check
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import Plan, load_plan, save_plan
from trainfeed.pipeline.reports import Build, PlanRef
from trainfeed.versions import Manifest
from trainfeed.versions.waive import read_refused

__all__ = ["project"]

ROOT = Path(__file__).parents[4]
THIRD = "2024-03-03"
GATE = "quality: [{check: relative_count, versions: 3, min: 0.1, severity: warn}]\n"
DRIFT = "quality: [{check: drift}]\n"
STRICT = "quality: [{check: relative_count, min: 100}]\n"


def with_gate(project, gate=GATE):
    project.edit("seed: 7\n", f"seed: 7\n{gate}")
    return project


def planned(project, name=THIRD):
    report = plan(project.spec, project.interval(name), project.env)
    return load_plan(project.folder, report.ref)


def names(found):
    return [f"{each.interval}/g{each.generation:04d}" for each in found.references]


def test_the_newest_generations_of_the_nearest_intervals_are_chosen(project):
    with_gate(project)
    for name, why in (("2024-03-01", None), ("2024-03-02", None), ("2024-03-02", "again")):
        project.build(name, rebuild=why)
    assert names(planned(project)) == ["2024-03-02/g0002", "2024-03-01/g0001"]
    project.edit("versions: 3", "versions: 1")
    assert names(planned(project, "2024-03-04")) == ["2024-03-02/g0002"]
    assert names(planned(project, "2024-03-01")) == []


def test_the_manifest_names_what_was_compared(project):
    with_gate(project)
    for name in ("2024-03-01", "2024-03-02"):
        project.build(name)
    manifest = project.version("2024-03-02").manifest
    (reference,) = manifest.references
    assert reference == {
        "interval": "2024-03-01",
        "generation": 1,
        "manifest_sha256": project.version().manifest_sha256,
    }
    (gate,) = manifest.gates
    assert gate["because"] == "102 samples, 147 in 2024-03-01/g0001"


def test_a_second_try_adopts_the_references_of_the_first(project):
    with_gate(project).build()
    first = planned(project)
    project.build("2024-03-02")
    assert planned(project) == first
    assert names(first) == ["2024-03-01/g0001"]


def test_a_version_stays_identical_when_earlier_ones_are_built_again(project):
    with_gate(project)
    for name in ("2024-03-01", "2024-03-02"):
        project.build(name)
    project.build("2024-03-01", rebuild="again")
    assert project.build("2024-03-02")["verdict"] == "identical"


def removed(project, name="2024-03-01", generation=1):
    """Remove a generation as retention does."""
    folder = project.folder
    folder.removal_mark(name, generation).touch()
    shutil.rmtree(folder.version(name, generation), ignore_errors=True)


def test_a_reference_that_is_gone_is_one_error_and_the_next_plan_has_another(project):
    with_gate(project).build()
    project.edit(GATE, STRICT)
    with pytest.raises(GateError, match=r"relative_count of samples is 0\.\d+, allowed: min 100"):
        project.build(THIRD)
    (plan_id,) = project.folder.plan_ids(THIRD)
    build = Build(project.spec, project.env, PlanRef("clicks", THIRD, plan_id))
    removed(project)
    with pytest.raises(NotFoundError) as caught:
        check(build)
    assert "clicks/2024-03-01/g0001, with which gates of the plan compare, is gone" in str(
        caught.value
    )
    assert "nothing was published; build the interval again" in str(caught.value)
    # The work files are in order, so their gates may still be waived.
    assert read_refused(project.folder, THIRD, plan_id) is not None
    assert project.build(THIRD)["verdict"] == "built"
    assert project.version(THIRD).manifest.references == []


def test_a_reference_with_another_manifest_is_refused(project):
    project.build()
    reference = planned(project).references[0]
    other = reference.model_copy(update={"manifest_sha256": "0" * 64})
    with pytest.raises(NotFoundError, match="has another manifest since the plan was made"):
        other.open(project.folder)


def test_a_damaged_version_is_left_out_with_a_warning(project, caplog):
    with_gate(project)
    for name in ("2024-03-01", "2024-03-02"):
        project.build(name)
    path = project.folder.version("2024-03-02", 1) / "MANIFEST.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-2])
    assert names(planned(project)) == ["2024-03-01/g0001"]
    assert "gates of 2024-03-03 do not compare with 2024-03-02" in caplog.text


def damage_statistics(project, name):
    path = project.version(name).path / "statistics.json"
    path.chmod(0o644)
    path.write_bytes(b"{}")


def test_a_version_with_damaged_statistics_keeps_no_later_interval_from_being_built(
    project, caplog
):
    with_gate(project, DRIFT)
    for name in ("2024-03-01", "2024-03-02"):
        project.build(name)
    damage_statistics(project, "2024-03-02")
    assert project.build(THIRD)["verdict"] == "built"
    references = project.version(THIRD).manifest.references
    assert [each["interval"] for each in references] == ["2024-03-01"]
    assert "gates of 2024-03-03 do not compare with 2024-03-02" in caplog.text


def test_statistics_that_are_damaged_after_the_plan_are_left_out_by_the_next_plan(project):
    with_gate(project, DRIFT).build()
    assert names(planned(project)) == ["2024-03-01/g0001"]
    damage_statistics(project, "2024-03-01")
    assert names(planned(project)) == []
    assert project.build(THIRD)["verdict"] == "built"


def test_statistics_are_read_only_for_a_gate_that_compares_them(project):
    with_gate(project).build()
    damage_statistics(project, "2024-03-01")
    assert names(planned(project)) == ["2024-03-01/g0001"]


def test_a_plan_that_differs_in_more_than_references_is_replaced(project):
    project.build()
    first = planned(project)
    other = first.model_copy(update={"quality": [{"check": "count", "min": 1}], "references": []})
    assert save_plan(project.folder, other) == other
    assert save_plan(project.folder, first) == first


def test_a_plan_without_references_has_the_bytes_of_earlier_versions(project):
    first = planned(project, "2024-03-01")
    value = json.loads(first.to_bytes())
    assert "references" not in value
    assert Plan.model_validate(value).references == []


def test_a_manifest_without_the_new_keys_is_read_and_written_as_it_was(project):
    project.edit("samples_per_shard: 50", "shards: 1")
    project.build()
    data = (project.version().path / "MANIFEST.json").read_bytes()
    assert not {"references", "schema_changes", "shard_skew"} & json.loads(data).keys()
    assert Manifest.from_bytes(data).to_bytes() == data


def test_the_plan_of_a_version_is_written_again_with_its_references(project):
    with_gate(project)
    for name in ("2024-03-01", "2024-03-02"):
        project.build(name)
    (path,) = (project.folder.plans("2024-03-02")).glob("*-g0001.json")
    data = path.read_bytes()
    path.unlink()
    project.build("2024-03-01", rebuild="again")
    assert project.build("2024-03-02")["verdict"] == "identical"
    assert path.read_bytes() == data


def killed(project, point):
    """Build the second day in a process that is killed at a point."""
    env = {
        "PYTHONPATH": str(ROOT / "include"),
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
        "TRAINFEED_DATASETS": str(project.env.datasets),
        faults.VARIABLE: f"{point}:kill",
    }
    command = [sys.executable, "-m", "trainfeed", "build", "clicks", "--interval", "2024-03-02"]
    return subprocess.run(command, env=env, check=False, timeout=LIMIT_S).returncode


@pytest.mark.parametrize("point", ["plan.after_save", "check.before_rename"])
def test_a_killed_build_ends_with_the_same_manifest(project, point):
    with_gate(project).build()
    assert killed(project, point) == -9
    # What the gates would compare with now is not what the killed try has planned.
    project.build("2024-03-01", rebuild="again")
    project.build("2024-03-02")
    references = project.version("2024-03-02").manifest.references
    assert [each["generation"] for each in references] == [1]
