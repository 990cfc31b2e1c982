"""Arguments that the commands on shared storage share, and the values behind them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from trainfeed.cli._printing import print_message
from trainfeed.errors import ConfigError, TrainFeedError
from trainfeed.pfs.tree import Entry

__all__ = ["AsJson", "Paths", "bytes_per_second", "entry_row", "tell_failure"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Paths = Annotated[
    list[str],
    typer.Argument(help="Paths or patterns, pfs://home/… or pfs://public/….", show_default=False),
]

_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_RATE: Final = re.compile(r"([0-9]{1,12})(B|KiB|MiB|GiB)?")


def bytes_per_second(text: str | None) -> int | None:
    """Return the bytes in a second that ``10MiB`` stands for; None stays None.

    Raises:
        ConfigError: The text is no number of bytes above 0.
    """
    if text is None:
        return None
    found = _RATE.fullmatch(text)
    rate = int(found[1]) * _UNITS[found[2] or ""] if found else 0
    if rate < 1:
        raise ConfigError(f"expected bytes in a second, such as 10MiB, got {text!r}")
    return rate


def entry_row(path: str, entry: Entry) -> dict[str, object]:
    """Return what tables and JSON show of an entry."""
    modified = datetime.fromtimestamp(entry.modified_ns // 10**9, UTC)
    return {
        "path": path,
        "kind": str(entry.kind),
        "bytes": entry.num_bytes,
        "modified": modified.isoformat(timespec="seconds"),
    }


def tell_failure(error: TrainFeedError) -> None:
    """Print one line about one file that failed; the others go on."""
    print_message(f"{type(error).__name__}: {error}")
