"""``trainfeed bench``: measures the speed of a loader, and the shares of its time."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainfeed.cli.command_groups import command
from trainfeed.cli.printing import Result, Table, error_console, with_json
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.core.datacenters import local_source
from trainfeed.errors import ConfigError
from trainfeed.versions.layout import generation_name

if TYPE_CHECKING:
    from trainfeed.loader import ReadMeasure


app = typer.Typer(
    help="Measure the speed of this machine and its file systems.",
    epilog="Example: trainfeed bench read flights/2013-01-01",
    no_args_is_help=True,
)


@app.callback()
def _bench() -> None:
    """Make ``read`` a subcommand, although it is the only one."""


@command(app, "read", "bench read flights/2013-01-01 --shuffle")
@with_json
def read(  # noqa: PLR0913 - one parameter per option
    name: Annotated[
        str, name_argument("NAME[@TAG][/RANGE[/gNNNN]], or RecordIO files (path or glob).")
    ],
    asked: RangeWord = None,
    *,
    split: Annotated[str, typer.Option(help="Split of a data set.")] = "train",
    batch_size: Annotated[int, typer.Option(help="Rows per batch.")] = 128,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Read in a permuted order.")] = False,
    workers: Annotated[int, typer.Option(help="Processes that load ahead.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads that load ahead.")] = 0,
    lanes: Annotated[
        int | None, typer.Option(help="Lanes of the permuted order; by default 16.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Number of passes over the data set.")] = 3,
) -> Result:
    """Read a data set through the loader at full speed."""
    # Imported here, because the import of the loader takes a second.
    from trainfeed.loader import DataLoader, measure_read

    with (
        DataLoader(
            _opened(name, asked, split),
            batch_size,
            shuffle=shuffle,
            num_workers=workers,
            num_threads=threads,
            lanes=lanes,
        ) as loader,
        error_console().status(f"reading {name}, {epochs} times"),
    ):
        measure = measure_read(loader, epochs=epochs)
    return Result(asdict(measure), Table.of_pairs(_lines(measure)))


def _opened(word: str, asked: str | None, split: str) -> Any:
    from trainfeed.loader import RecordFiles
    from trainfeed.readers import open_dataset

    is_file = Path(local_source(word)).exists() or any(mark in word for mark in "*?[")
    if is_file and asked is None:
        return RecordFiles(word)
    target = Target.parse(word, asked)
    if not target.name or (target.asked is None and target.tag is None):
        raise ConfigError(f"expected NAME/INTERVAL, NAME@TAG, or files, got {str(target)!r}")
    generation = None if target.generation is None else generation_name(target.generation)
    return open_dataset(
        target.tagged_name, interval=target.asked, split=split, generation=generation
    )


def _lines(measure: ReadMeasure) -> dict[str, object]:
    def share(seconds: float) -> str:
        return f"{seconds:.3f} s ({seconds / measure.seconds:.0%})"

    return {
        "samples/s": f"{measure.samples_per_s:,.0f} (best epoch {measure.best_samples_per_s:,.0f})",
        "MB/s": f"{measure.bytes_per_s / 1e6:,.1f}",
        "epochs": f"{measure.epochs} of {measure.samples // measure.epochs:,} samples",
        "first batch": f"{measure.first_batch_s:.3f} s",
        "waiting for windows": share(measure.wait_s),
        "assembling batches": share(measure.assemble_s),
        "handing over": share(measure.rest_s),
        "loading, all threads and processes": f"{measure.load_s:.3f} s",
        "reads tried again": measure.rereads,
    }
