"""Completion of targets by a shell: data sets, tags, intervals and generations; nothing heavy.

A shell cannot show a message, so an error is no completion. ``complete_in_bash`` is the whole
program for bash, which takes ``flights@prod`` for three words.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path

import typer

from trainfeed.core.config import (
    Environment,
    bash_words,
    environment_from_environ,
    name_bash_words,
)
from trainfeed.errors import TrainFeedError
from trainfeed.files.stores.posix import map_errors
from trainfeed.specification import SPEC_FILE
from trainfeed.versions import DatasetFolder
from trainfeed.versions.layout import generation_name, is_name
from trainfeed.versions.root import data_sets_of

# --- The names that an environment has


def specified(env: Environment) -> list[str]:
    """Return the names of the folders of data sets, also with a wrong specification."""
    with map_errors(env.datasets):
        if not env.datasets.is_dir():
            return []
        places = [path for path in env.datasets.iterdir() if is_name(path.name)]
        return [path.name for path in places if _is_seen(path / SPEC_FILE)]


def _is_seen(path: Path) -> bool:
    """Return whether a path exists; one in a folder that this account may not enter does."""
    try:
        return path.exists()
    except PermissionError:
        return True


# --- Completion of the two words of a target, of a range alone, and of a tag alone


def complete_target(incomplete: str) -> list[str]:
    """Return the targets that begin with the typed text: data sets, their tags, what is in them."""
    return _beginning_with(incomplete, _targets)


def complete_range(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what may stand behind the name that was typed before."""
    return _beginning_with(incomplete, lambda text: _ranges(_first_word(ctx), text))


def complete_tag(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the tags of the data set that was typed before."""
    return _beginning_with(incomplete, lambda _: _tags(_first_word(ctx)))


def complete_range_or_tag(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what ``tag`` may take behind the name: a range, or ``@TAG`` for what a tag names."""

    def both(text: str) -> Iterable[str]:
        name = _first_word(ctx)
        return [*_ranges(name, text), *(f"@{each}" for each in _tags(name))]

    return _beginning_with(incomplete, both)


def complete_sides(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what ``diff`` may take next: a target, or a version of the data set typed before."""
    name = _first_word(ctx)
    if name and "/" not in name:
        return _beginning_with(incomplete, lambda text: _ranges(name, text))
    return complete_target(incomplete)


def _beginning_with(incomplete: str, find: Callable[[str], Iterable[str]]) -> list[str]:
    try:
        found = list(find(incomplete))
    except (TrainFeedError, OSError):
        return []
    return [each for each in found if each.startswith(incomplete)]


def _first_word(ctx: typer.Context) -> str:
    """Return the value of the command's first argument, or of its first word if it has many."""
    arguments = [each for each in ctx.command.params if each.param_type_name == "argument"]
    value = ctx.params.get(arguments[0].name or "")
    return str((value[0] if value else "") if isinstance(value, list | tuple) else value or "")


def _targets(text: str) -> Iterable[str]:
    env = environment_from_environ()
    name, slash, rest = text.partition("/")
    if slash:
        return [f"{name}/{each}" for each in _ranges(name, rest)]
    if "@" in name:
        name = name.partition("@")[0]
        return [f"{name}@{each}" for each in _tags(name)]
    return sorted({*specified(env), *data_sets_of(Path(env.root))})


def _tags(name: str) -> list[str]:
    from trainfeed.versions.tag_files import current_tags

    return [each.tag for each in current_tags(_folder(name.partition("/")[0].partition("@")[0]))]


def _ranges(name: str, text: str) -> list[str]:
    """Return intervals; behind the first one of a range, its generations and further intervals."""
    if "/" in name:
        return []  # the range stands in the word with the name
    name, _, tag = name.partition("@")
    folder = _folder(name)
    first, slash, _ = text.partition("/")
    names = _tagged(folder, tag) if tag else folder.intervals()
    if not slash:
        return list(names)
    numbers = () if tag or not is_name(first) else folder.generations(first)
    last = [*map(generation_name, numbers), *(each for each in names if each > first)]
    return [f"{first}/{each}" for each in last]


def _tagged(folder: DatasetFolder, tag: str) -> Iterable[str]:
    from trainfeed.core.version_names import split_version_name
    from trainfeed.versions.tag_files import require_tag

    named = split_version_name(f"{folder.name}@{tag}")
    return require_tag(folder, named.version or "", named.change).generations


def _folder(name: str) -> DatasetFolder:
    return DatasetFolder(Path(environment_from_environ().root), name)


# --- bash takes ``flights@prod`` for three words, of which it replaces the last two: ``@prod``

_BREAK = "@"


def complete_in_bash(program: Callable[[], object]) -> None:
    """Run the program for a completion by bash: words that bash split are one word for it.

    Args:
        program: Prints the completions of ``COMP_WORDS`` and ``COMP_CWORD``.
    """
    words = _joined(*(bash_words() or ("", "")))
    if words is None:
        program()
        return
    name_bash_words(shlex.join(words), len(words) - 1)
    found = io.StringIO()
    try:
        with redirect_stdout(found):
            program()
    finally:
        before = words[-1].rpartition(_BREAK)[0]
        for line in found.getvalue().splitlines():
            typer.echo(line.removeprefix(before))


def _joined(text: str, number: str) -> list[str] | None:
    """Return the words up to the one that is completed; None where bash has split none."""
    try:
        split, last = shlex.split(text), int(number)
    except ValueError:
        return None  # an open quote
    # An empty word, which is to be completed, is none of the text.
    split = [*split[: last + 1], *[""] * (last + 1 - len(split))]
    words: list[str] = []
    for word in split:
        if words and word and (word == _BREAK or words[-1].endswith(_BREAK)):
            words[-1] += word
        else:
            words.append(word)
    return words if len(words) < len(split) else None
