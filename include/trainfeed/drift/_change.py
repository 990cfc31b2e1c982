"""Says in words what changed between a reference and a version."""

from __future__ import annotations

import numpy as np

from trainfeed.drift._cells import NumberCells
from trainfeed.drift._compared import Compared
from trainfeed.drift._distances import are_categories, cell_counts
from trainfeed.drift._distribution import Distribution
from trainfeed.printable_text import printable, without_secrets

__all__ = ["change"]

_OTHERS = ("values that the reference lacks", "values that are not finite", "absent values")


def change(compared: Compared) -> str:
    """Return the largest change of a share, and of the mean: ``before → now``."""
    reference, now = compared.reference, compared.now
    counts = cell_counts(reference, now)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    largest = int(np.abs(shares[1] - shares[0]).argmax())
    before, after = shares[:, largest].tolist()
    said = f"share of {_cell(compared, largest)} {before:.1%} → {after:.1%}"
    if reference.mean is None or now.mean is None:
        return said
    return f"{said}, mean {reference.mean:.4g} → {now.mean:.4g}"


def _cell(compared: Compared, number: int) -> str:
    """Return the name of a cell of ``cell_counts``."""
    names = _names(compared.reference, compared.now)
    return [*names, *_OTHERS][number]


def _names(reference: Distribution, now: Distribution) -> list[str]:
    if are_categories(reference, now):
        return [_category(value) for value in reference.categories or ()]
    cells = NumberCells.of(reference)
    return [
        f"about {first:.4g}" if first == last else f"about {first:.4g} to {last:.4g}"
        for first, last in zip(cells.first.tolist(), cells.last.tolist(), strict=True)
    ]


def _category(value: int | str) -> str:
    """Return a number, or a text that statistics have in hex."""
    if isinstance(value, int):
        return str(value)
    text = bytes.fromhex(value).decode("utf-8", "backslashreplace")
    return f"'{printable(without_secrets(text))}'"
