"""Plays a scripted life and compares every file and answer with the recorded one.

``python -m tests.golden compare`` plays it once: status 1 and the places that differ.
``python -m tests.golden record`` plays it three times and writes what they have in common: only
where a difference is wanted, and the commit says which. ``--parts NAME`` takes some parts.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.life import PARTS, play
from tests.golden.pattern import differences, learned
from tests.golden.steps import recording

KEPT = Path(__file__).with_name("recorded")
RECORDINGS = 3


def main() -> int:
    """Record or compare; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", allow_abbrev=False)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder of what was recorded")
    asked = parser.parse_args()
    status = 0
    for part in asked.parts:
        kept = asked.kept / f"{part}.json.xz"
        if asked.what == "record":
            steps = learned([_played(part) for _ in range(RECORDINGS)])
            asked.kept.mkdir(exist_ok=True)
            text = json.dumps(steps, indent=1, ensure_ascii=False, sort_keys=True)
            kept.write_bytes(lzma.compress(text.encode(), preset=9))
            found = []
        else:
            steps = json.loads(lzma.decompress(kept.read_bytes()))
            found = list(differences(steps, _played(part)))
        files = sum(len(step["files"]) for step in steps)
        sys.stdout.write(
            f"{part}: {len(steps)} steps, {files} contents, {len(found)} differences\n"
        )
        sys.stdout.writelines(f"  {line}\n" for line in found)
        status = status or bool(found)
    return status


def _played(part: str) -> list[dict[str, Any]]:
    home = Path(tempfile.mkdtemp(prefix="golden-"))
    try:
        with recording() as script:
            play(script, home, (part,))
        return script.steps
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(main())
