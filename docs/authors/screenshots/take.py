"""Keep the screenshots of this folder: `python docs/authors/screenshots/take.py [FOLDER]`.

It walks through `orders`, a topic, as `walk.py` does and keeps some of what the browser saw;
with FOLDER it keeps those of a walk that has been made. README.md here says what they show.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
REPOSITORY: Final = HERE.parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "include")]

from docs.authors.screenshots import walk  # noqa: E402

KEPT: Final = {
    "trigger": "orders-trigger-form",
    "dry-run": "orders-dry-run",
    "data-set": "orders-published",
    "backfill": "orders-backfill-form",
    "refused": "orders-refused",
    "refused-phone": "orders-refused-phone",
    "training-paused": "orders-training-paused",
    "caught-up": "orders-identical",
    "forms": "orders-withdrawn",
    "forms-phone-dark": "orders-gate-failed-phone-dark",
    "waived-dark": "orders-waived-dark",
    "retire-form": "orders-retire-dry-run",
    "retire-form-phone-dark": "orders-retire-dry-run-phone-dark",
    "retire-dry-run-phone": "orders-retire-dry-run-result-phone",
}
MOST_BYTES: Final = 200_000


def main(folder: Path | None) -> None:
    """Walk unless a walk has been made, and keep the screenshots of the table."""
    if folder is not None:
        keep(folder)
        return
    with tempfile.TemporaryDirectory(prefix="trainfeed-screenshots-") as made:
        if failed := walk.main(Path(made), ("orders",)):
            raise SystemExit(f"{failed} steps of the walk failed; the screenshots are as they were")
        keep(Path(made))


def keep(folder: Path) -> None:
    """Copy the screenshots of a walk; all are looked for before one is replaced."""
    found = {name: _first(folder, shot) for name, shot in KEPT.items()}
    for name, path in found.items():
        shutil.copyfile(path, HERE / f"{name}.png")


def _first(folder: Path, shot: str) -> Path:
    paths = sorted(folder.glob(f"[0-9][0-9][0-9]-{shot}.png"))
    if not paths:
        raise SystemExit(f"expected a screenshot {shot} in {folder}, got none")
    if (size := paths[0].stat().st_size) > MOST_BYTES:
        raise SystemExit(f"expected at most {MOST_BYTES} bytes, got {size}: {paths[0]}")
    return paths[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
