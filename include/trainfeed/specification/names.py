"""Names of data sets and of their parts, and hints at the name that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from trainfeed.errors import SpecError

# --- Hints at the name that was probably meant

_MAX_SHOWN_CHARS: Final = 60


def did_you_mean(got: object, names: Iterable[str]) -> str:
    """Return a hint at the nearest of ``names``, or at all of them if none is near."""
    known = list(names)
    return nearest(got, known) or f"known here: {', '.join(known)}"


def nearest(got: object, names: Iterable[str]) -> str:
    """Return a hint at the nearest of ``names``, or one that begins with ``got``; else empty."""
    text, known = cut(str(got)).lower(), list(names)
    near = get_close_matches(text, known, n=1)
    near = near or [name for name in known if len(text) > 2 and name.startswith(text)]
    return f"did you mean {near[0]!r}?" if near else ""


def cut(text: str) -> str:
    """Return a text short enough for a message."""
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


# --- Names of data sets and of their parts, and the name of the file that specifies one

SPEC_FILE: Final = "dataset.yaml"
# Airflow refuses assets of the first two names; the publication root has its models in ``models``.
RESERVED_NAMES: Final = frozenset({"context", "self", "models"})
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
NAME_RULE: Final = "lower-case letters, digits and _, a letter first, at most 63 characters"
# Names of the fields of a specification.
FIELD_NAME: Final = re.compile(r"(?=.{1,128}$)[a-z][a-z0-9_]*([./-][a-z0-9_]+)*")
FIELD_RULE: Final = (
    "lower-case letters, digits and _, a letter first, single '/', '.' or '-' between words, at"
    " most 128 characters"
)


def check_name(text: str, *, what: str = "data set") -> str:
    """Return ``text`` if it is a valid name: names become folder, file and DAG names.

    Args:
        text: The name.
        what: The kind of thing with that name, for the message.

    Raises:
        SpecError: The name is not valid.
    """
    if NAME.fullmatch(text) is None:
        raise SpecError(f"expected a {what} name ({NAME_RULE}), got {text[:80]!r}")
    return text


def check_dataset_name(text: str) -> str:
    """Return ``text`` if it is a valid name of a data set.

    Raises:
        SpecError: The name is not valid, or is reserved.
    """
    if check_name(text) in RESERVED_NAMES:
        raise SpecError(f"expected a data set name that is not reserved, got {text!r}")
    return text
