"""A union on executors: members of every kind, of which each task reads one, as on this machine."""

import pytest

from tests.integration.spark.conftest import Case
from tests.support.manifests import read_by_member
from tests.unit.pipeline.inputs.avro_clicks import fake_registry
from tests.unit.pipeline.unions.every_kind import DAYS, MEMBERS, PER_DAY, make_union_project
from trainfeed.versions import Manifest


@pytest.mark.parametrize("mode", ["record", "batch"])
def test_both_engines_build_equal_versions_of_a_union(tmp_path, monkeypatch, mode):
    fake_registry(monkeypatch)
    project = make_union_project(tmp_path / "sources")
    if mode == "batch":
        project.as_batches()
    # Two tasks of each member.
    case = Case(project.spec, DAYS[1], project.env, 60).in_groups(6)
    here, there = (case.at(tmp_path / name, name) for name in ("local", "spark"))
    here.build()
    there.build()
    assert there.digest == here.digest
    found, _ = Manifest.read(there.version)
    assert read_by_member(found) == dict.fromkeys(MEMBERS, PER_DAY)
    assert found.quarantine["reasons"] == {"no_value": len(MEMBERS)}
    assert [each["id"] for each in found.schemas["writers"]] == [1, 2]
