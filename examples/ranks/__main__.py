"""``python -m examples.ranks``: train on published intervals, on one rank or on several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def main(  # noqa: PLR0913 - options of a command line
    interval: Annotated[str, typer.Argument(help="An interval, or first/last.")],
    *,
    output: Annotated[Path, typer.Option(help="Folder of checkpoint.npz and curve.jsonl.")],
    ranks: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    dataset: Annotated[str, typer.Option(help="Name of the data set.")] = "flights",
    root: Annotated[Path | None, typer.Option(help="Publication root.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs.")] = 4,
    batch: Annotated[int, typer.Option(min=1, help="Samples per step, over all ranks.")] = 128,
    every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 10,
    buckets: Annotated[int, typer.Option(min=1, help="What indices are below of.")] = 1 << 16,
    threads: Annotated[int, typer.Option(min=0, help="Threads per rank that load ahead.")] = 0,
) -> None:
    """Train, from the last checkpoint in the output on; print the last point of the curve."""
    from examples.ranks.exchange import RankLostError
    from examples.ranks.training import CURVE_FILE, Settings, train

    output.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        dataset=dataset,
        interval=interval,
        output=output,
        root=root,
        num_buckets=buckets,
        num_epochs=epochs,
        global_batch=batch,
        checkpoint_every=every,
        num_threads=threads,
    )
    try:
        train(settings, ranks)
    except (RankLostError, ValueError) as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from error
    *_, last = (output / CURVE_FILE).read_text().splitlines()
    typer.echo(json.dumps(json.loads(last)))


if __name__ == "__main__":
    typer.run(main)
