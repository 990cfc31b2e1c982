"""A preview runs all stages over the first records, and leaves every place as it was."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import batch, day
from tests.unit.pipeline.preview.test_dry_run import tree
from tests.unit.processes import LIMIT_S, until
from trainfeed.errors import ConfigError, PreprocessError
from trainfeed.pipeline.preview import preview

LOOK = [sys.executable, "-m", "trainfeed", "build", "clicks", "--interval", "2024-03-01"]


def look(project, limit=100, **request):
    return preview(project.spec, project.interval(), project.env, limit=limit, **request)


def test_every_record_is_a_sample_or_has_a_reason(project):
    report = look(project)
    assert report["records"] == 100
    assert report["quarantined"] == {"not_json": 10}
    assert report["filtered"] == {"negative": 9, "empty": 3}
    counts = report["statistics"]["value"]["count"]
    assert sum(report["samples"].values()) == counts > 0


def test_the_first_samples_and_quarantined_records_are_shown(project):
    report = look(project)
    assert len(report["first_samples"]) == 5
    assert report["first_samples"][0].keys() == {"split", "value", "label"}
    assert report["first_quarantined"][0] == {
        "source": "kafka:clicks/0",
        "offset": 3,
        "reason": "not_json",
        "message": "Expecting value: line 1 column 1 (char 0)",
        "raw": "not json",
    }


@pytest.mark.parametrize("built", [False, True], ids=["before the first build", "afterwards"])
def test_nothing_is_written_anywhere(project, built):
    if built:
        project.build()
    before = tree(project.path)
    look(project)
    assert tree(project.path) == before


def test_what_the_real_build_would_refuse_can_be_looked_at(project):
    project.build()
    project.edit('row["value"] < 0', 'row["value"] < 9', "preprocess.py")
    assert look(project)["filtered"]["negative"] > 9


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 182, 183, 10_000])
def test_the_limit_is_shared_out_among_the_sources(project, limit):
    assert look(project, limit)["records"] == min(limit, 183)


GATES = """\
quality:
  - {check: count, min: 1000}
  - {check: quarantine_ratio, max: 0.01}
  - {check: relative_count, min: 0.9, severity: warn}
  - {check: share, field: label, equals: 7, max: 0.5}
  - {check: shard_skew, max: 1.01, severity: ask}
  - {check: schema_evolution}
split:"""


def test_gates_are_judged_on_these_records_or_not_at_all(project, caplog):
    project.build()  # a version that gates could compare with
    project.edit("split:", GATES)
    gates = look(project)["gates"]
    assert [(gate["check"], gate["severity"], gate["passed"]) for gate in gates] == [
        ("count", "block", None),
        ("quarantine_ratio", "block", False),
        ("relative_count", "warn", None),
        ("share", "block", True),
        ("shard_skew", "ask", None),
        ("schema_evolution", "block", None),
    ]
    assert [record.getMessage() for record in caplog.records if record.levelname != "INFO"] == []


def test_a_policy_that_refuses_late_records_does_not_end_a_preview(project):
    project.edit("settle: 0s", "settle: 0s, late: fail")
    project.record({0: [batch(day(0, 5) + day(-30, 2))]})
    late = look(project)["gates"][-1]
    assert (late["check"], late["severity"], late["passed"]) == ("late", "block", False)


def test_an_error_of_the_function_is_the_one_of_a_build(project):
    project.edit('row["value"] < 0', "row < 0", "preprocess.py")
    with pytest.raises(PreprocessError, match=r"raised TypeError.*kafka:clicks/0 offset 0"):
        look(project)


def test_a_limit_below_one_is_refused(project):
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        look(project, 0)


@pytest.mark.parametrize("polite", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_it_early_finds_no_temporary_folder(project, tmp_path, polite):
    wait = f"import pathlib, time\npathlib.Path({str(tmp_path / 'busy')!r}).touch()\n"
    project.edit("def clicks", f"{wait}time.sleep(60)\ndef clicks", "preprocess.py")
    (tmp_path / "tmp").mkdir()
    looker = subprocess.Popen(
        [*LOOK, "--limit", "5"],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[4] / "include"),
            "TMPDIR": str(tmp_path / "tmp"),
            "TRAINFEED_DATASETS": str(project.env.datasets),
            "TRAINFEED_KAFKA": f"recorded:{tmp_path / 'recorded'}",
            "TRAINFEED_DATA": str(tmp_path),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(lambda: (tmp_path / "busy").exists() or looker.poll() is not None)
    assert looker.poll() is None, looker.stderr.read()
    assert list((tmp_path / "tmp").iterdir())
    os.killpg(looker.pid, polite)
    looker.communicate(timeout=LIMIT_S)
    assert looker.returncode == 128 + polite
    assert list((tmp_path / "tmp").iterdir()) == []
