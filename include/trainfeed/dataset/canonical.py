"""Canonical JSON under the name that data sets use; the rules are in ``trainfeed.canonical_json``.

File systems write canonical JSON too, and their rooms may not import this one.
"""

from __future__ import annotations

from trainfeed.canonical_json import MAX_BYTES, dumps, loads, require_intact, seal, sha256_of

__all__ = ["MAX_BYTES", "dumps", "loads", "require_intact", "seal", "sha256_of"]
