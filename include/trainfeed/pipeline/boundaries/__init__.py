"""Boundaries of a topic: the offset of every partition at a point in time, and the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.boundaries._boundary_file import (
        Boundary,
        TopicWindow,
        boundary_files,
        folders_of_others,
        known_boundaries,
        milliseconds,
        read_boundary,
    )
    from trainfeed.pipeline.boundaries._boundary_proof import (
        UNPROVEN,
        is_proved,
        last_proved,
        reasons,
        require_empty_proved,
    )
    from trainfeed.pipeline.boundaries._losses import Loss, without
    from trainfeed.pipeline.boundaries._recorded_edges import (
        Neighbour,
        RestoredFile,
        require_neighbours_agree,
        require_recorded,
        restore_boundaries,
    )
    from trainfeed.pipeline.boundaries._topic_boundaries import (
        deciding,
        keep_boundaries,
        look_for_boundary,
        require_in_order,
        resolve_boundary,
        transaction_open,
    )

__all__ = [
    "UNPROVEN",
    "Boundary",
    "Loss",
    "Neighbour",
    "RestoredFile",
    "TopicWindow",
    "boundary_files",
    "deciding",
    "folders_of_others",
    "is_proved",
    "keep_boundaries",
    "known_boundaries",
    "last_proved",
    "look_for_boundary",
    "milliseconds",
    "read_boundary",
    "reasons",
    "require_empty_proved",
    "require_in_order",
    "require_neighbours_agree",
    "require_recorded",
    "resolve_boundary",
    "restore_boundaries",
    "transaction_open",
    "without",
]


__getattr__ = on_demand(__name__, __file__)
