"""``trainfeed drift``: distances and limits of published versions, from manifests or computed."""

import json
import re
import shutil

import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, event
from tests.unit.pipeline.conftest import make_project

CODE = """
def clicks(record, lookups):
    row = record.json()
    return {"value": row["value"], "label": row["label"]}
"""
DAYS = 16


def name(number):
    return f"2024-03-{number + 1:02}"


def events(number):
    """A day of 40 samples; on the last one every label is 2."""
    for place in range(40):
        label = 2 if number == DAYS - 1 else place % 2
        yield event(float(place), START_MS + number * DAY_MS + place, label=label)


def prepared(project):
    (project.env.datasets / "clicks" / "preprocess.py").write_text(CODE)
    project.record({0: [batch([each for number in range(DAYS) for each in events(number)])]})
    return project


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A data set without a gate, and all its days."""
    project = prepared(make_project(tmp_path_factory.mktemp("published")))
    for number in range(DAYS):
        project.prebuilt(name(number))
    return project


@pytest.fixture
def days(project, published):
    prepared(project)
    shutil.copytree(published.folder.path, project.folder.path)
    return project


def test_a_range_is_a_line_for_each_version_and_a_shift_is_status_3(cli, days):
    status, out, err = cli("drift", "clicks")
    assert status == 3
    rows = [line.replace("│", " ").split() for line in out.splitlines() if "/g0001" in line]
    assert [row[0] for row in rows] == [f"{name(n)}/g0001" for n in range(DAYS)]
    assert rows[-1][1:] == ["2", "2", "label"]
    assert "14 of 16 versions are not judged: they have fewer than 14 versions before them" in err
    assert cli("drift", "clicks", f"{name(14)}/{name(14)}")[0] == 0


def test_one_version_has_all_its_distances_and_what_changed(cli, days):
    status, out, _ = cli("drift", f"clicks/{name(15)}")
    assert status == 3
    assert "share of values that the reference lacks" in " ".join(out.replace("│", " ").split())
    assert re.search(r"label +│ 0 ≤ 0\.\S+ +│ \S+ > \S+ ", out)
    for measure in ("absent", "psi", "ks", "mean"):
        assert measure in out
    status, out, err = cli("drift", "clicks", name(3))
    assert (status, "not judged" in err) == (0, True)


def test_json_has_distance_limit_and_change(cli, days):
    status, out, _ = cli("drift", "clicks", f"{name(14)}/{name(15)}", "--json")
    quiet, shifted = json.loads(out)
    assert status == 3
    assert (quiet["beyond"], quiet["recorded"], quiet["versions"]) == ({}, False, 14)
    assert set(shifted["beyond"]) == {"label"}
    distance, limit = shifted["distances"]["label"]["psi"]
    assert distance > limit


def test_a_range_shows_what_the_whole_data_set_shows(cli, days):
    whole = json.loads(cli("drift", "clicks", "--json")[1])
    for number in (0, 7, 15):
        assert json.loads(cli("drift", "clicks", name(number), "--json")[1]) == [whole[number]]


def test_distances_of_the_gate_are_those_of_the_manifest(cli, days):
    days.edit("output:", "quality:\n  - {check: drift, ignore: [value]}\noutput:")
    days.prebuilt(name(15), rebuild="a gate was added")
    (found,) = json.loads(cli("drift", "clicks", name(15), "--json")[1])
    manifest = days.version(name(15)).manifest
    (gate,) = [each for each in manifest.gates if each["check"] == "drift"]
    assert found["recorded"]
    assert found["distances"] == gate["distances"]
    assert set(found["distances"]) == {"label"}
    assert cli("drift", "clicks", name(15))[0] == 3


def test_nothing_published_is_an_error_that_names_the_command(cli, days):
    status, _, err = cli("drift", "clicks", "2025-01")
    assert status == 1
    assert "no published version of 2025-01" in err
    assert "trainfeed build clicks --interval I" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("clicks/2024-03", "2024-03"), "expected the interval or range once"),
        (("clicks/2024-03-01/g0001",), "expected NAME/RANGE without gNNNN"),
    ],
)
def test_a_range_twice_or_a_generation_is_wrong_usage(cli, days, arguments, message):
    status, _, err = cli("drift", *arguments)
    assert status == 2
    assert message in err


def test_a_damaged_version_is_named_and_the_others_are_shown(cli, days):
    manifest = days.folder.version(name(2), 1) / "MANIFEST.json"
    manifest.chmod(0o644)
    manifest.write_bytes(manifest.read_bytes().replace(b"clicks", b"clocks"))
    status, out, err = cli("drift", "clicks", f"{name(1)}/{name(14)}")
    assert status == 3
    assert f"clicks/{name(2)} is damaged" in err
    assert f"{name(14)}/g0001" in out
