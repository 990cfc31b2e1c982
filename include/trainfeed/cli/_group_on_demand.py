"""Groups whose commands are imported when they are asked for, not when the group is listed.

Help and completion of a group need the names and the first lines of its commands; those are in a
table. All else, the help of a command included, comes from the command itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from trainfeed.cli._light_parameters import LightCommand, LightParameters

__all__ = ["Entry", "group_on_demand"]


@dataclass(frozen=True)
class Entry:
    """A command, or a group of commands, in the list of the group that it belongs to.

    Attributes:
        name: What is typed.
        home: ``MODULE:ATTRIBUTE`` of the function, or of the ``typer.Typer`` of a group; the module
            begins with a dot and is below the package of the group that lists it.
        help: The first paragraph of its own help.
        example: A command line for its help; None for a group, which has its own.
    """

    name: str
    home: str
    help: str
    example: str | None = None

    def load(self, package: str) -> Any:
        """Import the command, and return it as typer's own command or group."""
        module, _, attribute = self.home.partition(":")
        found = getattr(import_module(module, package), attribute)
        parent = typer.Typer(rich_markup_mode=None)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=self.name)
        else:
            epilog = f"Example: {self.example}"
            parent.command(self.name, cls=LightCommand, epilog=epilog)(found)
        return get_group(parent).commands[self.name]


class _Listed(TyperCommand):
    """A line in a list of commands; the command itself is imported to read its arguments."""

    def __init__(self, entry: Entry, package: str) -> None:
        super().__init__(entry.name, help=entry.help)
        self._entry = entry
        self._package = package

    def get_short_help_str(self, _: int = 0) -> str:
        """Return the whole line, however long; the list wraps it."""
        return self._entry.help

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return the context of the command itself, by which it is run."""
        return self._entry.load(self._package).make_context(*args, **kwargs)


class _Loaded(Mapping[str, Any]):
    """The commands themselves by their names, each imported when it is looked up."""

    def __init__(self, entries: Mapping[str, Entry], package: str) -> None:
        self._entries = entries
        self._package = package

    def __getitem__(self, name: str) -> Any:
        return self._entries[name].load(self._package)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def group_on_demand(package: str, entries: Sequence[Entry]) -> type[TyperGroup]:
    """Return the class of a group with these commands, for ``typer.Typer(cls=…)``.

    Args:
        package: The package that the homes of the commands are below.
        entries: The commands, in the order of the help.
    """
    named = {entry.name: entry for entry in entries}

    class GroupOnDemand(LightParameters, TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes | {"commands": _Loaded(named, package)})

        def list_commands(self, _: Any) -> list[str]:
            return list(named)

        def get_command(self, _: Any, cmd_name: str) -> Any:
            return _Listed(named[cmd_name], package) if cmd_name in named else None

    return GroupOnDemand
