"""``python -m services.kubernetes.programs build``: build now what a start would wait minutes for.

``built`` prints ``kubernetes`` when the cluster can be started at once, for ``make test``, which
leaves it out otherwise and says so.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from services._process import ServiceError
from services.kubernetes._cluster_service import Kubernetes

__all__ = ["main"]


def main(verb: Annotated[Literal["build", "built"], typer.Argument()]) -> None:
    """Build the control plane and the training operator, or say whether the former is built."""
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
