"""Changes JSON documents so that they stay JSON: what lies behind the parser is reached."""

from __future__ import annotations

import json
import random
from typing import Any, Final

__all__ = ["mutate_json"]

_MAX_CHANGES: Final = 3
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 0.5, 1e308),
    *("", "a", "0", "-1", "g0001", "../x", "\0", "é\u2028", "\ud800", "int64", "str", "x" * 300),
    *("2013-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "f" * 16, "0" * 64),
    *([], {}, [[]], [None], {"": {}}, [1, 2, 3]),
)


def mutate_json(data: bytes, seed: int) -> bytes | None:
    """Return the document with some values, keys or items changed; None when it is no JSON.

    Args:
        data: The document.
        seed: Of the choice: equal seeds change equally.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    chance = random.Random(seed)
    for _ in range(chance.randint(1, _MAX_CHANGES)):
        value = _changed(value, chance)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        return _changed_object(value, chance)
    if isinstance(value, list) and value and chance.random() < 0.9:
        return _changed_list(value, chance)
    return _other(value, chance)


def _changed_object(value: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    key, what = chance.choice(list(value)), chance.random()
    if what < 0.1:
        return {name: each for name, each in value.items() if name != key}
    if what < 0.2:
        return {**value, str(chance.choice(_VALUES)): chance.choice(_VALUES)}
    return {**value, key: _changed(value[key], chance)}


def _changed_list(value: list[Any], chance: random.Random) -> list[Any]:
    index, what = chance.randrange(len(value)), chance.random()
    if what < 0.15:
        return value[:index] + value[index + 1 :]
    if what < 0.3:
        return [*value, value[index]]
    return [*value[:index], _changed(value[index], chance), *value[index + 1 :]]


def _other(value: Any, chance: random.Random) -> Any:
    if isinstance(value, int) and chance.random() < 0.5:
        return value + chance.choice((-1, 1, 255, 2**32, -(2**32)))
    if isinstance(value, str) and value and chance.random() < 0.5:
        index = chance.randrange(len(value))
        return value[:index] + chance.choice("0az-/.:{}\0é ") + value[index + 1 :]
    return chance.choice(_VALUES)
