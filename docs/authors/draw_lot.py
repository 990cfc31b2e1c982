"""Draws by lot what a reader without knowledge of the code reads: ``draw_lot.py SEED``.

``draw_lot.py SEED`` prints forty files, ``draw_lot.py SEED sentences`` forty sentences of the pages
for users that are written by hand. A lot is good if at most three sentences have to be read twice;
``measured.md`` has the last one.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["draw", "draw_sentences", "main"]

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_CODE: Final = ("include", "operators", "dags", "deploy", "plugins", "services")
_SIZE: Final = 40
_WORDS: Final = 6  # what has fewer is no sentence
_ENDS: Final = (".", "?", "!", ":", ";")
_GENERATED: Final = "Written by `make docs`"
_LEFT_OUT: Final = re.compile(r"^```.*?^```|<!--.*?-->|^#.*?$|^!\[.*?$", re.DOTALL | re.MULTILINE)
_PARAGRAPH: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) |\|)|(?<=\|)\n|(?<!\\)\|")
_END: Final = re.compile(r"(?<=[.?!])\s+(?=[A-Z`*\[])")


def draw(seed: int, files: list[str]) -> list[str]:
    """Return forty of the files that a reader meets: code of the product, and pages.

    Args:
        seed: Number of the lot; the same files and seed give the same lot.
        files: Paths in the repository.
    """
    read = [path for path in files if path.endswith(".md") or _is_code(path)]
    return random.Random(seed).sample(sorted(read), _SIZE)  # noqa: S311 - a lot, no secret


def draw_sentences(seed: int, pages: dict[str, str]) -> list[tuple[str, str]]:
    """Return forty sentences, each with its page.

    Args:
        seed: Number of the lot; the same texts and seed give the same lot.
        pages: Path in the repository → text. Pages that are written from the code are left out.
    """
    found = [
        (path, sentence)
        for path, text in sorted(pages.items())
        if _GENERATED not in text
        for sentence in _sentences(text)
    ]
    return random.Random(seed).sample(found, _SIZE)  # noqa: S311 - a lot, no secret


def _sentences(text: str) -> Iterator[str]:
    for paragraph in _PARAGRAPH.split(_LEFT_OUT.sub("\n\n", text)):
        for sentence in _END.split(" ".join(paragraph.split())):
            if len(sentence.split()) >= _WORDS and sentence.rstrip("*_)").endswith(_ENDS):
                yield sentence.strip()


def _is_code(path: str) -> bool:
    return path.endswith(".py") and path.partition("/")[0] in _CODE


def _is_for_users(path: str) -> bool:
    is_page = path.startswith("docs/") and not path.startswith("docs/authors/")
    return path == "README.md" or (is_page and path.endswith(".md"))


def main(arguments: list[str]) -> None:
    """Print the lot of a seed, one path or sentence a line."""
    command = ["git", "-C", str(_REPOSITORY), "ls-files"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    files, seed = done.stdout.splitlines(), int(arguments[0])
    if arguments[1:] == ["sentences"]:
        pages = {path: (_REPOSITORY / path).read_text() for path in files if _is_for_users(path)}
        lines = [f"{path}: {sentence}" for path, sentence in draw_sentences(seed, pages)]
    else:
        lines = draw(seed, files)
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:])
