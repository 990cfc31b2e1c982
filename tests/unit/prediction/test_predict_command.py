"""``trainfeed predict``: a line for each record, a status that says whether each was predicted."""

import io
import json

import numpy as np
import pytest

from tests.unit.cli.conftest import cli
from trainfeed.readers import DatasetReader

__all__ = ["cli"]

GOOD = b'{"value": 1}\n{"value": 2.5, "copies": 2}\r\n{"value": 3}'
BAD = b'{"value": 1}\nno json\n{"value": -1}\n{"value": 2}\n'


@pytest.fixture
def predict(predicting, cli, tmp_path):
    def run(data, *options, target="click_model@prod"):
        file = tmp_path / "records.jsonl"
        file.write_bytes(data)
        return cli("predict", target, str(file), *options)

    return run


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def doubles(found):
    return [[each["double"] for each in row.get("predictions", ())] for row in found]


def test_every_line_is_a_record_and_gets_a_line_of_predictions(predict):
    status, out, err = predict(GOOD, "--json")
    found = rows(out)
    assert (status, doubles(found)) == (0, [[2.0], [5.0, 5.0], [6.0]])
    assert [row["index"] for row in found] == [0, 1, 2]
    assert {row["model"] for row in found} == {"click_model/v0001"}
    report = json.loads(err)
    assert (report["records"], report["predicted"], report["reasons"]) == (3, 3, {})
    assert (report["version"], report["data"]) == ("v0001", ["2024-03-01/g0001"])


def test_a_record_without_a_prediction_says_why_and_makes_the_status_1(predict, tmp_path):
    status, out, err = predict(BAD)
    assert (status, doubles(rows(out))) == (1, [[2.0], [], [], [4.0]])
    assert rows(out)[1]["rejected"] == "not_json"
    assert rows(out)[2] == {"index": 2, "filtered": "negative", "model": "click_model/v0001"}
    assert "2 of 4 records have no prediction (filtered: negative: 1, rejected: not_json: 1)" in err
    assert predict(BAD, "--skip-bad")[0] == 0


def test_the_output_appears_whole_or_not_at_all(predict, tmp_path):
    output = tmp_path / "out" / "predictions.jsonl"
    output.parent.mkdir()
    status, out, err = predict(BAD, "--output", str(output))
    assert (status, out, list(output.parent.iterdir())) == (1, "", [])
    assert f"{output} was not made" in err
    assert predict(BAD, "--output", str(output), "--skip-bad")[0] == 0
    assert doubles(rows(output.read_text())) == [[2.0], [], [], [4.0]]
    assert predict(GOOD, "--output", str(output))[0] == 1
    assert doubles(rows(output.read_text())) == [[2.0], [], [], [4.0]]


def test_the_records_of_an_error_are_named_and_nothing_is_left(predict, tmp_path):
    output = tmp_path / "predictions.jsonl"
    lines = b"".join(b'{"value": %d}\n' % n for n in range(10, 16))
    status, _, err = predict(lines, "--output", str(output), "--batch", "2")
    assert (status, output.exists()) == (1, False)
    assert "records 2 to 3: train:predictor of data set 'clicks' raised ValueError" in err


def test_no_record_is_an_error(predict):
    status, out, err = predict(b"")
    assert (status, out) == (1, "")
    assert "expected at least one record, got none" in err


def test_whole_records_are_given_as_json(predict, monkeypatch, cli):
    lines = '{"value": {"value": 4}, "key": "k", "timestamp_ms": 5, "headers": [["h", "x"]]}\n'
    lines += '{"value_base64": "eyJ2YWx1ZSI6IDV9"}\n{"value": "{\\"value\\": 6}"}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    status, out, _ = cli("predict", "click_model", "-", "--form", "record")
    assert (status, doubles(rows(out))) == (0, [[8.0], [10.0], [12.0]])
    status, _, err = predict(b'{"value": 1, "typo": 2}', "--form", "record")
    assert status == 3
    assert "line 1 is no record: expected the keys" in err


def test_accepted_other_code_stands_in_every_line(predict, predicting):
    predicting.project.edit('"expected a value"', '"a value"', "preprocess.py")
    status, out, err = predict(GOOD)
    assert (status, out) == (1, "")
    assert "SkewError" in err
    status, out, err = predict(GOOD, "--accept-other-code")
    assert status == 0
    assert all(row["other_code"] == ["code"] for row in rows(out))
    assert "other preprocessing was accepted" in err


def test_a_published_split_is_predicted_in_its_order(predicting, cli):
    status, out, _ = cli(
        "predict", "click_model/v0001", "--version", "clicks/2024-03-01", "--split", "eval"
    )
    reader = DatasetReader([predicting.project.version()], "eval")
    expected = np.concatenate([block["value"] for block in reader.iter_arrays()])
    assert status == 0
    assert [row[0] for row in doubles(rows(out))] == (2 * expected.astype(float)).tolist()
    assert len(expected) > 20


def test_a_split_that_other_code_has_made_is_refused(predicting, cli):
    predicting.project.edit('"expected a value"', '"a value"', "preprocess.py")
    predicting.project.build("2024-03-02")
    split = ("--version", "clicks/2024-03-02", "--split", "eval")
    status, out, err = cli("predict", "click_model@v0001", *split)
    assert (status, out) == (1, "")
    assert "SkewError" in err
    status, out, _ = cli("predict", "click_model", *split, "--accept-other-code")
    assert status == 0
    assert {tuple(row["other_code"]) for row in rows(out)} == {("code",)}
    # The code of the folder is that of this version, and makes no difference for another one.
    of_model = ("--version", "clicks/2024-03-01", "--split", "eval")
    assert cli("predict", "click_model", *of_model)[0] == 0


def test_contradicting_sources_are_refused(predict, cli, predicting):
    assert predict(GOOD, "--version", "clicks/2024-03-01")[0] == 2
    assert predict(GOOD, "--split", "eval")[0] == 2
    status, _, err = cli("predict", "click_model", "--version", "clicks/2024-03-01")
    assert (status, "name one of: eval, train" in err) == (2, True)
    assert "did you mean" in cli("predict", "click_modle", "-")[2]
