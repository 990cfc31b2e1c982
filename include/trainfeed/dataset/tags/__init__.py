"""Tags of data: names for exact generations over a range, which move as a whole.

``flights@prod`` is a tag; models have aliases, which are another namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.dataset.tags._tag import Decision, Tag, TaggedVersion
    from trainfeed.dataset.tags._tag_files import (
        change_of_request,
        confirm_changes,
        current_tag,
        listed_tag,
        require_tag,
        tag_history,
        tag_names,
    )
    from trainfeed.dataset.tags._tag_proposals import propose_tag
    from trainfeed.dataset.tags._tagged_coverage import TaggedData, cover_tag
    from trainfeed.dataset.tags._tagged_versions import (
        NamingTags,
        TagProblem,
        current_tags,
        tagged_versions,
        tags_naming,
    )
    from trainfeed.dataset.tags._tagging import (
        TagChange,
        TagProposal,
        apply_change,
        move_tag,
        untag,
    )

__all__ = [
    "Decision",
    "NamingTags",
    "Tag",
    "TagChange",
    "TagProblem",
    "TagProposal",
    "TaggedData",
    "TaggedVersion",
    "apply_change",
    "change_of_request",
    "confirm_changes",
    "cover_tag",
    "current_tag",
    "current_tags",
    "listed_tag",
    "move_tag",
    "propose_tag",
    "require_tag",
    "tag_history",
    "tag_names",
    "tagged_versions",
    "tags_naming",
    "untag",
]

# A list of tags opens no version, and does without Arrow.

__getattr__ = on_demand(__name__, __file__)
