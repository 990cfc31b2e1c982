"""``trainfeed file``: record files and the formats that they are converted from and to."""

from __future__ import annotations

import typer

from trainfeed.cli import _file_look, _file_make, _file_stats

__all__ = ["app"]

app = typer.Typer(
    help="Look at, mend and convert files of records and samples.", no_args_is_help=True
)
app.command("inspect")(_file_look.inspect)
app.command("head")(_file_look.head)
app.command("cat")(_file_look.cat)
app.command("verify")(_file_look.verify)
app.command("repair")(_file_make.repair)
app.command("convert")(_file_make.convert)
app.command("merge")(_file_make.merge)
app.command("reshard")(_file_make.reshard)
app.command("index")(_file_look.index)
app.command("stats")(_file_stats.stats)
