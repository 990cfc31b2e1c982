"""Quality gates: each with a case that fails, and a message that names field, value and limit."""

import pytest

from trainfeed.pipeline.gates.kinds import evaluate
from trainfeed.pipeline.gates.result import Counts, Facts, FieldFacts, failures

FIELDS = {
    "x": FieldFacts(count=10, nulls=2, min=-1.0, max=5.0),
    "bad": FieldFacts(count=10, nulls=0, min=0.0, max=1.0, not_finite=3),
    "none": FieldFacts(count=0, nulls=0),
}
COUNTS = Counts(
    read=100,
    quarantined=2,
    samples=90,
    late=1,
    fields=FIELDS,
    filtered=8,
    misplaced={"unstamped": 3},
)
BROKEN = [
    (
        {"check": "quarantine_ratio", "max": 0.01},
        "quarantine_ratio is 0.02, allowed: max 0.01 (2 of 100 records quarantined)",
    ),
    (
        {"check": "count", "min": 91, "max": None},
        "count is 90, allowed: min 91 (samples of 100 records read; 2 quarantined, 8 filtered)",
    ),
    (
        {"check": "count", "min": None, "max": 89},
        "count is 90, allowed: max 89 (samples of 100 records read; 2 quarantined, 8 filtered)",
    ),
    (
        {"check": "null_ratio", "field": "x", "max": 0.1},
        "null_ratio of x is 0.2, allowed: max 0.1 (2 of 10 samples lack it)",
    ),
    (
        {"check": "range", "field": "x", "min": 0, "max": 4},
        "range of x is [-1, 5], allowed: min 0, max 4 (least and largest of 10 samples)",
    ),
    (
        {"check": "range", "field": "bad", "max": 1},
        "range of bad is 3 times NaN or infinity, allowed: max 1 (among 10 samples)",
    ),
    (
        {"check": "late_ratio", "of": "unstamped", "max": 0.02},
        "late_ratio of unstamped is 0.03, allowed: max 0.02 (3 of 100 records without a stamp)",
    ),
    (
        {"check": "late", "max": 0},
        "late is 1, allowed: max 0 (of 100 records, stamped outside of the interval)",
    ),
]
KEPT = [
    {"check": "quarantine_ratio", "max": 0.02},
    {"check": "count", "min": 90, "max": 90},
    {"check": "late_ratio", "of": "unstamped", "max": 0.03},
    {"check": "late_ratio", "of": "future", "max": 0},
    {"check": "null_ratio", "field": "x", "max": 0.2},
    {"check": "null_ratio", "field": "none", "max": 0},
    {"check": "range", "field": "x", "min": -1, "max": 5},
    {"check": "range", "field": "none", "min": 3, "max": 4},
]


@pytest.mark.parametrize(("gate", "message"), BROKEN)
def test_a_broken_gate_says_what_is_why_and_what_is_allowed(gate, message):
    results = evaluate([{**gate, "severity": "block"}], Facts(COUNTS))
    assert failures(results, "block", COUNTS) == [message]
    assert failures(results, "warn", COUNTS) == []


@pytest.mark.parametrize("gate", KEPT)
def test_a_gate_at_its_limit_passes(gate):
    assert failures(evaluate([{**gate, "severity": "block"}], Facts(COUNTS)), "block", COUNTS) == []


def test_an_interval_without_records_breaks_no_ratio():
    nothing = Counts(read=0, quarantined=0, samples=0, late=0, fields=FIELDS)
    gate = {"check": "quarantine_ratio", "max": 0, "severity": "block"}
    assert failures(evaluate([gate], Facts(nothing)), "block", nothing) == []


def test_a_warning_is_published_and_told(project):
    project.edit(
        "seed: 7", "seed: 7\nquality: [{check: quarantine_ratio, max: 0.05, severity: warn}]"
    )
    assert project.build()["verdict"] == "built"
    (gate,) = project.version().manifest.gates
    assert (gate["passed"], gate["severity"]) == (False, "warn")
