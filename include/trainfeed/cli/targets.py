"""The one grammar of targets, ``NAME[@TAG][/RANGE[/gNNNN]]``, for all commands; nothing heavy.

The part behind ``NAME/`` may be a word of its own: ``NAME RANGE``. Every command reads its target
here, and says which parts of one it has no use for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from trainfeed.cli.command_groups import RANGE
from trainfeed.cli.completion import complete_range, complete_target
from trainfeed.core.version_names import split_version_name
from trainfeed.errors import ConfigError
from trainfeed.specification.names import cut
from trainfeed.versions.layout import generation_name, is_generation, parse_generation

# --- The two words of a target among the arguments of a command


def name_argument(form: str) -> Any:
    """Return the declaration of the first word; its help is the form of targets that it takes."""
    return typer.Argument(metavar="NAME", help=form, autocompletion=complete_target)


RangeWord = Annotated[
    str | None,
    typer.Argument(
        metavar=RANGE,
        help="What stands behind NAME/, as a word of its own: 2013-01-01, 2013-01, a/b.",
        autocompletion=complete_range,
    ),
]
# The name that commands on whole data sets take, and that of commands on all of them by default.
SetName = Annotated[str, name_argument("The data set.")]
IntervalsOrAll = Annotated[str | None, name_argument("NAME[/RANGE]; by default all data sets.")]

# --- A target: what was typed, in its parts; nothing of it is looked up


@dataclass(frozen=True)
class Target:
    """A data set, and perhaps a tag, intervals, and a generation of it.

    Attributes:
        name: The data set.
        tag: ``TAG``, or ``TAG#3`` as its third change made it; None for the versions of now.
        asked: An interval or a range; None for the whole data set, or the whole tag.
        generation: Number of a generation of the one interval; None if none is named.
    """

    name: str
    tag: str | None = None
    asked: str | None = None
    generation: int | None = None

    @classmethod
    def parse(cls, word: str, asked: str | None = None) -> Target:
        """Read ``NAME[@TAG][/RANGE[/gNNNN]]``, the part behind ``NAME/`` perhaps of its own.

        Args:
            word: The word with the name.
            asked: The word behind it; None if there is none.

        Raises:
            ConfigError: The range is in both words, ``@`` or ``gNNNN`` stands in a wrong place.
        """
        name, _, rest = word.partition("/")
        if rest and asked:
            raise ConfigError(_said_twice(name, rest, asked))
        named = split_version_name(name)
        tag = name.partition("@")[2] or None
        interval, generation = _interval_and_generation(named.name, rest or asked)
        if tag is not None and generation is not None:
            raise ConfigError(
                f"a tag names generations itself, {cut(f'{name}/{rest or asked}')!r} has both;"
                " leave one out"
            )
        return cls(named.name, tag, interval, generation)

    @property
    def tag_name(self) -> str:
        """Name of the tag, without the number of a change; empty without a tag."""
        return (self.tag or "").partition("#")[0]

    @property
    def tag_change(self) -> int | None:
        """Number of the change of the tag; None for the newest, and without a tag."""
        number = (self.tag or "").partition("#")[2]
        return int(number) if number else None

    @property
    def tagged_name(self) -> str:
        """The data set, with its tag if one was named."""
        return self.name if self.tag is None else f"{self.name}@{self.tag}"

    def __str__(self) -> str:
        """Return the target as one word."""
        number = None if self.generation is None else generation_name(self.generation)
        return "/".join(part for part in (self.tagged_name, self.asked, number) if part)

    def to_change(self) -> Target:
        """Return the target of a command that changes data.

        Raises:
            ConfigError: It has a tag.
        """
        if self.tag is not None:
            raise ConfigError(
                f"expected NAME without @TAG, got {cut(str(self))!r}: a tag only names versions,"
                " and this command changes data; nothing was changed; name the intervals, which"
                f" trainfeed tags {self.name} {self.tag} lists"
            )
        return self

    def of_intervals(self) -> Target:
        """Return the target of a command that is about intervals, whatever their generation.

        Raises:
            ConfigError: It has a tag or a generation.
        """
        if self.tag is not None:
            raise ConfigError(
                f"expected NAME without @TAG, got {cut(str(self))!r}: this command is about the"
                " intervals of a data set, not about those of a tag; leave the tag out"
            )
        if self.generation is not None:
            interval = f"{self.name}/{self.asked}"
            raise ConfigError(
                f"expected NAME/RANGE without gNNNN, got {cut(str(self))!r}: this command is about"
                f" intervals, whatever their generation; write {cut(interval)}"
            )
        return self

    def of_whole_set(self) -> str:
        """Return the name of the data set.

        Raises:
            ConfigError: The target has more than the name.
        """
        if str(self) != self.name:
            raise ConfigError(
                f"expected the name of a data set alone, got {cut(str(self))!r}: this command is"
                f" about all of it; write {cut(self.name)}"
            )
        return self.name


def set_and_tag(word: str, tag: str | None) -> tuple[str, str | None]:
    """Return the data set and the tag of ``NAME@TAG`` or ``NAME TAG``; None without a tag.

    Raises:
        ConfigError: There are two tags, or a range.
    """
    target = Target.parse(word)
    if target.asked is not None or (target.tag is not None and tag is not None):
        raise ConfigError(
            f"expected NAME TAG or NAME@TAG, got {cut(' '.join(filter(None, (word, tag))))!r};"
            " write one tag, and no range"
        )
    return target.name, tag if target.tag is None else target.tag


def _interval_and_generation(name: str, rest: str | None) -> tuple[str | None, int | None]:
    """Return the two parts of what stands behind ``NAME/``."""
    if not rest:
        return None, None
    interval, _, last = rest.rpartition("/")
    if not is_generation(last):
        return rest, None
    if not interval:
        raise ConfigError(
            f"expected an interval before {last}, as {name}/INTERVAL/{last}, got"
            f" {cut(f'{name}/{rest}')!r}"
        )
    if "/" in interval:
        first = interval.partition("/")[0]
        raise ConfigError(
            f"expected gNNNN behind one interval, got {last} behind the range {cut(interval)!r};"
            f" name one interval, such as {name}/{cut(first)}/{last}"
        )
    return interval, parse_generation(last)


def _said_twice(name: str, rest: str, asked: str) -> str:
    is_one_range = "/" not in f"{rest}{asked}"
    hint = f"; from one to the other is {name}/{rest}/{asked}" if is_one_range else ""
    if is_generation(asked):
        hint = f"; write {name}/{rest}/{asked}"
    return (
        "expected the interval or range once, as NAME/RANGE or NAME RANGE, got both"
        f" {cut(rest)!r} and {cut(asked)!r}{hint}"
    )
