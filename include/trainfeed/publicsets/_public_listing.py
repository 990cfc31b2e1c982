"""The listing of public sets: those that are published, and those that could be built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainfeed.dataset.root import data_sets_of, require_readable_root
from trainfeed.errors import ConfigError, NotFoundError, TrainFeedError
from trainfeed.publicsets._public_catalogue import PUBLIC_SETS, PublicSet
from trainfeed.publicsets._public_version import PublicVersion, public_version

__all__ = ["PublicRow", "list_public_sets"]


@dataclass(frozen=True)
class PublicRow:
    """A public set in the listing.

    Attributes:
        name: Name of the set.
        kind: ``real`` or ``synthetic``; ``unknown`` for a set without that account.
        state: ``published``, ``not built``, ``several intervals`` or ``damaged``.
        version: Interval and generation of the current version, or None.
        samples: Samples of all splits, or None.
        num_bytes: Bytes of the version, or None.
        licence: Short name of the licence; the version has its text.
        origin: Where the samples come from.
        damaged: What is wrong with a damaged version; None for others.
    """

    name: str
    kind: str
    state: str
    version: str | None
    samples: int | None
    num_bytes: int | None
    licence: str
    origin: str
    damaged: str | None = None


def list_public_sets(root: Path | None) -> list[PublicRow]:
    """Return a row for every set of the catalogue and every other set in the root, by name.

    Args:
        root: The publication root; None lists the catalogue alone.

    Raises:
        RootError: The root is missing, or is no publication root.
        StorageError: The root cannot be read.
    """
    found: list[str] = []
    if root is not None:
        require_readable_root(root, "the root of public sets")
        found = data_sets_of(root)
    return [_row(name, root) for name in sorted({*PUBLIC_SETS, *found})]


def _row(name: str, root: Path | None) -> PublicRow:
    known = PUBLIC_SETS.get(name)
    if root is None:
        return _without_version(name, known, "not built")
    try:
        return _published(public_version(name, root=root), known)
    except NotFoundError:
        return _without_version(name, known, "not built")
    except ConfigError:
        return _without_version(name, known, "several intervals")
    except TrainFeedError as error:
        damaged = f"{type(error).__name__}: {error}"
        return replace(_without_version(name, known, "damaged"), damaged=damaged)


def _published(found: PublicVersion, known: PublicSet | None) -> PublicRow:
    source = found.source
    return PublicRow(
        name=found.name,
        kind=_kind(source.get("is_synthetic")),
        state="published",
        version=found.version.name,
        samples=found.version.manifest.num_samples(),
        num_bytes=found.num_bytes,
        licence=known.licence if known else "see its documents",
        origin=_origin(source) or (known.origin if known else "unknown"),
    )


def _without_version(name: str, known: PublicSet | None, state: str) -> PublicRow:
    kind = _kind(known.is_synthetic if known else None)
    licence, origin = (known.licence, known.origin) if known else ("unknown", "unknown")
    return PublicRow(name, kind, state, None, None, None, licence, origin)


def _kind(is_synthetic: object) -> str:
    if not isinstance(is_synthetic, bool):
        return "unknown"
    return "synthetic" if is_synthetic else "real"


def _origin(source: dict[str, Any]) -> str:
    package = " ".join(str(source[key]) for key in ("package", "version") if key in source)
    return ", ".join(
        str(each) for each in (package, source.get("kind"), source.get("sample")) if each
    )
