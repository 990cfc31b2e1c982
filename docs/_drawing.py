"""Boxes, arrows and rows of cells as SVG, in the colours of the page that shows them.

A drawing names its colours as variables. The site sets them; where a drawing stands alone, as on
a page of the repository, it has its own, light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

__all__ = ["Drawing"]

_STYLE: Final = """\
<style>
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --box: #2b2d36; --accent: #9fa8da; } }
.d-text { fill: var(--ink, #222); font: 14px var(--md-text-font-family, sans-serif); }
.d-small { fill: var(--ink, #222); font: 12px var(--md-text-font-family, sans-serif); opacity: .8; }
.d-title { fill: var(--ink, #222); font: bold 14px var(--md-text-font-family, sans-serif); }
.d-box { fill: var(--box, #f3f4f8); stroke: var(--ink, #222); stroke-opacity: .35; }
.d-strong { fill: var(--box, #f3f4f8); stroke: var(--accent, #3f51b5); stroke-width: 2; }
.d-line { stroke: var(--ink, #222); fill: none; stroke-width: 1.5; }
.d-mark { stroke: var(--accent, #3f51b5); fill: none; stroke-width: 2; stroke-dasharray: 5 4; }
.d-head { fill: var(--ink, #222); }
</style>"""
_LINE_PX: Final = 17
# What a character takes on average, for texts that must fit.
_CHARACTER_PX: Final = 6.9
_SMALL_PX: Final = 6.0


class Drawing:
    """A drawing that grows part by part.

    Args:
        width: In pixels.
        height: In pixels.
    """

    def __init__(self, width: int, height: int) -> None:
        self._size = width, height
        self._parts: list[str] = []

    def box(
        self, x: int, y: int, width: int, height: int, lines: Sequence[str], *, strong: bool = False
    ) -> None:
        """Add a box with a title and smaller lines below it, in its middle."""
        kind = "d-strong" if strong else "d-box"
        self._parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
        )
        top = y + (height - _LINE_PX * len(lines)) // 2 + 13
        for number, line in enumerate(lines):
            style = "d-small" if number else "d-title"
            self.text(x + width // 2, top + number * _LINE_PX, line, style=style, anchor="middle")

    def text(
        self, x: int, y: int, text: str, *, style: str = "d-text", anchor: str = "start"
    ) -> None:
        """Add a line of text; ``anchor`` is the part of it that is at x: start, middle, end.

        Raises:
            ValueError: The text would not fit into the drawing.
        """
        width = len(text) * (_SMALL_PX if style == "d-small" else _CHARACTER_PX)
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
        if left < 0 or left + width > self._size[0]:
            raise ValueError(f"expected a text within {self._size[0]} px, got {text!r} at {x}")
        place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
        self._parts.append(f'<text class="{style}" {place}>{html.escape(text)}</text>')

    def bar(self, x: int, y: int, width: int, height: int, *, strong: bool = False) -> None:
        """Add a part of a bar."""
        kind = "d-strong" if strong else "d-box"
        self._parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>'
        )

    def arrow(self, *points: tuple[int, int]) -> None:
        """Add a line through points, with its head at the last one."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self._parts.append(f'<polyline class="d-line" points="{path}"/>')
        (x0, y0), (x, y) = points[-2:]
        dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
        wing = [
            (x - 8 * dx + 4 * dy, y - 8 * dy + 4 * dx),
            (x - 8 * dx - 4 * dy, y - 8 * dy - 4 * dx),
        ]
        corners = " ".join(f"{cx},{cy}" for cx, cy in [(x, y), *wing])
        self._parts.append(f'<polygon class="d-head" points="{corners}"/>')

    def mark(self, *points: tuple[int, int]) -> None:
        """Add a broken line through points."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self._parts.append(f'<polyline class="d-mark" points="{path}"/>')

    def cells(self, x: int, y: int, width: int, texts: Sequence[str], *, strong: str = "") -> None:
        """Add a row of cells; those whose place in ``strong`` has an ``x`` are marked."""
        for number, text in enumerate(texts):
            marked = strong[number : number + 1] == "x"
            kind = "d-strong" if marked else "d-box"
            left = x + number * width
            self._parts.append(
                f'<rect class="{kind}" x="{left}" y="{y}" width="{width - 4}" height="28" rx="4"/>'
            )
            self.text(left + (width - 4) // 2, y + 19, text, style="d-small", anchor="middle")

    def svg(self) -> str:
        """The drawing as the text of a file."""
        width, height = self._size
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
        return "\n".join([head, _STYLE, *self._parts, "</svg>", ""])
