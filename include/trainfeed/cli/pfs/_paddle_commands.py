"""``trainfeed paddle …``: commands on shared storage under the names of PaddlePaddle's documents.

The commands are those of ``trainfeed pfs …``. There is no program ``paddle``, because PaddlePaddle
may have one in the same environment; a line in a shell gives the name::

    paddle() { trainfeed paddle "$@"; }
"""

import typer

from trainfeed.cli.pfs import _change_commands, _look_commands
from trainfeed.cli.pfs._paddle_copy import copy_with_manifests

__all__ = ["paddle"]

paddle = typer.Typer(
    help="Commands on shared storage under PaddlePaddle's names: cp, ls, rm, mkdir.",
    epilog="Example: trainfeed paddle cp random_images-*-of-* pfs://home/",
    no_args_is_help=True,
)
_of_later_documents = typer.Typer(
    help="The same commands, as later documents write them: paddle pfs cp.",
    epilog="Example: trainfeed paddle pfs cp random_images-*-of-* pfs://home/",
    no_args_is_help=True,
)
for _name, _command, _example in (
    ("cp", copy_with_manifests, "cp 'random_images-*-of-*' pfs://home/"),
    ("ls", _look_commands.ls, "ls pfs://home/"),
    ("rm", _change_commands.rm, "rm -r pfs://home/folder"),
    ("mkdir", _change_commands.mkdir, "mkdir pfs://home/folder"),
):
    paddle.command(_name, epilog=f"Example: trainfeed paddle {_example}")(_command)
    _of_later_documents.command(_name, epilog=f"Example: trainfeed paddle pfs {_example}")(_command)
paddle.add_typer(_of_later_documents, name="pfs")
