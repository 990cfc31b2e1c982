"""Public sets: data sets that every user of a data centre reads, and the builds that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.publicsets.build import PublicBuild, build_public_set
    from trainfeed.publicsets.catalogue import (
        PUBLIC_SETS,
        PublicRow,
        PublicSet,
        list_public_sets,
        public_set,
    )
    from trainfeed.publicsets.versions import (
        PUBLIC_ROOT,
        PublicUse,
        PublicVersion,
        known_public_root,
        open_public,
        public_root,
        public_version,
        publishing_root,
        use_public_set,
        word_numbers,
    )

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

__getattr__ = on_demand(__name__)
