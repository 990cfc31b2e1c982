"""The metrics of one step: their names and numbers, checked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from trainfeed.errors import ConfigError
from trainfeed.whole_numbers import whole

__all__ = ["checked_metrics"]

_MOST_VALUES: Final = 256
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,127}")
_OURS: Final = frozenset({"step", "samples"})


def checked_metrics(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a step as values of JSON: numbers, or text for NaN and infinity.

    Raises:
        ConfigError: There are too many, a name may not be that of a metric, or a value is no
            number.
    """
    if len(values) > _MOST_VALUES:
        raise ConfigError(f"expected at most {_MOST_VALUES} metrics per step, got {len(values)}")
    return {_name(name): _number(name, value) for name, value in values.items()}


def _name(name: str) -> str:
    if name in _OURS or not _NAME.fullmatch(name):
        raise ConfigError(
            "expected names of metrics of letters, digits and _./-, at most 128, none of them"
            f" 'step' or 'samples', got {name!r}"
        )
    return name


def _number(name: str, value: Any) -> float | int | str:
    if isinstance(value, bool | str | bytes):
        raise ConfigError(f"expected metric {name!r} as a number, got {value!r}")
    if isinstance(value, int):
        return whole(f"metric {name!r}", value)
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"expected metric {name!r} as a number, got {value!r}") from error
    # JSON has no NaN and no infinity, but a reader of the log must see a loss that diverged.
    return number if math.isfinite(number) else str(number)
