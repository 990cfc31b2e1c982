"""``make run`` and ``make ui`` give their Airflow all connections that its DAGs ask for."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from examples.daily import places
from operators._connections import conversion_roots, environment_from_connections
from trainfeed.config import KAFKA_CONNECTION, LOGS_CONNECTION
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
