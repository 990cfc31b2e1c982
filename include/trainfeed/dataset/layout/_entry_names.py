"""The rules for names below the publication root, and the names of fixed files."""

from __future__ import annotations

import re
from typing import Final

from trainfeed.errors import ConfigError

__all__ = [
    "CURRENT",
    "CURRENT_BYTES",
    "GENERATION",
    "MANIFEST",
    "MANIFEST_DIGEST",
    "MODELS",
    "RETIRED",
    "SKIPPED",
    "check_name",
    "check_topic",
    "generation_name",
    "generation_of_plan",
    "is_generation",
    "is_name",
    "parse_generation",
    "plan_id_of",
]

MANIFEST: Final = "MANIFEST.json"
MANIFEST_DIGEST: Final = "MANIFEST.sha256"
CURRENT: Final = "CURRENT"
SKIPPED: Final = "SKIPPED.json"
RETIRED: Final = "RETIRED.json"
# Of the publication root; no data set may have that name.
MODELS: Final = "models"
# Room for a generation and a newline; a longer file is no valid pointer.
CURRENT_BYTES: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
# Unlike other names, those of topics and their ids may begin with '_' (1 in 64 ids does), '-', '.'.
_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
# A version, or one of the marks that hide it.
GENERATION: Final = re.compile(r"g([0-9]{4,})(\.withdrawn|\.removed)?")


def check_name(name: str) -> str:
    """Return ``name`` if it may become one component of a path.

    Raises:
        ConfigError: The name has a separator, starts with a dot or dash, or is too long.
    """
    if not is_name(name):
        raise ConfigError(f"expected a name of letters, digits, '.', '_' and '-', got {name!r}")
    return name


def is_name(name: str) -> bool:
    """Return whether ``name`` may become one component of a path, as names of data sets do."""
    return _NAME.fullmatch(name) is not None


def check_topic(name: str) -> str:
    """Return ``name`` if a topic or its id may have that name.

    Raises:
        ConfigError: It has a separator or another sign that Kafka refuses, or is too long.
    """
    if not _TOPIC.fullmatch(name):
        raise ConfigError(f"expected the name or id of a topic, got {name!r}")
    return name


def generation_name(generation: int) -> str:
    """Return the folder name of a generation, ``g0001`` for 1."""
    return f"g{generation:04d}"


def is_generation(name: str) -> bool:
    """Return whether ``name`` is a generation's folder name, like ``g0001``."""
    match = GENERATION.fullmatch(name)
    return match is not None and not match[2]


def parse_generation(name: str) -> int:
    """Return the number of a generation's folder name, 1 for ``g0001``.

    Raises:
        ConfigError: ``name`` is no such name.
    """
    match = GENERATION.fullmatch(name)
    if match is None or match[2]:
        raise ConfigError(f"expected a generation like g0001, got {name!r}")
    return int(match[1])


def plan_id_of(fingerprint: str, generation: int) -> str:
    """Return the id of the plan with a fingerprint, which makes a generation."""
    return f"{fingerprint[:16]}-{generation_name(generation)}"


def generation_of_plan(plan_id: str) -> int:
    """Return the number of the generation that a plan makes, from the plan's id.

    Raises:
        ConfigError: ``plan_id`` does not end with a generation.
    """
    return parse_generation(plan_id.rpartition("-")[2])
