"""Starts the processes of Airflow by forks of one process that has imported it.

The import of Airflow takes 3 s of a core, that of its API another 3 s. With four processes that
each import both, after a migration, Airflow is usable after 25 s on two cores. With forks of one
process it is usable after 12 s, and the processes share most of their memory. Each has a session
and a pid file, as if its command had started it; this process ends when all run.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from deploy.init import make_pools, migrate
from deploy.settings import PARTS
from services._process import Daemon

_SHARED = (
    "airflow.api_fastapi.core_api.app",
    "airflow.api_fastapi.core_api.routes.public",
    "airflow.api_fastapi.core_api.routes.ui",
    "airflow.api_fastapi.execution_api.app",
    "airflow.api_fastapi.execution_api.routes",
    "airflow.cli.commands.api_server_command",
    "airflow.cli.commands.dag_processor_command",
    "airflow.cli.commands.scheduler_command",
    "airflow.cli.commands.triggerer_command",
    "airflow.executors.local_executor",
)


def main(arguments: Sequence[str]) -> None:
    """Migrate the database and make the pools if asked, then fork the parts."""
    parser = argparse.ArgumentParser(prog="services._airflow_parts")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--migrate", action="store_true")
    parser.add_argument("--preload", action="append", default=[], metavar="MODULE")
    parser.add_argument("parts", nargs="*", choices=PARTS)
    options = parser.parse_args(arguments)
    airflow: Callable[[], None] = import_module("airflow.__main__").main
    migration = _fork(_prepare) if options.migrate else None
    if options.parts:
        for module in (*_SHARED, *options.preload):
            import_module(module)
    if migration is not None and os.waitpid(migration, 0)[1]:
        sys.exit("the migration of the database failed")
    gc.freeze()  # a collection would touch, and so copy, every page that the parts share
    for part in options.parts:
        _start(airflow, Daemon(part, options.home))


def _start(airflow: Callable[[], None], daemon: Daemon) -> None:
    daemon.sweep()
    with daemon.open_log() as log:
        daemon.record(_fork(airflow, PARTS[daemon.name], output=log.fileno()))


def _prepare() -> None:
    migrate()
    make_pools({})


def _fork(
    work: Callable[[], None], command: Sequence[str] = (), *, output: int | None = None
) -> int:
    """Run a function in a child process; return its pid.

    Args:
        work: Entry point of Airflow, or another function.
        command: Arguments of the command ``airflow``.
        output: File descriptor for the output; the child then leads a new session.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    if output is not None:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
    sys.argv = ["airflow", *command]
    work()
    sys.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
