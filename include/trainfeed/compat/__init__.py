"""Interfaces of other libraries, implemented by trainfeed."""

__all__: list[str] = []
