"""Servers of trainfeed and their clients: their ground, dispatch of chunks, shared storage."""

__all__: list[str] = []
