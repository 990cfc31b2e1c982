"""Corrections of published data on the command line: withdrawals, tags, and damaged files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.corrections._accept_hole_command import accept_hole
    from trainfeed.cli.corrections._repair_command import repair
    from trainfeed.cli.corrections._restore_command import restore
    from trainfeed.cli.corrections._tag_command import tag
    from trainfeed.cli.corrections._tags_command import tags
    from trainfeed.cli.corrections._untag_command import untag
    from trainfeed.cli.corrections._withdraw_command import withdraw

__all__ = ["accept_hole", "repair", "restore", "tag", "tags", "untag", "withdraw"]


__getattr__ = on_demand(__name__, __file__)
