"""Tags of data: names for exact generations over a range, which move as a whole.

``flights@prod`` is a tag; models have aliases, which are another namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
_HOMES: Final = {
    "Decision": "._tag",
    "NamingTags": "._tagged_versions",
    "Tag": "._tag",
    "TagChange": "._tagging",
    "TagProblem": "._tagged_versions",
    "TagProposal": "._tagging",
    "TaggedData": "._tagged_coverage",
    "TaggedVersion": "._tag",
    "apply_change": "._tagging",
    "change_of_request": "._tag_files",
    "confirm_changes": "._tag_files",
    "cover_tag": "._tagged_coverage",
    "current_tag": "._tag_files",
    "current_tags": "._tagged_versions",
    "listed_tag": "._tag_files",
    "move_tag": "._tagging",
    "propose_tag": "._tag_proposals",
    "require_tag": "._tag_files",
    "tag_history": "._tag_files",
    "tag_names": "._tag_files",
    "tagged_versions": "._tagged_versions",
    "tags_naming": "._tagged_versions",
    "untag": "._tagging",
}

__getattr__ = on_demand(__name__, _HOMES)
