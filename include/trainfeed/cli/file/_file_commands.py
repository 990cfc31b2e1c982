"""``trainfeed file``: commands on record files, and on other formats of samples."""

from __future__ import annotations

import typer

from trainfeed.cli.file import _file_look, _file_make, _file_stats

__all__ = ["app"]

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
