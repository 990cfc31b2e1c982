"""``trainfeed outdated`` and ``trainfeed bring-forward``."""

from __future__ import annotations

import json
import re
import shutil

import pytest

DAY, NEXT = "2024-03-01", "2024-03-02"


def words(output):
    """Return the words of a table, without its lines."""
    return " ".join(re.sub(r"[^\w\s.,:;→/-]", " ", output).split())


@pytest.fixture
def two(project):
    """Two published days, of which the second is of another seed."""
    project.prebuilt()
    project.edit("seed: 7", "seed: 8")
    project.prebuilt(NEXT)
    return project


def test_nothing_outdated_is_status_0(cli, project):
    project.prebuilt()
    status, output, _ = cli("outdated", "clicks")
    assert status == 0
    assert "clicks: no version is outdated (1 current)" in output


def test_outdated_versions_are_status_1_with_cause_cost_and_command(cli, two):
    status, output, _ = cli("outdated", "clicks")
    text = words(output)
    assert status == 1
    assert "2024-03-01 outdated 1 spec.seed: 7 → 8" in text
    assert "2024-03-02 current 1" in text
    assert "spec.seed: 7 → 8 1 2024-03-01/g0001" in text
    assert "all landed, the source is not read again" in text
    assert "trainfeed bring-forward clicks 2024-03-01" in text


def test_where_nothing_is_published_nothing_is_in_order(cli, project):
    status, output, messages = cli("outdated", "clicks")
    assert (status, output, "'clicks' has no published version" in messages) == (1, "", True)
    project.prebuilt()
    for command in ("outdated", "bring-forward"):
        for asked in ("2031-01", NEXT):
            status, output, messages = cli(command, "clicks", asked)
            assert (status, output) == (1, "")
            assert f"'clicks' has no published version in {asked}" in messages


def test_days_that_were_never_built_are_named_and_change_no_status(cli, project):
    project.prebuilt()
    for command in ("outdated", "bring-forward"):
        status, _, messages = cli(command, "clicks", f"{DAY}/{NEXT}")
        assert (status, "1 intervals of" in messages, NEXT in messages) == (0, True, True)


def test_a_range_and_json(cli, two):
    status, output, _ = cli("outdated", f"clicks/{NEXT}", "--json")
    assert (status, json.loads(output)["counts"]) == (0, {"current": 1})
    status, output, _ = cli("outdated", "clicks", DAY, "--json")
    (each,) = json.loads(output)["intervals"]
    assert status == 1
    assert each["causes"] == [{"place": "spec.seed", "old": "7", "new": "8"}]


def test_all_data_sets_have_a_line_each_and_one_that_is_wrong_keeps_none_from_it(cli, two):
    broken = two.env.datasets / "broken"
    broken.mkdir()
    (broken / "dataset.yaml").write_text("name: broken\n")
    status, output, messages = cli("outdated")
    assert status == 1
    assert "1 outdated, 1 current" in words(output)
    assert "broken: SpecError" in messages
    told = json.loads(cli("outdated", "--json")[1])
    assert [each["dataset"] for each in told] == ["clicks", "broken"]


def test_a_data_set_without_a_specification_here_is_named(cli, two):
    shutil.copytree(two.folder.path, two.folder.root / "elsewhere")
    status, output, messages = cli("outdated")
    assert status == 1
    assert "elsewhere" not in output
    assert "elsewhere: it has no specification in" in messages


def test_a_damaged_version_is_status_3(cli, two):
    (two.version(NEXT).path / "MANIFEST.json").write_text("{}")
    status, output, _ = cli("outdated", "clicks")
    assert status == 3
    assert "unreadable" in output


def test_the_source_is_asked_on_request(cli, project):
    project.prebuilt()
    (project.path / "recorded").rename(project.path / "elsewhere")
    assert "source" not in cli("outdated", "clicks")[1]
    status, output, _ = cli("outdated", "clicks", "--against-source")
    assert status == 0
    assert "source away" in output


def test_an_unknown_data_set_is_refused(cli, project):
    status, _, messages = cli("outdated", "click")
    assert status == 1
    assert "did you mean 'clicks'" in messages


def test_bring_forward_builds_the_outdated_intervals_and_no_others(cli, two):
    status, output, _ = cli("bring-forward", "clicks/2024-03", "--why", "better seed", "--json")
    assert status == 0
    (built,) = json.loads(output)
    assert (built["interval"], built["verdict"], built["generation"]) == (DAY, "built", "g0002")
    assert two.folder.last_generation(NEXT) == 1
    why = two.version().manifest.supersedes["why"]
    assert why == "better seed (outdated: spec.seed: 7 → 8)"
    status, output, messages = cli("bring-forward", "clicks", "2024-03", "--json")
    assert (status, json.loads(output)) == (0, [])
    assert "no interval of the range is outdated, nothing was built" in messages


def test_a_dry_run_builds_nothing(cli, two):
    status, output, _ = cli("bring-forward", "clicks/2024-03", "--dry-run")
    assert status == 0
    assert "spec.seed: 7 → 8" in output
    assert two.folder.last_generation(DAY) == 1


def test_a_failed_and_an_unreadable_interval_do_not_stop_the_others(cli, two):
    two.prebuilt("2024-03-03")
    two.edit("seed: 8", "seed: 9")
    for path in two.folder.path.glob("boundaries/*/*/20240301T000000Z.json"):
        path.write_text("{")
    (two.version("2024-03-03").path / "MANIFEST.json").write_text("{}")
    status, output, messages = cli("bring-forward", "clicks/2024-03", "--jobs", "2", "--json")
    first, second = json.loads(output)
    assert status == 1
    assert first["status"] not in {0, None}
    assert (second["interval"], second["verdict"]) == (NEXT, "built")
    assert "1 of 2 intervals are not brought forward" in messages
    assert [two.folder.last_generation(day) for day in (DAY, NEXT, "2024-03-03")] == [1, 2, 1]


def test_an_unreadable_version_is_left_and_is_status_3(cli, two):
    (two.version().path / "MANIFEST.json").write_text("{}")
    status, _, messages = cli("bring-forward", "clicks/2024-03")
    assert status == 3
    assert f"clicks: {DAY} cannot be read" in messages
    assert two.folder.last_generation(DAY) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["clicks"], "expected the interval or range once"),
        (["clicks/2024-03", "2024-03"], "expected the interval or range once"),
        (["clicks/2024-03", "--why", " "], "expected a reason for --why"),
        (["clicks/2024-03", "--training", "none"], "expected no --training"),
    ],
)
def test_wrong_usage_is_status_2(cli, project, arguments, message):
    status, _, messages = cli("bring-forward", *arguments)
    assert status == 2
    assert message in messages


def test_a_range_build_keeps_and_says_so(cli, two):
    status, output, messages = cli("build", "clicks/2024-03-01/2024-03-02", "--outdated", "keep")
    text = words(output)
    assert status == 0
    assert "2024-03-01 kept g0001" in text
    assert "2024-03-02 identical g0001" in text
    assert "2024-03-01: g0001 is outdated and kept" in messages


def test_one_build_can_rebuild_what_is_outdated(cli, two):
    status, output, _ = cli("build", f"clicks/{DAY}", "--outdated", "rebuild", "--json")
    assert (status, json.loads(output)["generation"]) == (0, "g0002")
