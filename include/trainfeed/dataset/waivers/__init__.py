"""Waivers: decisions of people that a build may be published although gates of it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

_HOMES: Final = {
    "Applied": "._applied_waivers",
    "Gate": "._gate_files",
    "Refused": "._refused",
    "Waiver": "._waiver",
    "apply_waivers": "._applied_waivers",
    "gate_facts": "._gate_files",
    "is_same_gate": "._gate_files",
    "lift_refused": "._refused",
    "read_applied": "._applied_waivers",
    "read_refused": "._refused",
    "read_waiver": "._waiver",
    "read_waivers": "._waiver",
    "waiver_numbers": "._waiver",
    "write_refused": "._refused",
    "write_waiver": "._waiver",
}

__getattr__ = on_demand(__name__, _HOMES)
