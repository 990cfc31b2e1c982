"""Waivers: decisions of people that a build may be published although gates of it failed."""

from trainfeed.dataset.waivers._applied_waivers import Applied, apply_waivers, read_applied
from trainfeed.dataset.waivers._gate_files import Gate
from trainfeed.dataset.waivers._refused import Refused, lift_refused, read_refused, write_refused
from trainfeed.dataset.waivers._waiver import (
    Waiver,
    read_waiver,
    read_waivers,
    waiver_numbers,
    write_waiver,
)

__all__ = [
    "Applied",
    "Gate",
    "Refused",
    "Waiver",
    "apply_waivers",
    "lift_refused",
    "read_applied",
    "read_refused",
    "read_waiver",
    "read_waivers",
    "waiver_numbers",
    "write_refused",
    "write_waiver",
]
