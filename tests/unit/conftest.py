"""Fixtures that all unit tests have in common."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes is the machine's business.
settings.register_profile("trainfeed", deadline=None)
settings.load_profile("trainfeed")
