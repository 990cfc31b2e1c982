"""``trainfeed file``: the group of commands on record files and other formats of samples."""

from __future__ import annotations

import typer

from trainfeed.cli import file_contents, file_stats, new_files
from trainfeed.cli.command_groups import command

# --- ``trainfeed file``: commands on record files, and on other formats of samples

app = typer.Typer(
    help="Look into files of records, repair and convert them.",
    epilog="Example: trainfeed file head shards/ -n 3",
    no_args_is_help=True,
)
for _name, _command, _example in (
    ("inspect", file_contents.inspect, "inspect part-00000.recordio"),
    ("head", file_contents.head, "head shards/ -n 3"),
    ("cat", file_contents.cat, "cat part-00000.recordio --schema schema.json"),
    ("schema", file_contents.schema, "schema rows.csv.gz --rows 100000"),
    ("verify", file_contents.verify, "verify shards/ --deep"),
    ("repair", new_files.repair, "repair damaged.recordio --output whole.recordio"),
    ("convert", new_files.convert, "convert rows.csv rows.recordio --schema schema.json"),
    ("merge", new_files.merge, "merge 'part-*.recordio' whole.recordio"),
    ("reshard", new_files.reshard, "reshard part.recordio shards/ --shards 8 --prefix mnist"),
    ("index", file_contents.index, "index part-00000.recordio"),
    ("stats", file_stats.stats, "stats shards/ --html stats.html"),
):
    command(app, _name, f"file {_example}")(_command)
