"""Shared storage for people: trees of files on this machine, on mounts and behind servers."""

__all__: list[str] = []
