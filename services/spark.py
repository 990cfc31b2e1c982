"""Spark: a standalone cluster of one master and two workers, from `.venv-spark`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from services._home import REPOSITORY, default_home, remembered_ports
from services._process import Daemon, stop_daemons, wait_until

_VENV = REPOSITORY / ".venv-spark"
_CLASSES = "org.apache.spark.deploy"
_CORES = 2
_MASTER = "127.0.0.1"
# Spark runs no speculative copy of a task on the machine of the first: each has an address.
_WORKERS = {"spark-worker-1": "127.0.0.1", "spark-worker-2": "127.0.0.2"}
_REGISTERED = b"Successfully registered with master"
_ALIVE = b"New state: ALIVE"


class Spark:
    """A standalone cluster without authentication, on the loopback alone.

    Args:
        home: State directory of the services; that of this one is ``<home>/spark``.
    """

    name = "spark"
    PORTS: Mapping[str, int] = MappingProxyType(
        {"master": 17077, "master-ui": 18080, "worker-1-ui": 18081, "worker-2-ui": 18082}
    )

    def __init__(self, home: Path | None = None) -> None:
        self.home = (home or default_home()).resolve() / self.name
        self._master = Daemon("spark-master", self.home)
        self._workers = [Daemon(name, self.home) for name in _WORKERS]

    @property
    def ports(self) -> Mapping[str, int]:
        """Name → port, the same at every start of this home."""
        return remembered_ports(self.home, self.PORTS)

    @property
    def url(self) -> str:
        """Address for applications."""
        return f"spark://{_MASTER}:{self.ports['master']}"

    def unavailable(self) -> str | None:
        """Return why the service cannot run here, or None."""
        if not (_VENV / "bin" / "spark-submit").exists():
            return "there is no .venv-spark; run: make setup-spark"
        return None if shutil.which("java") else "there is no java; install JDK 17"

    def install(self) -> None:
        """Nothing: ``make setup-spark`` installs Spark."""

    def start(self, *, fresh: bool = False) -> None:
        """Start the daemons that do not run; the workers go on trying until the master answers."""
        if fresh:
            self.stop()
            shutil.rmtree(self.home / "work", ignore_errors=True)
        self.home.mkdir(parents=True, exist_ok=True)
        if self._master.pid() is None:
            own = ["--port", str(self.ports["master"])]
            self._spawn(self._master, "master.Master", _MASTER, "master-ui", own)
        for number, worker in enumerate(self._workers, 1):
            if worker.pid() is None:
                folder = self.home / "work" / str(number)
                options = ["--cores", str(_CORES), "--memory", "2g", "--work-dir", str(folder)]
                own = [*options, self.url]
                host = _WORKERS[worker.name]
                self._spawn(worker, "worker.Worker", host, f"worker-{number}-ui", own)

    def wait(self, timeout_s: float = 180.0) -> None:
        """Wait until both workers are registered."""
        daemons = [self._master, *self._workers]
        wait_until(self._usable, daemons, what=self.name, timeout_s=timeout_s)

    def status(self) -> dict[str, int | None]:
        """Return daemon → pid."""
        return {daemon.name: daemon.pid() for daemon in (self._master, *self._workers)}

    def stop(self) -> None:
        """End the workers, then the master."""
        stop_daemons([*self._workers, self._master])

    def kill(self, daemon: str) -> None:
        """End one daemon with SIGKILL."""
        for each in (self._master, *self._workers):
            if each.name == daemon:
                each.kill()

    def exports(self) -> dict[str, str]:
        """Return the variables by which tests find the cluster and its programs."""
        return {"TEST_SPARK_MASTER": self.url, "TEST_SPARK_HOME": str(_VENV)}

    def _spawn(self, daemon: Daemon, name: str, host: str, ui: str, options: list[str]) -> None:
        python = str(_VENV / "bin" / "python")
        places = {"SPARK_LOCAL_DIRS": str(self.home / "local"), "SPARK_LOCAL_IP": host}
        daemon.spawn(
            [
                str(_VENV / "bin" / "spark-class"),
                f"{_CLASSES}.{name}",
                *("--host", host, "--webui-port", str(self.ports[ui])),
                *options,
            ],
            environ={
                **os.environ,
                **places,
                "PYSPARK_PYTHON": python,
                "PYSPARK_DRIVER_PYTHON": python,
                "SPARK_DAEMON_MEMORY": "256m",
            },
        )

    def _usable(self) -> bool:
        # Every log has only this start.
        return _ALIVE in self._master.log_file.read_bytes() and all(
            _REGISTERED in worker.log_file.read_bytes() for worker in self._workers
        )
