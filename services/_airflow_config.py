"""The ``airflow.cfg`` and the secrets of an embedded Airflow.

Configuration and secrets are files of one folder, so a process needs only ``AIRFLOW_HOME``, and no
secret is in an environment or on a command line.
"""

from __future__ import annotations

import base64
import configparser
import io
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deploy.settings import RECOVERY, TASK_MODULES
from services._home import REPOSITORY
from services._postgres import Postgres

ADMIN = "admin"
_PASSWORDS = "passwords.json"
_SECRETS = "secrets.json"


@dataclass(frozen=True)
class AirflowOptions:
    """The options of an Airflow that its owner may choose.

    Attributes:
        dags: Folder that is searched for DAG files.
        plugins: Folder that is searched for plugins.
        paused: Whether a new DAG is paused at first.
        preload: Modules that tasks import. They are imported once, before the parts are forked,
            so a change of one needs a restart of Airflow. Code of data sets is not among them.
        database: ``embedded``: the PostgreSQL of a Python package, on a socket. ``server``: that
            of the operating system, with a port and a password, as in production.
    """

    dags: Path = REPOSITORY / "dags"
    plugins: Path = REPOSITORY / "plugins"
    paused: bool = True
    preload: Sequence[str] = TASK_MODULES
    database: Literal["embedded", "server"] = "embedded"


def write_config(
    home: Path, database: Postgres, options: AirflowOptions, *, port: int, parallelism: int
) -> None:
    """Write ``airflow.cfg``, and at the first call the secrets, into ``home``.

    Args:
        home: The ``AIRFLOW_HOME``.
        database: The database of the metadata.
        options: The options.
        port: Port of the API server.
        parallelism: Number of tasks that run at once.
    """
    home.mkdir(parents=True, exist_ok=True)
    if not (home / _SECRETS).exists():
        _write_private(home / _PASSWORDS, json.dumps({ADMIN: secrets.token_urlsafe(16)}))
        _write_private(home / _SECRETS, json.dumps(_new_secrets()))
    url = f"http://127.0.0.1:{port}"
    connections = {
        "sql_alchemy_conn": database.url("psycopg2"),
        "sql_alchemy_conn_async": database.url("asyncpg"),
    }
    sections = _merged(_places(home, options), {"database": connections}, _QUICK, RECOVERY)
    sections["core"] |= {
        "parallelism": parallelism,
        "execution_api_server_url": f"{url}/execution/",
    }
    sections["api"] |= {"port": port, "base_url": url}
    _write_sections(home / "airflow.cfg", sections)


def admin_password(home: Path) -> str:
    """Password of the user ``admin``, made by the first :func:`write_config`."""
    passwords: dict[str, str] = json.loads((home / _PASSWORDS).read_text())
    return passwords[ADMIN]


def _places(home: Path, options: AirflowOptions) -> dict[str, dict[str, object]]:
    own = json.loads((home / _SECRETS).read_text())
    logs = home / "task-logs"
    return {
        "core": {
            "dags_folder": options.dags.resolve(),
            "plugins_folder": options.plugins.resolve(),
            "load_examples": False,
            "dags_are_paused_at_creation": options.paused,
            "simple_auth_manager_users": f"{ADMIN}:admin",
            "simple_auth_manager_passwords_file": home / _PASSWORDS,
            "fernet_key": own["fernet_key"],
        },
        "api": {"host": "127.0.0.1", "workers": 1, "secret_key": own["secret_key"]},
        "api_auth": {"jwt_secret": own["jwt_secret"]},
        "logging": {
            "base_log_folder": logs,
            "dag_processor_child_process_log_directory": logs / "dag_processor",
            "colored_console_log": False,
        },
    }


# Shorter intervals of polling, for tiny runs. A backfill of 12 runs with 5 empty tasks each takes
# 8 s instead of 16 s on 2 cores.
_QUICK: Mapping[str, dict[str, object]] = {
    "scheduler": {
        "scheduler_idle_sleep_time": 0.2,  # delay between a finished task and the next
    },
    "workers": {
        # The end of a task is often noticed only at the next heartbeat; until then the task
        # keeps its slot.
        "min_heartbeat_interval": 1,
    },
    # A new file in the folder of DAGs is found this soon.
    "dag_processor": {"refresh_interval": 10},
}


def _merged(*groups: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    merged: dict[str, dict[str, object]] = {}
    for group in groups:
        for section, options in group.items():
            merged.setdefault(section, {}).update(options)
    return merged


def _new_secrets() -> dict[str, str]:
    return {
        "fernet_key": base64.urlsafe_b64encode(os.urandom(32)).decode(),
        "jwt_secret": secrets.token_urlsafe(64),
        "secret_key": secrets.token_urlsafe(32),
    }


def _write_sections(path: Path, sections: Mapping[str, Mapping[str, object]]) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    for section, options in sections.items():
        # Airflow reads the file with interpolation.
        parser[section] = {name: str(value).replace("%", "%%") for name, value in options.items()}
    text = io.StringIO()
    parser.write(text)
    temporary = path.with_suffix(".tmp")
    _write_private(temporary, text.getvalue())
    temporary.replace(path)


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
