"""Published versions on the command line: state, lists, one version, its samples, proof, speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.versions._diff_command import diff
    from trainfeed.cli.versions._drift_command import drift
    from trainfeed.cli.versions._lineage_command import lineage
    from trainfeed.cli.versions._look import ls, show
    from trainfeed.cli.versions._outdated_command import outdated
    from trainfeed.cli.versions._status_command import status
    from trainfeed.cli.versions._verify_versions import verify
    from trainfeed.cli.versions._version_look import head, stats

__all__ = [
    "diff",
    "drift",
    "head",
    "lineage",
    "ls",
    "outdated",
    "show",
    "stats",
    "status",
    "verify",
]


__getattr__ = on_demand(__name__, __file__)
