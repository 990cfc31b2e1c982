"""``python -m examples.daily.airflow``: commands for the Airflow of ``make run`` and ``make ui``.

Its database and settings are in a folder of their own, so a bare ``airflow`` would make a second,
empty Airflow. ``make airflow ARGS="…"`` runs an ``airflow`` command in the right place, whether or
not Airflow runs; ``make api`` prints what REST calls need.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import Annotated, Final

import typer

from examples.daily import places
from services._home import REPOSITORY
from services._process import ServiceError
from services.airflow import AirflowStack, admin_password

# The Makefile hands its ARGS over in the environment: no shell reads them on the way.
_WORDS: Final = "AIRFLOW_ARGS"
_DATA: Final = REPOSITORY / "data"

Services = Annotated[bool, typer.Option("--services", help="Of `make run-services`.")]

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def command(
    words: Annotated[list[str] | None, typer.Argument(help="What follows `airflow`.")] = None,
    *,
    services: Services = False,
) -> None:
    """Run an `airflow` command; without words, the one that the variable AIRFLOW_ARGS holds."""
    try:
        chosen = words or shlex.split(os.environ.get(_WORDS, ""))
    except ValueError as error:
        raise ServiceError(f'expected ARGS="COMMAND …" with closed quotes: {error}') from error
    if not chosen:
        raise ServiceError('expected an airflow command: make airflow ARGS="dags list"')
    raise typer.Exit(_run(_stack(services=services), chosen))


@app.command()
def api(*, services: Services = False) -> None:
    """Print AIRFLOW and TOKEN, for a shell to evaluate; the token is good for a day."""
    stack = _stack(services=services)
    if stack.status()["api-server"] is None:
        raise ServiceError(f"the Airflow of {stack.home} does not run; 'make ui' starts it")
    typer.echo(f"AIRFLOW={shlex.quote(stack.url)} TOKEN={shlex.quote(stack.client.token())}")


@app.command()
def password(*, services: Services = False) -> None:
    """Print the password of the user admin."""
    stack = _stack(services=services)
    try:
        typer.echo(admin_password(stack.home))
    except FileNotFoundError:
        raise ServiceError(f"{stack.home} has no password yet; 'make ui' makes it") from None


def _stack(*, services: bool) -> AirflowStack:
    data = _DATA / "services" if services else _DATA
    # Connections come from the environment, so commands that run tasks need them as well.
    environ = places.real_environ(data) if services else places.asked_environ(data)
    return AirflowStack(places.home_of(data), environ=environ)


def _run(stack: AirflowStack, words: list[str]) -> int:
    """Run the command, with the database up meanwhile."""
    is_up = stack.status()["postgres"] is not None
    if not is_up:
        _prepare(stack)
    try:
        airflow = [sys.executable, "-m", "airflow", *words]
        return subprocess.call(airflow, env=stack.environ)
    finally:
        if not is_up:
            stack.stop()


def _prepare(stack: AirflowStack) -> None:
    stack.own()
    is_new = not (stack.home / "airflow.cfg").exists()
    stack.migrate()
    if is_new:
        stack.reserialize()  # a new Airflow knows no DAG


if __name__ == "__main__":
    try:
        app()
    except ServiceError as refused:
        sys.exit(str(refused))
