"""Waivers: decisions of people that a build may be published although gates of it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.dataset.waivers._applied_waivers import Applied, apply_waivers, read_applied
    from trainfeed.dataset.waivers._gate_files import Gate, gate_facts, is_same_gate
    from trainfeed.dataset.waivers._refused import (
        Refused,
        lift_refused,
        read_refused,
        write_refused,
    )
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
    "gate_facts",
    "is_same_gate",
    "lift_refused",
    "read_applied",
    "read_refused",
    "read_waiver",
    "read_waivers",
    "waiver_numbers",
    "write_refused",
    "write_waiver",
]


__getattr__ = on_demand(__name__, __file__)
