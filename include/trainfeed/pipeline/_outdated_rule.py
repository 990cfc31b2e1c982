"""The rule for a published interval that today's code or specification would build otherwise."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["OutdatedRule"]


class OutdatedRule(StrEnum):
    """What a build does with an outdated version: fail, keep it, or build the next generation."""

    FAIL = "fail"
    KEEP = "keep"
    REBUILD = "rebuild"
