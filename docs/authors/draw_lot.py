"""Draws forty files by lot, to be read without knowledge of the code: ``draw_lot.py SEED``.

A lot is good if at most three sentences have to be read twice; ``measured.md`` has the last one.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["draw", "main"]

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_CODE: Final = ("include", "operators", "dags", "deploy", "plugins", "services")
_SIZE: Final = 40


def draw(seed: int, files: list[str]) -> list[str]:
    """Return forty of the files that a reader meets: code of the product, and pages.

    Args:
        seed: Number of the lot; the same files and seed give the same lot.
        files: Paths in the repository.
    """
    read = [path for path in files if path.endswith(".md") or _is_code(path)]
    return random.Random(seed).sample(sorted(read), _SIZE)  # noqa: S311 - a lot, no secret


def _is_code(path: str) -> bool:
    return path.endswith(".py") and path.partition("/")[0] in _CODE


def main(arguments: list[str]) -> None:
    """Print the lot of a seed, one path a line."""
    command = ["git", "-C", str(_REPOSITORY), "ls-files"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    sys.stdout.writelines(f"{path}\n" for path in draw(int(arguments[0]), done.stdout.splitlines()))


if __name__ == "__main__":
    main(sys.argv[1:])
