r"""Canonical JSON: equal values give equal bytes, because fingerprints are hashes of them.

UTF-8, keys sorted by code point, separators ``,`` and ``:``, no escapes beyond those JSON demands,
floats as Python's ``repr``, no NaN or infinity, no final newline.

A sealed object is JSON of any form that ends with its own digest, so that every change is found::

    sealed := text digest       text   := a JSON object without its last brace
                                digest := ``,\n "digest": "<SHA-256 of text in hex>"\n}\n``

Dataclasses that go to JSON are ``JsonFields``: the class says which members the JSON has, and under
which names, and nobody writes them by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from trainfeed.errors import ChecksumError, FormatError

# A manifest of 100,000 shards has about 30 MB; trainfeed writes no larger file.
MAX_BYTES: Final = 64 << 20
# A point in time as text: ``2026-03-08T00:00:00Z``; readers of records check its form.
Time: TypeAlias = Annotated[str, "time"]

_END: Final = b"\n}\n"
_UNKNOWN: Final = object()
# The import of the fast parser takes as long as so many documents without it.
_FEW: Final = iter(range(500))
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def dumps(value: Any) -> bytes:
    """Return the canonical form of ``value``.

    Raises:
        FormatError: ``value`` has no canonical form (NaN, a lone surrogate, an object of no JSON
            type).
    """
    try:
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return text.encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"value has no canonical JSON form: {error}") from error


def loads(data: bytes, *, path: str | None = None) -> Any:
    """Parse JSON that another program may have written; nothing about it is trusted.

    Args:
        data: The document, at most ``MAX_BYTES`` long.
        path: Path of the document, for messages.

    Raises:
        FormatError: ``data`` is too long, too deep, no JSON, holds a key twice, or a NaN.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"expected at most {MAX_BYTES} bytes of JSON, got {len(data)}", path=path)
    try:
        return json.loads(data, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"expected JSON: {error}", path=path) from error


def loads_canonical(data: bytes, *, path: str | None = None) -> Any:
    """Parse JSON as ``loads`` does, much faster if it has the form that ``dumps`` gives.

    For documents of which a process may read thousands.

    Raises:
        FormatError: As of ``loads``.
    """
    is_fast = next(_FEW, None) is None and len(data) <= MAX_BYTES
    found = _quickly(data) if is_fast else _UNKNOWN
    return loads(data, path=path) if found is _UNKNOWN else found


def _quickly(data: bytes) -> Any:
    """Return the value of a document in canonical form, else ``_UNKNOWN``.

    A value that gives the same bytes again has no key twice. All else is left to Python's parser.
    """
    # No canonical form has these: where they are, nothing is parsed twice.
    if b"\n" in data or b'": ' in data:
        return _UNKNOWN
    decode, encode = _fast_parser()
    try:
        value = decode(data)
        return value if encode(value) == data else _UNKNOWN
    except (ValueError, RecursionError):
        return _UNKNOWN


@cache
def _fast_parser() -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    from msgspec.json import Decoder, Encoder

    return Decoder().decode, Encoder().encode


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of the canonical form of ``value`` as 64 hex digits."""
    return hashlib.sha256(dumps(value)).hexdigest()


def seal(text: bytes) -> bytes:
    """Return the JSON object ``text`` with its digest as last member, on a line of its own."""
    body = text.removesuffix(_END)
    return body + _digest(body)


def require_intact(data: bytes, *, path: str) -> None:
    """Compare a sealed object with its digest.

    Raises:
        ChecksumError: The object was changed, or has no digest.
    """
    end = len(data) - len(_digest(b""))
    if end < 0 or data[end:] != _digest(data[:end]):
        raise ChecksumError("expected its own SHA-256 at its end, got another one", path=path)


class JsonFields:
    """A dataclass whose JSON is that of its fields; the class says what differs.

    The arguments of the class, which its subclasses inherit one by one::

        class Size(JsonFields, also=("is_empty",), names={"num_bytes": "bytes"}): ...

    Args:
        also: Properties, and constants of the class, that the JSON has before the fields.
        without: Fields that it does not have.
        optional: Fields that it has only where they are not None, 0 or empty.
        names: Field or property → its key, where that differs.
    """

    __slots__ = ()
    _json_also: ClassVar[tuple[str, ...]] = ()
    _json_without: ClassVar[tuple[str, ...]] = ()
    _json_optional: ClassVar[tuple[str, ...]] = ()
    _json_names: ClassVar[Mapping[str, str]] = {}

    # A dataclass with slots is a second class, which Python makes without the arguments; it has
    # what is set here from the first one.
    def __init_subclass__(
        cls,
        *,
        also: tuple[str, ...] | None = None,
        without: tuple[str, ...] | None = None,
        optional: tuple[str, ...] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        cls._json_also = cls._json_also if also is None else also
        cls._json_without = cls._json_without if without is None else without
        cls._json_optional = cls._json_optional if optional is None else optional
        cls._json_names = cls._json_names if names is None else names

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, in their order."""
        kind: Any = type(self)
        return {
            key: json_value(value)
            for name, key, is_optional in _members(kind)
            if (value := getattr(self, name)) or not is_optional
        }

    @classmethod
    def _json_members(cls) -> Iterator[tuple[str, str, bool]]:
        own = [each.name for each in fields(cls) if each.name not in cls._json_without]  # type: ignore[arg-type]
        for name in (*cls._json_also, *own):
            yield name, cls._json_names.get(name, name), name in cls._json_optional


def left_out(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a dataclass that its JSON does not have."""
    return kind._json_without if issubclass(kind, JsonFields) else ()  # noqa: SLF001


# The state of a loader may be taken after each batch.
@cache
def _members(kind: type[JsonFields]) -> tuple[tuple[str, str, bool], ...]:
    return tuple(kind._json_members())  # noqa: SLF001


def json_value(value: Any) -> Any:
    """Return a value as JSON values: dataclasses and named tuples as objects, by their fields.

    Objects with a ``to_json`` give that, enumerations their value, paths their text. What has no
    JSON form stays as it is, so that the writer refuses it.
    """
    if type(value) in _SCALARS:
        return value
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: json_value(each) for key, each in value.items()}
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return [json_value(each) for each in value] if is_list else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not allowed")


def _digest(body: bytes) -> bytes:
    return b',\n "digest": "%s"' % hashlib.sha256(body).hexdigest().encode() + _END
