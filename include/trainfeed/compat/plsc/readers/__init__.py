"""Readers of image folders and of base64 files for an ``Entry``."""

__all__: list[str] = []
