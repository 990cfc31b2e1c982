"""The content of files as text that is safe to print: a terminal acts on no byte of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from trainfeed.printable_text import printable

__all__ = ["as_json", "print_samples", "sample_lines"]

_SHOWN_CHARS: Final = 200
_SHOWN_BYTES: Final = 48
_SHOWN_ITEMS: Final = 8


def sample_lines(sample: Any) -> list[tuple[str, str]]:
    """Return name and short text of each part of a sample."""
    if isinstance(sample, Mapping):
        return [(printable(str(name)), _short(value)) for name, value in sample.items()]
    if isinstance(sample, tuple):
        return [(f"[{i}]", _short(value)) for i, value in enumerate(sample)]
    return [("", _short(sample))]


def print_samples(samples: Iterable[Any], *, use_json: bool) -> None:
    """Print samples, numbered, or as a JSON list."""
    if use_json:
        typer.echo(json.dumps([as_json(sample) for sample in samples], indent=2))
        return
    console = Console(soft_wrap=True, highlight=False)
    for ordinal, sample in enumerate(samples):
        console.print(Text(f"#{ordinal}", style="bold"))
        for name, value in sample_lines(sample):
            console.print(Text.assemble("  ", (name, "cyan"), "  " if name else "", value))


def as_json(value: Any) -> Any:
    """Return a sample as JSON as far as possible; bytes become ``{"hex": …}``."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    # NaN, infinities and objects of other types have no JSON: they become text.
    is_finite = isinstance(value, float) and math.isfinite(value)
    return value if is_finite or value is None or isinstance(value, str | int) else str(value)


def _short(value: Any) -> str:
    if isinstance(value, str):
        shown = json.dumps(value[:_SHOWN_CHARS], ensure_ascii=False)
        return printable(shown) + _more(len(value), _SHOWN_CHARS, "characters")
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value[:_SHOWN_BYTES])
        return repr(data) + _more(len(value), _SHOWN_BYTES, "bytes")
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return printable(str(value))
    text = printable(repr(value))
    return text[:_SHOWN_CHARS] + _more(len(text), _SHOWN_CHARS, "characters")


def _array(value: np.ndarray[Any, Any]) -> str:
    items = [str(each) for each in value.reshape(-1)[:_SHOWN_ITEMS]]
    if not value.shape:
        return printable(items[0])
    dots = " …" if value.size > _SHOWN_ITEMS else ""
    shape = ", ".join(map(str, value.shape))
    return printable(f"{value.dtype} ({shape}) [{' '.join(items)}{dots}]")


def _more(length: int, shown: int, what: str) -> str:
    return f" … {length} {what}" if length > shown else ""
