"""The embedded Airflow: its configuration and secrets, four processes and a PostgreSQL."""

from __future__ import annotations

import base64
import configparser
import io
import json
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from deploy.settings import PARTS, RECOVERY, TASK_MODULES
from services._home import REPOSITORY, default_home, remembered_ports
from services._postgres import Postgres, PostgresServer
from services._process import Daemon, ServiceError, run_tool, stop_daemons, wait_until
from services.airflow_client import AirflowClient, AirflowRequestError

# --- ``airflow.cfg`` and the secrets
#
# Both are files of one folder, so a process needs only ``AIRFLOW_HOME``, and no secret is in an
# environment or on a command line.

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


# --- The processes

_PACKAGES = ("airflow", "asyncpg", "psycopg2")
# Name in the health report → part that reports it.
_REPORTS: Mapping[str, str] = MappingProxyType(
    {"scheduler": "scheduler", "dag_processor": "dag-processor"}
)
_SUPERVISE_S = 2.0
# Airflow 3.3 reads .airflowignore with a class that its library has deprecated; without this, every
# log of a task would begin with that warning.
_NO_WARNING = "ignore:GitWildMatchPattern:DeprecationWarning"
_OWNER_S = 60.0  # the owner ends everything else regularly first


class AirflowStack:
    """Airflow with our LocalExecutor and one user, ``admin``.

    Args:
        home: State directory of the services; ``AIRFLOW_HOME`` is ``<home>/airflow``.
        port: Port of the API server; None to choose and remember one.
        environ: Variables for every process and task; ``AIRFLOW__…`` settings in it precede ours.
            Those in the environment of this process are left out.
        parallelism: Number of tasks that run at once.
        options: Options about DAGs and database.
    """

    name = "airflow"
    PORTS: Mapping[str, int] = MappingProxyType({"api": 8080})

    def __init__(
        self,
        home: Path | None = None,
        *,
        port: int | None = None,
        environ: Mapping[str, str] = MappingProxyType({}),
        parallelism: int = 8,
        options: AirflowOptions | None = None,
    ) -> None:
        self.home = (home or default_home()).resolve() / self.name
        self._port = port
        self._extra = environ
        self._parallelism = parallelism
        self._options = options or AirflowOptions()
        server = self._options.database == "server"
        self._database = PostgresServer(self.home) if server else Postgres(self.home)
        self._owner = Daemon("owner", self.home)
        self._launcher = Daemon("launcher", self.home)
        self._parts = {part: Daemon(part, self.home) for part in PARTS}

    @property
    def port(self) -> int:
        """Port of the API server and the pages, the same at every start of this home."""
        return self._port or remembered_ports(self.home, self.PORTS)["api"]

    @property
    def url(self) -> str:
        """Address of the pages."""
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def client(self) -> AirflowClient:
        """The REST API as ``admin``; the stack must have been started once."""
        return AirflowClient(self.port, ADMIN, admin_password(self.home), self._ends_of_logs)

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which ``airflow`` commands use this stack."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_")}
        local = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1", "localhost"]))
        return {
            **inherited,
            "AIRFLOW_HOME": str(self.home),
            "NO_PROXY": local,
            "no_proxy": local,
            "PYTHONWARNINGS": ",".join(
                filter(None, [os.environ.get("PYTHONWARNINGS"), _NO_WARNING])
            ),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "include")]),
            **self._extra,
        }

    def unavailable(self) -> str | None:
        """Return why Airflow cannot run here, or None."""
        missing = [package for package in _PACKAGES if find_spec(package) is None]
        if missing:
            return f"Python packages not installed: {', '.join(missing)}"
        return self._database.unavailable()

    def install(self) -> None:
        """Install the database server if it is missing; all else are Python packages."""
        self._database.install()

    def prepare(self) -> None:
        """Write the configuration and start the database, so that ``airflow`` commands work."""
        write_config(
            self.home,
            self._database,
            self._options,
            port=self.port,
            parallelism=self._parallelism,
        )
        self._database.start()

    def migrate(self) -> None:
        """Migrate the database to this Airflow's version and wait; :meth:`start` does so, too."""
        self.prepare()
        self._airflow("db", "migrate")

    def start(self, *, fresh: bool = False) -> None:
        """Start the parts that do not run; the first start makes the database.

        The method returns before they are healthy: see :meth:`wait`.
        """
        if fresh or self._database.daemon.pid() is None:
            self.stop()  # parts whose database has gone are about to die
        if fresh:
            self._database.drop()
            shutil.rmtree(self.home / "task-logs", ignore_errors=True)
        down = [part for part, daemon in self._parts.items() if daemon.pid() is None]
        if not down or self._launcher.pid() is not None:
            return
        self.prepare()
        options = ["--home", str(self.home)]
        if len(down) == len(self._parts):
            options.append("--migrate")
        for module in self._options.preload:
            options += ["--preload", module]
        command = [sys.executable, "-m", "services._airflow_parts", *options, *down]
        self._launcher.spawn(command, environ=self.environ)

    def wait(self, timeout_s: float = 300.0) -> None:
        """Wait until both APIs answer, and scheduler and DAG processor are healthy."""
        deadline_s = time.monotonic() + timeout_s
        while self._launcher.pid() is not None and time.monotonic() < deadline_s:
            time.sleep(0.05)
        try:
            left_s = deadline_s - time.monotonic()
            wait_until(self._healthy, self._parts.values(), what=self.name, timeout_s=left_s)
        except ServiceError as error:
            raise ServiceError(f"{error}\n{self._launcher.log_tail()}") from None

    def wait_for_dags(self, dag_ids: Collection[str], timeout_s: float = 180.0) -> None:
        """Wait until all of ``dag_ids`` are known.

        Raises:
            ServiceError: Some are missing after the time; the message has the import errors.
        """
        known: set[str] = set()

        def complete() -> bool:
            known.update(self.client.dags())
            return known.issuperset(dag_ids)

        try:
            wait_until(complete, self._parts.values(), what="a DAG", timeout_s=timeout_s)
        except ServiceError as error:
            missing = ", ".join(sorted(set(dag_ids) - known))
            answers = self._parts["api-server"].pid() is not None
            errors = self.client.import_errors().values() if answers else ()
            reasons = "\n".join([*errors, str(error)])
            raise ServiceError(f"not among the known DAGs: {missing}\n{reasons}") from None

    def reserialize(self) -> None:
        """Read all DAG files again now, without the DAG processor; takes about 5 s."""
        self.prepare()
        self._airflow("dags", "reserialize")

    def supervise(self, until: threading.Event) -> None:
        """Restart dead parts until the event is set; blocks."""
        while not until.wait(_SUPERVISE_S):
            self.start()

    def status(self) -> dict[str, int | None]:
        """Return pids of the database server and of each part, by name."""
        daemons = [self._database.daemon, *self._parts.values()]
        return {daemon.name: daemon.pid() for daemon in daemons}

    def own(self) -> None:
        """Make this process the owner, which :meth:`stop` of another process ends first.

        Raises:
            ServiceError: Another process owns this Airflow.
        """
        owner = self._owner.pid()
        if owner not in {None, os.getpid()}:
            raise ServiceError(
                f"process {owner} runs the Airflow of {self.home}; 'make stop' ends it"
            )
        self._owner.record(os.getpid())

    def stop(self) -> None:
        """End the owner, if it is another process, and all parts with their running tasks.

        The database server ends last.
        """
        if self._owner.pid() not in {None, os.getpid()}:
            stop_daemons([self._owner], grace_s=_OWNER_S)
        self._launcher.sweep()
        # After one signal, the triggerer waits 10 s for a dead child, the scheduler for its tasks,
        # and the API server for its connections; after a second one they end.
        stop_daemons(self._parts.values(), grace_s=10.0, insist_s=1.0)
        self._database.stop()

    def kill(self, daemon: str) -> None:
        """End a part or ``postgres`` with SIGKILL; its children stay until the next start."""
        {**self._parts, "postgres": self._database.daemon}[daemon].kill()

    def exports(self) -> dict[str, str]:
        """Return the variables by which tests find the API, and ``airflow`` commands this home."""
        return {"TEST_AIRFLOW_URL": self.url, "AIRFLOW_HOME": str(self.home)}

    def _airflow(self, *command: str) -> None:
        run_tool([sys.executable, "-m", "airflow", *command], what=self.name, environ=self.environ)

    def _ends_of_logs(self) -> str:
        dead = ", ".join(name for name, pid in self.status().items() if pid is None)
        tails = [self._parts[part].log_tail() for part in _REPORTS.values()]
        return "\n".join([f"dead: {dead or 'none'}", *tails])

    def _healthy(self) -> bool:
        try:
            self.client.warm_up()
            health = self.client.health()
        except AirflowRequestError:
            return False  # not listening yet
        states = [health["metadatabase"]["status"]]
        for report, part in _REPORTS.items():
            heartbeat = health[report][f"latest_{report}_heartbeat"]
            started_at = self._parts[part].started_at()
            # Right after a restart, the last heartbeat may be that of the process before.
            stale = not (heartbeat and started_at) or _time(heartbeat) < started_at
            states.append("stale" if stale else health[report]["status"])
        return set(states) == {"healthy"}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
