"""The reader contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

__all__ = ["Reader", "Sample"]

# One decoded record: field → numpy scalar or array, bytes, str, or None where it is absent.
Sample: TypeAlias = dict[str, Any]

# Called without arguments, as often as wanted; every call gives a new iterator over all samples.
Reader: TypeAlias = Callable[[], Iterator[Sample]]
