"""Airflow without a database, and folders of data sets for it to make DAGs from."""

from __future__ import annotations

import os
from pathlib import Path

from tests.airflow_home import HOME

# Airflow reads these when it is first imported, which the test modules do.
os.environ["AIRFLOW_HOME"] = HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
# Airflow limits the time of the machine, which may be busy; tests limit the time of the process.
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "600"
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(Path(__file__).resolve().parents[2] / "plugins")

import pytest
from airflow.dag_processing.dagbag import DagBag

ROOT = Path(__file__).resolve().parents[2]
SPEC = """\
name: {name}
description: Will the user click?
schedule: "@daily"
start: 2026-01-01
end: 2026-01-03
catchup: true
source: {{kafka: {{topic: {name}}}}}
preprocess: {{function: "preprocess:clicks"}}
schema: {{label: {{dtype: int64}}}}
resources: {{pool: kafka_reads, max_active_runs: 3}}
"""
TRAIN = 'train: {entry: "train:main", window: 3}\n'


def pytest_itemcollected(item: pytest.Item) -> None:
    # What Airflow describes schedules with warns where the locale is C.
    item.add_marker(pytest.mark.filterwarnings("ignore:No system locale set:UserWarning"))


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """An empty folder of data sets, and the one that Airflow will look into."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    monkeypatch.setenv("TRAINFEED_DATASETS", str(folder))
    return folder


@pytest.fixture
def add(datasets):
    """Add a data set: name, further lines, and texts to replace."""

    def add_one(name, extra=TRAIN, **replaced):
        text = SPEC.format(name=name) + extra
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        folder = datasets / name
        folder.mkdir()
        (folder / "dataset.yaml").write_text(text)
        for module in ("preprocess", "train"):
            (folder / f"{module}.py").touch()
        return folder

    return add_one


@pytest.fixture
def load():
    """Load the repository, or one of its files, as the DAG processor does."""

    def load_path(path=""):
        return DagBag(ROOT / path, load_op_links=False)

    return load_path
