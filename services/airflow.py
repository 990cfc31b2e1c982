"""The embedded Airflow: four processes and a PostgreSQL, on the loopback."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from deploy.settings import PARTS
from services._airflow_config import (
    ADMIN,
    AirflowOptions,
    admin_password,
    write_config,
)
from services._home import REPOSITORY, default_home, remembered_ports
from services._postgres import Postgres
from services._postgres_server import PostgresServer
from services._process import Daemon, ServiceError, run_tool, stop_daemons, wait_until
from services.airflow_client import AirflowClient, AirflowRequestError

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
