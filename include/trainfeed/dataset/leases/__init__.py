"""Leases: who reads or builds versions now, as files that run out by themselves.

A *reader's lease* keeps retention from removing the versions that it names. A *build lease* says
who builds an interval. Neither is a lock: a lease that its process renews no more runs out, so a
dead process keeps nothing for ever. What is compared, and what is promised when the clocks of two
machines differ, is in ``_lease_times``.
"""

from trainfeed.dataset.leases._found_leases import (
    FoundLease,
    LeasedVersions,
    building,
    leased_versions,
    leases,
    remove_ended,
)
from trainfeed.dataset.leases._held_lease import HeldLease, hold_build, hold_versions
from trainfeed.dataset.leases._lease import Lease, LeaseKind
from trainfeed.dataset.leases._lease_times import LONGEST, MARGIN, SHORTEST, USUAL

__all__ = [
    "LONGEST",
    "MARGIN",
    "SHORTEST",
    "USUAL",
    "FoundLease",
    "HeldLease",
    "Lease",
    "LeaseKind",
    "LeasedVersions",
    "building",
    "hold_build",
    "hold_versions",
    "leased_versions",
    "leases",
    "remove_ended",
]
