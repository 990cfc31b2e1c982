"""``python -m services.kubernetes.programs build``: builds the programs of the cluster, in minutes.

``built`` prints ``kubernetes`` when the control plane is built, else nothing; ``make test`` then
leaves out the tests of the cluster, and says so.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from services._process import ServiceError
from services.kubernetes._cluster import Kubernetes


def main(verb: Annotated[Literal["build", "built"], typer.Argument()]) -> None:
    """Build control plane and training operator, or tell whether the control plane is built."""
    cluster = Kubernetes()
    if verb == "built":
        typer.echo("kubernetes" if cluster.is_built else "", nl=cluster.is_built)
        return
    try:
        cluster.install()
        cluster.operator.install()
    except ServiceError as error:
        typer.echo(str(error), err=True)
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)
