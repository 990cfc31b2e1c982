"""Boundaries of a topic: the offset of every partition at a point in time, and the evidence."""

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
from trainfeed.pipeline.boundaries._topic_boundaries import (
    deciding,
    keep_boundaries,
    look_for_boundary,
    resolve_boundary,
    transaction_open,
)

__all__ = [
    "UNPROVEN",
    "Boundary",
    "Loss",
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
    "resolve_boundary",
    "transaction_open",
    "without",
]
