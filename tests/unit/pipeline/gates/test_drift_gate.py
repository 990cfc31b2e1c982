"""The gate ``drift`` in builds: distances in manifests, limits from them, messages, severities."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, event
from tests.unit.pipeline.conftest import make_project
from trainfeed.errors import GateError
from trainfeed.versions import Version

GATE = "quality:\n  - {check: drift, reference: 7, history: 30, severity: %s}\n"
CODE = """
def clicks(record, lookups):
    row = record.json()
    return {"value": row["value"], "label": row["label"]}
"""


def records(number, *, shift=0.0, size=300):
    random = np.random.default_rng(number)
    stamp = START_MS + number * DAY_MS
    values = zip(random.normal(50, 9, size) + shift, random.integers(0, 2, size), strict=True)
    return [
        event(float(value), stamp + n, label=int(label)) for n, (value, label) in enumerate(values)
    ]


def name(number):
    return f"2024-03-{number + 1:02}"


def prepared(path):
    """A data set of 16 days, the last one shifted."""
    project = make_project(path)
    project.edit("output:", GATE % "warn" + "output:")
    (project.env.datasets / "clicks" / "preprocess.py").write_text(CODE)
    rows = [row for number in range(15) for row in records(number)]
    project.record({0: [batch([*rows, *records(15, shift=30)])]})
    return project


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The data set with 15 days built."""
    project = prepared(tmp_path_factory.mktemp("published"))
    for number in range(15):
        project.prebuilt(name(number))
    return project


@pytest.fixture
def days(published, tmp_path):
    """A copy of its own for each test."""
    project = prepared(tmp_path)
    shutil.copytree(published.folder.path, project.folder.path)
    return project


def gate_of(version: Version):
    (gate,) = [each for each in version.manifest.gates if each["check"] == "drift"]
    return gate


def test_a_shifted_day_is_found_and_every_distance_is_in_the_manifest(days, monkeypatch):
    assert gate_of(days.version(name(0)))["because"] == "not judged: 0 of 14 versions"
    assert gate_of(days.version(name(9)))["because"] == "not judged: 9 of 14 versions"
    judged = gate_of(days.version(name(14)))
    assert (judged["value"], judged["passed"]) == (0, True)
    assert judged["because"] == "2 fields and components against 7 earlier versions"
    assert set(judged["distances"]) == {"value", "label"}
    assert set(judged["distances"]["value"]) == {"absent", "psi", "ks", "mean"}
    days.build(name(15))
    found = gate_of(days.version(name(15)))
    assert (found["value"], found["passed"]) == (1, False)
    for part in (
        "value: psi ",
        " beyond ",
        "values that the reference lacks 0.0% → 5",
        "mean 49.98 → 80",
    ):
        assert part in found["because"], found["because"]
    distance, limit = found["distances"]["value"]["psi"]
    assert distance > limit >= 0.05
    assert len(json.dumps(found)) < 1000


def test_a_drift_that_blocks_or_asks_publishes_nothing(days):
    for severity, before in (("block", "warn"), ("ask", "block")):
        days.edit(f"severity: {before}}}", f"severity: {severity}}}")
        with pytest.raises(GateError, match=r"drift is 1.*value: psi .* beyond .*mean 49.98 → 80"):
            days.build(name(15))
        assert days.folder.generations(name(15)) == []


def test_the_plan_reads_all_statistics_once_and_the_gate_those_of_the_reference(days, monkeypatch):
    read = []
    monkeypatch.setattr(
        Version, "statistics", lambda self, real=Version.statistics: read.append(self) or real(self)
    )
    days.build(name(15))
    times = Counter(each.path.parent.name for each in read)
    assert times == {name(n): 2 if n >= 8 else 1 for n in range(15)}


def test_a_gate_with_another_reference_judges_by_computed_distances(days):
    days.edit("reference: 7, history: 30, severity: warn", "reference: 5, severity: block")
    with pytest.raises(GateError, match="drift is 1"):
        days.build(name(15))


def test_the_gate_changes_no_fingerprint_and_no_content(days):
    with_gate = days.version(name(3)).manifest
    without = days.elsewhere("other")
    without.edit(GATE % "warn", "")
    without.build(name(3))
    other = without.version(name(3)).manifest
    assert (other.fingerprint, other.content_digest) == (
        with_gate.fingerprint,
        with_gate.content_digest,
    )


def test_an_empty_interval_has_no_distances(days):
    (days.env.datasets / "clicks" / "preprocess.py").write_text(
        "from trainfeed.preprocessing import Filtered\n\n\ndef clicks(record, lookups):\n"
        '    return Filtered("none")\n'
    )
    days.build(name(15))
    found = gate_of(days.version(name(15)))
    assert (found["value"], found["passed"], found["distances"]) == (0, True, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fields: [other]", "expected a field of the schema, got 'other'"),
        ("ignore: ['label[0]']", "expected a component of a field of fixed shape"),
        ("reference: 31", "31"),
        ("history: 13", "14"),
        ("factor: 0.5", "factor"),
        ("floor: {psi: -1}", "floor"),
        ("fields: []", "fields"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(project, text, said):
    project.edit("output:", f"quality:\n  - {{check: drift, {text}}}\noutput:")
    with pytest.raises(Exception, match=r"quality") as caught:
        _ = project.spec
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("part", "fits"),
    [
        ("value[1, 2]", True),
        ("value[1,2]", False),
        ("value[2, 0]", False),
        ("value[0]", False),
        ("value[1, 2", False),
        ("value[-1, 0]", False),
        ("value", True),
    ],
)
def test_a_component_is_named_by_its_place_in_the_shape(project, part, fits):
    project.edit("value: {dtype: float32}", "value: {dtype: float32, shape: [2, 3]}")
    project.edit("output:", f'quality:\n  - {{check: drift, ignore: ["{part}"]}}\noutput:')
    if fits:
        assert project.spec.quality[0].ignore == (part,)
        return
    with pytest.raises(Exception, match="expected a component up to"):
        _ = project.spec
