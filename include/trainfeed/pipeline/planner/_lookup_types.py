"""Asks for the types of CSV lookups, once: where they were guessed so far, and are not any more.

A function that was written for guessed numbers would silently find nothing when it gets text. So
the first build by later rules names the columns whose type would change. Published versions keep
their rules, and types that are declared afterwards do not make them outdated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.reading_rules import ReadingRules
from trainfeed.specification import DatasetSpec
from trainfeed.usercode import guessed_types

__all__ = ["require_declared_types"]

_TEXT = "string"


def require_declared_types(spec: DatasetSpec, folder: DatasetFolder) -> None:
    """Refuse a build in which columns of lookups would become text that were something else.

    Raises:
        ConfigError: The newest published version has guessed types, and a column that is not text
            has none in ``lookup_types``.
    """
    newest = _newest(folder) if spec.csv_lookups else None
    if newest is None or newest.rules is not ReadingRules.GUESSED:
        return
    changed = [
        line
        for name in spec.csv_lookups
        if name in newest.lookups
        for line in _undeclared(spec, name)
    ]
    if changed:
        raise ConfigError(
            f"cells of CSV lookups are text now, unless dataset.yaml declares their type; so far"
            f" these columns of data set {spec.name!r} were guessed: {'; '.join(changed)}; nothing"
            " was published; declare each in lookup_types, with its old type or as str, such as"
            f" lookup_types: {{{changed[0].partition('.')[0]}: {{COLUMN: int64}}}}; versions that"
            " are published stay as they are"
        )


def _newest(folder: DatasetFolder) -> Manifest | None:
    for interval in reversed(folder.intervals()):
        generation = folder.current_generation(interval)
        # A damaged version is told elsewhere, and is no reason against a build of another interval.
        with suppress(FormatError, NotFoundError):
            if generation is not None:
                return Manifest.read(folder.version(interval, generation))[0]
    return None


def _undeclared(spec: DatasetSpec, name: str) -> Iterator[str]:
    declared = spec.lookup_types.get(name, {})
    for column, kind in guessed_types(spec, name).items():
        if kind != _TEXT and column not in declared:
            yield f"{name}.{column} as {kind}"
