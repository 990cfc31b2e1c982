"""Names of data sets and of their parts, and the name of the file that specifies one."""

from __future__ import annotations

import re
from typing import Final

from trainfeed.errors import SpecError

__all__ = [
    "NAME",
    "NAME_RULE",
    "RESERVED_NAMES",
    "SPEC_FILE",
    "check_dataset_name",
    "check_name",
]

SPEC_FILE: Final = "dataset.yaml"
# Airflow refuses assets of the first two names; the publication root has its models in ``models``.
RESERVED_NAMES: Final = frozenset({"context", "self", "models"})
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
NAME_RULE: Final = "lower-case letters, digits and _, a letter first, at most 63 characters"


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
