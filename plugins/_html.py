"""Makes HTML from values: escapes all text, in this module only, and cuts long text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

__all__ = [
    "STATE_KINDS",
    "Html",
    "badge",
    "code",
    "document",
    "message",
    "pairs",
    "section",
    "table",
    "text",
]

# State of Airflow → class with its colour.
STATE_KINDS: Final = {"success": "good", "failed": "bad", "running": "busy", "up_for_retry": "bad"}

_MOST_CHARS: Final = 8_000
# A table with more columns becomes blocks on a phone.
_NARROW_COLUMNS: Final = 3

_HEAD: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8>"
    '<meta name=viewport content="width=device-width,initial-scale=1"><title>Data set</title>'
    "<style>"
    ":root{color-scheme:light dark;font:15px/1.45 system-ui,sans-serif;--line:#8884;--soft:#8881}"
    "body{margin:0 auto;padding:1rem;max-width:70rem}"
    "h1{font-size:1.3rem;margin:0 0 .5rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;min-width:18rem}"
    "th,td{text-align:left;vertical-align:top;padding:.2rem 1.2rem .2rem 0;"
    "border-bottom:1px solid var(--line)}th{font-weight:600;white-space:nowrap}"
    "td{overflow-wrap:break-word}td code,td.mono{overflow-wrap:anywhere}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "code,pre,.mono{font:13px/1.45 ui-monospace,monospace}"
    "pre,code.block{display:block;white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0;"
    "padding:.6rem .8rem;background:var(--soft);border-left:3px solid var(--line)}"
    "pre.bad{border-color:#d33}.badge{display:inline-block;padding:.05rem .6rem;"
    "border-radius:1rem;font-size:.85rem;border:1px solid var(--line);white-space:nowrap}"
    ".good{background:#2a92}.bad.badge{background:#d332;border-color:#d33}"
    ".busy{background:#29f3}.steps{display:flex;flex-wrap:wrap;gap:.35rem;margin:.6rem 0}"
    "p{margin:.4rem 0;max-width:60rem}.soft{opacity:.75}details{margin-top:1.4rem}"
    "@media(max-width:40rem){.cards th{display:none}.cards,.cards tbody,.cards tr{display:block}"
    ".cards tr{border-bottom:1px solid var(--line);padding:.4rem 0}"
    ".cards td,.cards td.n{display:block;text-align:left;border:0;padding:.05rem 0}"
    ".cards td:empty{display:none}"
    ".cards td[data-c]:not([data-c=''])::before{content:attr(data-c) ': ';opacity:.7}}"
    "</style>"
)


class Html(str):
    """Text that is already HTML, and must not be escaped."""

    __slots__ = ()


def text(value: Any) -> str:
    """Return a value as escaped text; numbers are short, long texts are cut."""
    if isinstance(value, bool) or value is None:
        shown = {True: "yes", False: "no", None: ""}[value]
    elif isinstance(value, int):
        shown = f"{value:,}"
    elif isinstance(value, float):
        shown = f"{value:.6g}"
    elif isinstance(value, list) and all(isinstance(each, int | float) for each in value):
        shown = " to ".join(f"{each:.6g}" for each in value)
    else:
        shown = _plain(value)
    cut = "…" if len(shown) > _MOST_CHARS else ""
    return escape(shown[:_MOST_CHARS]) + cut


def _plain(value: Any) -> str:
    """Return lists and mappings in words: ``auc 0.75, log_loss 0.6``; not as JSON."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        between = "; " if any(isinstance(each, Mapping) for each in value) else ", "
        return between.join(map(_plain, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def badge(state: str, kind: str = "") -> str:
    """Return a state as a badge in the colour of ``kind``: ``good``, ``bad``, ``busy``, or none."""
    return f'<span class="badge {kind}">{text(state)}</span>'


def message(value: Any) -> str:
    """Return a message with its line breaks."""
    return f'<pre class="bad">{text(value)}</pre>'


def code(value: Any) -> str:
    """Return a command as a block."""
    return f'<code class="block">{text(value)}</code>'


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table, whose rows become blocks on a narrow screen; empty without rows."""
    head = "".join(f"<th>{text(column)}" for column in columns)
    body = "".join(
        f"<tr>{''.join(_cell(value, name) for value, name in zip(row, columns, strict=True))}"
        for row in rows
    )
    kind = ' class="cards"' if len(columns) > _NARROW_COLUMNS else ""
    return f'<div class="scroll"><table{kind}><tr>{head}{body}</table></div>' if body else ""


def pairs(values: Mapping[str, Any]) -> str:
    """Return names and values as a table, without empty values."""
    rows = "".join(
        f'<tr><th>{text(name)}<td class="mono">{text(value)}'
        for name, value in values.items()
        if value not in (None, "", [], {})
    )
    return f'<div class="scroll"><table>{rows}</table></div>' if rows else ""


def section(title: str, *parts: str) -> str:
    """Return parts under a title; empty if all parts are empty."""
    content = "".join(parts)
    return f"<h2>{text(title)}</h2>{content}" if content else ""


def document(*parts: str, refresh_s: int | None = None) -> str:
    """Return the whole page, which reloads itself after ``refresh_s`` seconds if given."""
    again = "" if refresh_s is None else f'<meta http-equiv=refresh content="{refresh_s}">'
    return _HEAD + again + "".join(parts)


def _cell(value: Any, column: str) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    kind = ' class="n"' if is_number else ""
    shown = _raw(value)
    return f'<td{kind} data-c="{text(column)}">{shown}' if shown else "<td>"


def _raw(value: Any) -> str:
    return str(value) if isinstance(value, Html) else text(value)
