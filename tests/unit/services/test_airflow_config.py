import ast
import configparser
import json
import os
import subprocess
import sys
from pathlib import Path

from deploy.settings import TASK_MODULES
from services._home import REPOSITORY
from services._postgres import Postgres, PostgresServer
from services.airflow import AirflowOptions, admin_password, write_config


def written(home, database_home=None, **options):
    database = Postgres(database_home or home)
    write_config(home, database, AirflowOptions(**options), port=1234, parallelism=3)
    # Read as Airflow does, with interpolation.
    parser = configparser.ConfigParser()
    parser.read(home / "airflow.cfg")
    return parser


def test_secrets_are_made_once_and_are_the_owners_alone(tmp_path):
    first = written(tmp_path)
    password = admin_password(tmp_path)
    second = written(tmp_path)

    assert first == second
    assert admin_password(tmp_path) == password
    assert len(first["api_auth"]["jwt_secret"]) >= 64
    for name in ("airflow.cfg", "passwords.json", "secrets.json"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0


def test_everything_stays_on_the_loopback(tmp_path):
    config = written(tmp_path)

    assert config["api"]["host"] == "127.0.0.1"
    assert config["core"]["execution_api_server_url"] == "http://127.0.0.1:1234/execution/"
    assert config["core"]["load_examples"] == "False"


def test_a_home_with_odd_characters_survives_the_configuration_file(tmp_path):
    config = written(tmp_path, Path("/100% of it"), dags=tmp_path / "dags%", paused=False)

    assert config["core"]["dags_folder"] == str(tmp_path / "dags%")
    assert "/100%25%20of%20it/" in config["database"]["sql_alchemy_conn"]


def test_a_server_is_reached_by_port_and_password(tmp_path, monkeypatch):
    monkeypatch.setattr(PostgresServer, "_account", lambda _: None)  # as if we were not root
    monkeypatch.setattr("services._home._all_free", lambda _: True)  # no socket in unit tests
    server = PostgresServer(tmp_path)
    write_config(tmp_path, server, AirflowOptions(), port=1234, parallelism=3)
    parser = configparser.ConfigParser()
    parser.read(tmp_path / "airflow.cfg")

    assert parser["database"]["sql_alchemy_conn"] == server.url("psycopg2")
    assert f"@127.0.0.1:{server.port}/airflow" in server.url("psycopg2")
    secret = tmp_path / "postgresql" / "secret"
    assert secret.stat().st_mode & 0o077 == 0
    assert f":{(secret / 'password').read_text()}@" in server.url("asyncpg")


def test_a_long_home_has_its_socket_in_a_short_folder(tmp_path):
    home = tmp_path / ("long" * 20)

    config = written(home)

    host = config["database"]["sql_alchemy_conn"].partition("host=")[2]
    assert len(f"{host}/.s.PGSQL.5432") < 100
    assert json.loads((home / "passwords.json").read_text()).keys() == {"admin"}


def test_what_tasks_import_late_is_imported_before_they_are_forked():
    """An import inside a function of an operator would be paid by every task."""
    late = set()
    for module in TASK_MODULES:
        if not module.startswith("operators."):
            continue
        path = REPOSITORY / f"{module.replace('.', '/')}.py"
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                imports = (n for n in ast.walk(function) if isinstance(n, ast.ImportFrom))
                late |= {node.module for node in imports}
    assert late
    code = f"""
import importlib, sys
for module in {[m for m in TASK_MODULES if not m.startswith(("airflow", "dags", "operators"))]!r}:
    importlib.import_module(module)
print([name for name in {sorted(late)!r} if name not in sys.modules])
"""
    environ = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'include'}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
