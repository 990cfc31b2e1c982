"""Writes ``reference/commands.md``: every command of ``trainfeed``, from its own help."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from typer.main import get_command

from docs._writing import anchor, cell, write_or_check
from trainfeed.cli._app import app
from trainfeed.cli._command_table import HEADINGS

_PAGE: Final = "reference/commands.md"
_PROGRAM: Final = "trainfeed"
_KINDS: Final = {str: "text", int: "whole number", float: "number", Path: "path"}
_HEAD: Final = """\
# Commands

<!-- Written by `make docs` from the commands and their help. -->

What `--help` says of every command. [The command line](../guides/command-line.md) has intervals
and ranges, several intervals at once, how a published version is corrected, and what the exit
status means. Every command takes `--help`.
"""


def documents() -> Mapping[str, str]:
    """The text of the page, by its name."""
    return {_PAGE: "\n".join([_HEAD, *_parts(get_command(app))])}


def _parts(program: Any) -> Iterator[str]:
    """Yield the part of the program, then those of its commands under the headings of its help."""
    yield from _own(program, _PROGRAM)
    for heading, entries in HEADINGS.items():
        yield f"## {heading}\n"
        yield "| command | |\n| --- | --- |"
        for each in entries:
            name = f"`{_PROGRAM} {each.name}`"
            yield f"| [{name}](#{anchor(name)}) | {cell(each.help)} |"
        yield ""
        for each in entries:
            yield from _commands(program.commands[each.name], f"{_PROGRAM} {each.name}")


def _commands(command: Any, name: str) -> Iterator[str]:
    """Yield the parts of a command and of those below it, in the order of the help."""
    yield from _own(command, name)
    for title, each in getattr(command, "commands", {}).items():
        yield from _commands(each, f"{name} {title}")


def _own(command: Any, name: str) -> Iterator[str]:
    """Yield what a command says of itself: help, usage, example and parameters."""
    yield f"{'##' if name == _PROGRAM else '###'} `{name}`\n"
    yield f"{_paragraphs(command.help)}\n"
    parameters = [each for each in command.params if not getattr(each, "hidden", False)]
    if not hasattr(command, "commands"):
        yield f"```text\n{name}{_usage(parameters)}\n```\n"
    if example := _example(command.epilog):
        yield f"Example: `{example}`\n"
    if parameters:
        yield "| argument | takes | default | what it is |\n| --- | --- | --- | --- |"
        yield from (_row(parameter) for parameter in parameters)
        yield ""


def _usage(parameters: list[Any]) -> str:
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    shown = [_metavar(each) + ("…" if each.nargs == -1 else "") for each in arguments]
    needed = [f"{each.opts[0]} {_metavar(each)}" for each in parameters if _is_needed_option(each)]
    return "".join(f" {part}" for part in (*shown, *needed, "[OPTIONS]"))


def _is_needed_option(parameter: Any) -> bool:
    return bool(parameter.required) and parameter.param_type_name == "option"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).strip("[]{}").upper().replace("_", "-")


def _row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    cells = (
        names if is_option else f"`{_metavar(parameter)}`",
        _takes(parameter),
        _default(parameter),
        # As code: brackets behind brackets are a reference to a page.
        re.sub(r"NAME\[\S*\]", r"`\g<0>`", parameter.help or ""),
    )
    return f"| {' | '.join(cell(text) for text in cells)} |"


def _takes(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "-"
    kind = parameter.type_descriptor.annotation
    kinds = get_args(kind) or (kind,)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in kinds)
    if isinstance(kinds[0], type) and issubclass(kinds[0], Enum):
        return ", ".join(f"`{choice.value}`" for choice in kinds[0])
    least = "" if parameter.min is None else f" from {parameter.min} on"
    return _KINDS[kinds[0]] + least + (", several" if get_origin(kind) is list else "")


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "**required**"
    if callable(value) or value is None or value is False or value in ((), []):
        return "-"
    return f"`{getattr(value, 'value', value)}`"


def _example(epilog: str | None) -> str:
    found = re.search(r"Example: (trainfeed .*?)(?:\. |$)", epilog or "")
    return found[1] if found else ""


def _paragraphs(text: str | None) -> str:
    return inspect.cleandoc(text or "").replace("\f", "").replace("\b", "").replace("``", "`")


if __name__ == "__main__":
    write_or_check(documents(), sys.argv[1:])
