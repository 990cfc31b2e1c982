"""``python -m services``: start, watch and stop real services, or run a command with them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from services import _run
from services._home import default_home, known_ports
from services._process import ServiceError
from services._run import Service
from services.airflow import AirflowStack
from services.cephfs import CephFS
from services.hdfs import Hdfs
from services.kafka import Kafka
from services.kubernetes import Kubernetes
from services.registry import Registry
from services.s3 import S3
from services.spark import Spark

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Kafka, a schema registry, HDFS, CephFS, S3, Airflow, Kubernetes and Spark as plain"
    " processes on 127.0.0.1."
    " State is in .services, or where TRAINFEED_SERVICES_HOME says.",
)
console = Console(stderr=True, highlight=False)

# Width of tables in pipes and files, whose readers need whole lines.
_UNLIMITED_CHARS = 100_000
_NAMES = ("kafka", "registry", "hdfs", "cephfs", "s3", "airflow", "kubernetes", "spark")

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help=", ".join(_NAMES))]
Fresh = Annotated[bool, typer.Option("--fresh", help="Drop the data first.")]
Require = Annotated[
    bool,
    typer.Option("--require", help="Fail when a service cannot run here. CI=true means the same."),
]


@app.command()
def install(names: Names = None, *, require: Require = False) -> None:
    """Install the programs that the services need and this machine lacks."""
    _run.available(_services(names), require=_required(require), tell=_tell)


@app.command()
def start(names: Names = None, *, fresh: Fresh = False, require: Require = False) -> None:
    """Install, start, and wait until usable."""
    usable = _run.available(_services(names), require=_required(require), tell=_tell)
    _run.start(usable, fresh=fresh, tell=_tell)


@app.command()
def wait(names: Names = None) -> None:
    """Wait until the services are usable."""
    for service in _services(names):
        service.wait()


@app.command()
def stop(names: Names = None) -> None:
    """End the daemons regularly, and print their names; the data stay."""
    for service in reversed(_services(names)):
        running = [daemon for daemon, pid in service.status().items() if pid is not None]
        service.stop()
        done = f"stopped {', '.join(running)}" if running else "nothing was running"
        _tell(f"{service.name}: {done}")


@app.command()
def status(names: Names = None) -> None:
    """Show which daemons run, and the ports of each service, on 127.0.0.1."""
    table = Table("service", "ports", "daemon", "pid", "log")
    for service in _services(names):
        home = default_home() / service.name
        ports = ", ".join(f"{name} {port}" for name, port in known_ports(home).items())
        for daemon, pid in service.status().items():
            log = home / "logs" / f"{daemon}.log"
            table.add_row(service.name, ports, daemon, str(pid or "-"), str(log))
            ports = ""
    Console(width=None if sys.stdout.isatty() else _UNLIMITED_CHARS).print(table)


@app.command()
def kill(daemon: Annotated[str, typer.Argument(help="As `status` names it.")]) -> None:
    """End one daemon with SIGKILL; `start` brings it back."""
    for service in _services(None):
        if daemon in service.status():
            service.kill(daemon)
            return
    raise typer.BadParameter(f"no service has a daemon {daemon!r}; `status` lists them")


@app.command()
def env(names: Names = None) -> None:
    """Print the variables by which tests find the services, for a shell to evaluate."""
    for service in _services(names):
        for name, value in service.exports().items():
            typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def run(
    context: typer.Context, names: Names = None, *, fresh: Fresh = False, require: Require = False
) -> NoReturn:
    """Run the command after `--` with the services, and stop those that were started for it."""
    command: Sequence[str] = context.obj
    if not command:
        raise typer.BadParameter("a command is missing: python -m services run kafka -- COMMAND")
    usable = _run.available(_services(names), require=_required(require), tell=_tell)
    sys.exit(_run.run(usable, command, fresh=fresh, tell=_tell))


def main(arguments: Sequence[str]) -> None:
    """Run the command line; the arguments after ``--`` are the command of ``run``."""
    # Files of daemons must be writable for this account only, regardless of the umask.
    os.umask(os.umask(0o022) | 0o022)
    own, command = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, command = own[:cut], own[cut + 1 :]
    try:
        app(own, obj=command, prog_name="python -m services")
    except ServiceError as error:
        _tell(str(error))
        sys.exit(1)


def _services(names: Sequence[str] | None) -> list[Service]:
    known: dict[str, Service] = {
        "kafka": Kafka(),
        "registry": Registry(),
        "hdfs": Hdfs(),
        "cephfs": CephFS(),
        "s3": S3(),
        "airflow": AirflowStack(),
        "kubernetes": Kubernetes(),
        "spark": Spark(),
    }
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(known)}")
    return [known[name] for name in names or known]


def _required(asked: bool) -> bool:
    return asked or os.environ.get("CI", "").lower() in {"1", "true"}


def _tell(message: str) -> None:
    console.print(message, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main(sys.argv[1:])
