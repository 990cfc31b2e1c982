"""Expands patterns in the places of any tree; a pattern without a match is an error."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from trainfeed.errors import NotFoundError
from trainfeed.pfs.transfer._copy_values import Place
from trainfeed.pfs.trees import Kind, Parts, Tree

__all__ = ["expanded", "is_there"]


def expanded(place: Place) -> list[Place]:
    """Return the places that a pattern with ``*``, ``?`` or ``[…]`` names, sorted.

    A name with such characters that is there is taken literally, as a shell does. A pattern matches
    names that begin with a dot only if it does.

    Raises:
        NotFoundError: The pattern has no match.
        StorageError: A folder that may hold a match cannot be listed.
    """
    if not any(map(glob.has_magic, place.parts)) or is_there(place):
        return [place]
    found = list(_matches(place.tree, (), place.parts))
    if not found:
        raise NotFoundError(
            f"{place.shown}: no file or folder matches; nothing was done for it; correct the"
            " pattern"
        )
    return [replace(place, parts=parts) for parts in sorted(found)]


def is_there(place: Place) -> bool:
    """Return whether something has the name."""
    try:
        place.tree.stat(place.parts)
    except NotFoundError:
        return False
    return True


def _matches(tree: Tree, above: Parts, patterns: Parts) -> Iterator[Parts]:
    if not patterns:
        yield above
        return
    first, *rest = patterns
    if not glob.has_magic(first):
        if is_there(Place(tree, (*above, first))):
            yield from _matches(tree, (*above, first), tuple(rest))
        return
    for entry in tree.entries(above):
        is_hidden = entry.name.startswith(".") and not first.startswith(".")
        may_be = not rest or entry.kind in (Kind.FOLDER, Kind.LINK)
        if may_be and not is_hidden and fnmatchcase(entry.name, first):
            yield from _below(tree, (*above, entry.name), tuple(rest))


def _below(tree: Tree, above: Parts, patterns: Parts) -> Iterator[Parts]:
    if patterns and tree.stat(above).kind is not Kind.FOLDER:
        return
    yield from _matches(tree, above, patterns)
