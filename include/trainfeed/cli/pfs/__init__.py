"""``trainfeed pfs``: shared storage for people."""

import typer

from trainfeed.cli.pfs import (
    _change_commands,
    _content_check,
    _copy_command,
    _look_commands,
    _serve_files,
)
from trainfeed.cli.pfs._paddle_commands import paddle
from trainfeed.cli.pfs._user_command import app as user

__all__ = ["app", "paddle"]

app = typer.Typer(
    help="Shared storage for people.",
    epilog="Example: trainfeed pfs cp random_images-*-of-* pfs://home/folder/",
    no_args_is_help=True,
)
for _name, _command, _example in (
    ("cp", _copy_command.copy, "trainfeed pfs cp 'random_images-*-of-*' pfs://home/folder/"),
    ("ls", _look_commands.ls, "trainfeed pfs ls pfs://home/folder"),
    ("find", _look_commands.find, "trainfeed pfs find pfs://home --name '*.rec' --type f"),
    ("stat", _look_commands.stat, "trainfeed pfs stat pfs://home/folder"),
    ("du", _look_commands.du, "trainfeed pfs du pfs://home"),
    ("rm", _change_commands.rm, "trainfeed pfs rm -r pfs://home/folder"),
    ("mkdir", _change_commands.mkdir, "trainfeed pfs mkdir pfs://home/folder"),
    ("mv", _change_commands.mv, "trainfeed pfs mv pfs://home/folder pfs://home/other"),
    ("serve", _serve_files.serve, "trainfeed pfs serve /mnt/cephfs/pfs/dc1 --tokens tokens.txt"),
    ("verify", _content_check.verify, "trainfeed pfs verify folder pfs://home/folder"),
):
    app.command(_name, epilog=f"Example: {_example}")(_command)
app.add_typer(user, name="user")
