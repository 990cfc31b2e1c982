"""Boundaries of a topic: the offset of every partition at a point in time, and the evidence."""

from trainfeed.pipeline.boundaries._boundary_file import (
    Boundary,
    TopicWindow,
    folders_of_others,
    known_boundaries,
    milliseconds,
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
    look_for_boundary,
    resolve_boundary,
    transaction_open,
)

__all__ = [
    "UNPROVEN",
    "Boundary",
    "Loss",
    "TopicWindow",
    "folders_of_others",
    "is_proved",
    "known_boundaries",
    "last_proved",
    "look_for_boundary",
    "milliseconds",
    "reasons",
    "require_empty_proved",
    "resolve_boundary",
    "transaction_open",
    "without",
]
