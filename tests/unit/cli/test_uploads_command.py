"""``trainfeed uploads check`` and ``ls``, and the account of the join in ``show``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.processes import LIMIT_S
from tests.unit.uploads.labelled import DAY, csv_of, make_labelled

ROOT = Path(__file__).parents[3]


@pytest.fixture
def labelled(tmp_path):
    return make_labelled(tmp_path)


def run(labelled, *words):
    return subprocess.run(
        [sys.executable, "-m", "trainfeed", *words],
        env={
            "PYTHONPATH": str(ROOT / "include"),
            "TRAINFEED_ROOT": labelled.env.root,
            "TRAINFEED_DATASETS": str(labelled.env.datasets),
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def test_check_names_what_is_accepted_refused_and_to_be_built(labelled):
    labelled.put("a.csv", csv_of([(1, 0, None), (2, 1, None)]))
    labelled.put("b.csv", b"id,label\n1,x\n")
    found = run(labelled, "uploads", "check", "clicks")
    assert found.returncode == 3, found.stderr
    assert f"receipt 1: {DAY}/a.csv, rows 2, labels 2" in found.stdout
    assert "1 accepted, 1 refused" in found.stdout
    assert f"{DAY}: not built;" in found.stdout
    assert f"build clicks --interval {DAY}" in found.stdout
    assert f"{DAY}/b.csv is refused: line 2" in found.stderr
    (labelled.folder.uploads / DAY / "b.csv").unlink()
    found = run(labelled, "uploads", "check", "clicks", "--json")
    assert found.returncode == 0
    told = json.loads(found.stdout)
    assert (told["accepted"], told["refused"], told["waiting"]) == ([], [], [DAY])


def test_ls_and_show_tell_which_uploads_a_version_has(labelled):
    labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.prebuilt()
    labelled.put("b.csv", csv_of([(1, 1, None)]))
    labelled.check()
    found = json.loads(run(labelled, "uploads", "ls", "clicks", "--json").stdout)
    assert [row["state"] for row in found["accepted"]] == ["in g0001", "not in its version"]
    text = run(labelled, "uploads", "ls", "clicks").stdout
    assert f"{DAY}: not in its version;" in text
    assert "--rebuild WHY" in text
    shown = run(labelled, "show", f"clicks/{DAY}").stdout
    assert "samples (matched 1, unmatched 99)" in shown


def test_a_set_without_the_part_is_refused_with_the_remedy(labelled):
    labelled.edit(
        "uploads: {key: [id], labels: [label, note], join: left, defaults: {label: -1}}", ""
    )
    found = run(labelled, "uploads", "check", "clicks")
    assert found.returncode == 2
    assert "add the part uploads to dataset.yaml" in found.stderr


def test_a_lost_receipt_is_named_by_check_and_ls_with_status_3(labelled):
    for name in ("a.csv", "b.csv"):
        labelled.put(name, csv_of([(1, 0, None)]))
        run(labelled, "uploads", "check", "clicks")
    (labelled.folder.uploads / DAY / "b.csv").unlink()
    (labelled.folder.receipts / "00000002.json").unlink()
    for words in (("check", "clicks"), ("ls", "clicks"), ("ls", "clicks", "--json")):
        found = run(labelled, "uploads", *words)
        assert found.returncode == 3
        assert "number 2 is missing" in found.stderr
    assert "2024-03-01/a.csv" in run(labelled, "uploads", "ls", "clicks").stdout


def test_ls_of_a_data_set_that_is_unknown_says_so(labelled):
    found = run(labelled, "uploads", "ls", "click")
    assert found.returncode == 1
    assert "got 'click'; did you mean 'clicks'?" in " ".join(found.stderr.split())
    assert found.stdout == ""


def test_ls_of_a_data_set_without_a_version_lists_its_uploads(labelled):
    assert run(labelled, "uploads", "ls", "clicks").returncode == 0
    labelled.put("a.csv", csv_of([(1, 0, None)]))
    labelled.check()
    found = json.loads(run(labelled, "uploads", "ls", "clicks", "--json").stdout)
    assert [(row["upload"], row["state"]) for row in found["accepted"]] == [
        (f"{DAY}/a.csv", "not built")
    ]
    assert found["refused"] == []
