"""The output of a preview: the content of records, whatever it is, stays text in a table."""

from __future__ import annotations

from typing import Any

import pytest

from trainfeed.cli.build import preview_text
from trainfeed.cli.printing import Result

REPORT: dict[str, Any] = {
    "dataset": "clicks",
    "interval": "2024-03-01",
    "records": 2,
    "samples": {"eval": 0, "train": 1},
    "quarantined": {"not_json": 1},
    "filtered": {},
    "passed_over": {"a\x1b[2Jb.tmp": "unfinished"},
    "first_samples": [{"split": "train", "name": "a\x1b]0;title\x07b", "tags": ["\u202e", "é"]}],
    "first_quarantined": [
        {"source": "s", "offset": 0, "reason": "not_json", "message": "m", "raw": "\x1b[2Jgone\r"}
    ],
    "statistics": {"value": {"count": 0, "nulls": 0, "min": None, "max": None}},
    "gates": [],
}


def test_control_characters_of_records_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Result(REPORT, preview_text(REPORT)).print(as_json=False)
    printed = capsys.readouterr().out
    assert all(character.isprintable() for character in printed.replace("\n", ""))
    for shown in (r"a\x1b]0;title\x07b", r"\u202e, é", r"\x1b[2Jgone\r"):
        assert shown in printed


def test_a_statistic_of_no_value_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Result(REPORT, preview_text(REPORT)).print(as_json=False)
    assert "None" not in capsys.readouterr().out
