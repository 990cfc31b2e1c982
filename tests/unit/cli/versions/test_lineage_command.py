"""``trainfeed lineage``: every kind of target, trees for people, JSON for pages, exit status."""

import json

from tests.unit.cli.conftest import cli
from tests.unit.look.lineage.conftest import job, original, project

__all__ = ["cli", "job", "original", "project"]


def test_a_model_is_a_tree_up_to_offsets_and_down_to_aliases(cli, job):
    status, output, _ = cli("lineage", "click_model@prod")
    lines = output.splitlines()
    assert status == 0
    assert lines[:4] == [
        "model click_model/v0001: samples 106, score 1",
        "  from",
        f"    job {job}: succeeded, runs train:main",
        "      version clicks/2024-03-01/g0001: for readers, 147 samples",
    ]
    assert any(line.startswith("        input kafka:clicks/0: offsets 0 to 59") for line in lines)
    assert lines[-2:] == ["    alias click_model@candidate", "    alias click_model@prod"]


def test_a_version_a_job_a_record_and_a_data_set_are_targets(cli, job):
    for target in ("clicks/2024-03-01/g0001", "clicks/2024-03-01", "clicks/2024-03", "clicks"):
        found = json.loads(cli("lineage", target, "--json")[1])
        assert found["focus"] == ["version clicks/2024-03-01/g0001"]
    assert json.loads(cli("lineage", job, "--json")[1])["focus"] == [f"job {job}"]
    found = json.loads(cli("lineage", "click_model/v0001", "--json")[1])
    assert found["focus"] == ["model click_model/v0001"]
    output = cli("lineage", "kafka:clicks/0@3", "--down")[1]
    assert output.splitlines()[0].endswith("the record is quarantined: not_json")
    assert "input" not in output


def test_a_position_of_no_version_ends_with_1(cli, job):
    status, output, message = cli("lineage", "kafka:clicks/0@999999")
    assert (status, output, message) == (1, "", "no version has kafka:clicks/0@999999\n")


def test_a_position_may_be_looked_for_in_one_data_set(cli, job):
    assert cli("lineage", "kafka:clicks/0@3", "--dataset", "clicks")[0] == 0
    assert cli("lineage", "clicks", "--dataset", "clicks")[0] == 2
    assert cli("lineage", "kafka:clicks/0@3", "--dataset", "../clicks")[0] == 2


def test_damage_is_named_beside_the_rest_and_ends_with_3(cli, project, job):
    project.prebuilt("2024-03-02")
    path = project.version("2024-03-02").path / "MANIFEST.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    status, output, message = cli("lineage", "kafka:clicks/0@1")
    assert (status, "model click_model/v0001" in output) == (3, True)
    assert "clicks/2024-03-02/g0001 cannot be read, its part is missing" in message


def test_what_is_nothing_is_an_error(cli, job):
    for target in ("nothing", "nothing/2024-03-01", "nothing@prod", "clicks/2024-03-09"):
        status, output, message = cli("lineage", target)
        assert (status, output) == (1, ""), target
        assert message
