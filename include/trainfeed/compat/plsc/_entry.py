"""``Entry``: the setters of PLSC, each checked before it changes anything, and what they start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainfeed.compat.plsc._readers_of_entry import Readers
from trainfeed.compat.plsc._report import Report
from trainfeed.compat.plsc._settings import EntrySettings, rank_from_environ

__all__ = ["Entry"]


class Entry:
    """A classification training, set up by setters and started by ``train()``."""

    __slots__ = ("_settings",)

    def __init__(self) -> None:
        rank, world_size = rank_from_environ()
        self._settings = EntrySettings(rank=rank, world_size=world_size)

    @property
    def settings(self) -> EntrySettings:
        """The settings as they are now."""
        return self._settings

    def train(self) -> Report:
        """Train."""
        from trainfeed.compat.plsc import _engine

        return _engine.train(self._settings, Readers())

    def _set(self, **values: Any) -> None:
        self._settings = replace(self._settings, **values)
