"""A process with a model: predictions in order, and one error for whatever the code does."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.pipeline.conftest import make_project
from tests.unit.prediction.conftest import LIMITS, make_predicting, raw
from tests.unit.processes import is_running, until
from trainfeed.errors import (
    CodeChangedError,
    ConfigError,
    EngineError,
    PredictionError,
    PredictionTimeError,
    SkewError,
)
from trainfeed.files.stores import posix
from trainfeed.prediction import ModelWorker, OutcomeKind, PredictionLimits, RawRecord

QUICK = PredictionLimits(time_s=1, memory_bytes=2 << 30)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A data set with a model, which no test changes."""
    return make_predicting(make_project(tmp_path_factory.mktemp("project")))


@pytest.fixture(scope="module")
def opened(shared):
    """A process for tests after which the same process predicts."""
    with ModelWorker(shared.place(), LIMITS) as worker:
        yield worker
        assert worker.restarts == 0


@pytest.fixture(scope="module")
def quick(shared):
    """A process that may be replaced, with a short limit."""
    with ModelWorker(shared.place(), QUICK) as worker:
        yield worker


def told(outcomes):
    return [
        [each["double"] for each in o.predictions] if o.is_predicted else (o.kind.value, o.reason)
        for o in outcomes
    ]


def test_outcomes_stand_in_the_order_of_the_records_with_a_reason_for_each_that_has_none(
    opened,
):
    records = [raw(1), RawRecord(b"no json"), raw(-1), raw(4, copies=3), RawRecord(None), raw(6)]
    assert told(opened.predict([])) == []
    outcomes = opened.predict(records)
    assert told(outcomes) == [
        [2.0],
        ("rejected", "not_json"),
        ("filtered", "negative"),
        [8.0, 8.0, 8.0],
        ("rejected", "null_value"),
        [12.0],
    ]
    assert outcomes[0].predictions[0]["process"] != os.getpid()


def test_a_function_that_completes_records_may_turn_them_down_or_fail_at_them(predicting):
    predicting.project.edit(
        "def complete(value):\n    return value",
        "def complete(value):\n    return None if value == b'none' else value.replace(b'?', b'5')",
        "train.py",
    )
    with ModelWorker(predicting.place(), LIMITS) as worker:
        assert told(worker.predict([RawRecord(b"none")])) == [("failed", "complete_failed")]
        outcomes = worker.predict([RawRecord(b'{"value": ?}'), RawRecord(b"none"), raw(1)])
    assert told(outcomes) == [[10.0], ("failed", "complete_failed"), [2.0]]
    assert outcomes[1].message.endswith("train.model.complete: expected bytes, got NoneType")


def test_a_mistake_of_the_preprocessing_concerns_its_record_alone(opened):
    records = [raw(1), raw("text"), RawRecord(b'{"value": null}'), raw(2)]
    outcomes = opened.predict(records)
    assert told(outcomes) == [[2.0], *[("failed", "function_failed")] * 2, [4.0]]
    assert "raised TypeError" in outcomes[1].message
    assert "at records offset 1" in outcomes[1].message
    assert "no prediction was made" in outcomes[1].message


def test_a_prediction_that_is_no_number_fails_its_record_alone(predicting):
    predicting.make("nan", 2)
    with ModelWorker(predicting.place(2), LIMITS) as worker:
        (outcome,) = worker.predict([raw(1)])
    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "not_finite")
    assert outcome.message == "double: expected finite numbers, got nan"


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (13, PredictionError, r"raised ValueError: unlucky \(train.py:\d+\) for 1 samples"),
        (98, PredictionError, "ended its process with status 7"),
        (99, PredictionTimeError, r"longer than its limit of 1 s(.|\n)*in predict"),
    ],
)
def test_whatever_the_function_does_is_one_error_and_the_next_records_are_predicted(
    quick, value, error, message
):
    before = quick.restarts
    (first,) = quick.predict([raw(1)])
    with pytest.raises(error, match=message):
        quick.predict([raw(value)])
    (second,) = quick.predict([raw(2)])
    assert told([second]) == [[4.0]]
    is_new = second.predictions[0]["process"] != first.predictions[0]["process"]
    assert is_new == (value != 13) == (quick.restarts > before)


def test_a_process_is_replaced_only_with_the_same_code(predicting):
    with ModelWorker(predicting.place(), QUICK) as worker:
        predicting.project.edit("value * factor", "value + factor", "train.py")
        with pytest.raises(PredictionError):
            worker.predict([raw(98)])
        with pytest.raises(CodeChangedError, match="changed since the model was opened"):
            worker.predict([raw(2)])


def test_a_model_that_is_being_opened_can_be_closed_by_another_thread(predicting, tmp_path):
    opening, started = tmp_path / "opening", []
    predicting.make(f"sleep {opening}", 2)
    with ThreadPoolExecutor(1) as thread:
        opened = thread.submit(ModelWorker, predicting.place(2), LIMITS, on_start=started.append)
        pid = int(until(lambda: opening.exists() and opening.read_text()))
        started[0].close()
        with pytest.raises(EngineError, match="was ended by SIGKILL"):
            opened.result(60)
    assert not is_running(pid)


def test_a_closed_model_gets_no_other_process(shared):
    with ModelWorker(shared.place(), LIMITS) as worker:
        worker.close()
        with pytest.raises(EngineError, match="got a model that was closed"):
            worker.predict([raw(1)])
        assert worker.restarts == 0


def test_other_preprocessing_than_that_of_the_data_is_refused_with_both_digests(predicting):
    then = predicting.project.version().manifest.code["digest"]
    predicting.project.edit('"expected a value"', '"a value"', "preprocess.py")
    with pytest.raises(SkewError, match=f"code: expected {then}, got [0-9a-f]{{64}}") as caught:
        ModelWorker(predicting.place(), LIMITS)
    assert '-        raise Reject("no_value", "expected a value")' in str(caught.value)
    with ModelWorker(predicting.place(accepts=True), LIMITS) as worker:
        assert worker.facts.other_code == ("code",)
        assert worker.facts.mark() == {"model": "click_model/v0001", "other_code": ["code"]}


def test_another_function_of_the_same_code_is_refused_too(predicting):
    predicting.project.edit("preprocess:clicks", "preprocess:Filtered")
    with pytest.raises(SkewError, match=r"function: expected .*clicks.*, got .*Filtered"):
        ModelWorker(predicting.place(), LIMITS)


def test_another_schema_is_refused(predicting):
    predicting.project.edit("value: {dtype: float32}", "value: {dtype: float64}")
    with pytest.raises(SkewError, match=r"schema: expected .*float32.*, got .*float64"):
        ModelWorker(predicting.place(), LIMITS)


def test_a_model_whose_data_are_all_removed_is_not_compared_in_silence(predicting):
    from trainfeed.files.stores import posix

    posix.remove_tree(predicting.project.version().path)
    with pytest.raises(SkewError, match="all versions of its data were removed"):
        ModelWorker(predicting.place(), LIMITS)


def test_without_a_function_that_predicts_the_error_says_where_it_belongs(predicting):
    for line in ('    predict: "train:predictor"\n', "    labels: [label]\n",
                 '    complete: "train:complete"\n'):  # fmt: skip
        predicting.project.edit(line, "")
    with pytest.raises(ConfigError, match=r"expected train\.model\.predict in dataset\.yaml"):
        ModelWorker(predicting.place(), LIMITS)


def test_a_version_that_is_served_is_held_until_the_service_closes_it(predicting):
    manifest = predicting.folder.version(1) / "MANIFEST.json"
    with ModelWorker(predicting.place(), LIMITS) as worker:
        with posix.try_lock(manifest) as is_free:
            assert not is_free
        worker.close()
        with posix.try_lock(manifest) as is_free:
            assert is_free
