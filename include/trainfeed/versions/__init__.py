"""Published data sets, for builds and readers: identity, order, ledger, manifest, version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.files.records import RootMark
    from trainfeed.versions.coverage import Coverage, cover, cover_named, published_in
    from trainfeed.versions.interval_notes import (
        Unpublished,
        lift_unpublished,
        read_unpublished,
        write_unpublished,
    )
    from trainfeed.versions.layout import DatasetFolder
    from trainfeed.versions.ledger import Leaf, Ledger, SourceLedger, ValidLeaf
    from trainfeed.versions.manifest import Manifest, content_digest
    from trainfeed.versions.root import (
        follow_environment,
        init_root,
        published_root,
        require_readable_root,
        require_root,
        require_root_of,
        require_writable_root,
    )
    from trainfeed.versions.schedule import range_of, read_schedule, record_schedule
    from trainfeed.versions.skip import AcceptedHole, Skip, lift_skip, read_skip, write_skip
    from trainfeed.versions.training_marks import Declined, TrainingMarks, Untrained
    from trainfeed.versions.version import PositionFile, Version, has_positions

__all__ = [
    "AcceptedHole",
    "Coverage",
    "DatasetFolder",
    "Declined",
    "Leaf",
    "Ledger",
    "Manifest",
    "PositionFile",
    "RootMark",
    "Skip",
    "SourceLedger",
    "TrainingMarks",
    "Unpublished",
    "Untrained",
    "ValidLeaf",
    "Version",
    "content_digest",
    "cover",
    "cover_named",
    "follow_environment",
    "has_positions",
    "init_root",
    "lift_skip",
    "lift_unpublished",
    "published_in",
    "published_root",
    "range_of",
    "read_schedule",
    "read_skip",
    "read_unpublished",
    "record_schedule",
    "require_readable_root",
    "require_root",
    "require_root_of",
    "require_writable_root",
    "write_skip",
    "write_unpublished",
]

# Imported on demand: workers of a loader need ``dataset.chunks`` only, and not the Arrow and
# pydantic that these names bring along.

__getattr__ = on_demand(__name__)
