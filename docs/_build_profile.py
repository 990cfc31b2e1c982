"""The drawing of a build's processor seconds, stage by stage, from the figures of a profile."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from docs._drawing import Drawing

__all__ = ["build_profile"]

# Written by ``benchmarks.pipeline.shares``.
_FIGURES: Final = Path(__file__).with_name("authors") / "build-profile.json"
_WIDTH: Final = 760
_LEFT: Final = 110
_BAR_PX: Final = 560
_LINE_CHARACTERS: Final = 100
_LEAST_S: Final = 0.05
_Parts = Sequence[dict[str, Any]]


def build_profile() -> Drawing:
    """One bar for every stage, its proof first and marked; below it the parts, largest first."""
    stages: dict[str, _Parts] = json.loads(_FIGURES.read_text())["stages"]
    texts = {name: _lines(parts) for name, parts in stages.items()}
    height = 40 + sum(44 + 16 * len(lines) for lines in texts.values())
    drawing = Drawing(_WIDTH, height)
    whole, proof = _seconds(stages.values()), _seconds(map(_proofs, stages.values()))
    title = f"{whole:.1f} processor seconds, of which {proof:.1f} are proof (marked)"
    drawing.text(10, 22, title, style="d-title")
    scale = _BAR_PX / max(_seconds([parts]) for parts in stages.values())
    top = 40
    for name, parts in stages.items():
        _row(drawing, top, name, parts, scale)
        for line in texts[name]:
            drawing.text(_LEFT, top + 38, line, style="d-small")
            top += 16
        top += 44
    return drawing


def _row(drawing: Drawing, top: int, name: str, parts: _Parts, scale: float) -> None:
    drawing.text(10, top + 16, name)
    left = _LEFT
    for part in sorted(parts, key=lambda part: not part["proof"]):
        width = round(part["seconds"] * scale)
        drawing.bar(left, top, width, 24, strong=part["proof"])
        left += width
    drawing.text(left + 6, top + 16, f"{_seconds([parts]):.1f} s")


def _lines(parts: _Parts) -> list[str]:
    proofs = _proofs(parts)
    work = [part for part in parts if not part["proof"]]
    told = [_list(work), f"proof: {_list(proofs)}" if _list(proofs) else ""]
    return [line for text in told for line in textwrap.wrap(text, _LINE_CHARACTERS)]


def _list(parts: _Parts) -> str:
    shown = [part for part in parts if part["seconds"] >= _LEAST_S]
    return ", ".join(f"{part['part']} {part['seconds']:.1f}" for part in shown)


def _proofs(parts: _Parts) -> _Parts:
    return [part for part in parts if part["proof"]]


def _seconds(stages: Any) -> float:
    return float(sum(part["seconds"] for parts in stages for part in parts))
