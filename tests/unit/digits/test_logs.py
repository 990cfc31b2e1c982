"""From written logs to versions: every line that was written is accounted for, once."""

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from examples.digits.images import read_digits
from examples.digits.planted import KINDS
from examples.digits.writer import write_days
from tests.unit.digits.accounting import check
from tests.unit.digits.conftest import NUM_DIGITS
from trainfeed.core.config import Environment
from trainfeed.errors import ConfigError, ConflictError, FormatError
from trainfeed.files.stores import Location
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.training.launch import train
from trainfeed.versions import DatasetFolder, Version, init_root

ROOT = Path(__file__).parents[3]
REAL = ROOT / "data" / "scikit-learn"
DAYS = [f"2024-01-0{day}" for day in range(1, 6)]


@pytest.fixture
def written(tmp_path, data):
    """Logs and ledger of the made-up digits."""
    location = Location.parse(str(tmp_path / "logs" / "digits"))
    return write_days(read_digits(data), location, tmp_path / "ledger.sqlite")


@pytest.fixture
def env(tmp_path):
    places = {name: str(tmp_path / name) for name in ("root", "landing", "work")}
    datasets = tmp_path / "datasets"
    shutil.copytree(
        ROOT / "include/datasets/digits", datasets / "digits",
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    init_root(tmp_path / "root")
    return Environment(**places, kafka={}, datasets=datasets, logs={"hdfs_default": str(tmp_path)})


def build_days(env, days=DAYS):
    spec = load_spec(env.datasets / "digits")
    schedule = spec.schedule_model()
    for day in days:
        build(spec, schedule.interval_named(day), env)
    folder = DatasetFolder(Path(env.root), "digits")
    return [Version.resolve(folder, day, None).path for day in days]


def test_the_ledger_says_what_was_written(tmp_path, written):
    num_planted = NUM_DIGITS // 36
    assert written == {
        "days": 5, "files": 15, "lines": NUM_DIGITS + num_planted, "planted": num_planted,
    }  # fmt: skip
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database:
        kinds = database.execute("SELECT planted, count(*) FROM lines GROUP BY planted").fetchall()
    assert {kind for kind, _ in kinds} == {None, *KINDS}
    names = sorted(p.name for p in (tmp_path / "logs/digits/dt=2024-01-03").iterdir())
    assert names == ["_SUCCESS", "part-00000.txt", "part-00001.txt.gz", "part-00002.txt.zst"]


def test_what_was_written_is_what_is_published(tmp_path, written, env):
    """Promises P1 and P2, by the account of the writer."""
    counts = check(build_days(env), tmp_path / "ledger.sqlite")
    assert (counts["lines"], counts["samples"]) == (written["lines"], NUM_DIGITS)
    assert counts["quarantined"] == written["planted"]


def test_landing_first_publishes_the_same(tmp_path, written, env):
    direct = build_days(env, DAYS[:1])[0].joinpath("MANIFEST.json").read_bytes()
    shutil.rmtree(tmp_path / "root" / "digits")
    path = env.datasets / "digits" / "dataset.yaml"
    path.write_text(
        path.read_text().replace("    done: _SUCCESS", "    land: true\n    done: _SUCCESS")
    )
    assert build_days(env, DAYS[:1])[0].joinpath("MANIFEST.json").read_bytes() == direct


def test_an_account_that_is_wrong_is_noticed(tmp_path, written, env):
    versions = build_days(env, DAYS[:1])
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database, database:
        database.execute("UPDATE lines SET sha256 = 'x' WHERE offset = 0")
    with pytest.raises(AssertionError, match="altered"):
        check(versions, tmp_path / "ledger.sqlite")


def test_the_classifier_is_trained_on_what_was_published(written, env):
    build_days(env)
    spec = load_spec(env.datasets / "digits")
    report = train(spec, env, spec.schedule_model().interval_named(DAYS[-1]))
    assert report["metrics"]["accuracy"] > 0.9 > report["metrics"]["accuracy_base"]


def test_logs_are_never_written_over(tmp_path, data, written):
    with pytest.raises(ConflictError, match="expected no folder"):
        write_days(
            read_digits(data), Location.parse(str(tmp_path / "logs/digits")), tmp_path / "other"
        )


def test_missing_data_is_named(tmp_path):
    with pytest.raises(ConfigError, match="expected the data of scikit-learn in"):
        read_digits(tmp_path)


def test_another_file_of_that_name_is_refused(tmp_path, data):
    shutil.copytree(data, tmp_path / "copy")
    (tmp_path / "copy/sklearn/datasets/data/digits.csv.gz").write_bytes(gzip.compress(b"1,2,3\n"))
    with pytest.raises(FormatError, match="expected 64 pixels in line 1, got 2"):
        read_digits(tmp_path / "copy")


def test_the_command_writes_logs_and_ledger(tmp_path, data):
    arguments = ["--to", tmp_path / "logs", "--ledger", tmp_path / "l.sqlite", "--data", data]
    done = subprocess.run(
        [sys.executable, "-m", "examples.digits", *map(str, arguments)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'include'}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout)["days"] == 5
    assert (tmp_path / "logs/dt=2024-01-05/_SUCCESS").exists()


@pytest.mark.skipif(
    not REAL.is_dir(), reason="the data is not there: requirements/digits.txt says how to get it"
)
def test_the_real_digits_are_accounted_for(tmp_path, env):
    location = Location.parse(str(tmp_path / "logs" / "digits"))
    written = write_days(read_digits(REAL), location, tmp_path / "ledger.sqlite")
    assert written == {"days": 5, "files": 15, "lines": 1847, "planted": 50}
    counts = check(build_days(env), tmp_path / "ledger.sqlite")
    assert (counts["samples"], counts["quarantined"]) == (1797, 50)
