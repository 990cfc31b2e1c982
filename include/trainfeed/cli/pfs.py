"""``trainfeed pfs`` and ``paddle``: the groups of commands on shared storage.

There is no program ``paddle``, because PaddlePaddle may have one in the same environment; a line
in a shell gives the name: ``paddle() { trainfeed paddle "$@"; }``.
"""

import typer

from trainfeed.cli import pfs_administration, pfs_commands
from trainfeed.cli.command_groups import command

# --- ``trainfeed paddle …``: commands on shared storage under the names of PaddlePaddle's documents

paddle = typer.Typer(
    help="Use shared storage under PaddlePaddle's names.",
    epilog="Example: trainfeed paddle cp random_images-*-of-* pfs://home/",
    no_args_is_help=True,
)
_of_later_documents = typer.Typer(
    help="The same commands, as later documents write them.",
    epilog="Example: trainfeed paddle pfs cp random_images-*-of-* pfs://home/",
    no_args_is_help=True,
)
for _name, _command, _example in (
    ("cp", pfs_commands.copy_with_manifests, "cp 'random_images-*-of-*' pfs://home/"),
    ("ls", pfs_commands.ls, "ls pfs://home/"),
    ("rm", pfs_commands.rm, "rm -r pfs://home/folder"),
    ("mkdir", pfs_commands.mkdir, "mkdir pfs://home/folder"),
):
    command(paddle, _name, f"paddle {_example}")(_command)
    command(_of_later_documents, _name, f"paddle pfs {_example}")(_command)
paddle.add_typer(_of_later_documents, name="pfs")


# --- ``trainfeed pfs``: shared storage for people

app = typer.Typer(
    help="Copy, list and serve files on shared storage.",
    epilog="Example: trainfeed pfs cp random_images-*-of-* pfs://home/folder/",
    no_args_is_help=True,
)
for _name, _verb, _example in (
    ("cp", pfs_commands.copy, "cp 'random_images-*-of-*' pfs://home/folder/"),
    ("ls", pfs_commands.ls, "ls pfs://home/folder"),
    ("find", pfs_commands.find, "find pfs://home --name '*.rec' --type f"),
    ("stat", pfs_commands.stat, "stat pfs://home/folder"),
    ("du", pfs_commands.du, "du pfs://home"),
    ("rm", pfs_commands.rm, "rm -r pfs://home/folder"),
    ("mkdir", pfs_commands.mkdir, "mkdir pfs://home/folder"),
    ("mv", pfs_commands.mv, "mv pfs://home/folder pfs://home/other"),
    ("serve", pfs_administration.serve, "serve /mnt/cephfs/pfs/dc1 --tokens tokens.txt"),
    ("verify", pfs_commands.verify, "verify folder pfs://home/folder"),
):
    command(app, _name, f"pfs {_example}")(_verb)
app.add_typer(pfs_administration.app, name="user")
