"""``trainfeed status``: lines that are read at once, JSON for scripts, exit status for monitors."""

import json

import pytest

from trainfeed.errors import ConfigError, GateError
from trainfeed.look.status import states


@pytest.fixture
def march(project):
    """Three days that are over, of which the first is published; no other is in the schedule."""
    project.edit("end: 2024-03-31", "end: 2024-03-03")
    project.prebuilt()
    return project


def fail(project, name):
    project.edit("seed: 7\n", "seed: 7\nquality:\n  - {check: count, min: 10000}\n")
    with pytest.raises(GateError):
        project.build(name)


def test_a_data_set_prints_runs_of_its_intervals_and_the_time_up_to_which_all_are_in(cli, march):
    status, output, _ = cli("status", "clicks")
    lines = output.splitlines()
    assert status == 1
    assert any("2024-03-01 " in line and "published" in line for line in lines)
    assert any("2024-03-02 … 2024-03-03" in line and "missing" in line for line in lines)
    assert lines[-1] == (
        "clicks: complete up to 2024-03-02T00:00:00Z; held back by 2024-03-02 (missing)"
    )


def test_all_data_sets_print_one_line_each(cli, march):
    status, output, _ = cli("status")
    line = next(line for line in output.splitlines() if "clicks" in line)
    assert status == 1
    for part in ("2024-03-02T00:00:00Z", "2024-03-02 (missing)", "1 published, 2 missing"):
        assert part in line
    status, output, _ = cli("status", "--json")
    found, *others = json.loads(output)
    assert (found["complete_up_to"], others) == ("2024-03-02T00:00:00Z", [])
    assert "intervals" not in found


def test_a_range_ends_with_0_when_it_is_in_and_with_1_when_not(cli, march):
    assert cli("status", "clicks", "2024-03-01")[0] == 0
    assert cli("status", "clicks/2024-03-01")[0] == 0
    assert cli("status", "clicks/2024-03-01/2024-03-02")[0] == 1
    assert cli("status", "clicks/2024-03-01", "2024-03-02")[0] == 2


def test_a_complete_data_set_ends_with_0(cli, march):
    march.prebuilt("2024-03-02")
    march.prebuilt("2024-03-03")
    status, output, _ = cli("status", "clicks")
    assert (status, output.splitlines()[-1]) == (0, "clicks: complete up to 2024-03-04T00:00:00Z")
    assert cli("status")[0] == 0


def test_json_has_every_interval_with_state_reason_and_since(cli, march):
    fail(march, "2024-03-02")
    status, output, _ = cli("status", "clicks", "--json")
    found = json.loads(output)
    first, second, third = found["intervals"]
    assert (status, found["in_order"]) == (1, False)
    assert found["held_back_by"] == second
    assert (first["state"], first["generation"], first["reason"]) == ("published", 1, "")
    assert first["samples"] == march.version().manifest.num_samples()
    assert second["state"] == "failed"
    assert "GateError: clicks/2024-03-02 is not published" in second["reason"]
    assert third["state"] == "missing"
    assert found["counts"] == {"published": 1, "failed": 1, "missing": 1}


def test_damage_ends_with_3_and_the_others_are_still_told(cli, march):
    path = march.version().path / "MANIFEST.json"
    path.chmod(0o644)
    path.write_text("{}")
    status, output, _ = cli("status", "clicks", "--json")
    states = [each["state"] for each in json.loads(output)["intervals"]]
    assert (status, states) == (3, ["damaged", "missing", "missing"])
    assert cli("status")[0] == 3


def test_a_data_set_that_was_never_built_is_missing_from_its_first_interval_on(cli, project):
    status, output, _ = cli("status", "clicks")
    assert status == 1
    assert output.splitlines()[-1] == (
        "clicks: nothing is complete; held back by 2024-03-01 (missing)"
    )


def test_an_unknown_data_set_and_a_range_that_is_none_are_refused(cli, project):
    assert cli("status", "clocks")[0] == 1
    assert cli("status", "clicks", "yesterday")[0] == 2


def test_one_set_that_cannot_be_told_hides_no_other(cli, march):
    other = march.folder.root / "other"
    (other / "versions").mkdir(parents=True)
    (other / "SCHEDULE.json").write_text("{")
    status, output, message = cli("status")
    assert status == 3
    assert "clicks" in output
    assert "other: FormatError" in message
    assert {each["dataset"] for each in json.loads(cli("status", "--json")[1])} == {
        "clicks",
        "other",
    }


def test_a_set_whose_zone_would_be_cut_otherwise_hides_no_other(cli, march, monkeypatch):
    def refuse(folder):
        raise ConfigError("the zone database would cut intervals otherwise")

    monkeypatch.setattr(states, "read_schedule", refuse)
    (march.folder.root / "other" / "versions").mkdir(parents=True)
    status, output, message = cli("status")
    assert status == 1
    assert "clicks" in output
    assert "other: ConfigError: the zone database" in message
