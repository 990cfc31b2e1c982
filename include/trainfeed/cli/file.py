"""``trainfeed file``: the group of commands on record files and other formats of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from trainfeed.cli import file_contents as _file_look
from trainfeed.cli import file_stats as _file_stats
from trainfeed.cli import new_files as _file_make

if TYPE_CHECKING:
    pass


# --- ``trainfeed file``: commands on record files, and on other formats of samples

app = typer.Typer(
    help="Inspect, repair and convert files of records and samples.",
    epilog="Example: trainfeed file head shards/ -n 3",
    no_args_is_help=True,
)
for _name, _command, _example in (
    ("inspect", _file_look.inspect, "inspect part-00000.recordio"),
    ("head", _file_look.head, "head shards/ -n 3"),
    ("cat", _file_look.cat, "cat part-00000.recordio --schema schema.json"),
    ("verify", _file_look.verify, "verify shards/ --deep"),
    ("repair", _file_make.repair, "repair damaged.recordio --output whole.recordio"),
    ("convert", _file_make.convert, "convert rows.csv rows.recordio --schema schema.json"),
    ("merge", _file_make.merge, "merge 'part-*.recordio' whole.recordio"),
    ("reshard", _file_make.reshard, "reshard part.recordio shards/ --shards 8 --prefix mnist"),
    ("index", _file_look.index, "index part-00000.recordio"),
    ("stats", _file_stats.stats, "stats shards/ --html stats.html"),
):
    app.command(_name, epilog=f"Example: trainfeed file {_example}")(_command)


# --- The commands ``trainfeed file …`` and ``process-base64``
