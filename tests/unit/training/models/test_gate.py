"""The gate of a model: limits, and the promoted model."""

import json
import math

import pytest

from trainfeed.specification import ModelSpec
from trainfeed.training.models import Baseline, judge

NOTHING = Baseline(None, None, "not compared: there is no promoted model")


def spec(**metrics):
    return ModelSpec.model_validate({"name": "clicks", "metrics": metrics})


def against(**metrics):
    return Baseline("v0002", metrics, "v0002 was evaluated on the same data")


@pytest.mark.parametrize(
    ("gate", "value", "compared", "why"),
    [
        ({"min": 0.5}, 0.5, NOTHING, ""),
        ({"min": 0.5}, 0.49, NOTHING, "auc is 0.49, below min 0.5"),
        ({"max": 2}, 2.5, NOTHING, "auc is 2.5, above max 2"),
        ({"max_worse": 0}, 0.1, NOTHING, ""),
        ({"max_worse": 0}, 0.7, against(auc=0.7), ""),
        ({"max_worse": 0.125}, 0.5, against(auc=0.625), ""),
        (
            {"max_worse": 0.1},
            0.5,
            against(auc=0.75),
            "auc is 0.5, worse by 0.25 than the promoted model's 0.75; max_worse is 0.1",
        ),
        ({"max_worse": 0.1, "better": "lower"}, 0.5, against(auc=0.75), ""),
        (
            {"max_worse": 0.1, "better": "lower"},
            1.0,
            against(auc=0.75),
            "auc is 1, worse by 0.25 than the promoted model's 0.75; max_worse is 0.1",
        ),
        ({"max_worse": 0.1}, 0.5, against(other=1), ""),
    ],
)
def test_a_metric_passes_its_limits_and_is_not_much_worse_than_the_promoted(
    gate, value, compared, why
):
    (result,) = judge(spec(auc=gate), {"auc": value}, compared).results
    assert (result.why, result.passed) == (why, not why)


PAIRS = [(0.90, 0.89), (0.3, 0.29), (0.7, 0.69), (1.1, 1.09), (0.58, 0.57), (1e9 + 0.01, 1e9)]


@pytest.mark.parametrize(("more", "less"), PAIRS)
@pytest.mark.parametrize("better", ["higher", "lower"])
def test_the_difference_that_is_allowed_is_that_of_the_numbers_as_they_are_written(
    more, less, better
):
    value, promoted = (less, more) if better == "higher" else (more, less)
    gate = {"max_worse": 0.01, "better": better}
    assert judge(spec(auc=gate), {"auc": value}, against(auc=promoted)).passed
    gate["max_worse"] = 0.009999
    assert not judge(spec(auc=gate), {"auc": value}, against(auc=promoted)).passed


def test_a_message_has_the_digits_that_decide():
    report = judge(spec(auc={"min": 0.9}), {"auc": 0.89999999}, NOTHING)
    assert report.reasons() == ["auc is 0.89999999, below min 0.9"]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("limit", [{"min": 0.5}, {"max": 0.5}, {"max_worse": 0.1}])
def test_what_is_no_finite_number_passes_no_gate(number, limit):
    report = judge(spec(auc=limit), {"auc": number}, against(auc=0.5))
    assert report.reasons() == [f"auc is {number}, which is not a finite number"]
    json.dumps(report.to_json(), allow_nan=False)


def test_a_promoted_metric_that_is_no_finite_number_is_not_compared_in_silence():
    report = judge(spec(auc={"max_worse": 0.1}), {"auc": 0.5}, against(auc=math.nan))
    assert report.reasons() == ["auc of the promoted model is nan, which is not a finite number"]


def test_all_metrics_must_pass_and_each_that_does_not_is_named():
    report = judge(spec(auc={"min": 1}, loss={"max": 1}), {"auc": 0.5, "loss": 2.0}, NOTHING)
    assert not report.passed
    assert report.reasons() == ["auc is 0.5, below min 1", "loss is 2, above max 1"]
    assert report.to_json()["note"] == "not compared: there is no promoted model"


def test_a_metric_that_the_training_did_not_return_does_not_pass():
    report = judge(spec(auc={"min": 0.5}), {"auk": 0.9}, NOTHING)
    assert report.reasons() == ["there is no metric 'auc', only auk; did you mean 'auk'?"]


def test_what_was_not_compared_is_said():
    told = judge(spec(auc={"max_worse": 0.1}), {"auc": 0.5}, NOTHING).to_json()
    assert (told["passed"], told["compared"], told["promoted"]) == (True, False, None)
    told = judge(spec(auc={"max_worse": 0.1}), {"auc": 0.7}, against(auc=0.7)).to_json()
    assert (told["compared"], told["promoted"]) == (True, "v0002")
    assert told["metrics"][0]["promoted"] == 0.7
