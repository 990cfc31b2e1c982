"""Public sets: data sets that every user of a data centre reads, and the builds that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.publicsets._public_build import PublicBuild, build_public_set
    from trainfeed.publicsets._public_catalogue import PUBLIC_SETS, PublicSet, public_set
    from trainfeed.publicsets._public_listing import PublicRow, list_public_sets
    from trainfeed.publicsets._public_place import (
        PUBLIC_ROOT,
        known_public_root,
        public_root,
        publishing_root,
    )
    from trainfeed.publicsets._public_use import PublicUse, use_public_set
    from trainfeed.publicsets._public_version import PublicVersion, open_public, public_version
    from trainfeed.publicsets._word_numbers import word_numbers

__all__ = [
    "PUBLIC_ROOT",
    "PUBLIC_SETS",
    "PublicBuild",
    "PublicRow",
    "PublicSet",
    "PublicUse",
    "PublicVersion",
    "build_public_set",
    "known_public_root",
    "list_public_sets",
    "open_public",
    "public_root",
    "public_set",
    "public_version",
    "publishing_root",
    "use_public_set",
    "word_numbers",
]

# A training opens a public set without an import of the stages that build one.

__getattr__ = on_demand(__name__, __file__)
