"""Groups whose commands are imported when they are asked for, and parameters without pydantic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from trainfeed.core.imports import without_collection

# --- Lets parameters that need no conversion be read without pydantic, by which typer reads all

_PLAIN: Final = (bool, float, int, str)
# What the help calls the second word of a target.
RANGE: Final = "RANGE"
_READING: Final = "get_runtime_param"


class LightParameters:
    """The part of a command or group that lets its parameters be read lightly.

    An older typer does not choose a way for each parameter, and reads them as ever.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, the option ``--help`` among them."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            if hasattr(parameter, _READING) and _READING not in vars(parameter):
                vars(parameter)[_READING] = _LightReading(getattr(parameter, _READING)).chosen
        return found


class LightCommand(LightParameters, TyperCommand):
    """A command whose parameters are read lightly, and which says what a word too many may be."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        if not any(each.metavar == RANGE for each in self.params):
            return super().parse_args(ctx, args)
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            ctx.fail(
                f"expected NAME/RANGE or NAME RANGE, got more words: {' '.join(ctx.args)}; a range"
                " is one word, FIRST/LAST, and so is INTERVAL/gNNNN"
            )
        return rest


def command(group: typer.Typer, name: str, example: str) -> Callable[[Any], Any]:
    """Return the decorator that adds a command to a group.

    Args:
        group: The group.
        name: What is typed.
        example: A command line for its help, behind ``trainfeed``.
    """
    return group.command(name, cls=LightCommand, epilog=f"Example: trainfeed {example}")


class _LightReading:
    """Reads the values of one parameter; asks typer for what it does not know.

    Args:
        whole: Returns typer's own way of reading the parameter.
    """

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def chosen(self) -> _LightReading:
        """Return itself, where typer asks for the way of the parameter."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter, from what was typed or from its default."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if _is_value(value, param.type_descriptor):
            return value
        return self._whole().coerce(value, param=param, ctx=ctx)


def _is_value(value: object, described: Any) -> bool:
    """Whether a value is what typer would make of it."""
    if type(value) is not described.annotation or type(value) not in _PLAIN:
        return False
    # Typer refuses a default outside the limits, too.
    return described.parameter_info.parser is None and not described.is_ranged


# --- Groups whose commands are imported when they are asked for, not when the group is listed


@dataclass(frozen=True)
class Entry:
    """A command, or a group of commands, in the list of the group that it belongs to.

    Attributes:
        name: What is typed.
        home: ``MODULE:ATTRIBUTE`` of the function, or of the ``typer.Typer`` of a group; the module
            begins with a dot and is below the package of the group that lists it.
        help: The first sentence of its own help, of at most 60 characters: it stands alone in
            lists.
        example: A command line for its help; None for a group, which has its own.
    """

    name: str
    home: str
    help: str
    example: str | None = None

    def load(self, package: str) -> Any:
        """Import the command, and return it as typer's own command or group."""
        module, _, attribute = self.home.partition(":")
        with without_collection():
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
        """Return the whole sentence: completion shows it."""
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


def group_on_demand(package: str, headings: Mapping[str, Sequence[Entry]]) -> type[TyperGroup]:
    """Return the class of a group with these commands, for ``typer.Typer(cls=…)``.

    Args:
        package: The package that the homes of the commands are below.
        headings: The commands under the headings of the help, in their order.
    """
    named = {entry.name: entry for entries in headings.values() for entry in entries}

    class GroupOnDemand(LightParameters, TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes | {"commands": _Loaded(named, package)})

        def list_commands(self, _: Any) -> list[str]:
            return list(named)

        def get_command(self, _: Any, cmd_name: str) -> Any:
            return _Listed(named[cmd_name], package) if cmd_name in named else None

        def format_commands(self, _: Any, formatter: Any) -> None:
            # One width of the names for all headings, so that the sentences are one column.
            width = max(map(len, named))
            for heading, entries in headings.items():
                with formatter.section(heading):
                    formatter.write_dl([(each.name.ljust(width), each.help) for each in entries])

    return GroupOnDemand
