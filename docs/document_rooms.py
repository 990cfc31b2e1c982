"""Draws the packages of trainfeed into a page for authors, from the code and the import contracts.

``python docs/document_rooms.py [--check]``. A line is a folder, or a module that is in none:
its depth, how many modules it has, and the first sentence of its docstring. Rooms stand in the
order in which they may import each other, as ``pyproject.toml`` has it, from above to below; where
no contract orders them, in the order of the alphabet.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "authors" / "packages.md"
PACKAGE: Final = ROOT / "include" / "trainfeed"
BEGIN: Final = "<!-- rooms: written by make docs -->\n```text\n"
END: Final = "```\n<!-- end of rooms -->\n"
WIDTH: Final = 150


def main() -> None:
    """Write the picture, or fail if the page has another one."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"expected the marks of the rooms in {PAGE.name}, found none")
    drawn = (
        before + BEGIN + "".join(f"{line}\n" for line in lines(PACKAGE, orders(), 0)) + END + after
    )
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(drawn)
    elif drawn != page:
        sys.exit(f"the rooms in {PAGE.name} are not those of the code: run make docs")


def orders() -> dict[str, list[str]]:
    """Return container → its rooms, from the highest to the lowest."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {
        container: [room for layer in contract["layers"] for room in layer.split(" | ")]
        for contract in settings["contracts"]
        if contract["type"] == "layers"
        for container in contract.get("containers", ())
    }


def lines(folder: Path, order: dict[str, list[str]], depth: int) -> Iterator[str]:
    """Yield a line for each room of a folder and for the rooms inside it."""
    container = ".".join(folder.relative_to(ROOT / "include").parts)
    ranks = {name: rank for rank, name in enumerate(order.get(container, ()))}
    rooms = {path.stem: path for path in folder.iterdir() if is_room(path, depth)}
    for name in sorted(rooms, key=lambda name: (ranks.get(name, len(ranks)), name)):
        path = rooms[name]
        yield line(path, depth)
        if path.is_dir():
            yield from lines(path, order, depth + 1)


def is_room(path: Path, depth: int) -> bool:
    """Return whether the picture shows it: every folder, and the modules that are in none."""
    if path.is_dir():
        return (path / "__init__.py").is_file()
    return path.suffix == ".py" and not path.name.startswith("_") and depth == 0


def line(path: Path, depth: int) -> str:
    """Return name, number of modules and purpose."""
    face = path / "__init__.py" if path.is_dir() else path
    text = ast.get_docstring(ast.parse(face.read_text())) or ""
    count = sum(1 for file in path.glob("*.py") if file != face) if path.is_dir() else 0
    name = "  " * depth + path.stem + ("/" if path.is_dir() else "")
    purpose = text.partition("\n")[0]
    return f"{name:<24}{count or '':>3}  {purpose}"[:WIDTH].rstrip()


if __name__ == "__main__":
    main()
