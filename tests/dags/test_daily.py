"""``make run`` and ``make ui`` give their Airflow all connections that its DAGs ask for."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from examples.daily import places
from examples.daily.connections import SETTINGS
from operators.connections import conversion_roots, environment_from_connections
from operators.spark import spark_cluster
from trainfeed.core.config import KAFKA_CONNECTION, LOGS_CONNECTION
from trainfeed.errors import ConfigError
from trainfeed.specification import DatasetSpec, load_specs

ROOT = Path(__file__).resolve().parents[2]
FAKE = """\
#!/bin/sh
printf '%s\\n' "$@" > {out}/words
printf '%s' "$AIRFLOW_ARGS" > {out}/args
"""


@pytest.fixture(params=[places.embedded_environ, places.real_environ])
def environ(request, tmp_path, monkeypatch, socket_enabled):
    monkeypatch.setenv("TRAINFEED_SERVICES_HOME", str(tmp_path / "services"))
    environ = request.param(tmp_path / "data")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return environ


def test_every_connection_of_the_shipped_data_sets_is_there(environ):
    specs = [s for s in load_specs(ROOT / "include/datasets") if isinstance(s, DatasetSpec)]
    asked = {source.connection for spec in specs for source in spec.source.kafka}
    asked |= {spec.source.logs.connection for spec in specs if spec.source.logs}
    assert asked == {KAFKA_CONNECTION, LOGS_CONNECTION}
    assert {f"AIRFLOW_CONN_{name.upper()}" for name in asked} <= set(environ)
    environment_from_connections([KAFKA_CONNECTION], [LOGS_CONNECTION])


def test_log_files_are_looked_for_where_make_digits_puts_them(tmp_path, monkeypatch):
    for name, value in places.embedded_environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert environment_from_connections([], [LOGS_CONNECTION]).logs == {
        LOGS_CONNECTION: f"file://{tmp_path}"
    }
    digits = "data/logs/digits"
    assert f"--to {digits} " in (ROOT / "Makefile").read_text()
    assert "/logs/digits/" in (ROOT / "include/datasets/digits/dataset.yaml").read_text()


def test_a_conversion_reaches_versions_and_files_and_no_secret(environ, tmp_path):
    roots = conversion_roots()
    data = tmp_path / "data"
    for secret in (places.home_of(data), data):
        assert not any(secret.is_relative_to(path) for path in (*roots.inputs, *roots.outputs))
    assert data / "root" not in roots.outputs


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """A terminal without settings of trainfeed; what is set there is what ``make ui`` is given."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "_record", lambda data, tell: tell(f"recorded in {data}"))

    def of(**given):
        for name, value in given.items():
            monkeypatch.setenv(name, str(value))
        told = []
        place = places.asked(tmp_path / "data", told.append)
        for name, value in place.environ.items():
            monkeypatch.setenv(name, value)
        return place, told

    return of


def test_without_settings_make_ui_has_the_places_of_make_run(settings, tmp_path):
    place, told = settings()
    assert place.environ == places.embedded_environ(tmp_path / "data")
    assert (place.root, told) == (tmp_path / "data/root", [f"recorded in {tmp_path / 'data'}"])
    assert (place.root / "ROOT.json").exists() or any(place.root.iterdir())


def test_make_ui_takes_the_brokers_and_folders_of_the_environment(settings, tmp_path):
    given = {
        "TRAINFEED_KAFKA": "127.0.0.1:30877",
        "TRAINFEED_LANDING": tmp_path / "landing",
        "TRAINFEED_LOGS": "webhdfs://trainfeed@namenode:9870/",
        "TRAINFEED_MODELS": "hdfs://namenode:8020/models",
        "TRAINFEED_ROOT": tmp_path / "root",
        "TRAINFEED_WORK": "file:///work",
    }
    place, told = settings(**given)
    found = environment_from_connections(
        [KAFKA_CONNECTION], [LOGS_CONNECTION], stores=[LOGS_CONNECTION]
    )
    assert found.kafka[KAFKA_CONNECTION].client == {"bootstrap.servers": "127.0.0.1:30877"}
    assert found.kafka[KAFKA_CONNECTION].recorded is None
    assert found.logs == {LOGS_CONNECTION: given["TRAINFEED_LOGS"]}
    assert found.stores == {LOGS_CONNECTION: given["TRAINFEED_MODELS"]}
    assert (found.root, found.work) == (str(tmp_path / "root"), "file:///work")
    assert found.landing == f"file://{tmp_path / 'landing'}"
    assert place.root == tmp_path / "root"
    assert not place.root.exists(), "a root is made on purpose"
    (line,) = told
    for part in ("TRAINFEED_KAFKA=127.0.0.1:30877", "TRAINFEED_LOGS=webhdfs://namenode:9870/"):
        assert part in line


def test_make_ui_takes_what_the_files_of_settings_name(settings, tmp_path):
    written = {
        "TRAINFEED_CONNECTIONS": '{"kafka_orders": {"bootstrap.servers": "b:1"}, "old": "/old"}',
        "TRAINFEED_SPARK": "spark_prod: {master: 'spark://h:7077', submit: /o/s, python: /o/p}",
        "TRAINFEED_CLUSTERS": "kubernetes_default: {namespace: training}",
        "TRAINFEED_TRACKERS": "mlflow_default: {url: 'http://127.0.0.1:5000'}",
        "TRAINFEED_REGISTRIES": "registry_orders: {url: 'http://127.0.0.1:8081'}",
        "TRAINFEED_CATALOGS": "lake: {url: 'http://127.0.0.1:8181', warehouse: w}",
    }
    for name, text in written.items():
        file = tmp_path / name
        file.touch(0o600)
        file.write_text(text)
    settings(**{name: tmp_path / name for name in written})
    found = environment_from_connections(
        ["kafka_orders"],
        ["old"],
        ["kubernetes_default"],
        ["old"],
        ["mlflow_default"],
        ["registry_orders"],
        ["lake"],
    )
    assert found.kafka["kafka_orders"].client == {"bootstrap.servers": "b:1"}
    assert found.logs == found.stores == {"old": "file:///old"}
    assert found.clusters == {"kubernetes_default": {"namespace": "training"}}
    assert found.trackers == {"mlflow_default": {"url": "http://127.0.0.1:5000"}}
    assert found.registries == {"registry_orders": {"url": "http://127.0.0.1:8081"}}
    assert found.catalogs == {"lake": {"url": "http://127.0.0.1:8181", "warehouse": "w"}}
    cluster = spark_cluster("spark_prod")
    assert (cluster.master, cluster.submit, cluster.python) == ("spark://h:7077", "/o/s", "/o/p")
    assert spark_cluster("spark_default").master == "local[*]"


def test_make_ui_shows_the_data_sets_of_the_environment(settings, tmp_path):
    place, _ = settings(TRAINFEED_DATASETS=tmp_path / "sets")
    assert place.environ["TRAINFEED_DATASETS"] == str(tmp_path / "sets")


def test_a_folder_of_data_takes_all_places_along(settings, tmp_path):
    place, _ = settings(TRAINFEED_DATA=tmp_path / "other")
    found = environment_from_connections([KAFKA_CONNECTION], [LOGS_CONNECTION])
    assert found.kafka[KAFKA_CONNECTION].recorded == str(tmp_path / "other/recorded")
    assert (found.root, place.home) == (str(tmp_path / "other/root"), tmp_path / "data/airflow")


def test_a_wrong_setting_is_refused_before_anything_starts(settings):
    with pytest.raises(ConfigError, match="TRAINFEED_KAFKA"):
        settings(TRAINFEED_KAFKA="no broker")


@pytest.fixture
def make(tmp_path):
    """Run a target of the Makefile with a Python that only writes down what it was given."""
    fake = tmp_path / "python"
    fake.write_text(FAKE.format(out=tmp_path))
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)

    def run(target, **variables):
        options = ["-o", "setup", "-o", ".venv/.run", f"BIN={tmp_path}/"]
        given = [f"{name}={value}" for name, value in variables.items()]
        subprocess.run(
            ["make", "-s", *options, target, *given],
            cwd=ROOT, env={"PATH": os.environ["PATH"]}, check=True,
        )  # fmt: skip
        return (tmp_path / "words").read_text(), (tmp_path / "args").read_text()

    return run


@pytest.mark.parametrize(
    "args",
    [
        "backfill create --dag-id build.clicks --from-date 2026-01-01",
        "dags list; touch {tmp}/gone",
        "$(shell touch {tmp}/gone) `touch {tmp}/gone` $$(touch {tmp}/gone)",
        "x\" 'y' && touch {tmp}/gone",
    ],
)
def test_what_is_given_as_args_reaches_the_command_and_no_shell(make, tmp_path, args):
    args = args.format(tmp=tmp_path)
    words, passed = make("airflow", ARGS=args)
    assert words == "-m\nexamples.daily.airflow\ncommand\n"
    assert passed == args
    assert not (tmp_path / "gone").exists()


def test_the_help_of_make_can_be_pasted():
    done = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert 'eval "$(make -s api)"' in done.stdout
    assert "$$" not in done.stdout
    assert "\x1b" not in done.stdout, "colours in a pipe"
